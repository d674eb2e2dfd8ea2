"""Errors of local settings and proxies: they are named as the cause and not retried."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.client.network_errors import normalize_proxy_url, read_proxies
from ask.client.preconnect import CONNECT_SECONDS
from ask.client.transport import Transport
from ask.config.base_url import is_loopback
from ask.errors import NetworkError
from ask.plugin_api.types import HttpRequest
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result
from tests.raw_server import (
    Certificate,
    RawServer,
    constant_reply_server,
    make_certificate,
    read_request,
    relay,
)

CHAT = HttpRequest("/chat/completions", {"model": "m"})
BODY = json.dumps(wire.answer("hello")).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
NEEDS_CREDENTIALS = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
NO_PROXIES = {"no_proxy": "", "NO_PROXY": ""}


def send_prompt(ask: Ask, base_url: str, **env: str) -> Result:
    """Send a prompt and check that the error is one line, which means that nothing was retried."""
    result = ask("-p", "openrouter", "hi", env={"OPENROUTER_BASE_URL": base_url, **NO_PROXIES, **env})
    assert len(result.stderr.splitlines()) <= 1, result.stderr
    return result


# Proxies


@pytest.mark.parametrize(
    ("entries", "url", "is_direct"),
    [
        ("*.corp.example", "https://llm.corp.example/v1", True),  # as in Docker's documentation
        ("*.corp.example", "https://corp.example/v1", False),
        ("*.corp.example", "https://llm.corp.example.org/v1", False),
        ("localhost 10.1.2.3", "http://10.1.2.3:8000/v1", True),  # as curl accepts it
        ("10.1.2.3:8000", "http://10.1.2.3:8000/v1", True),
        ("10.1.2.3:8000", "http://10.1.2.3:9000/v1", False),
        ("[::1]", "http://[::1]:8000/v1", True),
        ("LLM.example", "http://me:secret@llm.example/v1", True),
        ("other.example", "http://llm.example/v1", False),
    ],
)
def test_hosts_may_be_excluded_in_the_forms_of_other_programs(
    monkeypatch: pytest.MonkeyPatch, entries: str, url: str, is_direct: bool
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", entries)
    assert (not read_proxies(url)) == is_direct


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "value", ["junk://proxy:1", "http://[::1", "http://127.0.0.1:port", "http://", "ftp://me:secret@proxy"]
)
def test_invalid_proxy_setting_is_a_configuration_error(ask: Ask, scheme: str, value: str) -> None:
    variable = f"{scheme}_proxy".upper()
    result = send_prompt(ask, f"{scheme}://model.invalid/v1", **{variable: value})
    assert result.code == 4
    assert variable in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("proxy", ["http", "https", "socks5", "socks5h", "socks4"])
def test_unreachable_proxy_is_named_with_its_variable(ask: Ask, closed_port: int, scheme: str, proxy: str) -> None:
    result = send_prompt(ask, f"{scheme}://127.0.0.1/v1", ALL_PROXY=f"{proxy}://me:secret@127.0.0.1:{closed_port}")
    assert result.code == 5
    assert f"127.0.0.1:{closed_port} (ALL_PROXY)" in result.stderr
    assert "connection refused" in result.stderr
    assert "secret" not in result.stderr


def test_unknown_proxy_is_named(ask: Ask) -> None:
    result = send_prompt(ask, "https://model.invalid/v1", https_proxy="proxy.invalid:3128")
    assert result.code == 5
    assert "proxy.invalid:3128 (https_proxy)" in result.stderr


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_that_requires_credentials_is_reported(ask: Ask, scheme: str) -> None:
    with constant_reply_server(NEEDS_CREDENTIALS) as proxy:
        variable = f"{scheme}_proxy".upper()
        result = send_prompt(ask, f"{scheme}://model.invalid/v1", **{variable: f"http://me:secret@{proxy.address}"})
    assert result.code == 5
    assert "407" in result.stderr
    assert variable in result.stderr
    assert "secret" not in result.stderr


PASSWORDS = ["p@ss", "p#ss", "p/ss", "p?ss", "p:ss", "p%ss", "p ss", "@#/?:%\\ss"]


@pytest.mark.parametrize("user", ["me", "DOMAIN\\me", "me@example.com"])
@pytest.mark.parametrize("password", PASSWORDS)
def test_a_proxy_gets_a_password_of_any_characters(ask: Ask, user: str, password: str) -> None:
    credentials: list[str] = []

    def handle(connection: socket.socket) -> None:
        header = read_request(connection).split(b"Proxy-Authorization: Basic ")[1].split(b"\r\n")[0]
        credentials.append(base64.b64decode(header).decode("latin-1"))
        connection.sendall(ANSWER)

    with RawServer(handle) as proxy:
        value = f"http://{user}:{password}@{proxy.address}"
        result = send_prompt(ask, "http://model.invalid/v1", HTTP_PROXY=value)
    assert (result.code, result.text) == (0, "hello\n"), result.stderr
    assert credentials == [f"{user}:{password}"]


@pytest.mark.parametrize("password", PASSWORDS)
def test_no_part_of_a_proxy_password_is_printed(ask: Ask, closed_port: int, password: str) -> None:
    value = f"http://me:{password}@127.0.0.1:{closed_port}"
    result = send_prompt(ask, "http://model.invalid/v1", HTTP_PROXY=value)
    assert result.code == 5
    assert f"127.0.0.1:{closed_port} (HTTP_PROXY)" in result.stderr
    assert "ss" not in result.stderr


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_an_encoded_password_is_not_encoded_again(password: str) -> None:
    encoded = quote(password, safe="")
    assert unquote(urlsplit(normalize_proxy_url(f"http://u:{encoded}@h:1")).password or "") == password


def test_a_proxy_without_a_scheme_or_socks_version_gets_the_usual_one() -> None:
    assert normalize_proxy_url("socks://h:1") == "socks5h://h:1"
    assert normalize_proxy_url("h:1") == "http://h:1"


@pytest.mark.parametrize(("status", "retryable"), [(403, False), (502, True)])
def test_proxy_that_does_not_connect_is_named_with_its_status(
    monkeypatch: pytest.MonkeyPatch, status: int, retryable: bool
) -> None:
    with constant_reply_server(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        with pytest.raises(NetworkError, match=rf"{proxy.address} \(HTTPS_PROXY\).*{status}") as raised:
            Transport("https://model.invalid/v1", 5).send(CHAT)
    assert raised.value.retryable is retryable


def test_a_request_whose_connection_through_a_proxy_is_closed_is_sent_again(ask: Ask, home: Home) -> None:
    home.configure("[network]\nbackoff = 0.001\n")

    def handle(connection: socket.socket) -> None:
        read_request(connection)
        if proxy.connections > 1:
            connection.sendall(ANSWER)

    with RawServer(handle) as proxy:
        env = {"OPENROUTER_BASE_URL": "http://model.invalid/v1", "HTTP_PROXY": f"http://{proxy.address}", **NO_PROXIES}
        result = ask("-p", "openrouter", "hi", env=env)
    assert (result.code, result.text) == (0, "hello\n")
    assert f"{proxy.address} (HTTP_PROXY)" in result.stderr


def test_rejected_key_behind_a_proxy_is_not_a_proxy_error(ask: Ask) -> None:
    with constant_reply_server(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n") as proxy:
        result = send_prompt(ask, "http://model.invalid/v1", HTTP_PROXY=f"http://{proxy.address}")
    assert result.code == 6


def test_socks_proxy_without_pysocks_names_the_extra(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "socks.py").write_text("raise ImportError('not installed')")
    env = {"PYTHONPATH": str(tmp_path), "ALL_PROXY": "socks5://127.0.0.1:9"}
    result = send_prompt(ask, "https://model.invalid/v1", **env)
    assert result.code == 3
    assert "[socks]" in result.stderr
    assert "ALL_PROXY" in result.stderr


def serve_socks(target: tuple[str, int] | None, method: int = 0) -> RawServer:
    """Start a SOCKS5 proxy that connects every host to `target`, or refuses if there is none."""

    def handle(connection: socket.socket) -> None:
        version, count = connection.recv(2)
        connection.recv(count)
        connection.sendall(bytes([version, method]))
        if method:
            return
        connection.recv(65_536)
        connection.sendall(b"\5%c\0\1\0\0\0\0\0\0" % (0 if target else 5))
        if target:
            with socket.create_connection(target) as server:
                relay(connection, server)

    return RawServer(handle)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_socks_proxy_is_used(ask: Ask, server: ModelServer, scheme: str) -> None:
    server.reply(wire.says("by proxy"))
    port = int(server.base_url.split(":")[2].split("/")[0])
    with serve_socks(("127.0.0.1", port)) as proxy:
        host = "model.invalid" if scheme == "socks5h" else "127.0.0.1"
        result = send_prompt(ask, f"http://{host}/api/v1", ALL_PROXY=f"{scheme}://{proxy.address}")
    assert (result.code, result.text) == (0, "by proxy\n")


def test_socks_proxy_that_requires_credentials_is_reported(ask: Ask) -> None:
    with serve_socks(None, method=255) as proxy:
        result = send_prompt(ask, "http://127.0.0.1/v1", ALL_PROXY=f"socks5://{proxy.address}")
    assert result.code == 5
    assert "requires credentials" in result.stderr


def test_socks_proxy_that_does_not_connect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_socks(None) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5h://{proxy.address}")
        with pytest.raises(NetworkError, match=rf"{proxy.address} \(ALL_PROXY\).*refused"):
            Transport("http://model.invalid/v1", 5).send(CHAT)


# HTTP and HTTPS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.mark.needs("openssl")
def test_plain_http_to_a_tls_port_that_closes_is_reported(ask: Ask, certificate: Certificate) -> None:
    with constant_reply_server(ANSWER, certificate) as server:
        result = send_prompt(ask, f"http://{server.address}/v1")
    assert result.code == 4
    assert "https://" in result.stderr


@pytest.mark.needs("openssl")
def test_plain_http_to_a_tls_port_that_answers_400_is_reported(ask: Ask, certificate: Certificate) -> None:
    """nginx, Apache and Go programs answer a plain HTTP request to a TLS port with a plain HTTP error."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)

    def handle(connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":
            with tls.wrap_socket(connection, server_side=True) as tls_connection:
                tls_connection.recv(1)
        elif read_request(connection):
            page = b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>"
            head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page)
            connection.sendall(head + page)

    with RawServer(handle) as server:
        result = send_prompt(ask, f"http://{server.address}/v1")
    assert result.code == 4
    assert "https://" in result.stderr


