"""The transport against a real server: what it sends, when it sees what comes, and how long it waits."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from ask.client.stream_format import MAX_EVENT_BYTES
from ask.client.transport import PROGRESS_BYTES, READ_BYTES, Transport
from ask.client.transport import HttpResponse as Answer
from ask.errors import AskError, ConfigError, IncompleteStreamError, NetworkError
from ask.plugin_api.provider import HttpRequest
from tests import wire
from tests.model_server import DROP, HOLD, RESET, ModelServer, Repeat, Reply, Step

STALL = 0.4
LATE = STALL * 0.9
TOO_LATE = STALL * 1.7
ENOUGH = 20.0
COMMENT = b": OPENROUTER PROCESSING\n\n"
FRAMINGS = pytest.mark.parametrize("framing", ["chunked", "length", "close"])
CHAT = HttpRequest("/chat/completions", {"model": "m"}, {"Authorization": "Bearer the-key"})


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in the environment of the tests themselves."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def data_of(answer: Answer) -> Iterator[str]:
    """The events' data, each taken for growth of the answer, `ending` set at the end marker as the exchange does."""
    for event in chain.from_iterable(answer.iter_event_batches()):
        answer.mark_progress()
        answer.end_marker_seen = answer.end_marker_seen or event.data == "[DONE]"
        yield event.data


def talk(server: ModelServer, *steps: Step, stall: float = ENOUGH, framing: Any = "chunked") -> list[str]:
    """The data of all events of a reply."""
    server.reply(Reply(steps, framing=framing))
    with Transport(server.base_url, stall).send(CHAT) as answer:
        assert answer.is_stream()
        return list(data_of(answer))


@contextmanager
def takes(least: float, most: float) -> Iterator[None]:
    """The time that a wait takes, in seconds; its upper bound leaves room for a busy machine."""
    start = time.monotonic()
    yield
    assert least <= time.monotonic() - start < most


# Connections


@pytest.mark.parametrize("steps", [(wire.sse("a"),), (b'{"a": 1}',), (wire.sse("a"), 0.05)])
def test_one_connection_serves_all_requests_of_a_run(server: ModelServer, steps: tuple[Step, ...]) -> None:
    server.reply(Reply(steps))
    transport = Transport(server.base_url, ENOUGH)
    for _ in range(3):
        with transport.send(CHAT) as answer:
            _ = list(data_of(answer)) if answer.is_stream() else answer.read_text()
    assert [request.connection for request in server.requests] == [1, 1, 1]


def test_a_reply_abandoned_early_does_not_affect_later_ones(server: ModelServer) -> None:
    server.reply(Reply((wire.sse("a", done=False), HOLD)), Reply((wire.sse("b"),)))
    transport = Transport(server.base_url, ENOUGH)
    with transport.send(CHAT) as answer:
        assert next(data_of(answer)) == "a"
    with transport.send(CHAT) as answer:
        assert list(data_of(answer)) == ["b", "[DONE]"]


def test_the_request_is_sent_as_the_provider_built_it(server: ModelServer) -> None:
    server.reply(Reply())
    transport = Transport(server.base_url + "/", ENOUGH)
    for request in (CHAT, HttpRequest("/models", None, {"X": "y"}, "GET")):
        with transport.send(request) as answer:
            answer.read_text()
    chat, models = server.requests
    assert (chat.method, chat.path, chat.json) == ("POST", "/api/v1/chat/completions", {"model": "m"})
    assert chat.headers["Authorization"] == "Bearer the-key"
    assert chat.headers["Content-Type"] == "application/json"
    assert chat.headers["User-Agent"].startswith("ask/")
    assert (models.method, models.path, models.body, models.headers["X"]) == ("GET", "/api/v1/models", b"", "y")


# Bytes are seen as they come


