"""The connection that is opened while ask gets ready: seen from the other side, a listening socket."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.client.preconnect import Preconnection, preconnect
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Running

ANSWER = b'{"choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}'
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
LATE = b"what was piped in"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        yield listening


def place_of(listener: socket.socket, scheme: str = "http") -> dict[str, str]:
    return {"OPENROUTER_BASE_URL": f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/api/v1"}


def answer(connection: socket.socket) -> bytes:
    """Read one request, and answer it."""
    connection.settimeout(30)
    request = b""
    while LATE not in request:
        data = connection.recv(65536)
        assert data, "the connection was closed without a request"
        request += data
    connection.sendall(REPLY)
    return request


def waiting(ask: Ask, reading: int, env: dict[str, str]) -> Running:
    """`ask`, which waits for its standard input to end."""
    return ask.start("-p", "openrouter", "what is this?", stdin=reading, env=env)


def test_the_request_goes_over_a_connection_that_was_there_before_standard_input_ended(
    ask: Ask, listener: socket.socket
) -> None:
    reading, writing = os.pipe()
    with waiting(ask, reading, place_of(listener)) as running:
        connection, _ = listener.accept()
        with connection, os.fdopen(writing, "wb") as pipe:
            pipe.write(LATE)
            pipe.close()
            assert answer(connection).startswith(b"POST /api/v1/chat/completions ")
            result = running.finish()
    os.close(reading)
    assert (result.code, result.text) == (0, "hello\n")
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_one_that_the_other_side_has_closed_meanwhile_is_not_missed(ask: Ask, listener: socket.socket) -> None:
    reading, writing = os.pipe()
    with waiting(ask, reading, place_of(listener)) as running, os.fdopen(writing, "wb") as pipe:
        listener.accept()[0].close()
        pipe.write(LATE)
        pipe.close()
        connection, _ = listener.accept()
        with connection:
            answer(connection)
            result = running.finish()
    os.close(reading)
    assert (result.code, result.text, result.stderr) == (0, "hello\n", "")


@pytest.fixture
def secure(listener: socket.socket, tmp_path: Path) -> Iterator[Path]:
    """The certificate of a TLS server that answers at the listener."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=ask", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)

    def serve() -> None:
        connection, _ = listener.accept()
        try:
            with tls.wrap_socket(connection, server_side=True) as wrapped:
                answer(wrapped)
        except ssl.SSLError:
            connection.close()  # the other side does not trust the certificate

    thread = threading.Thread(target=serve)
    thread.start()
    yield certificate
    thread.join()


def test_the_certificate_is_looked_at_over_a_dialled_connection_too(
    ask: Ask, listener: socket.socket, secure: Path
) -> None:
    env = {**place_of(listener, "https"), "REQUESTS_CA_BUNDLE": str(secure)}
    result = ask("-p", "openrouter", "hi", stdin=LATE, env=env)
    assert (result.code, result.text) == (0, "hello\n")


def test_one_that_is_not_trusted_gets_no_request(ask: Ask, listener: socket.socket, secure: Path) -> None:
    result = ask("-p", "openrouter", "hi", stdin=LATE, env=place_of(listener, "https"))
    assert result.code == 5
    assert "its certificate is not valid" in result.stderr


def test_there_is_no_preconnection_behind_a_proxy(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("by proxy"))
    with socket.create_server(("127.0.0.1", 0)) as direct:
        proxied = {**place_of(direct), "http_proxy": server.base_url.removesuffix("/api/v1"), "no_proxy": ""}
        result = ask("-p", "openrouter", "hi", env=proxied)
        direct.setblocking(False)
        with pytest.raises(BlockingIOError):
            direct.accept()
    assert (result.code, result.text) == (0, "by proxy\n")


def test_a_refused_preconnection_is_the_usual_error(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        env = place_of(closed)
    result = ask("-p", "openrouter", "hi", env=env)
    assert result.code == 5
    assert "connection refused" in result.stderr.splitlines()[-1]


def test_a_connection_is_given_once(listener: socket.socket) -> None:
    dialled = Preconnection(*listener.getsockname())
    first = dialled.take_socket()
    assert first is not None
    with first:
        assert first.getpeername() == listener.getsockname()
    assert dialled.take_socket() is None


def test_a_failure_is_told_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        place = closed.getsockname()
    dialled = Preconnection(*place)
    with pytest.raises(ConnectionRefusedError):
        dialled.take_socket()
    assert dialled.take_socket() is None


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:x/", "http://[::1/"])
def test_an_invalid_base_url_is_not_preconnected(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert preconnect(url) is None


def test_a_name_that_cannot_be_looked_up_is_left_to_the_request() -> None:
    assert Preconnection("a" * 70 + ".example", 80).take_socket() is None