@pytest.mark.slow
def test_400_from_a_server_without_tls_is_reported_unchanged(ask: Ask) -> None:
    with constant_reply_server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno!") as server:
        result = send_prompt(ask, f"http://{server.address}/v1")
    assert result.code == 6
    assert "no!" in result.stderr


# Reused connections and incomplete bodies


def test_closed_reused_connection_is_replaced_silently() -> None:
    """The server answers one request per connection, and closes it only when the next request arrives."""

    def handle(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(ANSWER)
        connection.recv(1)

    with RawServer(handle) as server:
        transport = Transport(f"http://{server.address}/v1", 5)
        for number in range(3):
            with transport.send(CHAT) as response:
                assert response.read_text() == BODY.decode()
            assert server.connections == number + 1


def test_requests_that_fail_together_cause_one_tls_handshake() -> None:
    handshakes, has_failed = list[bytes](), threading.Event()

    def handle(connection: socket.socket) -> None:
        first_byte = connection.recv(1, socket.MSG_PEEK)
        if first_byte == b"\x16":
            handshakes.append(first_byte)
            has_failed.wait(30)
        else:
            read_request(connection)

    with RawServer(handle) as server, ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(Transport(f"http://{server.address}/v1", 5).send, CHAT) for _ in range(8)]
        failures = as_completed(sent)
        for _ in range(7):
            assert isinstance(next(failures).exception(), NetworkError)
        has_failed.set()
        assert isinstance(next(failures).exception(), NetworkError)
    assert len(handshakes) == 1


