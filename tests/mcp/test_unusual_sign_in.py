"""Signing in to a remote server whose authorization server differs in details from what the SDK expects."""

from __future__ import annotations

import json
import socket
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.mcp.setting import HERE, ask_with_calls, configure
from tests.mcp.test_unusual_parts import GOOD, INFO, TEXT
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.raw_server import RawServer, make_certificate

BROWSER = {"BROWSER": f"{sys.executable} {HERE / 'browser.py'} %s"}
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
TOKEN = {"access_token": "T0ken-0123456789", "token_type": "Bearer"}


@dataclass
class AuthorizationServer:
    """An MCP server with its own authorization server.

    Attributes:
        advertised: What is appended to the address of the authorization server where the MCP server names it.
        issuer: What is appended to it where the authorization server names itself.
        token: The response of the token endpoint.
        metadata: Members that are added to the metadata of the authorization server.
        client: Members of the response to a registration.
        names_metadata: Whether a refusal has the URL of the MCP server's metadata.
        as_form: Whether that is a form unless JSON is requested.
        scopes: The scopes in requests for tokens.
    """

    origin: str
    advertised: str = ""
    issuer: str = ""
    token: Mapping[str, Any] = field(default_factory=lambda: TOKEN)
    as_form: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    names_metadata: bool = False

    def answer(self, request: Request) -> Reply:
        url = urlsplit(request.path)
        metadata = {"issuer": self.origin + self.issuer, "response_types_supported": ["code"]}
        endpoints = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "registration_endpoint": "register",
        }
        documents = {
            "/.well-known/oauth-protected-resource": {
                "resource": f"{self.origin}/mcp",
                "authorization_servers": [self.origin + self.advertised],
            },
            f"/.well-known/oauth-authorization-server{self.advertised.rstrip('/')}": {**metadata, **self.metadata}
            | {name: f"{self.origin}/{path}" for name, path in endpoints.items()},
        }
        if url.path in documents:
            return reply(documents[url.path])
        if url.path == "/authorize":
            query = dict(parse_qsl(url.query))
            result = urlencode({"code": "c", "state": query["state"], "iss": self.origin + self.issuer})
            return Reply(status=302, headers={"Location": f"{query['redirect_uri']}?{result}"})
        if url.path == "/register":
            return reply(request.json | {"client_id": "abc", **self.client}, 201)
        if url.path == "/token":
            is_form = self.as_form and request.headers["Accept"] != JSON
            return Reply((urlencode(self.token).encode(),), content_type=FORM) if is_form else reply(self.token)
        if url.path == "/mcp" and request.method == "POST":
            return self.answer_message(request)
        return Reply(status=404)

    def answer_message(self, request: Request) -> Reply:
        if request.headers["Authorization"] != f"Bearer {self.token.get('access_token')}":
            url = f"{self.origin}/.well-known/oauth-protected-resource"
            challenge = f'Bearer resource_metadata="{url}"' if self.names_metadata else "Bearer"
            return Reply(status=401, headers={"WWW-Authenticate": challenge})
        message = request.json
        handshake = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
        results = {"initialize": handshake, "tools/list": {"tools": [GOOD]}, "tools/call": {"content": [TEXT]}}
        if message["method"] not in results:
            return Reply(status=202 if "id" not in message else 400)
        return reply({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})


def reply(value: Any, status: int = 200) -> Reply:
    return Reply((json.dumps(value).encode(),), status=status)


