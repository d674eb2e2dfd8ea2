"""The proxy for commands: what it connects to, what it refuses, and real programs that use it in a sandbox."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest

from ask.errors import UsageError
from ask.safety.command_proxy import (
    MAX_CONNECTIONS,
    MAX_OPEN_CONNECTIONS,
    CommandProxy,
    ProxiedConnection,
    parse_command_host,
)
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from ask.tools.base import RunToolContext, ToolError
from ask.tools.definitions import BASH
from ask.tools.network_policy import NetworkPolicy
from tests.raw_server import RawServer, make_certificate
from tests.safety.traces import processes

TUNNEL_IS_OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Resolver:
    """Resolves each name to the next of its answers, and the last one from then on."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class LocalProxy:
    """A proxy on this machine that treats 127.0.0.1 as public, and an echo server that it may connect to.

    Attributes:
        closed: the connections that have ended.
    """

    def __init__(self, server: RawServer, resolver: Resolver | None = None, *allowed: str) -> None:
        self.port = int(server.address.rpartition(":")[2])
        self.server, self.resolver = server, resolver or Resolver(["127.0.0.1"])
        self.closed: list[ProxiedConnection] = []
        listener = socket.create_server(("127.0.0.1", 0), backlog=2_000)
        self.address = listener.getsockname()
        hosts = [parse_command_host(host) for host in allowed or ("allowed.test", f"allowed.test:{self.port}")]
        policy = NetworkPolicy(frozenset(), self.resolver, lambda address: address == "127.0.0.1")
        self.proxy = CommandProxy(hosts, self.closed.append, listener, policy=policy)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, 20)

    def send(self, request: bytes) -> bytes:
        """Send a request and return everything that comes back until the proxy closes the connection."""
        with self.connect() as connection:
            connection.sendall(request.replace(b"PORT", str(self.port).encode()))
            return read_all(connection)

    def open_tunnel(self, target: str = "allowed.test:PORT") -> socket.socket:
        connection = self.connect()
        request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        connection.sendall(request.replace("PORT", str(self.port)).encode())
        assert connection.recv(len(TUNNEL_IS_OPEN), socket.MSG_WAITALL) == TUNNEL_IS_OPEN
        return connection


def read_all(connection: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            data += chunk
    return data


def echo(connection: socket.socket) -> None:
    while data := connection.recv(65_536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


@contextmanager
def local_proxy(resolver: Resolver | None = None, *allowed: str) -> Iterator[LocalProxy]:
    """Start a proxy and a server that sends back what it receives."""
    with RawServer(echo) as server:
        proxy = LocalProxy(server, resolver, *allowed)
        try:
            yield proxy
        finally:
            proxy.proxy.stop()


@pytest.fixture
def proxy() -> Iterator[LocalProxy]:
    with local_proxy() as one:
        yield one


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("Example.COM.", "example.com"),
        ("example.com:443", "example.com"),
        ("example.com:22", "example.com:22"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("8.8.8.8", "8.8.8.8"),
        ("[2606:4700::1111]:8443", "[2606:4700::1111]:8443"),
    ],
)
def test_a_host_has_port_443_unless_it_names_another(text: str, authority: str) -> None:
    assert parse_command_host(text).authority == authority


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "*.example.com", "https://example.com", "example.com/a", "example.com?a", "example.com#a"),
        *("a b", "user@example.com", "example.com:0", "example.com:99999", "a,b", "example.com\\a"),
    ],
)
def test_a_pattern_a_url_and_an_invalid_host_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a host"):
        parse_command_host(text)


@pytest.mark.parametrize("text", ["localhost", "a.localhost", "127.0.0.1:22", "10.0.0.1", "[::1]", "169.254.169.254"])
def test_a_private_host_cannot_be_allowed(text: str) -> None:
    with pytest.raises(UsageError, match="commands reach only public hosts"):
        parse_command_host(text)