@pytest.mark.slow
def test_closed_new_connection_is_an_error() -> None:
    with constant_reply_server(b"") as server:
        with pytest.raises(NetworkError) as raised:
            Transport(f"http://{server.address}/v1", 5).send(CHAT)
        assert raised.value.retryable


@pytest.mark.slow
def test_a_server_that_does_not_read_the_request_is_reported() -> None:
    done = threading.Event()

    def handle(_: socket.socket) -> None:
        done.wait(60)

    with RawServer(handle) as server:
        with pytest.raises(NetworkError, match="reading") as raised:
            Transport(f"http://{server.address}/v1", 60).send(HttpRequest("/files", content=b"x" * 20_000_000))
        done.set()
    assert raised.value.retryable


@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_error_status_is_reported_if_its_body_is_incomplete(ask: Ask, home: Home, status: int, framing: bytes) -> None:
    home.configure("[network]\nbackoff = 0.001\n")
    partial_body = b'{"error": {"message": "no such k'
    body = b"%x\r\n%s" % (100, partial_body) if b"chunked" in framing else partial_body
    with constant_reply_server(
        b"HTTP/1.1 %d No\r\nContent-Type: application/json\r\n%s\r\n\r\n%s" % (status, framing, body)
    ) as server:
        env = {"OPENROUTER_BASE_URL": f"http://{server.address}/v1", **NO_PROXIES}
        result = ask("-p", "openrouter", "hi", env=env)
        assert server.connections == (4 if status == 500 else 1)
    assert result.code == 6
    assert str(status) in result.stderr.splitlines()[-1]
    assert "no such k" in result.stderr


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *(("localhost", True), ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("me.localhost", True)),
        *(("example.com", False), ("10.0.0.1", False), ("localhost.example.com", False), ("", False)),
    ],
)
def test_loopback_names_and_addresses_are_recognized(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    "reply", [b"SSH-2.0-OpenSSH_9.6\r\n", bytes.fromhex("00001204000000000000030000008000"), b"PONG\r\n"]
)
def test_a_port_of_another_protocol_is_reported_at_once(ask: Ask, reply: bytes) -> None:
    with constant_reply_server(reply) as server:
        result = send_prompt(ask, f"http://{server.address}/v1")
    assert result.code == 5
    assert "other than HTTP" in result.stderr
    assert "base URL" in result.stderr