@FRAMINGS
@pytest.mark.parametrize("compressed", [False, True])
def test_each_event_is_seen_before_the_next_is_sent(server: ModelServer, framing: Any, compressed: bool) -> None:
    seen = [threading.Event() for _ in range(3)]
    packer = zlib.compressobj(wbits=31)
    steps: list[Step] = []
    for number, event in enumerate(seen):
        data = wire.event(str(number))
        steps += [packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH) if compressed else data, event]
    if compressed:
        steps.append(packer.flush())
    server.reply(Reply(steps, framing=framing, headers={"Content-Encoding": "gzip"} if compressed else {}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        for number, said in enumerate(chain.from_iterable(answer.iter_event_batches())):
            assert said.data == str(number)
            seen[number].set()


def test_a_compressed_stream_that_comes_byte_by_byte_is_read(server: ModelServer) -> None:
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(wire.sse("a", "ü")) + packer.flush()
    server.reply(Reply(wire.chop(data), headers={"Content-Encoding": "gzip"}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        assert list(data_of(answer)) == ["a", "ü", "[DONE]"]


def test_a_small_compressed_body_that_becomes_a_large_one_is_read_to_its_end(server: ModelServer) -> None:
    body = b'{"text": "' + b"x" * 3 * READ_BYTES + b'"}'
    server.reply(Reply((gzip.compress(body),), headers={"Content-Encoding": "gzip"}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        assert not answer.is_stream()
        assert answer.read_text() == body.decode()


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
def test_a_stream_is_recognized_by_its_first_byte(
    server: ModelServer, body: bytes, stream: bool, content_type: str
) -> None:
    server.reply(Reply(wire.chop(body) or [b""], content_type=content_type))
    with Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        assert answer.is_stream() is stream
        rest = "".join(data_of(answer)) if stream else answer.read_text().strip()
    assert rest == ("x" if b"x" in body else body.decode("utf-8-sig").strip())


# Whom the key is shown to


def test_credentials_in_netrc_do_not_replace_the_key(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    talk(server, wire.sse())
    assert server.requests[0].headers["Authorization"] == "Bearer the-key"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(server: ModelServer, status: int) -> None:
    with ModelServer() as elsewhere:
        server.reply(Reply(status=status, headers={"Location": elsewhere.base_url}))
        request = CHAT._replace(headers={"x-api-key": "the-key"})
        with Transport(server.base_url, ENOUGH).send(request) as answer:
            assert (answer.status, answer.headers["location"]) == (status, elsewhere.base_url)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "key",
    ["the-key\n", "the-\nkey", "the-key\r\nX-Evil: 1", " \nthe-key", "the-key\u2028", "the-\u043a", "the-key\0"],
)
@pytest.mark.parametrize("prefix", ["Bearer ", ""])
def test_a_key_that_cannot_be_sent_is_in_no_error(server: ModelServer, key: str, prefix: str) -> None:
    server.reply(Reply())
    request = CHAT._replace(headers={"x-api-key": f"{prefix}{key}"})
    try:
        with Transport(server.base_url, ENOUGH).send(request) as answer:
            answer.read_text()
    except AskError as error:
        assert isinstance(error, ConfigError)
        shown = f"{error} {error!r} {error.__dict__} {''.join(traceback.format_exception(error))}"
        assert "the-" not in shown
        assert server.requests == []
    else:
        assert "X-Evil" not in server.requests[0].headers


@pytest.mark.parametrize("steps", [(DROP,), (RESET,), (b"", DROP), (wire.sse("a", done=False), RESET), (b"", HOLD)])
def test_the_key_is_in_no_error_about_the_network(server: ModelServer, steps: tuple[Step, ...]) -> None:
    with pytest.raises(NetworkError) as caught:
        talk(server, *steps, stall=STALL)
    error = caught.value
    assert "the-key" not in f"{error} {error!r} {error.__dict__} {''.join(traceback.format_exception(error))}"


# Proxies


@pytest.fixture
def proxy() -> Iterator[ModelServer]:
    """A server that answers whatever it is asked for, as a proxy may."""
    with ModelServer() as server:
        yield server


def proxy_url(proxy: ModelServer) -> str:
    return proxy.base_url.removesuffix("/api/v1")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_is_used(proxy: ModelServer, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, proxy_url(proxy))
    proxy.reply(Reply((wire.sse("a"),)))
    with Transport("http://model.invalid/v1", ENOUGH).send(CHAT) as answer:
        assert list(data_of(answer)) == ["a", "[DONE]"]
    assert proxy.requests[0].path == "http://model.invalid/v1/chat/completions"


def test_hosts_in_no_proxy_are_reached_directly(
    proxy: ModelServer, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy_url(proxy))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert talk(server, wire.sse("a")) == ["a", "[DONE]"]
    assert proxy.requests == []


def test_an_https_proxy_is_asked_for_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
        asked: list[bytes] = []
        thread = threading.Thread(target=refuse_tunnels, args=(listener, asked))
        thread.start()
        with pytest.raises(NetworkError) as caught:
            Transport("https://model.invalid/v1", ENOUGH).send(CHAT)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert asked[0].startswith(b"CONNECT model.invalid:443 ")
    assert b"the-key" not in asked[0]
    assert re.match(r"the proxy 127.0.0.1:\d+ \(HTTPS_PROXY\) did not .* model.invalid \(403", str(caught.value))
    assert not caught.value.retryable


def refuse_tunnels(listener: socket.socket, asked: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            asked.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


def test_a_proxy_that_is_not_there_is_named_as_the_cause(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(NetworkError, match="proxy"):
        Transport("http://model.invalid/v1", ENOUGH).send(CHAT)


# Waiting


STOPS = {
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
        *(pytest.param(steps, "chunked", id=name) for name, steps in STOPS.items()),
        pytest.param(STOPS["comments"], "close", id="comments to the end"),
        *(
            pytest.param(steps, "close", id=f"{name} to the end", marks=pytest.mark.slow)
            for name, steps in STOPS.items()
            if name != "comments"
        ),
    ],
)
def test_a_stalled_answer_times_out(server: ModelServer, steps: tuple[Step, ...], framing: Any) -> None:
    with (
        takes(STALL, TOO_LATE),
        pytest.raises(NetworkError, match=rf"127.* {STALL} s\b"),
    ):
        talk(server, *steps, stall=STALL, framing=framing)


@pytest.mark.parametrize("steps", [(Repeat(b"\n \n"),), (b'{"a":', HOLD), (b'{"a":', LATE, b" ", HOLD)])
def test_a_stalled_body_times_out(server: ModelServer, steps: tuple[Step, ...]) -> None:
    server.reply(Reply(steps))
    with takes(STALL, TOO_LATE), pytest.raises(NetworkError, match=f"{STALL} s"):  # noqa: SIM117 - in this order
        with Transport(server.base_url, STALL).send(CHAT) as answer:
            answer.is_stream()
            answer.read_text()


@FRAMINGS
def test_a_slow_stream_may_take_longer_than_the_limit(server: ModelServer, framing: Any) -> None:
    steps: list[Step] = [step for _ in range(4) for step in (COMMENT, STALL / 2, wire.event("a"))]
    with takes(STALL * 2, ENOUGH):
        assert talk(server, *steps, stall=STALL, framing=framing) == ["a"] * 4


def test_a_slow_stream_may_be_longer_than_the_limit_for_one_event(server: ModelServer) -> None:
    long = "x" * (MAX_EVENT_BYTES * 2 // 3)
    slow: list[Step] = [step for _ in range(3) for step in (STALL / 2, wire.event("a"))]
    assert talk(server, wire.event(long), wire.event(long), *slow, stall=STALL) == [long, long, *"aaa"]


def test_a_slow_long_event_may_take_longer_than_the_limit(server: ModelServer) -> None:
    piece = b"x" * PROGRESS_BYTES
    pieces: list[Step] = [step for _ in range(4) for step in (piece, STALL / 2)]
    assert talk(server, COMMENT, b"data: ", *pieces, b"\n\n", stall=STALL) == [4 * piece.decode()]


def test_a_slow_whole_body_may_take_longer_than_the_limit(server: ModelServer) -> None:
    piece = b"[" + b" " * PROGRESS_BYTES + b"]"
    server.reply(Reply([b"\n\n", *(step for _ in range(4) for step in (STALL / 2, piece))]))
    with Transport(server.base_url, STALL).send(CHAT) as answer:
        assert not answer.is_stream()
        assert answer.read_text().strip() == piece.decode() * 4


@pytest.mark.parametrize(
    ("steps", "framing"),
    [
        pytest.param((HOLD,), "chunked", marks=pytest.mark.slow),
        pytest.param((HOLD,), "close", marks=pytest.mark.slow),
        ((Repeat(COMMENT),), "chunked"),
    ],
    ids=["silent", "silent to the end", "comments"],
)
def test_the_wait_after_the_end_marker_is_short(server: ModelServer, steps: tuple[Step, ...], framing: Any) -> None:
    with takes(0, 3):
        assert talk(server, wire.sse("a"), *steps, framing=framing) == ["a", "[DONE]"]


@pytest.mark.parametrize("ending", [DROP, RESET])
def test_a_broken_connection_after_the_end_marker_is_ignored(server: ModelServer, ending: Step) -> None:
    assert talk(server, wire.sse("a"), 0.05, ending) == ["a", "[DONE]"]


def test_events_shortly_after_the_end_marker_are_read(server: ModelServer) -> None:
    assert talk(server, wire.sse("a"), 0.1, wire.event("b"), stall=STALL) == ["a", "[DONE]", "b"]


# Failures


@pytest.mark.parametrize("framing", ["chunked", "length"])
@pytest.mark.parametrize("ending", [DROP, RESET])
def test_a_broken_connection_cuts_the_stream_after_the_received_events(
    server: ModelServer, framing: Any, ending: Step
) -> None:
    server.reply(Reply((wire.sse("a", done=False), 0.05, ending), framing=framing))
    seen: list[str] = []
    with pytest.raises(IncompleteStreamError), Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        for data in data_of(answer):
            seen.append(data)  # noqa: PERF402 - kept when it raises
    assert seen == ["a"]


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ftp://x", "https://", "http://[::1", "http://h:99999", "http://h:x", "http://:80", "//x"]
)
def test_an_invalid_base_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match=r"http\(s\)"):
        Transport(url, ENOUGH)


@pytest.mark.parametrize(
    "url", ["ftp://me:hid/d@en@h/v1", "me:hid//den@h/v1", "//me:hidden@h/v1", "http://me:hidden@h:x/v1"]
)
def test_a_password_in_an_invalid_base_url_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match=r"\*\*\*@h") as raised:
        Transport(url, ENOUGH)
    assert not any(part in str(raised.value) for part in ("hid", "den", "me"))


@pytest.mark.parametrize("url", ["http://exa mple.com", "http://a..b", "http://."])
def test_an_unusable_base_url_is_refused_on_use(url: str) -> None:
    with pytest.raises(ConfigError, match=r"http\(s\)"):
        Transport(url, ENOUGH).send(CHAT)


def refused() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize(
    ("url", "reason", "again"),
    [
        (refused, r"127.0.0.1:\d+ .*refused", False),
        (lambda: "http://nobody.invalid", r"nobody.invalid", True),
    ],
)
def test_a_connection_error_names_address_and_reason(url: Callable[[], str], reason: str, again: bool) -> None:
    with pytest.raises(NetworkError, match=reason) as caught:
        Transport(url(), ENOUGH).send(CHAT)
    assert caught.value.retryable is again


def test_tls_to_a_plain_server_fails_without_a_retry(server: ModelServer) -> None:
    with pytest.raises(NetworkError, match=r"127.0.0.1:\d+ .*TLS") as caught:
        Transport(server.base_url.replace("http", "https"), ENOUGH).send(CHAT)
    assert not caught.value.retryable
