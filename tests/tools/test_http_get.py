"""The HTTP client of the tools: redirects, limits on time and size, and which hosts may be reached."""

from __future__ import annotations

import gzip
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ask.tools.base import ToolError
from ask.tools.http_get import MAX_BODY_BYTES, Fetcher, FetchResponse
from ask.tools.network_policy import NetworkPolicy
from tests.model_server import DROP, HOLD, ModelServer, Repeat, Reply
from tests.raw_server import RawServer, read_request
from tests.slow_parameters import mark_others_slow

ZEROS = gzip.compress(bytes(20_000_000))


def get_base_url(server: ModelServer) -> str:
    return server.base_url.removesuffix("/api/v1")


def port(server: ModelServer) -> str:
    return get_base_url(server).rpartition(":")[2]


def text(*steps: bytes, **more: object) -> Reply:
    return Reply(steps, content_type="text/plain", **more)  # type: ignore[arg-type]


def redirect_to(location: str, status: int = 302) -> Reply:
    return Reply((b"moved",), status=status, headers={"Location": location})


def refusal(url: str, restricted: NetworkPolicy | None = None, seconds: float = 20) -> str:
    with pytest.raises(ToolError) as caught:
        Fetcher(seconds, restricted).fetch(url)
    return str(caught.value)


class FakeResolver:
    """A resolver with fixed names that records its lookups."""

    def __init__(self, **addresses: Sequence[str]) -> None:
        self.addresses = {name.replace("_", "."): found for name, found in addresses.items()}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.addresses[host]


def restricted(names: FakeResolver, *hosts: str, reach: str = "127.") -> NetworkPolicy:
    """A network policy that treats addresses beginning with `reach` as public."""
    return NetworkPolicy(frozenset(hosts), names, lambda address: address.startswith(reach))


def test_response_includes_status_type_and_length(server: ModelServer) -> None:
    server.reply(text(b"hello", framing="length"))
    page = Fetcher(20, None).fetch(f"{get_base_url(server)}/a?b=c#d")
    assert page == FetchResponse(f"{get_base_url(server)}/a?b=c", "200 OK", False, "text/plain", b"hello", "", 5)
    assert server.requests[0].path == "/a?b=c"


def test_request_reveals_nothing_about_the_user(server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    server.reply(Reply((b"",), status=302, headers={"Location": "/next"}), text(b"x"))
    code = f"from ask.tools.http_get import Fetcher; print(Fetcher(20, None).fetch('{get_base_url(server)}/').body)"
    env = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=30)
    for request in server.requests:
        assert request.method == "GET"
        assert request.headers["User-Agent"].startswith("ask/")
        names = {name.lower() for name in request.headers}
        assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}


def test_redirects_are_followed_even_if_relative(server: ModelServer) -> None:
    server.reply(
        redirect_to("b?x=\xc3\xa9", 301),
        redirect_to("/c", 303),
        redirect_to(f"//127.0.0.1:{port(server)}/e", 307),
        text(b"there"),
    )
    page = Fetcher(20, None).fetch(f"{get_base_url(server)}/dir/a")
    assert [request.path for request in server.requests] == ["/dir/a", "/dir/b?x=%C3%A9", "/c", "/e"]
    assert page.url == f"{get_base_url(server)}/e"


def test_a_redirect_sets_a_cookie_for_its_own_site_only(server: ModelServer) -> None:
    """Consent and login pages redirect in a circle until they get their cookie back."""
    base_url = get_base_url(server)
    other = base_url.replace("127.0.0.1", "localhost")
    headers = {"Set-Cookie": "consent=yes; Path=/"}
    server.reply(
        Reply((b"",), status=302, headers={"Location": "/", **headers}),
        redirect_to(f"{other}/x"),
        redirect_to(f"{base_url}/end"),
        text(b"there"),
    )
    fetcher = Fetcher(20, None)
    assert fetcher.fetch(f"{base_url}/").body == b"there"
    assert [request.headers["Cookie"] for request in server.requests] == [None, "consent=yes", None, "consent=yes"]
    server.reply(text(b"again"))
    fetcher.fetch(f"{base_url}/")
    assert server.requests[-1].headers["Cookie"] is None