def test_a_proxy_of_another_protocol_is_named(ask: Ask) -> None:
    with constant_reply_server(b"SSH-2.0-OpenSSH_9.6\r\n") as server:
        for scheme in ("http", "https"):
            proxy = {f"{scheme.upper()}_PROXY": f"http://{server.address}"}
            result = send_prompt(ask, f"{scheme}://model.invalid/v1", **proxy)
            assert (result.code, f"the proxy {server.address}" in result.stderr) == (5, True), result.stderr


@pytest.mark.parametrize(("alert", "reason"), [(70, "protocol version"), (116, "client certificate")])
def test_the_reason_of_a_failed_handshake_is_named(ask: Ask, alert: int, reason: str) -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(bytes([21, 3, 3, 0, 2, 2, alert]))
        connection.recv(65_536)

    with RawServer(handle) as server:
        result = send_prompt(ask, f"https://{server.address}/v1")
    assert result.code == 5
    assert reason in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("is_proxy", [True, False])
def test_a_handshake_without_an_answer_is_a_failed_connection(monkeypatch: pytest.MonkeyPatch, is_proxy: bool) -> None:
    def handle(connection: socket.socket) -> None:
        while connection.recv(65_536):
            pass

    with RawServer(handle) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{server.address}")
        monkeypatch.setenv("NO_PROXY", "" if is_proxy else "127.0.0.1")
        url = "https://model.invalid/v1" if is_proxy else f"https://{server.address}/v1"
        with pytest.raises(NetworkError) as raised:
            Transport(url, 300).send(CHAT)
    assert raised.value.retryable
    assert f"{CONNECT_SECONDS:g} s" in raised.value.message
