"""The transport against a real server: requests, incremental reading, proxies, timeouts and errors."""

from __future__ import annotations

import gzip
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ask.client.http_adapter import LimitedReader, LimitedResponse
from ask.client.stream_decoding import MAX_EVENT_BYTES
from ask.client.transport import PROGRESS_BYTES, READ_BYTES, HttpResponse, Transport
from ask.errors import AskError, ConfigError, IncompleteStreamError, NetworkError
from ask.plugin_api.types import HttpRequest
from tests import wire
from tests.model_server import DROP, HOLD, RESET, ModelServer, Repeat, Reply, Step

STALL = 0.8
LATE = STALL * 0.9
TOO_LATE = STALL * 1.7
ENOUGH = 20.0
COMMENT = b": OPENROUTER PROCESSING\n\n"
FRAMINGS = pytest.mark.parametrize("framing", ["chunked", "length", "close"])
CHAT = HttpRequest("/chat/completions", {"model": "m"}, {"Authorization": "Bearer the-key"})


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove any proxy settings of the machine that runs the tests."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def read_data(response: HttpResponse) -> Iterator[str]:
    """Yield the data of events, marking progress and the end of the stream as `ProviderClient` does."""
    for event in chain.from_iterable(response.iter_event_batches()):
        response.mark_progress()
        response.end_marker_seen = response.end_marker_seen or event.data == "[DONE]"
        yield event.data


def fetch_data(server: ModelServer, *steps: Step, stall: float = ENOUGH, framing: Any = "chunked") -> list[str]:
    """Send a request and return the data of all events in the response."""
    server.reply(Reply(steps, framing=framing))
    with Transport(server.base_url, stall).send(CHAT) as response:
        assert response.is_stream()
        return list(read_data(response))


@contextmanager
def check_duration(least: float, most: float) -> Iterator[None]:
    """Check how many seconds the block takes."""
    start = time.monotonic()
    yield
    assert least <= time.monotonic() - start < most


# Connections


@pytest.mark.parametrize("steps", [(wire.sse("a"),), (b'{"a": 1}',), (wire.sse("a"), 0.05)])
def test_connection_is_reused_for_all_requests(server: ModelServer, steps: tuple[Step, ...]) -> None:
    server.reply(Reply(steps))
    transport = Transport(server.base_url, ENOUGH)
    for _ in range(3):
        with transport.send(CHAT) as response:
            _ = list(read_data(response)) if response.is_stream() else response.read_text()
    assert [request.connection for request in server.requests] == [1, 1, 1]


def test_abandoned_response_does_not_affect_later_ones(server: ModelServer) -> None:
    server.reply(Reply((wire.sse("a", done=False), HOLD)), Reply((wire.sse("b"),)))
    transport = Transport(server.base_url, ENOUGH)
    with transport.send(CHAT) as response:
        assert next(read_data(response)) == "a"
    with transport.send(CHAT) as response:
        assert list(read_data(response)) == ["b", "[DONE]"]


def test_request_is_sent_as_the_provider_built_it(server: ModelServer) -> None:
    server.reply(Reply())
    transport = Transport(server.base_url + "/", ENOUGH)
    for request in (CHAT, HttpRequest("/models", None, {"X": "y"}, "GET")):
        with transport.send(request) as response:
            response.read_text()
    chat, models = server.requests
    assert (chat.method, chat.path, chat.json) == ("POST", "/api/v1/chat/completions", {"model": "m"})
    assert chat.headers["Authorization"] == "Bearer the-key"
    assert chat.headers["Content-Type"] == "application/json"
    assert chat.headers["User-Agent"].startswith("ask/")
    assert (models.method, models.path, models.body, models.headers["X"]) == ("GET", "/api/v1/models", b"", "y")


def test_credentials_in_the_base_url_are_sent_unless_there_is_a_key(server: ModelServer) -> None:
    server.reply(Reply())
    transport = Transport(server.base_url.replace("//", "//me:p%40ss@"), ENOUGH)
    for request in (CHAT, HttpRequest("/models", None, {}, "GET"), HttpRequest("/embeddings", {}, {})):
        with transport.send(request) as response:
            response.read_text()
    basic = f"Basic {b64encode(b'me:p@ss').decode()}"
    assert [request.headers.get_all("Authorization") for request in server.requests] == [
        ["Bearer the-key"],
        [basic],
        [basic],
    ]
    assert server.requests[2].body == b"{}"