def test_a_cookie_belongs_to_the_name_of_a_host_and_not_to_its_address(server: ModelServer) -> None:
    names = FakeResolver(site_example=["127.0.0.1"], shop_co_uk=["127.0.0.1"], bank_co_uk=["127.0.0.1"])
    url = f"http://site.example:{port(server)}/"
    server.reply(Reply((b"",), status=302, headers={"Location": "/", "Set-Cookie": "a=b"}), text(b"there"))
    assert Fetcher(20, restricted(names)).fetch(url).body == b"there"
    assert server.requests[-1].headers["Cookie"] == "a=b"
    headers = {"Location": f"http://bank.co.uk:{port(server)}/", "Set-Cookie": "a=b; Domain=co.uk"}
    server.reply(Reply((b"",), status=302, headers=headers), text(b"there"))
    policy = restricted(names, "shop.co.uk", "bank.co.uk")
    Fetcher(20, policy).fetch(f"http://shop.co.uk:{port(server)}/")
    assert server.requests[-1].headers["Cookie"] is None


def test_redirects_are_limited_to_five(server: ModelServer) -> None:
    server.reply(redirect_to("/again"))
    assert refusal(get_base_url(server)).endswith(f"{get_base_url(server)}/again")
    assert len(server.requests) == 6


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://u:p@127.0.0.1/", "http://[/", "http://127.1/"])
def test_redirect_target_is_checked_like_the_url(server: ModelServer, location: str) -> None:
    server.reply(redirect_to(location))
    refusal(get_base_url(server))
    assert len(server.requests) == 1


def test_redirect_without_a_location_is_the_response(server: ModelServer) -> None:
    server.reply(text(b"choose", status=300))
    assert Fetcher(20, None).fetch(get_base_url(server)).body == b"choose"


def test_a_compressed_body_is_read(server: ModelServer) -> None:
    packed = gzip.compress(b"hello " * 1000)
    server.reply(text(packed, headers={"Content-Encoding": "gzip"}))
    assert Fetcher(20, None).fetch(get_base_url(server)).body == b"hello " * 1000


@pytest.mark.parametrize("step", [10_000, 7])
def test_body_of_several_gzip_members_is_read_completely(server: ModelServer, step: int) -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two") + bytes(50)
    pieces = [packed[i : i + step] for i in range(0, len(packed), step)]
    server.reply(text(*pieces, headers={"Content-Encoding": "gzip"}))
    page = Fetcher(20, None).fetch(get_base_url(server))
    assert (page.body, page.truncation_reason) == (b"one two", "")


def test_no_gzip_member_is_lost_whatever_their_sizes(server: ModelServer) -> None:
    members = [b"a" * 65_536, b"b" * 65_536, os.urandom(70_000), b"c" * 65_535, b"d"]
    server.reply(text(b"".join(map(gzip.compress, members)), headers={"Content-Encoding": "gzip"}))
    assert Fetcher(20, None).fetch(get_base_url(server)).body == b"".join(members)


@pytest.mark.parametrize(
    ("reply", "size", "note"),
    [
        (text(bytes(MAX_BODY_BYTES)), MAX_BODY_BYTES, ""),
        (text(bytes(MAX_BODY_BYTES + 1)), MAX_BODY_BYTES, "cut off at 10,000,000 bytes"),
        (Reply((Repeat(bytes(1_000_000), 0),)), MAX_BODY_BYTES, "cut off at 10,000,000 bytes"),
        (text(ZEROS, headers={"Content-Encoding": "gzip"}), MAX_BODY_BYTES, "cut off at 10,000,000 bytes"),
        (
            text(gzip.compress(b"x") + ZEROS, headers={"Content-Encoding": "gzip"}),
            MAX_BODY_BYTES,
            "cut off at 10,000,000 bytes",
        ),
        (text(gzip.compress(b"x")[:-9], headers={"Content-Encoding": "gzip"}), 1, ""),
        (text(b"no gzip", headers={"Content-Encoding": "gzip"}), 0, "cut off at an error in the compressed data"),
        (Reply((b"part", DROP)), 4, "cut off when the connection was lost"),
        (Reply((b"part", DROP), framing="length"), 4, "cut off when the connection was lost"),
    ],
    ids=["whole", "more", "endless", "bomb", "bomb-behind", "gzip-cut", "no-gzip", "cut", "short"],
)
def test_incomplete_body_is_kept(server: ModelServer, reply: Reply, size: int, note: str) -> None:
    server.reply(reply)
    page = Fetcher(20, None).fetch(get_base_url(server))
    assert (len(page.body), page.truncation_reason) == (size, note)


def test_unrequested_compression_is_refused(server: ModelServer) -> None:
    server.reply(text(b"?", headers={"Content-Encoding": "br"}))
    assert "was compressed with br" in refusal(get_base_url(server))


def test_a_charset_in_place_of_a_compression_is_ignored(server: ModelServer) -> None:
    for name in ("utf-8", "none", "Identity"):
        server.reply(text(b"hello", headers={"Content-Encoding": name}))
        assert Fetcher(20, None).fetch(get_base_url(server)).body == b"hello"


