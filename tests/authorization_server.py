"""OpenAI's authorization server and API for ChatGPT plans, as their documentation describes them.

It was written from https://developers.openai.com/siwc/token-sharing-open-source (its pages sign-in, token-reference,
models-and-inference, preview-limitations and errors-and-recovery), before the client, and knows nothing of it. What it
checks, it checks as strictly as the pages say. Everyone is signed in at once, unless `decline` is set.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests import responses_wire

REGISTRATION_CLIENT = "dynamic_agent_client"
PLAN_SCOPE = "chatgpt.tokens.use.direct"
SCOPES = {"openid", "profile", "email", "offline_access", "resource.invoke", PLAN_SCOPE}
RESOURCE = "https://api.openai.com/v1"
HOUR, MONTH = 3_600, 30 * 24 * 3_600
UNSUPPORTED_FIELDS = {
    *("background", "conversation", "max_output_tokens", "max_tool_calls", "metadata", "moderation", "multi_agent"),
    *("prompt", "prompt_cache_retention", "safety_identifier", "temperature", "top_logprobs", "top_p", "truncation"),
    *("user", "previous_response_id"),
}
MODELS = [
    {"slug": "gpt-6-sol", "display_name": "GPT-6 Sol", "visibility": "list"},
    {"slug": "gpt-6-luna", "display_name": "GPT-6 Luna", "visibility": "list"},
    {"slug": "gpt-internal", "display_name": "Internal", "visibility": "hide"},
]


@dataclass
class Code:
    """An authorization code and what it was issued for."""

    client_id: str
    redirect_uri: str
    challenge: str
    nonce: str
    used: bool = False


@dataclass
class Grant:
    """The tokens that descend from one authorization; a replay ends them all."""

    client_id: str
    access: dict[str, float] = field(default_factory=dict)
    """The access tokens with the time of their expiry."""
    refresh: str = ""
    refresh_expires_at: float = 0.0
    spent: set[str] = field(default_factory=set)
    is_revoked: bool = False


@cache
def signing_key(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, 2_048)


def public_jwk(number: int) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(signing_key(number).public_key()))
    return {name: fields[name] for name in ("kty", "n", "e")} | {"kid": f"key-{number}", "use": "sig", "alg": "RS256"}


class AuthorizationServer:
    """The server, which runs while the context is open.

    Attributes:
        user: the account at which everyone signs in: the claims `sub` and `email`.
        decline: whether the user refuses.
        granted: the scopes that the user grants.
        lifetime: the seconds until a new access token expires.
        claims: claims that replace those of the next ID tokens; None leaves a claim out.
        sign: creates an ID token from its claims, in place of a correct one.
        token_error: the status and body that answer requests for tokens; None to process them.
        token_delay: the seconds before a request for tokens is answered.
        names_client: whether redirects contain the client id that was issued.
        answers: responses of the Responses API that answer prompts in turn; the last is repeated.
        api_error: the status and `error` that answer prompts; None to process them. In a stream if the status is 200.
        authorizations: the parameters of the requests of browsers.
        token_requests: the forms that clients have sent to the token endpoint.
        revoked: the forms that clients have sent to the revocation endpoint.
        prompts: the bodies of the requests to the Responses API.
        tokens_used: the access tokens of all requests to the API.
    """

    def __init__(self) -> None:
        self.user = {"sub": "user-1", "email": "me@example.org"}
        self.decline = False
        self.granted = set(SCOPES)
        self.lifetime = HOUR
        self.claims: dict[str, Any] = {}
        self.sign: Any = None
        self.token_error: tuple[int, Any] | None = None
        self.token_delay = 0.0
        self.names_client = True
        self.answers = [responses_wire.response(responses_wire.message("Hello from your plan."))]
        self.api_error: tuple[int, Any] | None = None
        self.clients: dict[str, str] = {}
        """The issued clients with the user that each is bound to."""
        self.grants: list[Grant] = []
        self.codes: dict[str, Code] = {}
        self.authorizations: list[dict[str, str]] = []
        self.token_requests: list[dict[str, str]] = []
        self.revoked: list[dict[str, str]] = []
        self.prompts: list[dict[str, Any]] = []
        self.tokens_used: list[str] = []
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"model": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,))

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def refreshes(self) -> int:
        return sum(form.get("grant_type") == "refresh_token" for form in self.token_requests)

    def expire(self) -> None:
        """Let all access tokens expire."""
        for grant in self.grants:
            grant.access = dict.fromkeys(grant.access, 0.0)

    def revoke(self) -> None:
        """Revoke everything, as the user can in the settings of ChatGPT."""
        for grant in self.grants:
            grant.is_revoked = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def check_authorization(self, parameters: Mapping[str, str]) -> None:
        """Raise ValueError for what a person would see as an error page."""
        for name in ("ext_agent_host_id", "state", "nonce", "code_challenge"):
            if not parameters.get(name):
                raise ValueError(f"{name} is missing")
        expected = {"response_type": "code", "resource": RESOURCE, "code_challenge_method": "S256"}
        for name, value in expected.items():
            if parameters.get(name) != value:
                raise ValueError(f"{name} must be {value}")
        redirect = urlsplit(parameters.get("redirect_uri", ""))
        if (redirect.scheme, redirect.hostname, redirect.path) != ("http", "127.0.0.1", "/auth/callback"):
            raise ValueError("redirect_uri must be an HTTP loopback on 127.0.0.1; only the port may vary")
        if set(parameters.get("scope", "").split()) != SCOPES:
            raise ValueError("scope is not the complete set")

    def authorize(self, parameters: Mapping[str, str]) -> str:
        """Return where the browser is sent; raise ValueError for what a person would see as an error page."""
        self.check_authorization(parameters)
        redirect, client_id = urlsplit(parameters["redirect_uri"]), parameters.get("client_id", "")
        is_new = client_id == REGISTRATION_CLIENT
        if is_new != bool(parameters.get("agent_name_hint")):
            raise ValueError("agent_name_hint belongs to the first registration only")
        state = {"state": parameters["state"]}
        if self.decline:
            return f"{redirect.geturl()}?{urlencode({'error': 'access_denied', **state})}"
        if is_new:
            client_id = f"oaiapp_{len(self.clients) + 1}"
            self.clients[client_id] = self.user["sub"]
        elif client_id not in self.clients:
            raise ValueError("unknown client")
        code = secrets.token_urlsafe()
        self.codes[code] = Code(client_id, redirect.geturl(), parameters["code_challenge"], parameters["nonce"])
        client = {"client_id": client_id} if self.names_client else {}
        return f"{redirect.geturl()}?{urlencode({'code': code, **client, **state})}"

    def issue_tokens(self, form: Mapping[str, str]) -> tuple[int, Any]:
        """Return the status and body of the token endpoint."""
        if form.get("resource") != RESOURCE:
            return 400, {"error": "invalid_target"}
        if form.get("grant_type") == "authorization_code":
            return self._exchange_code(form)
        if form.get("grant_type") == "refresh_token":
            return self._refresh(form)
        return 400, {"error": "unsupported_grant_type"}

    def _exchange_code(self, form: Mapping[str, str]) -> tuple[int, Any]:
        code = self.codes.get(form.get("code", ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if code is None or code.used or code.challenge != challenge or code.redirect_uri != form.get("redirect_uri"):
            return 400, {"error": "invalid_grant", "error_description": "the code is not valid"}
        if code.client_id != form.get("client_id"):
            return 401, {"error": "invalid_client"}
        code.used = True
        grant = Grant(code.client_id)
        self.grants.append(grant)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": code.client_id,
            "iat": now,
            "exp": now + HOUR,
            "nonce": code.nonce,
            "email_verified": True,
            **self.user,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        id_token = (
            self.sign(claims)
            if self.sign
            else jwt.encode(claims, signing_key(1), algorithm="RS256", headers={"kid": "key-1"})
        )
        return 200, {**self._issue(grant), "id_token": id_token}

    def _refresh(self, form: Mapping[str, str]) -> tuple[int, Any]:
        token = form.get("refresh_token", "")
        grant = next((each for each in self.grants if token in {each.refresh, *each.spent}), None)
        if grant is None or grant.client_id != form.get("client_id"):
            return 400, {"error": {"code": "invalid_refresh_token", "message": "no such token"}}
        if token in grant.spent:
            grant.is_revoked = True
            return 400, {"error": {"code": "refresh_token_reused", "message": "already used"}}
        if grant.is_revoked:
            return 401, {"error": {"code": "refresh_token_invalidated", "message": "revoked"}}
        if grant.refresh_expires_at < time.time():
            return 400, {"error": {"code": "refresh_token_expired", "message": "expired"}}
        grant.spent.add(token)
        return 200, self._issue(grant)

    def _issue(self, grant: Grant) -> dict[str, Any]:
        access, grant.refresh = f"access-{secrets.token_urlsafe()}", f"refresh-{secrets.token_urlsafe()}"
        grant.access[access] = time.time() + self.lifetime
        grant.refresh_expires_at = time.time() + MONTH
        return {
            "access_token": access,
            "refresh_token": grant.refresh,
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "scope": " ".join(sorted(self.granted)),
            "earliest_refresh_at": None,
        }

    def end_grant(self, form: Mapping[str, str]) -> None:
        """Revoke a refresh token; a token that is not valid counts as revoked."""
        for grant in self.grants:
            if form.get("token") in {grant.refresh, *grant.access} and form.get("client_id") == grant.client_id:
                grant.is_revoked = True

    def is_valid(self, token: str) -> bool:
        now = time.time()
        return any(grant.access.get(token, 0) > now and not grant.is_revoked for grant in self.grants)


def find_unsupported(body: Mapping[str, Any]) -> str:
    """Return the parameter of a request that the preview does not support; "" if there is none."""
    if (body.get("store"), body.get("stream")) != (False, True):
        return "store"
    if unsupported := UNSUPPORTED_FIELDS & body.keys():
        return min(unsupported)
    if not isinstance(body.get("input"), list) or any(item.get("role") == "system" for item in body["input"]):
        return "input"
    if any(tool.get("type") not in ("namespace", "web_search") for tool in body.get("tools", [])):
        return "tools"
    return ""


class Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for the server."""

    model: AuthorizationServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/api/accounts/authorize":
            parameters = {name: values[0] for name, values in parse_qs(url.query).items()}
            self.model.authorizations.append(parameters)
            try:
                location = self.model.authorize(parameters)
            except ValueError as error:
                self.respond(400, {"error": str(error)})
                return
            self.respond(302, {}, {"Location": location})
        elif url.path == "/.well-known/jwks.json":
            self.respond(200, {"keys": [public_jwk(2), public_jwk(1)]})
        elif url.path == "/v1/models":
            if self.check_bearer():
                self.respond(200, {"models": MODELS})
        else:
            self.respond(404, {"error": "not found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/v1/responses":
            self.answer_prompt(json.loads(content))
            return
        if self.headers.get("Content-Type") != "application/x-www-form-urlencoded":
            self.respond(415, {"error": "invalid_request"})
            return
        form = {name: values[0] for name, values in parse_qs(content.decode()).items()}
        if self.path == "/api/accounts/oauth/token":
            self.model.token_requests.append(form)
            time.sleep(self.model.token_delay)
            with self.model.lock:
                status, body = self.model.token_error or self.model.issue_tokens(form)
            self.respond(status, body)
        elif self.path == "/api/accounts/oauth/revoke":
            self.model.revoked.append(form)
            self.model.end_grant(form)
            self.respond(200, None)
        else:
            self.respond(404, {"error": "not found"})

    def check_bearer(self) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.model.tokens_used.append(token)
        if self.model.is_valid(token):
            return True
        self.respond(401, {"detail": "the access token is not valid"})
        return False

    def answer_prompt(self, body: dict[str, Any]) -> None:
        if not self.check_bearer():
            return
        self.model.prompts.append(body)
        if parameter := find_unsupported(body):
            code = "subscription_sharing_unsupported_capability"
            error = {"code": code, "type": "invalid_request_error", "param": parameter, "message": "not supported"}
            self.respond(400, {"error": error})
            return
        answers = self.model.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if self.model.api_error:
            status, error = self.model.api_error
            if status != 200:
                self.respond(status, {"error": error})
                return
            answer = responses_wire.response(status="failed", error=error)
        events = responses_wire.events(answer)
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.send(200, data.encode(), {"Content-Type": "text/event-stream"})

    def respond(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send(status, content, {"Content-Type": "application/json", **(headers or {})})

    def send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""
