"""OAuth for remote servers, with the providers of the SDK: signing in, and using a saved sign-in without the user."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from ask.config.mcp_servers import ServerConfig
from ask.errors import ConfigError
from ask.mcp.foreign_urls import find_sign_in_problem
from ask.mcp.message_repair import find_advertised_issuer, secure_urls
from ask.mcp.server_config import uses_client_credentials
from ask.mcp.sign_in_store import SignIns, SignInStore

CLIENT_NAME = "ask"
EXPIRY_MARGIN_SECONDS = 10.0
"""Seconds before its expiry that an access token is refreshed: a request takes time to arrive."""
MAX_AUTHORIZATIONS = 3
"""Maximum number of times that one sign-in sends the user to the browser. A server may ask for more scopes."""
EXPIRED_TIME = 1.0
"""An expiry time in the past."""

M = TypeVar("M", bound=BaseModel)
AuthFlow = AsyncGenerator[httpx2.Request, httpx2.Response]


class ContextStorage:
    """The SDK's token storage, which saves the complete context: refreshing a token needs more than the token."""

    context: OAuthContext
    """Set once the provider has been created."""

    def __init__(self, store: SignInStore) -> None:
        self.store = store

    async def get_tokens(self) -> OAuthToken | None:
        return _parse_model(OAuthToken, self.store.read().get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        self.store.update(
            {
                "tokens": _dump_model(tokens),
                "expires_at": context.token_expiry_time,
                "client": _dump_model(context.client_info),
                "authorization_server": _dump_model(context.oauth_metadata),
                "resource": _dump_model(context.protected_resource_metadata),
                "challenge": None,
            }
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _parse_model(OAuthClientInformationFull, self.store.read().get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.store.update({"client": _dump_model(client_info)})

    def restore(self, refused_token: str = "") -> None:
        """Restore the saved context, as another run may have changed it. A refused token counts as expired."""
        record, context = self.store.read(), self.context
        context.current_tokens = _parse_model(OAuthToken, record.get("tokens"))
        context.client_info = _parse_model(OAuthClientInformationFull, record.get("client"))
        context.oauth_metadata = _parse_model(OAuthMetadata, record.get("authorization_server"))
        context.protected_resource_metadata = _parse_model(ProtectedResourceMetadata, record.get("resource"))
        expires_at = record.get("expires_at")
        context.token_expiry_time = expires_at - EXPIRY_MARGIN_SECONDS if isinstance(expires_at, int | float) else None
        if context.current_tokens and context.current_tokens.access_token == refused_token:
            context.token_expiry_time = EXPIRED_TIME


class SavedSignInAuth(OAuthClientProvider):
    """Authorization with the saved tokens of a server, which are refreshed if necessary. The user is never asked.

    After a restart, the SDK knows neither when a token expires nor where to refresh it, and would start a new sign-in.
    Refreshing takes a lock: a server that rotates refresh tokens accepts each only once.
    """

    def __init__(self, server: ServerConfig, store: SignInStore) -> None:
        self._storage = ContextStorage(store)
        super().__init__(server.url, OAuthClientMetadata(redirect_uris=None), self._storage)
        self._storage.context = self.context

    async def async_auth_flow(self, request: httpx2.Request) -> AuthFlow:
        refused_token = ""
        while True:
            async with AsyncExitStack() as cleanup:
                self._storage.restore(refused_token)
                if not self.context.is_token_valid() and self.context.can_refresh_token():
                    await cleanup.enter_async_context(self._storage.store.lock())
                    self._storage.restore(refused_token)
                flow = super().async_auth_flow(request)
                outgoing = await anext(flow)
                while outgoing is not request:  # the refresh
                    response = yield outgoing
                    # The refresh token is refused, so that the user must sign in; other errors may be temporary.
                    if 400 <= response.status_code < 500 and response.status_code != 429:
                        self._storage.store.update({"tokens": None, "expires_at": None})
                    outgoing = await flow.asend(response)
                # The SDK's flow would sign in after a 401, and keeps a lock until the response has arrived.
                await flow.aclose()
            tokens = self.context.current_tokens
            response = yield request
            if response.status_code != 401 or refused_token or not tokens or not tokens.refresh_token:
                return
            refused_token = tokens.access_token


class InteractiveAuth(OAuthClientProvider):
    """Authorization by the user in a browser.

    A challenge that an earlier run has saved is answered first, since the server may repeat it only when a tool is
    called.

    Args:
        server: the server, whose variables must be expanded.
        store: where the tokens are saved.
        client_secret: the secret of the configured client, or "".
        redirect_uri: where the browser is sent at the end.
        open_page: shows the user the page to open.
        receive_code: returns the code with which the browser was sent to `redirect_uri`.

    Attributes:
        is_signed_in: whether the user has signed in.
        state: the state of the page that was opened last, which only the browser and the server know.
    """

    def __init__(
        self,
        server: ServerConfig,
        store: SignInStore,
        *,
        client_secret: str,
        redirect_uri: str,
        open_page: Callable[[str], None],
        receive_code: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> None:
        self.is_signed_in = False
        self.state = ""
        self._authorizations = 0
        self._open_page = open_page
        self._server, self._oauth = server, server.oauth
        self._scope = server.oauth.get("scope", "")
        self._challenge = store.read().get("challenge")
        storage = ContextStorage(store)
        super().__init__(
            server.url,
            OAuthClientMetadata(client_name=CLIENT_NAME, redirect_uris=[AnyUrl(redirect_uri)]),
            storage,
            redirect_handler=self._show_page,
            callback_handler=receive_code,
            client_metadata_url=server.oauth.get("client_metadata_url"),
        )
        storage.context = self.context
        storage.restore()
        self._initialized = True  # or the SDK would load the saved context again, over the changes below
        if client_id := server.oauth.get("client_id"):
            self.context.client_info = OAuthClientInformationFull(
                client_id=client_id,
                client_secret=client_secret or None,
                redirect_uris=[AnyUrl(redirect_uri)],
                issuer=server.oauth.get("issuer"),
            )
        elif self.context.client_info and AnyUrl(redirect_uri) not in (self.context.client_info.redirect_uris or ()):
            self.context.client_info = None
        self.context.token_expiry_time = None
        # After a 403, the token is valid but lacks a scope; otherwise, there is none, or the server refuses it.
        if not self._challenge or self._challenge[0] == 401:
            self.context.current_tokens = None

    def read_redirect(self, redirect: Mapping[str, str]) -> AuthorizationCodeResult:
        """Return the parameters of a redirect. Its issuer may differ, see `find_advertised_issuer`."""
        issuer, metadata = redirect.get("iss"), self.context.oauth_metadata
        if metadata:
            issuer = find_advertised_issuer(secure_urls(issuer, self._server.url), [str(metadata.issuer)])
        return AuthorizationCodeResult(code=redirect["code"], state=self.state, iss=issuer)

    async def _show_page(self, url: str) -> None:
        self._authorizations += 1
        if self._authorizations > MAX_AUTHORIZATIONS:
            raise OAuthFlowError("the server does not accept the sign-in")
        if problem := find_sign_in_problem(url, self._server):
            raise OAuthFlowError(problem)
        # The SDK adds it at the end; the server's URL may have parameters of its own.
        self.state = parse_qs(urlsplit(url).query).get("state", [""])[-1]
        self._open_page(url)

    async def _perform_authorization(self) -> httpx2.Request:
        context = self.context
        if context.client_info and self._oauth.get("client_id") not in (None, context.client_info.client_id):
            raise OAuthFlowError(f"the server does not use the configured issuer {self._oauth.get('issuer')}")
        if self._scope:
            context.client_metadata.scope, self._scope = self._scope, ""
        if context.client_info and context.client_info.client_id == self._oauth.get("client_id"):
            _choose_client_authentication(context)
        return await super()._perform_authorization()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        self.is_signed_in = True

    async def async_auth_flow(self, request: httpx2.Request) -> AuthFlow:
        flow = super().async_auth_flow(request)
        outgoing = await anext(flow)
        if self._challenge:
            (status, header), self._challenge = self._challenge, None
            challenge = httpx2.Response(status, headers={"WWW-Authenticate": header}, request=request)
            outgoing = await flow.asend(challenge)
        try:
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return


class ClientSecretAuth(ClientCredentialsOAuthProvider):
    """Authorization with a client secret, without a user, by the method that the authorization server supports."""

    async def _perform_authorization(self) -> httpx2.Request:
        _choose_client_authentication(self.context)
        return await super()._perform_authorization()


def create_auth(server: ServerConfig, sign_ins: SignIns) -> httpx2.Auth | None:
    """Create the authorization of a server for a run; None if it has no sign-in.

    Raises:
        ConfigError: the configured client credentials cannot be used.
    """
    store = sign_ins.open(server)
    if not uses_client_credentials(server):
        return SavedSignInAuth(server, store) if store.is_signed_in else None
    storage = ContextStorage(store)
    client_id, scope, issuer = server.oauth["client_id"], server.oauth.get("scope"), server.oauth["issuer"]
    provider: OAuthClientProvider
    if path := server.oauth.get("private_key"):
        key = _read_private_key(path)
        sign = SignedJWTParameters(
            issuer=client_id, subject=client_id, signing_key=key, signing_algorithm=_find_signing_algorithm(key)
        ).create_assertion_provider()
        provider = PrivateKeyJWTOAuthProvider(server.url, storage, client_id, sign, scope, issuer)
    else:
        secret = sign_ins.find_client_secret(server)
        if not secret:
            raise ConfigError(f"it has no client secret; save it with ask keys set mcp:{server.name}")
        provider = ClientSecretAuth(server.url, storage, client_id, secret, scope=scope, issuer=issuer)
    storage.context = provider.context
    return provider


def _read_private_key(path: str) -> str:
    try:
        return Path(os.path.expanduser(path)).read_text()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or "not a PEM file"
        raise ConfigError(f"cannot read its private key {path} ({reason})") from None


def _find_signing_algorithm(key: str) -> str:
    """Return the JWS algorithm for a private key in PEM format (RFC 7518, RFC 8037)."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private_key = load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError):
        private_key = None
    if isinstance(private_key, rsa.RSAPrivateKey):
        return "RS256"
    if isinstance(private_key, ec.EllipticCurvePrivateKey):
        return {256: "ES256", 384: "ES384", 521: "ES512"}.get(private_key.curve.key_size, "ES256")
    if isinstance(private_key, ed25519.Ed25519PrivateKey):
        return "EdDSA"
    raise ConfigError("its private key is not an unencrypted RSA, EC or Ed25519 key in PEM format")


def _choose_client_authentication(context: OAuthContext) -> None:
    """Choose how the configured client authenticates, among the methods that the authorization server supports.

    If it lists none, it supports HTTP Basic authentication (RFC 8414, section 2).
    """
    assert context.client_info, "the client is known"  # noqa: S101
    supported = (context.oauth_metadata and context.oauth_metadata.token_endpoint_auth_methods_supported) or ()
    if not context.client_info.client_secret:
        context.client_info.token_endpoint_auth_method = "none"  # noqa: S105
    elif "client_secret_post" in supported and "client_secret_basic" not in supported:
        context.client_info.token_endpoint_auth_method = "client_secret_post"  # noqa: S105
    else:
        context.client_info.token_endpoint_auth_method = "client_secret_basic"  # noqa: S105


def _parse_model(model: type[M], value: Any) -> M | None:
    """Parse a saved model of the SDK; None if it is missing or invalid."""
    try:
        return model.model_validate(value) if value is not None else None
    except ValidationError:
        return None


def _dump_model(model: BaseModel | None) -> dict[str, Any] | None:
    """Convert a model of the SDK to JSON."""
    return model.model_dump(mode="json", exclude_none=True) if model else None