def test_unwanted_body_is_not_read(server: ModelServer) -> None:
    server.reply(Reply((b"x", HOLD), content_type="image/png"))
    page = Fetcher(20, None, lambda kind: kind != "image/png").fetch(get_base_url(server))
    assert page.body == b""
    server.wait_for_abandoned()


@pytest.mark.parametrize("reply", [Reply((HOLD,)), Reply((b"", HOLD))], ids=["no-headers", "no-body"])
def test_timeout_applies_to_a_silent_server(server: ModelServer, reply: Reply) -> None:
    server.reply(reply)
    start = time.monotonic()
    assert refusal(get_base_url(server), seconds=0.3).startswith(f"{get_base_url(server)}/ ")
    assert time.monotonic() - start < 20
    server.wait_for_abandoned()


@pytest.mark.parametrize("reply", [Reply((Repeat(b"x", 0.01),)), Reply((b"x", HOLD))], ids=["dripping", "silent"])
def test_timeout_applies_to_an_endless_body(server: ModelServer, reply: Reply) -> None:
    server.reply(reply)
    start = time.monotonic()
    page = Fetcher(0.5, None).fetch(get_base_url(server))
    assert page.body.startswith(b"x")
    assert page.truncation_reason == "cut off after 0.5 s"
    assert time.monotonic() - start < 20
    server.wait_for_abandoned()


def test_the_body_of_a_redirect_is_not_read(server: ModelServer) -> None:
    server.reply(Reply((b"x", HOLD), status=302, headers={"Location": "/next"}), text(b"there"))
    assert Fetcher(20, None).fetch(get_base_url(server)).body == b"there"


@pytest.mark.slow
def test_timeout_applies_to_headers_sent_byte_by_byte() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stop.wait(0.02):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        start = time.monotonic()
        assert "0.3 s" in refusal(f"http://127.0.0.1:{listener.getsockname()[1]}/", seconds=0.3)
        assert time.monotonic() - start < 20
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: x\r\n"),
    ],
)
def test_nothing_is_read_after_the_timeout(start: bytes, endless: bytes) -> None:
    disconnected = threading.Event()

    def handle(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(start)
        try:
            while True:
                connection.sendall(endless * 100)
        except OSError:
            disconnected.set()

    with RawServer(handle) as raw_server:
        refusal(f"http://{raw_server.address}/", seconds=0.3)
        assert disconnected.wait(5)


def test_connection_error_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    assert refusal(f"http://127.0.0.1:{closed}/").endswith(f"127.0.0.1:{closed}: connection refused")


def test_silent_server_is_reported(server: ModelServer) -> None:
    server.reply(Reply((DROP,)))
    assert "closed the connection without a response" in refusal(get_base_url(server))


# Network policy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"])
def test_localhost_is_reached_only_without_a_policy(server: ModelServer, host: str) -> None:
    server.reply(text(b"secret"))
    url = f"http://{host}:{port(server)}/"
    assert "only public hosts" in refusal(url, NetworkPolicy(frozenset({"localhost", "127.0.0.1"})))
    assert not server.requests
    if host != "[::1]":
        assert Fetcher(20, None).fetch(url).body == b"secret"


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://[fe80::1]/"])
def test_no_private_address_is_reached(url: str) -> None:
    assert "only public hosts" in refusal(url, NetworkPolicy(frozenset()))


def test_name_is_resolved_once_and_that_address_is_used(server: ModelServer) -> None:
    server.reply(text(b"here"))
    names = FakeResolver(allowed_test=["127.0.0.1"])
    page = Fetcher(20, restricted(names)).fetch(f"http://Allowed.Test.:{port(server)}/x")
    assert (page.body, page.url) == (b"here", f"http://allowed.test:{port(server)}/x")
    assert names.asked == ["allowed.test"]
    assert server.requests[0].headers["Host"] == f"allowed.test:{port(server)}"


@pytest.mark.parametrize("found", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["10.0.0.1"], ["::1"]])
def test_name_with_any_forbidden_address_is_refused(server: ModelServer, found: list[str]) -> None:
    assert "safe mode reaches" in refusal(f"http://a.test:{port(server)}/", restricted(FakeResolver(a_test=found)))
    assert not server.requests


def test_changed_address_is_checked_again_at_each_redirect(server: ModelServer) -> None:
    server.reply(redirect_to("/next"))
    names = FakeResolver(a_test=["127.0.0.1"])
    answers = iter((["127.0.0.1"], ["10.0.0.1"]))
    rebinding = NetworkPolicy(frozenset(), lambda host, port: next(answers), restricted(names).is_allowed)
    assert "a.test is at 10.0.0.1" in refusal(f"http://a.test:{port(server)}/", rebinding)
    assert len(server.requests) == 1