CASES: Mapping[str, dict[str, Any]] = {
    "slash where it is named": {"advertised": "/"},
    "slash where it names itself": {"issuer": "/"},
    "path where it is named": {"advertised": "/tenant"},
    "no issuer": {"metadata": {"issuer": None}},
    "other types of a client": {"client": {"client_id": 12, "scope": ["a", "b"], "client_secret_expires_at": None}},
    "other type of scope": {"token": TOKEN | {"scope": {"a": True}}},
    "form": {"as_form": True},
    "other type of token": {"token": TOKEN | {"token_type": "user", "scope": ["a", "b"]}},
    "odd lifetime": {"token": TOKEN | {"expires_in": "3600.5", "token_type": None}},
    "unknown lifetime": {"token": TOKEN | {"expires_in": 0}},
    "lifetime without end": {"token": TOKEN | {"expires_in": -1}},
    "empty metadata": {"metadata": {"revocation_endpoint": "", "op_tos_uri": "", "scopes_supported": None}},
    "metadata of wrong types": {"metadata": {"service_documentation": "docs", "scopes_supported": "read write"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_sign_in_succeeds(case: str, ask: Ask, home: Home, server: ModelServer) -> None:
    with ModelServer() as other:
        configure(home, {"web": {"url": f"http://127.0.0.1:{urlsplit(other.base_url).port}/mcp", "timeout": 60}})
        unusual = AuthorizationServer(f"http://127.0.0.1:{urlsplit(other.base_url).port}", **CASES[case])
        other.reply(*[unusual.answer] * 60)
        result = ask("mcp", "login", "web", env=BROWSER, timeout=120)
        assert result.code == 0, result.stderr
        _, answers = ask_with_calls(ask, server, [("web__good", {})])
    assert answers == ["beside it"]


@pytest.mark.slow
@pytest.mark.needs("openssl")
@pytest.mark.parametrize("names_metadata", [False, True])
def test_a_server_behind_a_proxy_may_name_itself_with_http(
    ask: Ask, home: Home, tmp_path: Path, *, names_metadata: bool
) -> None:
    certificate, other = make_certificate(tmp_path), ModelServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    other._listener.socket = context.wrap_socket(other._listener.socket, server_side=True)
    with other:
        host = f"127.0.0.1:{urlsplit(other.base_url).port}"
        configure(home, {"web": {"url": f"https://{host}/mcp", "timeout": 60}})
        other.reply(*[AuthorizationServer(f"http://{host}", names_metadata=names_metadata).answer] * 60)
        env = BROWSER | {"SSL_CERT_FILE": str(certificate.path)}
        result = ask("mcp", "login", "web", env=env, timeout=120)
        assert result.code == 0, result.stderr


def test_an_error_that_is_sent_as_a_success_is_quoted(ask: Ask, home: Home) -> None:
    """GitHub and Slack send errors with the status 200."""
    with ModelServer() as other:
        origin = f"http://127.0.0.1:{urlsplit(other.base_url).port}"
        configure(home, {"web": {"url": f"{origin}/mcp", "timeout": 60}})
        token = {"error": "bad_code", "error_description": "The code is wrong."}
        other.reply(*[AuthorizationServer(origin, token=token, as_form=True).answer] * 60)
        result = ask("mcp", "login", "web", env=BROWSER, timeout=120)
    assert result.code == 5
    assert "The code is wrong." in result.stderr
    assert "validation error" not in result.stderr


def test_metadata_that_cannot_be_fetched_is_named(ask: Ask, home: Home) -> None:
    url = "http://127.0.0.1:1/metadata"
    refusal = Reply(status=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{url}"'})
    with ModelServer() as other:
        configure(home, {"web": {"url": f"http://127.0.0.1:{urlsplit(other.base_url).port}/mcp", "timeout": 60}})
        other.reply(*[refusal] * 4)
        result = ask("mcp", "login", "web", env=BROWSER, timeout=120)
    assert result.code == 5
    assert url in result.stderr
    assert "ask mcp login" not in result.stderr


@pytest.mark.slow_after_first
@pytest.mark.parametrize("excluded", ["127.0.0.1", "127.0.0.0/8"])
def test_a_server_that_needs_no_proxy_may_have_a_sign_in_that_needs_one(excluded: str, ask: Ask, home: Home) -> None:
    lines: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        lines.append(connection.recv(1_000).split(b"\r\n")[0])
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with ModelServer() as other, RawServer(handle) as proxy:
        origin = f"http://127.0.0.1:{urlsplit(other.base_url).port}"
        configure(home, {"web": {"url": f"{origin}/mcp", "timeout": 60}})
        metadata = {"resource": f"{origin}/mcp", "authorization_servers": ["https://sign-in.invalid"]}

        def answer(request: Request) -> Reply:
            is_metadata = request.path.startswith("/.well-known/oauth-protected-resource")
            return reply(metadata) if is_metadata else Reply(status=401, headers={"WWW-Authenticate": "Bearer"})

        other.reply(*[answer] * 20)
        variables = {"HTTP_PROXY": f"http://{proxy.address}", "HTTPS_PROXY": f"http://{proxy.address}"}
        result = ask("mcp", "login", "web", env=BROWSER | variables | {"NO_PROXY": excluded}, timeout=120)
    assert result.code == 5
    assert {*lines} == {b"CONNECT sign-in.invalid:443 HTTP/1.1"}
