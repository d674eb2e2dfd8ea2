"""Revoking the tokens of a sign-in at the authorization server (RFC 7009)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ask.client.certificates import create_ssl_context, explain_certificate_error, find_ca_bundle
from ask.errors import ConfigError
from ask.mcp.foreign_urls import describe_foreign_url
from ask.parsing import read_dict
from ask.text import format_one_line

REVOCATION_SECONDS = 5.0


def revoke_tokens(record: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Revoke the tokens of a saved sign-in; return why they may remain valid, or "".

    The refresh token comes first, because new access tokens could be obtained with it.
    """
    metadata = read_dict(record.get("authorization_server"))
    endpoint, token_endpoint = metadata.get("revocation_endpoint"), metadata.get("token_endpoint")
    if not isinstance(endpoint, str):
        return "the server does not offer to revoke them"
    server_url = read_dict(record.get("configuration")).get("url")
    if problem := describe_foreign_url(endpoint, str(server_url), [str(token_endpoint)]):
        return problem
    try:
        import httpx2

        bundle = find_ca_bundle(environment)
        verify = create_ssl_context(bundle) if bundle else True
    except ImportError:
        return "the package mcp is not installed"
    except ConfigError as error:
        return str(error)
    form, headers = _authenticate_client(read_dict(record.get("client")))
    tokens = read_dict(record["tokens"])
    problem = ""
    try:
        with httpx2.Client(verify=verify, timeout=REVOCATION_SECONDS, headers=headers) as client:
            for name in ("refresh_token", "access_token"):
                if token := tokens.get(name):
                    data = {**form, "token": token, "token_type_hint": name}
                    with client.stream("POST", endpoint, data=data) as response:
                        if not response.is_success:
                            status = f"{response.status_code} {response.reason_phrase}".strip()
                            problem = problem or f"{endpoint} answered {status}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        explanation = explain_certificate_error(error, bundle)
        reason = explanation.reason if explanation else format_one_line(str(error)) or type(error).__name__
        return f"cannot reach {endpoint} ({reason})"
    return problem


def _authenticate_client(client: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form fields and headers by which the client authenticates (RFC 6749, section 2.3.1)."""
    client_id, secret = str(client.get("client_id", "")), client.get("client_secret")
    form = {"client_id": client_id}
    if not secret:
        return form, {}
    if client.get("token_endpoint_auth_method") == "client_secret_basic":
        credentials = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
        return form, {"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}
    return {**form, "client_secret": secret}, {}