def test_provider_replaces_the_usual_headers(server: ModelServer) -> None:
    server.reply(Reply())
    transport = Transport(server.base_url, ENOUGH)
    for headers in ({}, {"accept": "text/event-stream"}):
        with transport.send(HttpRequest("/models", None, headers, "GET")) as response:
            response.read_text()
    usual, replaced = [request.headers for request in server.requests]
    assert (usual["Accept"], usual["Accept-Encoding"], usual["Connection"]) == ("*/*", "gzip", "keep-alive")
    assert replaced.get_all("Accept") == ["text/event-stream"]


def test_cookies_are_sent_back(server: ModelServer) -> None:
    server.reply(Reply(headers={"Set-Cookie": "route=a; Path=/"}))
    transport = Transport(server.base_url, ENOUGH)
    for _ in range(2):
        with transport.send(CHAT) as response:
            response.read_text()
    assert [request.headers["Cookie"] for request in server.requests] == [None, "route=a"]


@pytest.mark.parametrize("name", ["Cookie", "cookie"])
def test_cookies_do_not_replace_those_of_the_user(server: ModelServer, name: str) -> None:
    server.reply(Reply(headers={"Set-Cookie": "route=a; Path=/"}))
    transport = Transport(server.base_url, ENOUGH, headers={name: "own=b"})
    for _ in range(2):
        with transport.send(CHAT) as response:
            response.read_text()
    assert [request.headers.get_all("Cookie") for request in server.requests] == [["own=b"], ["own=b"]]


# Incremental reading


