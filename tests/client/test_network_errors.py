"""Mistakes on this machine, a proxy among them: named for what they are, not blamed on the server, not tried again."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ask.client.network_errors import is_loopback
from ask.client.transport import Transport
from ask.errors import NetworkError
from ask.plugin_api.provider import HttpRequest
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result
from tests.raw_server import Certificate, RawServer, answering, make_certificate, read_request

CHAT = HttpRequest("/chat/completions", {"model": "m"})
BODY = json.dumps(wire.answer("hello")).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
NEEDS_CREDENTIALS = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
NO_PROXIES = {"no_proxy": "", "NO_PROXY": ""}


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def put(ask: Ask, base_url: str, **env: str) -> Result:
    """Ask a question of a server; the error is one line, so nothing was tried again."""
    result = ask("-p", "openrouter", "hi", env={"OPENROUTER_BASE_URL": base_url, **NO_PROXIES, **env})
    assert len(result.stderr.splitlines()) <= 1, result.stderr
    return result


# Proxies


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "value", ["junk://proxy:1", "http://[::1", "http://127.0.0.1:port", "http://", "ftp://me:secret@proxy"]
)
def test_an_invalid_proxy_setting_is_a_configuration_error(ask: Ask, scheme: str, value: str) -> None:
    variable = f"{scheme}_proxy".upper()
    result = put(ask, f"{scheme}://model.invalid/v1", **{variable: value})
    assert result.code == 4
    assert variable in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("proxy", ["http", "https", "socks5", "socks5h", "socks4"])
def test_a_proxy_that_is_down_is_named_with_its_variable(ask: Ask, closed_port: int, scheme: str, proxy: str) -> None:
    result = put(ask, f"{scheme}://127.0.0.1/v1", ALL_PROXY=f"{proxy}://me:secret@127.0.0.1:{closed_port}")
    assert result.code == 5
    assert f"127.0.0.1:{closed_port} (ALL_PROXY)" in result.stderr
    assert "connection refused" in result.stderr
    assert "secret" not in result.stderr


def test_an_unknown_proxy_is_named(ask: Ask) -> None:
    result = put(ask, "https://model.invalid/v1", https_proxy="proxy.invalid:3128")
    assert result.code == 5
    assert "proxy.invalid:3128 (https_proxy)" in result.stderr


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_requires_credentials_is_reported_with_its_status(ask: Ask, scheme: str) -> None:
    with answering(NEEDS_CREDENTIALS) as proxy:
        variable = f"{scheme}_proxy".upper()
        result = put(ask, f"{scheme}://model.invalid/v1", **{variable: f"http://me:secret@{proxy.place}"})
    assert result.code == 5
    assert "407" in result.stderr
    assert variable in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(("status", "again"), [(403, False), (502, True)])
def test_a_proxy_that_does_not_connect_is_named_with_its_answer(
    monkeypatch: pytest.MonkeyPatch, status: int, again: bool
) -> None:
    with answering(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.place}")
        with pytest.raises(NetworkError, match=rf"{proxy.place} \(HTTPS_PROXY\).*{status}") as caught:
            Transport("https://model.invalid/v1", 5).send(CHAT)
    assert caught.value.retryable is again


def test_a_server_behind_a_proxy_that_refuses_a_key_is_no_proxy_error(ask: Ask) -> None:
    with answering(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n") as proxy:
        result = put(ask, "http://model.invalid/v1", HTTP_PROXY=f"http://{proxy.place}")
    assert result.code == 6


def test_a_socks_proxy_without_its_package_is_reported_with_the_extra(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "socks.py").write_text("raise ImportError('not installed')")
    env = {"PYTHONPATH": str(tmp_path), "ALL_PROXY": "socks5://127.0.0.1:9"}
    result = put(ask, "https://model.invalid/v1", **env)
    assert result.code == 3
    assert "[socks]" in result.stderr
    assert "ALL_PROXY" in result.stderr


def serve_socks(target: tuple[str, int] | None, method: int = 0) -> RawServer:
    """A SOCKS5 proxy behind which every name is one server; one without a target refuses."""

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
                thread = threading.Thread(target=pump, args=(server, connection))
                thread.start()
                pump(connection, server)
                thread.join()

    return RawServer(handle)


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_socks_proxy_is_used(ask: Ask, server: ModelServer, scheme: str) -> None:
    server.reply(wire.says("by proxy"))
    port = int(server.base_url.split(":")[2].split("/")[0])
    with serve_socks(("127.0.0.1", port)) as proxy:
        host = "model.invalid" if scheme == "socks5h" else "127.0.0.1"
        result = put(ask, f"http://{host}/api/v1", ALL_PROXY=f"{scheme}://{proxy.place}")
    assert (result.code, result.text) == (0, "by proxy\n")


def test_a_socks_proxy_that_wants_credentials_is_reported(ask: Ask) -> None:
    with serve_socks(None, method=255) as proxy:
        result = put(ask, "http://127.0.0.1/v1", ALL_PROXY=f"socks5://{proxy.place}")
    assert result.code == 5
    assert "requires credentials" in result.stderr


def test_a_socks_proxy_that_does_not_connect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_socks(None) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5h://{proxy.place}")
        with pytest.raises(NetworkError, match=rf"{proxy.place} \(ALL_PROXY\).*refused"):
            Transport("http://model.invalid/v1", 5).send(CHAT)


# HTTP and HTTPS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def test_plain_http_for_a_port_that_closes_such_connections_is_named(ask: Ask, certificate: Certificate) -> None:
    with answering(ANSWER, certificate) as server:
        result = put(ask, f"http://{server.place}/v1")
    assert result.code == 4
    assert "https://" in result.stderr


def test_plain_http_for_a_port_that_answers_400_is_named(ask: Ask, certificate: Certificate) -> None:
    """As nginx, Apache and programs in Go do: the port speaks TLS, and tells a plain request so in plain HTTP."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)

    def handle(connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":
            with tls.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)
        elif read_request(connection):
            page = b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>"
            head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page)
            connection.sendall(head + page)

    with RawServer(handle) as server:
        result = put(ask, f"http://{server.place}/v1")
    assert result.code == 4
    assert "https://" in result.stderr


