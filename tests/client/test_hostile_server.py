"""Hostile or broken servers: every phase of a response ends in time and in bounded memory, and partial text is kept.

If a server sends much data, ask runs in a separate process whose memory is measured, otherwise in this process.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests import wire
from tests.program import Ask, Result
from tests.raw_server import RawServer, read_request

TIMEOUT = 0.5
MAX_MEMORY = 300_000_000
MAX_SECONDS = 25
"""The limit for one run, generous enough for a busy machine."""
slow = pytest.mark.slow
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CLOSE_HEAD = HEAD + b"Connection: close\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
CHUNKED_HEAD = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
GZIP_HEAD = HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
HELLO = wire.sse(wire.text("hello "), done=False)
LARGE = b"x" * 65_536


ResponseSteps = Iterator[bytes | float]
"""The steps of a response: bytes to send, or seconds to wait."""


def serve(make_steps: Callable[[], ResponseSteps]) -> RawServer:
    """Start a server that sends the steps until the client disconnects."""

    def handle(connection: socket.socket) -> None:
        if read_request(connection):
            for step in make_steps():
                connection.sendall(step) if isinstance(step, bytes) else time.sleep(step)

    return RawServer(handle)


def send_prompt(
    ask: Ask, server: RawServer, *args: str, provider: str = "openrouter", timeout: float = TIMEOUT
) -> Result:
    """Send a prompt from this process, to a server that sends little data."""
    result = ask(*make_arguments(provider, timeout, args), env=make_environment(server, provider))
    assert result.seconds < MAX_SECONDS
    return result


def send_prompt_measured(ask: Ask, server: RawServer, *args: str, provider: str = "openrouter") -> Result:
    """Send a prompt from a separate process, to a server that sends much data, and check the memory used."""
    return run_measured(ask, *make_arguments(provider, TIMEOUT, args), env=make_environment(server, provider))


def make_arguments(provider: str, timeout: float, args: Sequence[str]) -> list[str]:
    return ["-p", provider, "-m", "m", "--timeout", str(timeout), *args, "hi"]


def make_environment(server: RawServer, provider: str) -> dict[str, str]:
    return {f"{provider.upper()}_BASE_URL": f"http://{server.address}/v1", "ANTHROPIC_API_KEY": "key"}


def run_measured(ask: Ask, *args: str, env: Mapping[str, str]) -> Result:
    """Run the installed command and check its time and memory."""
    result, peak = ask.measure(*args, env=env)
    assert result.seconds < MAX_SECONDS
    assert peak < MAX_MEMORY
    return result


def repeat_forever(*parts: bytes | float, start: bytes = b"") -> Callable[[], ResponseSteps]:
    def make_steps() -> ResponseSteps:
        yield start
        while True:
            yield from parts

    return make_steps


def make_event(delta: wire.Json) -> bytes:
    return wire.event(wire.chunk(delta))


def gzip_bomb(start: bytes, piece: bytes) -> Callable[[], ResponseSteps]:
    """Return the steps of a gzip stream of `start` and 3 GB of repeated `piece`."""

    def make_steps() -> ResponseSteps:
        compressor = zlib.compressobj(wbits=31)
        yield GZIP_HEAD + compressor.compress(start) + compressor.flush(zlib.Z_FULL_FLUSH)
        compressed = compressor.compress(piece * (4_000_000 // len(piece))) + compressor.flush(zlib.Z_FULL_FLUSH)
        for _ in range(800):
            yield compressed

    return make_steps


# Headers


@pytest.mark.parametrize(
    "make_steps",
    [
        pytest.param(repeat_forever(b"X", 0.1), marks=slow),
        repeat_forever(b"X", 0.1, start=b"HTTP/1.1 200 OK\r\nX-Long: "),
        repeat_forever(b"X: y\r\n", 0.1, start=b"HTTP/1.1 200 OK\r\n"),
        repeat_forever(b"HTTP/1.1 100 Continue\r\n\r\n", 0.1),
    ],
    ids=["status line", "header", "headers", "100 Continue"],
)
def test_headers_must_be_complete_within_the_timeout(ask: Ask, make_steps: Callable[[], ResponseSteps]) -> None:
    with serve(make_steps) as server:
        result = send_prompt(ask, server)
    assert (result.code, result.text) == (5, "")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "make_steps",
    [
        pytest.param(repeat_forever(LARGE), marks=slow),
        pytest.param(repeat_forever(LARGE, start=b"HTTP/1.1 200 OK\r\nX-Long: "), marks=slow),
        repeat_forever(b"X: y\r\n" * 50, start=b"HTTP/1.1 200 OK\r\n"),
        pytest.param(repeat_forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), marks=slow),
        repeat_forever(b"HTTP/1.1 100 Continue\r\nX: " + b"y" * 60_000 + b"\r\n\r\n"),
    ],
    ids=["status line", "header", "headers", "100 Continue", "long 100 Continue"],
)
def test_endless_headers_fail_at_once_without_a_retry(ask: Ask, make_steps: Callable[[], ResponseSteps]) -> None:
    with serve(make_steps) as server:
        result = send_prompt_measured(ask, server)
        assert (result.code, result.text, server.connections) == (5, "", 1)


@pytest.mark.parametrize(
    "make_steps", [repeat_forever(b"X", 0.1), repeat_forever(b"X: y\r\n", 0.1, start=b"HTTP/1.1 200 OK\r\n")]
)
def test_proxy_headers_must_be_complete_within_the_timeout(
    ask: Ask, make_steps: Callable[[], ResponseSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ask.client.transport.CONNECT_SECONDS", 0.3)
    from ask.client.transport import Transport
    from ask.errors import NetworkError
    from tests.client.test_transport import CHAT

    with serve(make_steps) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        start_time = time.monotonic()
        with pytest.raises(NetworkError):
            Transport("https://model.invalid/v1", TIMEOUT).send(CHAT)
        assert time.monotonic() - start_time < 20


# Answers


NO_PROGRESS = [
    ("chunks", repeat_forever(make_event({}), start=CLOSE_HEAD + HELLO), "hello \n"),
    (
        "trailers",
        repeat_forever(b"X: y\r\n", start=CHUNKED_HEAD + b"%x\r\n%s\r\n0\r\n" % (len(HELLO), HELLO)),
        "hello \n",
    ),
    ("gzip bomb of events", gzip_bomb(HELLO, b"data: {}\n\n"), "hello \n"),
]
MORE_NO_PROGRESS = [
    ("empty events", repeat_forever(b"data: {}\n\n", start=CLOSE_HEAD), ""),
    ("empty events behind text", repeat_forever(b"data: {}\n\n", start=CLOSE_HEAD + HELLO), "hello \n"),
    (
        "empty text",
        repeat_forever(make_event({"role": "assistant", "content": ""}), start=CLOSE_HEAD + HELLO),
        "hello \n",
    ),
    (
        "empty arguments",
        repeat_forever(
            make_event({"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}), start=CLOSE_HEAD + HELLO
        ),
        "hello \n",
    ),
    (
        "empty details",
        repeat_forever(make_event({"reasoning_details": [{"type": "reasoning.text", "index": 0}]}), start=CLOSE_HEAD),
        "",
    ),
    ("comments", repeat_forever(b": OPENROUTER PROCESSING\n\n", start=CLOSE_HEAD), ""),
    ("comments behind text", repeat_forever(b": OPENROUTER PROCESSING\n\n", start=CLOSE_HEAD + HELLO), "hello \n"),
    ("blank lines", repeat_forever(b"\n", start=CLOSE_HEAD), ""),
    ("pings", repeat_forever(b"event: ping\n\n", start=CLOSE_HEAD + HELLO), "hello \n"),
    ("gzip bomb of blank lines", gzip_bomb(HELLO, b"\n"), "hello \n"),
]


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("make_steps", "text"),
    [
        *(pytest.param(*case, id=name) for name, *case in NO_PROGRESS),
        *(pytest.param(*case, id=name, marks=slow) for name, *case in MORE_NO_PROGRESS),
    ],
)
def test_fast_answer_without_progress_fails_and_keeps_its_text(
    ask: Ask, make_steps: Callable[[], ResponseSteps], text: str
) -> None:
    with serve(make_steps) as server:
        result = send_prompt_measured(ask, server)
    assert (result.code, result.text) == (10 if text else 5, text)


@pytest.mark.parametrize(
    ("make_steps", "text"),
    [
        (repeat_forever(b": OPENROUTER PROCESSING\n\n", 0.1, start=CLOSE_HEAD), ""),
        (repeat_forever(make_event({"role": "assistant", "content": ""}), 0.1, start=CLOSE_HEAD + HELLO), "hello \n"),
        (repeat_forever(b"x", 0.1, start=CLOSE_HEAD + HELLO + b"data: "), "hello \n"),
        (repeat_forever(b"x", 0.1, start=JSON_HEAD + b'{"choices": "'), ""),
        (repeat_forever(b"X", 0.1, start=CHUNKED_HEAD + b"%x\r\n%s\r\n0\r\n" % (len(HELLO), HELLO)), "hello \n"),
        (repeat_forever(b"0", 0.1, start=CHUNKED_HEAD + b"%x\r\n%s\r\n" % (len(HELLO), HELLO)), "hello \n"),
    ],
    ids=["comments", "empty text", "event", "body", "trailer", "chunk size"],
)
def test_slow_answer_without_progress_fails_and_keeps_its_text(
    ask: Ask, make_steps: Callable[[], ResponseSteps], text: str
) -> None:
    with serve(make_steps) as server:
        result = send_prompt(ask, server)
    assert (result.code, result.text) == (10 if text else 5, text)


TOO_LARGE = [
    ("event", repeat_forever(LARGE, start=CLOSE_HEAD + HELLO + b"data: "), "hello "),
    ("gzip bomb in an event", gzip_bomb(HELLO + b"data: ", b"x"), "hello "),
    ("objects in an event", repeat_forever(b"{}," * 20_000, start=CLOSE_HEAD + HELLO + b"data: ["), "hello "),
    ("body", repeat_forever(LARGE, start=JSON_HEAD + b'{"x": "'), ""),
]
MORE_TOO_LARGE = [
    ("gzip bomb of objects", gzip_bomb(b"[", b"{},"), ""),
    ("line", repeat_forever(LARGE, start=CLOSE_HEAD + HELLO), "hello "),
    ("data lines", repeat_forever(b"data: " + LARGE + b"\n", start=CLOSE_HEAD + HELLO), "hello "),
    ("gzip bomb in a line", gzip_bomb(HELLO, b"x"), "hello "),
    ("objects in a body", repeat_forever(b"{}," * 20_000, start=JSON_HEAD + b"["), ""),
    ("page", repeat_forever(LARGE, start=JSON_HEAD + b"<"), ""),
]


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("make_steps", "text"),
    [
        *(pytest.param(*case, id=name) for name, *case in TOO_LARGE),
        *(pytest.param(*case, id=name, marks=slow) for name, *case in MORE_TOO_LARGE),
    ],
)
def test_endless_event_or_body_fails_in_bounded_memory(
    ask: Ask, make_steps: Callable[[], ResponseSteps], text: str
) -> None:
    with serve(make_steps) as server:
        result = send_prompt_measured(ask, server)
        assert server.connections == 1
    assert (result.code, result.text.rstrip("\n")) == (10 if text else 5, text.rstrip("\n"))


def make_events(delta: wire.Json, count: int = 500) -> bytes:
    return make_event(delta) * count


PIECES = {
    "text": make_events({"content": "x" * 1000}),
    "wide text": make_events({"content": "\U0001f600" * 1000}),
    "reasoning": make_events({"reasoning": "x" * 1000}),
    "reasoning details": make_events(
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "x" * 1000}]}
    ),
    "arguments": make_events({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 1000}}]}),
}
NOT_SLOW = {("text", "--json"), ("arguments", "--no-save")}


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("piece", "option"),
    [
        pytest.param(piece, option, marks=() if (piece, option) in NOT_SLOW else slow)
        for piece in PIECES
        for option in ("--plain", "--json", "--no-save")
    ],
)
def test_endless_answer_is_cut_off_in_bounded_memory(ask: Ask, piece: str, option: str) -> None:
    call = make_event({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "read_file", "arguments": "{"}}]})
    with serve(repeat_forever(PIECES[piece], start=CLOSE_HEAD + HELLO + call)) as server:
        result = send_prompt_measured(ask, server, option)
        assert server.connections == 1
    text = json.loads(result.text)["text"] if option == "--json" else result.text
    assert result.code == 10
    assert text.startswith("hello ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "item",
    [
        lambda i: wire.chunk({"tool_calls": [{"index": i, "id": str(i), "function": {"name": "x"}}]}),
        lambda i: wire.chunk({"reasoning_details": [{"type": str(i), "index": i}]}),
        lambda i: {f"field{i}": [{}] * 1000},
    ],
    ids=["calls", "details", "fields"],
)
def test_endless_items_are_cut_off_in_bounded_memory(ask: Ask, item: Callable[[int], wire.Json]) -> None:
    def make_steps() -> ResponseSteps:
        yield CLOSE_HEAD + HELLO
        for start in itertools.count(0, 100):
            yield b"".join(wire.event(item(start + i)) for i in range(100))

    with serve(make_steps) as server:
        result = send_prompt_measured(ask, server)
    assert (result.code, result.text) == (10, "hello \n")


@slow
def test_tool_argument_of_200_mb_is_cut_off_in_bounded_memory(ask: Ask) -> None:
    piece = make_event({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 1_000_000}}]})
    call = make_event(
        {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "write_file", "arguments": '{"path": "'}}]}
    )

    def make_steps() -> ResponseSteps:
        yield CLOSE_HEAD + call
        for _ in range(200):
            yield piece
        yield make_event({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]})
        yield wire.sse(wire.finish("tool_calls"))

    with serve(make_steps) as server:
        result = send_prompt_measured(ask, server)
        assert (result.code, result.text, server.connections) == (10, "", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "after",
    [
        b"data: {}\n\n",
        LARGE,
        b": comment\n\n",
        wire.event(wire.text("more")),
    ],
    ids=["empty events", "a line", "comments", "text"],
)
def test_endless_stream_after_the_end_marker_is_ignored(ask: Ask, after: bytes) -> None:
    with serve(repeat_forever(after, start=CLOSE_HEAD + HELLO + wire.sse(wire.finish()))) as server:
        result = send_prompt_measured(ask, server)
    assert result.code == 0
    assert result.text.startswith("hello ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "start", "piece"),
    [
        ("ollama", b"", b'{"message": {"content": "%s"}}\n' % (b"x" * 1000)),
        ("ollama", b"", b'{"message": {"tool_calls": [{"function": {"name": "x"}}]}}\n'),
        (
            "anthropic",
            (
                b'data: {"type": "message_start", "message": {}}\n\n'
                b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}\n\n'
            ),
            b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "%s"}}\n\n'
            % (b"x" * 1000),
        ),
        ("anthropic", b"", b'data: {"type": "content_block_start", "content_block": {"type": "tool_use"}}\n\n'),
    ],
)
def test_endless_answers_of_other_apis_are_cut_off(ask: Ask, provider: str, start: bytes, piece: bytes) -> None:
    with serve(repeat_forever(piece * 200, start=CLOSE_HEAD + start)) as server:
        assert send_prompt_measured(ask, server, "--no-save", provider=provider).code == 10


@pytest.mark.parametrize(
    ("provider", "piece"),
    [
        ("anthropic", b'event: ping\ndata: {"type": "ping"}\n\n'),
        (
            "anthropic",
            b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}\n\n',
        ),
        ("ollama", b'{"message": {"content": ""}}\n'),
        ("ollama", b"{}\n"),
    ],
)
def test_answers_of_other_apis_without_progress_fail(ask: Ask, provider: str, piece: bytes) -> None:
    with serve(repeat_forever(piece, 0.01, start=CLOSE_HEAD)) as server:
        assert send_prompt(ask, server, provider=provider).code == 5


# Error responses and models lists


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_steps",
    [repeat_forever(LARGE), repeat_forever(b"x", 0.1), gzip_bomb(b"", b"x")],
    ids=["endless", "slow", "gzip bomb"],
)
def test_error_body_is_read_in_bounded_time_and_memory(ask: Ask, make_steps: Callable[[], ResponseSteps]) -> None:
    def make_error_steps() -> ResponseSteps:
        steps = make_steps()
        first = next(steps)
        assert isinstance(first, bytes)
        head = first or HEAD + b"Connection: close\r\n\r\n"
        yield head.replace(b"200 OK", b"401 Unauthorized")
        yield from steps

    with serve(make_error_steps) as server:
        result = send_prompt_measured(ask, server)
        assert (result.code, server.connections) == (6, 1)
    assert "401" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_steps",
    [
        repeat_forever(LARGE, start=JSON_HEAD + b'"'),
        repeat_forever(b"{}," * 9999, start=JSON_HEAD + b"["),
    ],
    ids=["a text", "objects"],
)
def test_endless_models_list_fails(ask: Ask, make_steps: Callable[[], ResponseSteps]) -> None:
    with serve(make_steps) as server:
        result = run_measured(ask, "models", "-p", "openrouter", env=make_environment(server, "openrouter"))
        assert (result.code, server.connections) == (5, 1)


# Valid responses


@pytest.mark.slow
def test_long_and_slow_answer_is_complete(ask: Ask) -> None:
    """The tokens and keep-alive comments of this answer take longer than the timeout in total."""

    def make_steps() -> ResponseSteps:
        yield CLOSE_HEAD
        for number in range(7):
            yield b": OPENROUTER PROCESSING\n\n"
            yield 0.25
            yield wire.event(wire.text(f"{number} "))
        yield wire.sse(wire.finish())

    with serve(make_steps) as server:
        result = send_prompt(ask, server, timeout=1)
    assert (result.code, result.text.split()) == (0, [str(number) for number in range(7)])


@pytest.mark.slow
def test_large_answer_is_complete(ask: Ask) -> None:
    text = "All work and no play. " * 50_000
    pieces = re.findall(".{1,100}", text)

    def make_steps() -> ResponseSteps:
        yield CLOSE_HEAD
        for start in range(0, len(pieces), 1000):
            yield b"".join(make_event({"content": piece}) for piece in pieces[start : start + 1000])
        yield wire.sse(wire.finish())

    with serve(make_steps) as server:
        result = send_prompt_measured(ask, server)
    assert (result.code, result.text.strip()) == (0, text.strip())


def test_compressed_chunked_answer_is_read(ask: Ask) -> None:
    body = gzip.compress(wire.sse(wire.text("hello"), wire.finish()))

    def make_steps() -> ResponseSteps:
        yield HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"

    with serve(make_steps) as server:
        result = send_prompt(ask, server)
    assert (result.code, result.text) == (0, "hello\n")
