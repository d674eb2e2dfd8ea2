"""The connection that is opened while ask starts, as seen from a listening socket."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.client.certificates import CA_VARIABLES
from ask.client.preconnect import Preconnection, preconnect
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Running

ANSWER = b'{"choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}'
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
PIPED_TEXT = b"what was piped in"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def make_environment(listener: socket.socket, scheme: str = "http") -> dict[str, str]:
    return {"OPENROUTER_BASE_URL": f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/api/v1"}


def answer_request(connection: socket.socket) -> bytes:
    """Read one request and answer it; return the request."""
    connection.settimeout(30)
    request = b""
    while PIPED_TEXT not in request:
        data = connection.recv(65536)
        assert data, "the connection was closed without a request"
        request += data
    connection.sendall(REPLY)
    return request


def start_ask(ask: Ask, read_end: int, env: dict[str, str]) -> Running:
    """Start `ask`, which waits for its standard input to end."""
    return ask.start("-p", "openrouter", "what is this?", stdin=read_end, env=env)


def test_request_uses_a_connection_opened_before_stdin_ended(ask: Ask, listener: socket.socket) -> None:
    read_end, write_end = os.pipe()
    with start_ask(ask, read_end, make_environment(listener)) as running:
        connection, _ = listener.accept()
        with connection, os.fdopen(write_end, "wb") as pipe:
            pipe.write(PIPED_TEXT)
            pipe.close()
            assert answer_request(connection).startswith(b"POST /api/v1/chat/completions ")
            result = running.finish()
    os.close(read_end)
    assert (result.code, result.text) == (0, "hello\n")
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_closed_preconnection_is_replaced_silently(ask: Ask, listener: socket.socket) -> None:
    read_end, write_end = os.pipe()
    with start_ask(ask, read_end, make_environment(listener)) as running, os.fdopen(write_end, "wb") as pipe:
        listener.accept()[0].close()
        pipe.write(PIPED_TEXT)
        pipe.close()
        connection, _ = listener.accept()
        with connection:
            answer_request(connection)
            result = running.finish()
    os.close(read_end)
    assert (result.code, result.text, result.stderr) == (0, "hello\n", "")


@pytest.fixture
def tls_certificate(listener: socket.socket, tmp_path: Path) -> Iterator[Path]:
    """Run a TLS server on the listener and return its certificate."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=ask", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)

    def serve() -> None:
        connection, _ = listener.accept()
        try:
            with tls.wrap_socket(connection, server_side=True) as tls_connection:
                answer_request(tls_connection)
        except ssl.SSLError:
            connection.close()  # the client does not trust the certificate

    thread = threading.Thread(target=serve)
    thread.start()
    yield certificate
    thread.join()


@pytest.mark.needs("openssl")
def test_certificate_is_verified_over_a_preconnection(ask: Ask, listener: socket.socket, tls_certificate: Path) -> None:
    env = {**make_environment(listener, "https"), "REQUESTS_CA_BUNDLE": str(tls_certificate)}
    result = ask("-p", "openrouter", "hi", stdin=PIPED_TEXT, env=env)
    assert (result.code, result.text) == (0, "hello\n")


@pytest.mark.needs("openssl")
def test_untrusted_server_gets_no_request(ask: Ask, listener: socket.socket, tls_certificate: Path) -> None:
    result = ask("-p", "openrouter", "hi", stdin=PIPED_TEXT, env=make_environment(listener, "https"))
    assert result.code == 5
    assert "its certificate is invalid" in result.stderr


def test_proxy_disables_the_preconnection(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("by proxy"))
    with socket.create_server(("127.0.0.1", 0)) as unused_server:
        env = {**make_environment(unused_server), "http_proxy": server.base_url.removesuffix("/api/v1"), "no_proxy": ""}
        result = ask("-p", "openrouter", "hi", env=env)
        unused_server.setblocking(False)
        with pytest.raises(BlockingIOError):
            unused_server.accept()
    assert (result.code, result.text) == (0, "by proxy\n")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy"])
def test_preconnection_depends_on_the_proxy_variables(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(variable, "127.0.0.1:9")
    monkeypatch.setenv("SOCKS_PROXY", "")
    preconnection = preconnect(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    assert bool(preconnection) == (variable == "no_proxy")
    if preconnection and (sock := preconnection.take_socket()):
        sock.close()


def test_refused_preconnection_is_a_normal_connection_error(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_server:
        env = make_environment(closed_server)
    result = ask("-p", "openrouter", "hi", env=env)
    assert result.code == 5
    assert "connection refused" in result.stderr.splitlines()[-1]


def test_connection_is_returned_once(listener: socket.socket) -> None:
    preconnection = Preconnection(*listener.getsockname())
    first = preconnection.take_socket()
    assert first is not None
    with first:
        assert first.getpeername() == listener.getsockname()
    assert preconnection.take_socket() is None


def test_certificates_are_loaded_while_connecting(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for uses_tls, bundle, expected in ((True, "", True), (False, "", False), (True, str(tmp_path / "missing"), False)):
        monkeypatch.setenv("SSL_CERT_FILE", bundle)
        preconnection = Preconnection(*listener.getsockname(), uses_tls=uses_tls)
        sock = preconnection.take_socket()
        assert sock is not None
        sock.close()
        context = preconnection.ssl_context
        assert bool(context) == expected
        if context:
            assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
            assert not context.hostname_checks_common_name
            assert context.get_ca_certs()


def test_a_process_may_have_many_open_files(listener: socket.socket) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    try:
        sock = Preconnection(*listener.getsockname()[:2]).take_socket()
        assert sock is not None
        assert sock.fileno() >= 1024
        sock.close()
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connection_error_is_raised_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_server:
        closed_address = closed_server.getsockname()
    preconnection = Preconnection(*closed_address)
    with pytest.raises(ConnectionRefusedError):
        preconnection.take_socket()
    assert preconnection.take_socket() is None


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:x/", "http://[::1/"])
def test_invalid_base_url_is_not_preconnected(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert preconnect(url) is None


def test_the_connection_needs_no_import(listener: socket.socket) -> None:
    """It would wait for ever if Python drops a Ctrl-C in the middle of an import, and keeps the lock for imports."""
    script = f"""
import sys
from ask.client.preconnect import Preconnection
before = set(sys.modules)
assert Preconnection("127.0.0.1", {listener.getsockname()[1]}).take_socket()
print(*sys.modules.keys() - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"\n"


def test_invalid_host_name_is_ignored() -> None:
    assert Preconnection("a" * 70 + ".example", 80).take_socket() is None