@pytest.mark.slow
def test_a_400_from_a_server_without_tls_is_reported_unchanged(ask: Ask) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno!") as server:
        result = put(ask, f"http://{server.place}/v1")
    assert result.code == 6
    assert "no!" in result.stderr


# Connections that are kept, and bodies that break off


def test_a_kept_connection_that_was_closed_is_replaced_at_once_and_silently() -> None:
    """The server answers one request a connection, and closes it only when the next request has come."""

    def handle(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(ANSWER)
        connection.recv(1)

    with RawServer(handle) as server:
        transport = Transport(f"http://{server.place}/v1", 5)
        for number in range(3):
            with transport.send(CHAT) as reply:
                assert reply.read_text() == BODY.decode()
            assert server.connections == number + 1


@pytest.mark.slow
def test_a_new_connection_that_is_closed_is_not_replaced_silently() -> None:
    with answering(b"") as server:
        with pytest.raises(NetworkError) as caught:
            Transport(f"http://{server.place}/v1", 5).send(CHAT)
        assert caught.value.retryable


@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_an_error_status_counts_though_its_body_breaks_off(ask: Ask, home: Home, status: int, framing: bytes) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text("[network]\nbackoff = 0.001\n")
    part = b'{"error": {"message": "no such k'
    body = b"%x\r\n%s" % (100, part) if b"chunked" in framing else part
    with answering(
        b"HTTP/1.1 %d No\r\nContent-Type: application/json\r\n%s\r\n\r\n%s" % (status, framing, body)
    ) as server:
        env = {"OPENROUTER_BASE_URL": f"http://{server.place}/v1", **NO_PROXIES}
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