@pytest.mark.parametrize("target", ["allowed.test:PORT", "ALLOWED.Test.:PORT"])
def test_an_allowed_host_is_reached_at_the_address_that_was_checked(proxy: LocalProxy, target: str) -> None:
    with proxy.open_tunnel(target) as tunnel:
        tunnel.sendall(b"hello")
        assert tunnel.recv(5, socket.MSG_WAITALL) == b"hello"
    proxy.proxy.stop()
    assert proxy.resolver.asked == ["allowed.test"]
    (closed,) = proxy.closed
    assert closed[:6] == (f"allowed.test:{proxy.port}", "127.0.0.1", "", "", 5, 5)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        *((f"CONNECT {host}:PORT HTTP/1.1", 403) for host in ("evil.test", "sub.allowed.test", "notallowed.test")),
        *((f"CONNECT {host}:PORT HTTP/1.1", 403) for host in ("allowed.test.evil.test", "127.0.0.1", "localhost")),
        *((f"CONNECT {host}:PORT HTTP/1.1", 403) for host in ("[::ffff:127.0.0.1]", "[::1]", "169.254.169.254")),
        *((f"CONNECT {host}:PORT HTTP/1.1", 400) for host in ("2130706433", "0x7f.1", "allowed.test@127.0.0.1")),
        *((f"CONNECT {host}:PORT HTTP/1.1", 400) for host in ("allowed.test#@evil.test", "allowed.test%00evil.test")),
        *((f"CONNECT {host}:PORT HTTP/1.1", 400) for host in ("allowed.test:443@evil.test", "[::1%25lo]", "")),
        *((f"CONNECT allowed.test:{port} HTTP/1.1", 403) for port in (22, 25, 80, 8080)),
        *((f"CONNECT allowed.test:{port} HTTP/1.1", 400) for port in ("0", "99999", "-1", "443,22")),
        ("CONNECT allowed.test:PORT\tHTTP/1.1", 400),
        ("CONNECT allowed.test:PORT HTTP/2.0", 400),
        ("CONNECT allowed.test:PORT evil.test:443 HTTP/1.1", 400),
        ("CONNECT allowed.test\0:PORT HTTP/1.1", 400),
        ("CONNECT allowed.test:PORT HTTP/1.1\nX: y", 400),
        ("connect allowed.test:PORT HTTP/1.1", 400),
        (" CONNECT allowed.test:PORT HTTP/1.1", 400),
        ("CONNECT \u0430llowed.test:PORT HTTP/1.1", 400),
        ("GET http://allowed.test:PORT/ HTTP/1.1", 405),
        ("GET https://allowed.test:PORT/ HTTP/1.1", 405),
        ("GET ftp://allowed.test:PORT/ HTTP/1.1", 405),
        ("GET / HTTP/1.1", 405),
        ("POST http://127.0.0.1:PORT/ HTTP/1.1", 405),
        ("\x05\x01\x00", 400),
    ],
)
def test_nothing_else_is_looked_up_or_reached(proxy: LocalProxy, request_line: str, status: int) -> None:
    answer = proxy.send(f"{request_line}\r\nHost: allowed.test\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert (proxy.resolver.asked, proxy.server.connections) == ([], 0)
    assert proxy.closed[0].denial


def test_the_answer_names_the_option_in_its_status_line_and_body(proxy: LocalProxy) -> None:
    head, body = proxy.send(b"CONNECT other.test:22 HTTP/1.1\r\n\r\n").split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 not allowed: add --allow-command-host other.test:22\r\n")
    assert body == b"ask: not allowed: add --allow-command-host other.test:22\n"
    assert b"use https instead" in proxy.send(b"GET http://allowed.test/ HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("found", [["10.0.0.1"], ["127.0.0.1", "169.254.169.254"], ["::1", "127.0.0.1"]])
def test_a_name_with_any_address_that_is_not_public_is_refused(found: list[str]) -> None:
    with local_proxy(Resolver(found)) as proxy:
        answer = proxy.send(b"CONNECT allowed.test:PORT HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 not connected: allowed.test is at ")
        assert proxy.server.connections == 0
        assert "safe mode reaches only public hosts" in proxy.closed[0].denial


def test_a_second_answer_of_dns_changes_nothing() -> None:
    resolver = Resolver(["127.0.0.1"], ["10.0.0.1"])
    with local_proxy(resolver) as proxy:
        proxy.open_tunnel().close()
        assert len(resolver.asked) == 1
        assert proxy.send(b"CONNECT allowed.test:PORT HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")


def test_a_host_that_cannot_be_reached_is_an_error_and_no_denial() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_server:
        port = closed_server.getsockname()[1]
    with local_proxy(None, f"allowed.test:{port}") as proxy:
        answer = proxy.send(f"CONNECT allowed.test:{port} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 502 cannot connect to allowed.test:")
        assert (proxy.closed[0].denial, bool(proxy.closed[0].error)) == ("", True)


def test_the_headers_of_a_request_are_ignored(proxy: LocalProxy) -> None:
    with proxy.connect() as connection:
        request = f"CONNECT allowed.test:{proxy.port} HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 9\r\n\r\n"
        connection.sendall(request.encode())
        assert connection.recv(len(TUNNEL_IS_OPEN), socket.MSG_WAITALL) == TUNNEL_IS_OPEN
    assert proxy.resolver.asked == ["allowed.test"]


def test_a_second_request_is_not_read(proxy: LocalProxy) -> None:
    first, second = b"CONNECT allowed.test:PORT HTTP/1.1\r\n\r\n", b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n"
    assert proxy.send(first + second).startswith(b"HTTP/1.1 400 data was sent before")
    with proxy.open_tunnel() as tunnel:
        tunnel.sendall(second)
        assert tunnel.recv(len(second), socket.MSG_WAITALL) == second  # sent back by the server
    assert proxy.resolver.asked == ["allowed.test"]
    with proxy.connect() as connection:
        connection.sendall(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 403")
        with suppress(OSError):
            connection.sendall(first.replace(b"PORT", str(proxy.port).encode()))
        assert TUNNEL_IS_OPEN not in read_all(connection)


@pytest.mark.parametrize("request_start", [b"A", b"CONNECT ", b"CONNECT allowed.test:443 HTTP/1.1\r\nX: "])
def test_a_request_is_read_up_to_a_limit(proxy: LocalProxy, request_start: bytes) -> None:
    assert proxy.send(request_start + b"a" * 100_000) in (b"", proxy.send(request_start + b"a" * 8_193))
    assert all(connection.denial == "the request is too long" for connection in proxy.closed)
    assert all(len(connection.target) <= 300 for connection in proxy.closed)


def test_an_incomplete_request_is_refused(proxy: LocalProxy) -> None:
    with proxy.connect() as connection:
        connection.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).startswith(b"HTTP/1.1 400 the request is incomplete")


@pytest.mark.slow
def test_a_slow_request_is_refused_after_ten_seconds(proxy: LocalProxy) -> None:
    start = time.monotonic()
    with proxy.connect() as connection:
        connection.settimeout(0.5)
        answer = b""
        while not answer and time.monotonic() - start < 20:
            connection.sendall(b"A")
            with suppress(TimeoutError):
                answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert 9 < time.monotonic() - start < 18


def test_many_connections_occupy_few_threads_and_end_with_the_run(proxy: LocalProxy) -> None:
    with ExitStack() as stack:
        others = threading.active_count()
        connections = [stack.enter_context(proxy.connect()) for _ in range(1_000)]
        assert threading.active_count() - others <= MAX_OPEN_CONNECTIONS
        start = time.monotonic()
        proxy.proxy.stop()
        assert time.monotonic() - start < 3
        assert connections[0].recv(1) in (b"", b"H")
    assert threading.active_count() <= others


def test_a_tunnel_ends_with_the_run(proxy: LocalProxy) -> None:
    with proxy.open_tunnel() as tunnel:
        tunnel.sendall(b"abc")
        assert tunnel.recv(3, socket.MSG_WAITALL) == b"abc"
        proxy.proxy.stop()
        assert read_all(tunnel) == b""
        assert (proxy.closed[0].sent_bytes, proxy.closed[0].received_bytes) == (3, 3)
    with pytest.raises(OSError, match="refused"):
        proxy.connect()


def test_data_passes_both_ways_at_the_same_time_without_loss(proxy: LocalProxy) -> None:
    data = os.urandom(1 << 20) * 16
    with proxy.open_tunnel() as tunnel:
        sender = threading.Thread(target=tunnel.sendall, args=(data,))
        sender.start()
        received = bytearray()
        while len(received) < len(data):
            received += tunnel.recv(50_000)
        sender.join()
    assert hashlib.sha256(received).digest() == hashlib.sha256(data).digest()


def test_a_response_arrives_after_the_command_has_closed_its_side() -> None:
    def count(connection: socket.socket) -> None:
        connection.sendall(f"{len(read_all(connection))} bytes".encode())

    with RawServer(count) as server:
        proxy = LocalProxy(server)
        with proxy.open_tunnel() as tunnel:
            tunnel.sendall(b"abc")
            tunnel.shutdown(socket.SHUT_WR)
            assert read_all(tunnel) == b"3 bytes"
        proxy.proxy.stop()


@contextmanager
def https_files(folder: Path, certificate_folder: Path) -> Iterator[str]:
    """Serve the files in a folder as https://allowed.test:PORT, and yield that URL."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    certificate = make_certificate(certificate_folder, "DNS:allowed.test")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"https://allowed.test:{server.server_port}"
        finally:
            server.shutdown()


Run = Callable[..., str]


def wait_for_connections(closed: Sequence[ProxiedConnection], count: int) -> None:
    """Wait until so many connections have ended, which may be shortly after the end of the command."""
    deadline = time.monotonic() + 20
    while len(closed) < count and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.fixture
def closed() -> list[ProxiedConnection]:
    """The connections of commands that have ended."""
    return []


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of the files that the web server serves."""
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


@pytest.fixture
def url(site: Path, sandbox_config: SandboxConfig) -> Iterator[str]:
    with https_files(site, sandbox_config.working_directory) as one:
        yield one


@pytest.fixture
def run(sandbox_config: SandboxConfig, url: str, closed: list[ProxiedConnection]) -> Iterator[Run]:
    """Run commands in a sandbox from which the web server can be reached."""
    hosts = [parse_command_host(url.removeprefix("https://"))]
    policy = NetworkPolicy(frozenset(), Resolver(["127.0.0.1"]), lambda address: True)
    context = RunToolContext(
        sandbox_config.working_directory, {}, 30, sandbox_config.overflow_directory, lambda text: None
    )
    with Sandbox(sandbox_config, open_proxy=partial(CommandProxy, hosts, closed.append, policy=policy)) as sandbox:
        tool = sandbox.wrap_tool(BASH)
        yield lambda command, **more: tool.run({"command": command, **more}, context).text


@pytest.mark.needs("bwrap", "curl", "openssl")
def test_curl_reaches_only_the_allowed_host(run: Run, site: Path, url: str, closed: list[ProxiedConnection]) -> None:
    (site / "a.txt").write_text("from the server\n")
    assert "from the server" in run(f"curl -sS --cacert certificate.pem {url}/a.txt")
    wait_for_connections(closed, 1)
    assert "response 403" in run("curl -sS https://evil.test/")
    assert "only CONNECT is supported" in run(f"curl -sS http://{url.removeprefix('https://')}/a.txt")
    assert [bool(connection.denial) for connection in closed] == [False, True, True]
    assert closed[0].received_bytes > len("from the server\n")


@pytest.mark.slow
@pytest.mark.needs("bwrap", "git", "openssl")
def test_git_clones_through_the_proxy(run: Run, site: Path, url: str, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (
        ["init", "-q", str(repository)],
        ["-C", str(repository), *author, "commit", "-q", "--allow-empty", "-m", "from the server"],
        ["clone", "-q", "--bare", str(repository), str(site / "r.git")],
        ["-C", str(site / "r.git"), "update-server-info"],
    ):
        subprocess.run(["git", *arguments], check=True)
    command = f"git -c http.sslCAInfo=$PWD/certificate.pem clone -q {url}/r.git && git -C r log --format=%s"
    assert "from the server" in run(command)


@pytest.mark.slow
@pytest.mark.needs("bwrap", "openssl")
def test_pip_installs_through_the_proxy(run: Run, site: Path, url: str) -> None:
    (site / "simple/demo").mkdir(parents=True)
    wheel = "demo-1.0-py3-none-any.whl"
    with ZipFile(site / wheel, "w") as archive:
        archive.writestr("demo.py", "print('from the server')\n")
        archive.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        archive.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("demo-1.0.dist-info/RECORD", "")
    (site / "simple/demo/index.html").write_text(f'<a href="/{wheel}">{wheel}</a>')
    options = f"--index-url {url}/simple --cert certificate.pem --retries 0 --disable-pip-version-check -q"
    assert "from the server" in run(f"python3 -m pip install {options} --target t demo; PYTHONPATH=t python3 -m demo")


@pytest.mark.slow
@pytest.mark.needs("bwrap", "curl", "openssl")
def test_servers_in_the_sandbox_are_reached_without_the_proxy(run: Run, closed: list[ProxiedConnection]) -> None:
    wait = "until curl -s -o answer http://localhost:8000/; do sleep .05; done"
    assert "certificate.pem" in run(f"python3 -m http.server 8000 > log 2>&1 & {wait}; cat answer")
    assert not closed


@pytest.mark.needs("bwrap", "curl", "openssl")
def test_the_proxy_works_again_after_the_sandbox_was_restarted(
    run: Run, site: Path, url: str, closed: list[ProxiedConnection], sandbox_config: SandboxConfig
) -> None:
    command = f"curl -sS --cacert certificate.pem {url}/"
    (site / "a.txt").touch()
    assert "a.txt" in run(command)
    for one in processes(sandbox_config.working_directory):
        os.kill(one, signal.SIGKILL)
    with pytest.raises(ToolError, match="the sandbox was closed during this call"):
        run("true")
    assert "a.txt" in run(command)
    wait_for_connections(closed, 2)
    assert [connection.denial for connection in closed] == ["", ""]


@pytest.mark.slow
@pytest.mark.needs("bwrap", "openssl")
def test_the_proxy_is_not_reached_from_outside_or_from_another_sandbox(
    run: Run, sandbox: Sandbox, context: RunToolContext
) -> None:
    code = 'import socket; socket.create_connection(("127.0.0.1", 3128), 2); print("connec" + "ted")'
    connect = f"python3 -c '{code}'"
    assert "connected" in run(connect)
    assert "connected" not in sandbox.wrap_tool(BASH).run({"command": connect}, context).text
    with socket.socket() as outside:
        assert outside.connect_ex(("127.0.0.1", 3128)) != 0


@pytest.mark.needs("bwrap", "openssl")
def test_no_command_can_take_the_place_of_the_proxy_or_use_its_socket(run: Run) -> None:
    bind = (
        "import socket; s = socket.socket(); s.setsockopt(1, 15, 1); s.setsockopt(1, 2, 1); "
        's.bind(("127.0.0.1", 3128)); s.listen(); print("bou" + "nd")'
    )
    assert "bound" not in run(f"python3 -c '{bind}'")
    assert "socket:" not in run("ls -l /proc/1/fd /proc/self/fd")


@pytest.mark.slow
def test_a_sandbox_can_open_a_limited_number_of_connections(proxy: LocalProxy) -> None:
    for _ in range(MAX_CONNECTIONS):
        proxy.connect().close()
    with pytest.raises(OSError, match=r"refused|reset"):
        for _ in range(100):
            proxy.send(b"GET / HTTP/1.1\r\n\r\n")
            time.sleep(0.05)
    assert any(connection.denial == "10,000 connections were opened" for connection in proxy.closed)


@pytest.mark.slow
def test_stopping_while_connections_are_accepted_never_fails() -> None:
    for _ in range(50):
        with local_proxy() as proxy, ExitStack() as stack:
            for _ in range(MAX_OPEN_CONNECTIONS + 20):
                stack.enter_context(proxy.connect())
            proxy.proxy.stop()


def test_the_proxy_survives_when_no_thread_can_be_started(proxy: LocalProxy) -> None:
    size = threading.stack_size(1 << 46)
    try:
        answers = [proxy.send(b"GET / HTTP/1.1\r\n\r\n") for _ in range(MAX_OPEN_CONNECTIONS + 1)]
    finally:
        threading.stack_size(size)
    assert not any(answers)
    assert proxy.send(b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405")
    proxy.proxy.stop()


def test_the_proxy_survives_too_many_open_files(proxy: LocalProxy) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client, ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, limits[1]))
        try:
            with suppress(OSError):
                while True:
                    stack.enter_context(open(os.devnull, "rb"))
            client.connect(proxy.address)
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            time.sleep(0.5)  # accept() fails several times
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        client.settimeout(10)
        assert client.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 405"
