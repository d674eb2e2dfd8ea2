"""Requests to the authorization server of a provider: tokens for a code, new tokens, revoking them, and its keys."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ask.client.transport import Transport
from ask.config.base_url import is_loopback, split_server_url
from ask.config.key_store import format_variable_prefix
from ask.config.logins import TOKEN_PATTERN, Tokens
from ask.config.sign_in_services import REJECTED_REFRESH_CODES, SIGN_IN_SERVICES, SignInService
from ask.errors import ConfigError, NetworkError
from ask.parsing import parse_json, read_dict, read_number, read_str
from ask.plugin_api.types import HttpRequest
from ask.text import format_one_line

REQUEST_SECONDS = 15.0
"""Seconds without a byte after which a request is given up. Ctrl-C waits for a refresh that has been sent."""
MAX_REASON_CHARACTERS = 200
MAX_RESPONSE_BYTES = 1_000_000
DEFAULT_LIFETIME_SECONDS = 3_600.0
FORM_HEADERS = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


class RejectedTokenError(ConfigError):
    """The authorization server does not accept a refresh token any more. The message is its reason."""


def find_service(provider_name: str, environment: Mapping[str, str]) -> SignInService:
    """Return the service at which the users of a provider sign in.

    Raises:
        ConfigError: the authorization server that the environment sets is not one to which tokens may be sent.
        KeyError: the provider has no sign-in.
    """
    service, variable = SIGN_IN_SERVICES[provider_name], f"{format_variable_prefix(provider_name)}_ISSUER"
    issuer = environment.get(variable, "").strip().rstrip("/")
    if not issuer:
        return service
    parts = split_server_url(issuer, ("http", "https"))
    if parts is None or parts.path or not (parts.scheme == "https" or is_loopback(parts.hostname or "")):
        raise ConfigError(f"{variable} is {issuer!r}", "set it to an https URL without a path, or unset it")
    return service._replace(issuer=issuer)


def exchange_code(
    service: SignInService, client_id: str, code: str, verifier: str, redirect_uri: str
) -> Mapping[str, Any]:
    """Exchange an authorization code for tokens, and return the response.

    Raises:
        ConfigError: the server refuses it.
        NetworkError: the server cannot be reached, or fails.
    """
    form = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": redirect_uri,
        "resource": service.resource,
    }
    return _request_tokens(service, form)


def refresh_tokens(service: SignInService, client_id: str, refresh_token: str) -> Tokens:
    """Exchange a refresh token for new tokens.

    Raises:
        RejectedTokenError: the refresh token is useless.
        ConfigError: the server refuses the request.
        NetworkError: the server cannot be reached, or fails.
    """
    form = {
        "grant_type": "refresh_token",
        "client_id": client_id,
        "refresh_token": refresh_token,
        "resource": service.resource,
    }
    return parse_tokens(_request_tokens(service, form), refresh_token)


def parse_tokens(response: Mapping[str, Any], previous_refresh_token: str = "") -> Tokens:
    """Parse the tokens in a response (RFC 6749, section 5.1).

    Raises:
        ConfigError: a token is missing, or it is of another type than `ask` can send.
    """
    access = read_str(response.get("access_token"))
    refresh = read_str(response.get("refresh_token")) or previous_refresh_token
    is_bearer = (read_str(response.get("token_type")) or "bearer").lower() == "bearer"
    if not (is_bearer and re.fullmatch(TOKEN_PATTERN, access) and re.fullmatch(TOKEN_PATTERN, refresh)):
        raise ConfigError("the authorization server returned no usable tokens", "try again later")
    lifetime = read_number(response.get("expires_in")) or DEFAULT_LIFETIME_SECONDS
    return Tokens(access, refresh, time.time() + lifetime)


def revoke_token(service: SignInService, client_id: str, refresh_token: str) -> str:
    """Revoke a refresh token and the access tokens from it (RFC 7009); return why that failed, or ""."""
    form = {"token": refresh_token, "token_type_hint": "refresh_token", "client_id": client_id}
    try:
        status, _ = _send(service, service.revocation_path, form)
    except (ConfigError, NetworkError) as error:
        return error.summary
    return "" if status == 200 else f"{service.issuer} answered {status}"


def fetch_signing_keys(service: SignInService) -> list[dict[str, Any]]:
    """Fetch the public keys with which the server signs ID tokens, as JSON Web Keys.

    Raises:
        NetworkError: they cannot be fetched.
    """
    status, body = _send(service, service.keys_path, None)
    keys = body.get("keys")
    if status != 200 or not isinstance(keys, list):
        raise NetworkError(f"{service.issuer} published no keys ({status})", "try again later")
    return list(map(read_dict, keys))


def _request_tokens(service: SignInService, form: Mapping[str, str]) -> Mapping[str, Any]:
    status, body = _send(service, service.token_path, form)
    if status == 200 and body:
        return body
    if status < 400 or status >= 500 or status in (408, 429):
        raise NetworkError(f"{service.issuer} answered {status}", "try again later", retryable=True)
    error = body.get("error")
    code = read_str(error) or read_str(read_dict(error).get("code"))
    description = read_str(body.get("error_description")) or read_str(read_dict(error).get("message"))
    code = code if re.fullmatch(r"[\w.:-]{1,100}", code) else ""
    reason = format_one_line(": ".join(filter(None, (code, description))), MAX_REASON_CHARACTERS) or str(status)
    if code in REJECTED_REFRESH_CODES and form["grant_type"] == "refresh_token":
        raise RejectedTokenError(reason)
    raise ConfigError(f"{service.title} refused the sign-in ({reason})", "sign in again")


def _send(service: SignInService, path: str, form: Mapping[str, str] | None) -> tuple[int, dict[str, Any]]:
    """Send a form, or GET without one; return the status, and the JSON object in the body or {}.

    Raises:
        ConfigError: a setting of this machine, such as the CA bundle, is invalid.
        NetworkError: the server cannot be reached.
    """
    # The folder belongs to the base URL: without a path, a 404 would be sent again with /v1.
    folder, _, name = path.rpartition("/")
    content = urlencode(form).encode() if form is not None else b""
    method, headers = ("POST", FORM_HEADERS) if form is not None else ("GET", {})
    request = HttpRequest(f"/{name}", headers=headers, method=method, content=content)
    try:
        with Transport(service.issuer + folder, REQUEST_SECONDS).send(request) as response:
            return response.status, read_dict(parse_json(response.read_text(MAX_RESPONSE_BYTES)))
    except NetworkError as error:
        error.hint = "check the network and the proxy"
        raise