@FRAMINGS
@pytest.mark.parametrize("compressed", [False, True])
def test_event_is_received_before_the_next_is_sent(server: ModelServer, framing: Any, compressed: bool) -> None:
    received_events = [threading.Event() for _ in range(3)]
    compressor = zlib.compressobj(wbits=31)
    steps: list[Step] = []
    for number, event in enumerate(received_events):
        data = wire.event(str(number))
        steps += [compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH) if compressed else data, event]
    if compressed:
        steps.append(compressor.flush())
    server.reply(Reply(steps, framing=framing, headers={"Content-Encoding": "gzip"} if compressed else {}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        for number, received in enumerate(chain.from_iterable(response.iter_event_batches())):
            assert received.data == str(number)
            received_events[number].set()


def test_compressed_stream_sent_in_single_bytes_is_read(server: ModelServer) -> None:
    compressor = zlib.compressobj(wbits=31)
    data = compressor.compress(wire.sse("a", "ü")) + compressor.flush()
    server.reply(Reply(wire.chop(data), headers={"Content-Encoding": "gzip"}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        assert list(read_data(response)) == ["a", "ü", "[DONE]"]


def test_highly_compressed_body_is_read_completely(server: ModelServer) -> None:
    body = b'{"text": "' + b"x" * 3 * READ_BYTES + b'"}'
    server.reply(Reply((gzip.compress(body),), headers={"Content-Encoding": "gzip"}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        assert not response.is_stream()
        assert response.read_text() == body.decode()


@pytest.mark.parametrize(
    ("body", "stream"),
    [
        (b"data: x\n\n", True),
        (b": comment\n\ndata: x\n\n", True),
        (b"\r\n \n{}", False),
        (b"[]", False),
        (b"<html>", False),
        (b"\xef\xbb\xbf{}", False),
        (b"\xef\xbb\xbfdata: x\n\n", True),
        (b"", True),
    ],
)
@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "text/html"])
def test_stream_is_recognized_by_its_first_byte(
    server: ModelServer, body: bytes, stream: bool, content_type: str
) -> None:
    server.reply(Reply(wire.chop(body) or [b""], content_type=content_type))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        assert response.is_stream() is stream
        rest = "".join(read_data(response)) if stream else response.read_text().strip()
    assert rest == ("x" if b"x" in body else body.decode("utf-8-sig").strip())


# Protection of the key


def test_credentials_in_netrc_do_not_replace_the_key(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    fetch_data(server, wire.sse())
    assert server.requests[0].headers["Authorization"] == "Bearer the-key"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server: ModelServer, status: int) -> None:
    with ModelServer() as elsewhere:
        server.reply(Reply(status=status, headers={"Location": elsewhere.base_url}))
        request = CHAT._replace(headers={"x-api-key": "the-key"})
        with Transport(server.base_url, ENOUGH).send(request) as response:
            assert (response.status, response.headers["location"]) == (status, elsewhere.base_url)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "key",
    ["the-key\n", "the-\nkey", "the-key\r\nX-Evil: 1", " \nthe-key", "the-key\u2028", "the-\u043a", "the-key\0"],
)
@pytest.mark.parametrize("prefix", ["Bearer ", ""])
def test_invalid_key_is_not_in_the_error(server: ModelServer, key: str, prefix: str) -> None:
    server.reply(Reply())
    request = CHAT._replace(headers={"x-api-key": f"{prefix}{key}"})
    try:
        with Transport(server.base_url, ENOUGH).send(request) as response:
            response.read_text()
    except AskError as error:
        assert isinstance(error, ConfigError)
        error_text = f"{error} {error!r} {error.__dict__} {''.join(traceback.format_exception(error))}"
        assert "the-" not in error_text
        assert server.requests == []
    else:
        assert "X-Evil" not in server.requests[0].headers


@pytest.mark.parametrize("steps", [(DROP,), (RESET,), (b"", DROP), (wire.sse("a", done=False), RESET), (b"", HOLD)])
def test_key_is_not_in_network_errors(server: ModelServer, steps: tuple[Step, ...]) -> None:
    with pytest.raises(NetworkError) as raised:
        fetch_data(server, *steps, stall=STALL)
    error = raised.value
    assert "the-key" not in f"{error} {error!r} {error.__dict__} {''.join(traceback.format_exception(error))}"


# Proxies


@pytest.fixture
def proxy() -> Iterator[ModelServer]:
    """A server that answers requests for any URL, as a proxy does."""
    with ModelServer() as server:
        yield server


def proxy_url(proxy: ModelServer) -> str:
    return proxy.base_url.removesuffix("/api/v1")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_proxy_is_used(proxy: ModelServer, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, proxy_url(proxy))
    proxy.reply(Reply((wire.sse("a"),)))
    with Transport("http://model.invalid/v1", ENOUGH).send(CHAT) as response:
        assert list(read_data(response)) == ["a", "[DONE]"]
    assert proxy.requests[0].path == "http://model.invalid/v1/chat/completions"


def test_hosts_in_no_proxy_are_connected_directly(
    proxy: ModelServer, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy_url(proxy))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert fetch_data(server, wire.sse("a")) == ["a", "[DONE]"]
    assert proxy.requests == []


def test_https_proxy_receives_a_connect_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
        requests: list[bytes] = []
        thread = threading.Thread(target=refuse_tunnels, args=(listener, requests))
        thread.start()
        with pytest.raises(NetworkError) as raised:
            Transport("https://model.invalid/v1", ENOUGH).send(CHAT)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert requests[0].startswith(b"CONNECT model.invalid:443 ")
    assert b"the-key" not in requests[0]
    assert re.match(r"the proxy 127.0.0.1:\d+ \(HTTPS_PROXY\) did not .* model.invalid \(403", str(raised.value))
    assert not raised.value.retryable


def refuse_tunnels(listener: socket.socket, requests: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            requests.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


def test_unreachable_proxy_is_named_as_the_cause(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(NetworkError, match="proxy"):
        Transport("http://model.invalid/v1", ENOUGH).send(CHAT)


# Timeouts


STALLED_RESPONSES = {
    "nothing": (HOLD,),
    "headers": (b"", HOLD),
    "comments": (Repeat(COMMENT),),
    "late comment": (COMMENT, LATE, COMMENT, HOLD),
    "blank lines": (Repeat(b"\n"),),
    "names": (Repeat(b"event: ping\n\n"),),
    "comment behind data": (wire.event("a"), LATE, COMMENT, HOLD),
}


@pytest.mark.parametrize(
    ("steps", "framing"),
    [
        *(pytest.param(steps, "chunked", id=name) for name, steps in STALLED_RESPONSES.items()),
        pytest.param(STALLED_RESPONSES["comments"], "close", id="comments to the end"),
        *(
            pytest.param(steps, "close", id=f"{name} to the end", marks=pytest.mark.slow)
            for name, steps in STALLED_RESPONSES.items()
            if name != "comments"
        ),
    ],
)
def test_stalled_stream_times_out(server: ModelServer, steps: tuple[Step, ...], framing: Any) -> None:
    with (
        check_duration(STALL, TOO_LATE),
        pytest.raises(NetworkError, match=rf"127.* {STALL} s\b"),
    ):
        fetch_data(server, *steps, stall=STALL, framing=framing)


@pytest.mark.parametrize("steps", [(Repeat(b"\n \n"),), (b'{"a":', HOLD), (b'{"a":', LATE, b" ", HOLD)])
def test_stalled_body_times_out(server: ModelServer, steps: tuple[Step, ...]) -> None:
    server.reply(Reply(steps))
    with check_duration(STALL, TOO_LATE), pytest.raises(NetworkError, match=f"{STALL} s"):  # noqa: SIM117 - in this order
        with Transport(server.base_url, STALL).send(CHAT) as response:
            response.is_stream()
            response.read_text()


@FRAMINGS
def test_slow_stream_may_take_longer_than_the_timeout(server: ModelServer, framing: Any) -> None:
    steps: list[Step] = [step for _ in range(4) for step in (COMMENT, STALL / 2, wire.event("a"))]
    with check_duration(STALL * 2, ENOUGH):
        assert fetch_data(server, *steps, stall=STALL, framing=framing) == ["a"] * 4


@pytest.mark.slow
def test_slow_stream_may_be_larger_than_the_event_limit(server: ModelServer) -> None:
    long = "x" * (MAX_EVENT_BYTES * 2 // 3)
    slow: list[Step] = [step for _ in range(3) for step in (STALL / 2, wire.event("a"))]
    assert fetch_data(server, wire.event(long), wire.event(long), *slow, stall=STALL) == [long, long, *"aaa"]


@pytest.mark.slow
def test_a_body_may_be_larger_than_the_event_limit(server: ModelServer) -> None:
    images = ['["', "x" * MAX_EVENT_BYTES, '", "', "x" * MAX_EVENT_BYTES, '"]']
    server.reply(Reply([image.encode() for image in images]))
    with Transport(server.base_url, STALL).send(CHAT) as response:
        assert not response.is_stream()
        assert len(response.read_text()) == sum(map(len, images))


def test_slow_long_event_may_take_longer_than_the_timeout(server: ModelServer) -> None:
    piece = b"x" * PROGRESS_BYTES
    pieces: list[Step] = [step for _ in range(4) for step in (piece, STALL / 2)]
    assert fetch_data(server, COMMENT, b"data: ", *pieces, b"\n\n", stall=STALL) == [4 * piece.decode()]


def test_slow_body_may_take_longer_than_the_timeout(server: ModelServer) -> None:
    piece = b"[" + b" " * PROGRESS_BYTES + b"]"
    server.reply(Reply([b"\n\n", *(step for _ in range(4) for step in (STALL / 2, piece))]))
    with Transport(server.base_url, STALL).send(CHAT) as response:
        assert not response.is_stream()
        assert response.read_text().strip() == piece.decode() * 4


@pytest.mark.parametrize(
    ("steps", "framing"),
    [
        pytest.param((HOLD,), "chunked", marks=pytest.mark.slow),
        pytest.param((HOLD,), "close", marks=pytest.mark.slow),
        ((Repeat(COMMENT),), "chunked"),
    ],
    ids=["silent", "silent to the end", "comments"],
)
def test_wait_after_the_end_marker_is_short(server: ModelServer, steps: tuple[Step, ...], framing: Any) -> None:
    with check_duration(0, 3):
        assert fetch_data(server, wire.sse("a"), *steps, framing=framing) == ["a", "[DONE]"]


@pytest.mark.parametrize("ending", [DROP, RESET])
def test_broken_connection_after_the_end_marker_is_ignored(server: ModelServer, ending: Step) -> None:
    assert fetch_data(server, wire.sse("a"), 0.05, ending) == ["a", "[DONE]"]


def test_events_shortly_after_the_end_marker_are_read(server: ModelServer) -> None:
    assert fetch_data(server, wire.sse("a"), 0.1, wire.event("b"), stall=STALL) == ["a", "[DONE]", "b"]


# Failures


@pytest.mark.parametrize("framing", ["chunked", "length"])
@pytest.mark.parametrize("ending", [DROP, RESET])
def test_broken_connection_keeps_the_received_events(server: ModelServer, framing: Any, ending: Step) -> None:
    server.reply(Reply((wire.sse("a", done=False), 0.05, ending), framing=framing))
    received_data: list[str] = []
    with pytest.raises(IncompleteStreamError), Transport(server.base_url, ENOUGH).send(CHAT) as response:
        for data in read_data(response):
            received_data.append(data)  # noqa: PERF402 - kept when it raises
    assert received_data == ["a"]


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://x", "https://", "http://[::1", "http://h:99999", "http://h:x", "http://:80", "//x"]
)
def test_invalid_base_url_is_rejected_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match=r"http\(s\)"):
        Transport(url, ENOUGH)


@pytest.mark.parametrize(
    "url", ["ftp://me:hid/d@en@h/v1", "me:hid//den@h/v1", "//me:hidden@h/v1", "http://me:hidden@h:x/v1"]
)
def test_password_in_an_invalid_base_url_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match=r"\*\*\*@h") as raised:
        Transport(url, ENOUGH)
    assert not any(part in str(raised.value) for part in ("hid", "den", "me"))


@pytest.mark.parametrize("url", ["http://exa mple.com", "http://a..b", "http://."])
def test_unusable_base_url_is_rejected_on_use(url: str) -> None:
    with pytest.raises(ConfigError, match=r"http\(s\)"):
        Transport(url, ENOUGH).send(CHAT)


def get_refused_url() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


@pytest.mark.parametrize(
    ("url", "reason", "retryable"),
    [
        (get_refused_url, r"http://127.0.0.1:\d+/chat/completions .*refused", False),
        (lambda: "http://nobody.invalid", r"nobody.invalid", True),
    ],
)
def test_connection_error_names_address_and_reason(url: Callable[[], str], reason: str, retryable: bool) -> None:
    with pytest.raises(NetworkError, match=reason) as raised:
        Transport(url(), ENOUGH).send(CHAT)
    assert raised.value.retryable is retryable


def test_tls_to_a_plain_server_is_not_retried(server: ModelServer) -> None:
    with pytest.raises(NetworkError, match=r"127.0.0.1:\d+ .*TLS") as raised:
        Transport(server.base_url.replace("http", "https"), ENOUGH).send(CHAT)
    assert not raised.value.retryable


CREATE_IN_MANY_THREADS = """
import sys, threading, warnings

sys.setswitchinterval(1e-6)
created, barrier = [], threading.Barrier(64)

def create():
    barrier.wait()
    from ask.client.transport import Transport
    created.append(Transport("http://127.0.0.1:1", 1))

threads = [threading.Thread(target=create) for _ in range(64)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(created) == 64
assert {"chardet", "charset_normalizer"}.isdisjoint(sys.modules)
assert ("ignore", None, Warning, None, 0) not in warnings.filters
"""


@pytest.mark.slow
def test_many_threads_create_their_first_transport_at_the_same_time() -> None:
    for _ in range(3):
        subprocess.run([sys.executable, "-c", CREATE_IN_MANY_THREADS], check=True, timeout=60)


def test_ctrl_c_may_interrupt_the_creation_of_what_is_closed_later() -> None:
    LimitedReader.__new__(LimitedReader).close()
    LimitedResponse.__new__(LimitedResponse).close()


def test_closing_a_response_closes_its_connection(server: ModelServer) -> None:
    connection = socket.create_connection(("127.0.0.1", urlsplit(server.base_url).port))
    response = LimitedResponse(connection)
    connection.close()
    assert connection.fileno() >= 0, "the response still reads it"
    response.close()
    assert connection.fileno() == -1


def test_the_users_headers_replace_the_providers_unless_they_are_lists(server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    own = {"anthropic-beta": "binding-1", "X-Team": "red", "X-Key": "k"}
    with Transport(server.base_url, ENOUGH, headers={"Anthropic-Beta": "context-1m,files", "x-team": "blue"}).send(
        HttpRequest("/v1/messages", {}, own, list_headers=("anthropic-beta",))
    ):
        pass
    sent = server.requests[0].headers
    assert sent.get_all("anthropic-beta") == ["binding-1,context-1m,files"]
    assert (sent.get_all("X-Team"), sent["X-Key"]) == (["blue"], "k")


def test_an_empty_header_of_the_user_removes_the_providers(server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    own = {"anthropic-beta": "binding-1", "X-Team": "red", "X-Key": "k"}
    request = HttpRequest("/v1/messages", {}, own, list_headers=("anthropic-beta",))
    with Transport(server.base_url, ENOUGH, headers={"Anthropic-Beta": "", "x-team": ""}).send(request):
        pass
    sent = server.requests[0].headers
    assert (sent.get("anthropic-beta"), sent.get("X-Team"), sent["X-Key"]) == (None, None, "k")
