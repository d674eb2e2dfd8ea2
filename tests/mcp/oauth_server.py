"""An MCP server that requires a sign-in, with its own authorization server: `oauth_server PORT PUBLIC_KEY`.

Everyone is signed in at once. Each refresh token is accepted once. `GET /control?NAME=VALUE` changes `Control`, and
returns what clients have sent to the token endpoint, and the revoked tokens.
"""

from __future__ import annotations

import base64
import secrets
import sys
import time
from pathlib import Path

import jwt
import uvicorn
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    IdentityAssertionParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

MACHINE, MACHINE_SECRET = "machine", "machine:secret/0123"
HOUR = 3_600


class Control:
    """What a test can change.

    `lifetime` is that of new access tokens in seconds, `deny` refuses the user, `revoke` forgets all tokens, `forget`
    forgets the access tokens, and `reset` forgets everything.
    """

    lifetime = HOUR
    deny = False


class Provider:
    """An authorization server that keeps everything in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access_tokens: dict[str, AccessToken] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.grants: list[dict[str, str]] = []
        self.revoked: list[str] = []

    def apply(self, name: str, value: int) -> None:
        """Carry out one parameter of `/control`."""
        if name in ("reset", "revoke"):
            self.refresh_tokens.clear()
        if name in ("reset", "revoke", "forget"):
            self.access_tokens.clear()
        if name == "reset":
            self.clients.clear()
            self.grants.clear()
            self.revoked.clear()
            Control.lifetime, Control.deny = HOUR, False
        if hasattr(Control, name):
            setattr(Control, name, value)

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        uri = str(params.redirect_uri)
        if Control.deny:
            return construct_redirect_uri(uri, error="access_denied", error_description="not you", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(),
            scopes=params.scopes or [],
            expires_at=time.time() + HOUR,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(uri, code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.issue(client.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refresh_tokens.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant", "used before")
        return self.issue(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access_tokens.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        raise TokenError("unsupported_grant_type")

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)
        self.access_tokens.pop(token.token, None)
        self.refresh_tokens.pop(token.token, None)

    def issue(self, client_id: str, scopes: list[str], *, refreshable: bool = True) -> OAuthToken:
        access = AccessToken(
            token=f"access-{secrets.token_urlsafe()}",
            client_id=client_id,
            scopes=scopes,
            expires_at=int(time.time() + Control.lifetime),
        )
        self.access_tokens[access.token] = access
        refresh = RefreshToken(token=f"refresh-{secrets.token_urlsafe()}", client_id=client_id, scopes=scopes)
        if refreshable:
            self.refresh_tokens[refresh.token] = refresh
        return OAuthToken(
            access_token=access.token,
            expires_in=Control.lifetime,
            refresh_token=refresh.token if refreshable else None,
            scope=" ".join(scopes) or None,
        )


def serve(port: int) -> None:
    """Serve until the process is killed."""
    provider, url = Provider(), f"http://127.0.0.1:{port}"
    server = MCPServer(
        "private",
        auth_server_provider=provider,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(url),
            resource_server_url=AnyHttpUrl(f"{url}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=True),
            revocation_options=RevocationOptions(enabled=True),
            validate_token_resource=False,
        ),
    )

    @server.tool()
    def whoami() -> str:
        """Tell who is signed in."""
        return "you"

    handler = TokenHandler(provider, ClientAuthenticator(provider))

    async def issue_token(request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        provider.grants.append(form)
        if form["grant_type"] != "client_credentials":
            response: Response = await handler.handle(request)
            return response
        if not is_machine(request, form, url):
            return JSONResponse({"error": "invalid_client"}, 401)
        token = provider.issue(MACHINE, form.get("scope", "").split(), refreshable=False)
        return JSONResponse(token.model_dump(exclude_none=True))

    async def control(request: Request) -> Response:
        for name, value in request.query_params.items():
            provider.apply(name, int(value))
        values = {"grants": provider.grants, "clients": len(provider.clients), "revoked": provider.revoked}
        return JSONResponse(values)

    app = server.streamable_http_app()
    app.router.routes[:0] = [Route("/token", issue_token, methods=["POST"]), Route("/control", control)]
    uvicorn.run(app, port=port)


def is_machine(request: Request, form: dict[str, str], issuer: str) -> bool:
    """Check the client's secret (RFC 6749, section 2.3.1) or its signature (RFC 7523)."""
    if assertion := form.get("client_assertion"):
        claims = jwt.decode(
            assertion, Path(sys.argv[2]).read_text(), ["ES256", "RS256", "EdDSA"], audience=[issuer, f"{issuer}/"]
        )
        return bool(claims["sub"] == MACHINE)
    expected = base64.b64encode(b"machine:machine%3Asecret%2F0123").decode()
    return request.headers.get("authorization") == f"Basic {expected}"


if __name__ == "__main__":
    serve(int(sys.argv[1]))