def test_next_address_is_tried_if_one_fails(server: ModelServer) -> None:
    server.reply(text(b"here"))
    names = FakeResolver(a_test=["127.0.0.9", "127.0.0.1"])
    assert Fetcher(20, restricted(names)).fetch(f"http://a.test:{port(server)}/").body == b"here"


def test_redirect_to_another_host_must_be_allowed(server: ModelServer) -> None:
    names = FakeResolver(a_test=["127.0.0.1"], b_test=["127.0.0.1"])
    other = f"http://b.test:{port(server)}/"
    server.reply(redirect_to(other), redirect_to(other), text(b"there"))
    start = f"http://a.test:{port(server)}/"
    assert refusal(start, restricted(names)).endswith(f"fetch {other}")
    assert len(server.requests) == 1
    assert Fetcher(20, restricted(names, "b.test")).fetch(start).body == b"there"


def test_allowed_redirect_host_must_still_be_public(server: ModelServer) -> None:
    server.reply(redirect_to(f"http://localhost:{port(server)}/"))
    names = FakeResolver(a_test=["127.0.0.1"], localhost=["::1"])
    assert "localhost is at ::1" in refusal(f"http://a.test:{port(server)}/", restricted(names, "localhost"))
    assert len(server.requests) == 1


def test_unknown_host_is_reported() -> None:
    names = FakeResolver(a_test=[])
    assert refusal("http://a.test/", restricted(names)).endswith("a.test: unknown host")
    assert refusal("http://no-such-name.invalid/", NetworkPolicy(frozenset())).count("no-such-name") == 1


@pytest.mark.parametrize("safe", mark_others_slow([False, True]))
def test_proxy_is_used_only_without_a_policy(server: ModelServer, safe: bool) -> None:
    code = """if True:
        import sys
        from ask.tools.base import ToolError
        from ask.tools.http_get import Fetcher
        from ask.tools.network_policy import NetworkPolicy
        safe = NetworkPolicy(frozenset(), lambda host, port: ["127.0.0.1"], lambda address: True)
        for url in ("http://a.test:1/", "https://a.test:1/"):
            try:
                print(Fetcher(20, safe if sys.argv[1] == "True" else None).fetch(url).body.decode())
            except ToolError as error:
                print(error)
    """
    server.reply(text(b"from the proxy"))
    env = {**os.environ, "http_proxy": get_base_url(server), "HTTP_PROXY": get_base_url(server), "no_proxy": ""}
    env["https_proxy"] = env["HTTPS_PROXY"] = "http://127.0.0.1:9"
    done = subprocess.run([sys.executable, "-c", code, str(safe)], env=env, capture_output=True, text=True, check=True)
    answer, secure_answer = done.stdout.splitlines()
    refused = "cannot connect to a.test:1: connection refused"
    assert answer == (refused if safe else "from the proxy")
    assert secure_answer.startswith(
        refused if safe else "cannot connect to a.test:1: cannot reach the proxy 127.0.0.1:9 (https_proxy)"
    )
    assert len(server.requests) == (0 if safe else 1)


# TLS


class SecureServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients that refuse the certificate are expected."""


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"secure")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method's parameter
        """Print nothing."""


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A TLS server for secure.test: its port, and the certificate to trust."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=secure.test", "-addext", "subjectAltName=DNS:secure.test"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with SecureServer(("127.0.0.1", 0), Hello) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port, certificate
        server.shutdown()
        thread.join()


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("name", "trusted", "message"),
    [
        ("secure.test", True, "secure"),
        ("secure.test", False, "its certificate is invalid: self-signed certificate"),
        ("other.test", True, "its certificate is invalid: Hostname mismatch"),
        ("127.0.0.1", True, "its certificate is invalid: IP address mismatch"),
    ],
)
@pytest.mark.needs("openssl")
def test_certificate_is_checked_against_the_host_name(
    secure: tuple[int, Path], name: str, trusted: bool, message: str
) -> None:
    code = """if True:
        import sys
        from ask.tools.base import ToolError
        from ask.tools.http_get import Fetcher
        from ask.tools.network_policy import NetworkPolicy
        safe = NetworkPolicy(frozenset(), lambda host, port: ["127.0.0.1"], lambda address: True)
        try:
            print(Fetcher(20, safe).fetch(sys.argv[1]).body.decode())
        except ToolError as error:
            print(error)
    """
    number, certificate = secure
    env = {**os.environ, **({"REQUESTS_CA_BUNDLE": str(certificate)} if trusted else {})}
    command = [sys.executable, "-c", code, f"https://{name}:{number}/"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30)
    assert message in done.stdout
