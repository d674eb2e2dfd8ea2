"""The services at which users sign in, in place of a key: their endpoints, parameters and errors.

OpenAI documents the flow for open-source programs, on these pages below
https://developers.openai.com/siwc/token-sharing-open-source (read in November 2026):

- sign-in: the first registration with `client_id=dynamic_agent_client`, `ext_agent_host_id`, `agent_name_hint`; the
  callback returns the issued `client_id`; no client secret; `dynamic_agent_client` is not used to exchange the code
- profiles-and-sessions: several accounts with a client id each; signing in again uses the issued `client_id` without
  `agent_name_hint`, with a new state, nonce and PKCE verifier
- token-reference: the fields of the token response; access tokens for an hour, refresh tokens for 30 days, each
  refresh returns another refresh token
- models-and-inference: `GET /v1/models`, whose `models` have `slug`, `display_name` and `visibility`; the access token
  is a bearer token for `POST /v1/responses`
- preview-limitations: `store: false`, `stream: true`, the fields, roles and tools that are not supported, and that
  functions belong in namespaces
- errors-and-recovery: `chatgpt.tokens.use.direct` in the granted scopes decides; `prompt=consent` asks again

Only the first part of each page could be read. The following is from open-source programs that quote or implement the
rest, and agree with each other (Pi, avante.nvim, Horizon and others):

- the paths of the endpoints and of the published keys, and RS256: auth.openai.com/.well-known/openid-configuration
- the scopes besides `chatgpt.tokens.use.direct`, `resource` and `login_hint`
- `urn:uuid:` for `ext_agent_host_id`; the path /auth/callback on 127.0.0.1, of which only the port may vary
- `token`, `token_type_hint` and `client_id` of a revocation, and an empty 200 as its answer
- the codes of `REJECTED_REFRESH_CODES`, and the codes and statuses of errors in `providers/chatgpt.py`
- an error of the token endpoint is a string, or an object with a `code`: both are accepted
- `context_window` in the models list

`email` and `email_verified` in the ID token are standard claims (OpenID Connect Core, section 5.1).
`earliest_refresh_at` of the token response is not used: `ask` refreshes a token when it expires, or is refused.
"""

from __future__ import annotations

from ask.records import NamedTuple

REJECTED_REFRESH_CODES = (
    "invalid_grant",
    "invalid_refresh_token",
    "token_expired",
    "refresh_token_expired",
    "refresh_token_invalidated",
    "refresh_token_reused",
)
"""Errors after which a refresh token is useless."""


class SignInService(NamedTuple):
    """A service at which users sign in (OAuth 2.0 with PKCE and OpenID Connect).

    Attributes:
        title: its name in messages.
        issuer: the authorization server, as ID tokens name it; `<NAME>_ISSUER` overrides it.
        authorization_path: the path of the page that the browser opens.
        token_path: the path that returns tokens.
        revocation_path: the path that revokes them.
        keys_path: the path of the keys with which ID tokens are signed.
        callback_path: the path to which the browser is sent, on a port of this machine.
        registration_client_id: the client id of the first sign-in, which returns another one for the account.
        scopes: the permissions to request.
        required_scope: the one without which the service answers no prompts.
        resource: what the tokens are for.
        usage_url: where users see and limit what `ask` uses.
    """

    title: str
    issuer: str
    authorization_path: str
    token_path: str
    revocation_path: str
    keys_path: str
    callback_path: str
    registration_client_id: str
    scopes: tuple[str, ...]
    required_scope: str
    resource: str
    usage_url: str


SIGN_IN_SERVICES = {
    "chatgpt": SignInService(
        title="ChatGPT",
        issuer="https://auth.openai.com",
        authorization_path="/api/accounts/authorize",
        token_path="/api/accounts/oauth/token",  # noqa: S106 - a path
        revocation_path="/api/accounts/oauth/revoke",
        keys_path="/.well-known/jwks.json",
        callback_path="/auth/callback",
        registration_client_id="dynamic_agent_client",
        scopes=("openid", "profile", "email", "offline_access", "resource.invoke", "chatgpt.tokens.use.direct"),
        required_scope="chatgpt.tokens.use.direct",
        resource="https://api.openai.com/v1",
        usage_url="https://chatgpt.com/settings/usage",
    ),
}
"""The services by the names of their providers."""
