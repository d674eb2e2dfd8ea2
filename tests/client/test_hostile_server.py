"""A hostile or broken server: every phase of an answer ends in time and in bounded memory, and partial text is kept.

Servers that send much are answered by a process of its own, whose memory can be measured; others by this one.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from tests import wire
from tests.program import ASK, Ask, Result, run
from tests.raw_server import RawServer, read_request

TIMEOUT = 0.5
MEMORY = 300_000_000
SECONDS = 25
"""What a run may take; on a busy machine, more than it needs."""
slow = pytest.mark.slow
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
sys.exit(code)
"""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
OPEN = HEAD + b"Connection: close\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
GZIPPED = HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
HELLO = wire.sse(wire.text("hello "), done=False)
LARGE = b"x" * 65_536


Sent = Iterator[bytes | float]
"""What a server sends: bytes, or seconds to wait."""


def serve(sent: Callable[[], Sent]) -> RawServer:
    """A server that answers with what a generator yields, until the client leaves."""

    def handle(connection: socket.socket) -> None:
        if read_request(connection):
            for step in sent():
                connection.sendall(step) if isinstance(step, bytes) else time.sleep(step)

    return RawServer(handle)


def put(ask: Ask, server: RawServer, *args: str, provider: str = "openrouter", timeout: float = TIMEOUT) -> Result:
    """Send a prompt to a server that sends little, from this process."""
    result = ask(*command(provider, timeout, args), env=address(server, provider))
    assert result.seconds < SECONDS
    return result


def put_measured(ask: Ask, server: RawServer, *args: str, provider: str = "openrouter") -> Result:
    """Send a prompt to a server that sends much, from a process of its own, and check the memory it takes."""
    return run_measured(ask, *command(provider, TIMEOUT, args), env=address(server, provider))


def command(provider: str, timeout: float, args: Sequence[str]) -> list[str]:
    return ["-p", provider, "-m", "m", "--timeout", str(timeout), *args, "hi"]


def address(server: RawServer, provider: str) -> dict[str, str]:
    return {f"{provider.upper()}_BASE_URL": f"http://{server.place}/v1", "ANTHROPIC_API_KEY": "key"}


def run_measured(ask: Ask, *args: str, env: Mapping[str, str]) -> Result:
    """Run the installed command; without the last line of its stderr, the peak of its memory."""
    result = run([sys.executable, "-c", MEASURE, ASK, *args], env={**ask.env, **env}, cwd=ask.cwd, timeout=60)
    assert result.seconds < SECONDS
    stderr, _, peak = result.stderr.rpartition("peak ")
    assert int(peak) < MEMORY
    return replace(result, stderr=stderr)


def forever(*parts: bytes | float, start: bytes = b"") -> Callable[[], Sent]:
    def sent() -> Sent:
        yield start
        while True:
            yield from parts

    return sent


def event(delta: wire.Json) -> bytes:
    return wire.event(wire.chunk(delta))


def gzip_bomb(start: bytes, piece: bytes) -> Callable[[], Sent]:
    """One gzip stream that begins with some bytes and goes on with others for 3 GB, or as long as it is read."""

    def sent() -> Sent:
        packer = zlib.compressobj(wbits=31)
        yield GZIPPED + packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
        packed = packer.compress(piece * (4_000_000 // len(piece))) + packer.flush(zlib.Z_FULL_FLUSH)
        for _ in range(800):
            yield packed

    return sent


# What comes before an answer


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(forever(b"X", 0.1), marks=slow),
        forever(b"X", 0.1, start=b"HTTP/1.1 200 OK\r\nX-Long: "),
        forever(b"X: y\r\n", 0.1, start=b"HTTP/1.1 200 OK\r\n"),
        forever(b"HTTP/1.1 100 Continue\r\n\r\n", 0.1),
    ],
    ids=["status line", "header", "headers", "100 Continue"],
)
def test_headers_must_be_complete_within_the_timeout(ask: Ask, sent: Callable[[], Sent]) -> None:
    with serve(sent) as server:
        result = put(ask, server)
    assert (result.code, result.text) == (5, "")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(forever(LARGE), marks=slow),
        pytest.param(forever(LARGE, start=b"HTTP/1.1 200 OK\r\nX-Long: "), marks=slow),
        forever(b"X: y\r\n" * 50, start=b"HTTP/1.1 200 OK\r\n"),
        pytest.param(forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), marks=slow),
        forever(b"HTTP/1.1 100 Continue\r\nX: " + b"y" * 60_000 + b"\r\n\r\n"),
    ],
    ids=["status line", "header", "headers", "100 Continue", "long 100 Continue"],
)
def test_endless_headers_are_given_up_at_once_and_not_requested_again(ask: Ask, sent: Callable[[], Sent]) -> None:
    with serve(sent) as server:
        result = put_measured(ask, server)
        assert (result.code, result.text, server.connections) == (5, "", 1)


@pytest.mark.parametrize("sent", [forever(b"X", 0.1), forever(b"X: y\r\n", 0.1, start=b"HTTP/1.1 200 OK\r\n")])
def test_a_proxy_s_headers_must_be_complete_in_time_too(
    ask: Ask, sent: Callable[[], Sent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ask.client.transport.CONNECT_SECONDS", 0.3)
    from ask.client.transport import Transport
    from ask.errors import NetworkError
    from tests.client.test_transport import CHAT

    with serve(sent) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.place}")
        started = time.monotonic()
        with pytest.raises(NetworkError):
            Transport("https://model.invalid/v1", TIMEOUT).send(CHAT)
        assert time.monotonic() - started < 5


# Answers


NO_GROWTH = [
    ("chunks", forever(event({}), start=OPEN + HELLO), "hello \n"),
    ("trailers", forever(b"X: y\r\n", start=CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(HELLO), HELLO)), "hello \n"),
    ("gzip bomb of events", gzip_bomb(HELLO, b"data: {}\n\n"), "hello \n"),
]
MORE_WITHOUT_GROWTH = [
    ("empty events", forever(b"data: {}\n\n", start=OPEN), ""),
    ("empty events behind text", forever(b"data: {}\n\n", start=OPEN + HELLO), "hello \n"),
    ("empty text", forever(event({"role": "assistant", "content": ""}), start=OPEN + HELLO), "hello \n"),
    (
        "empty arguments",
        forever(event({"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}), start=OPEN + HELLO),
        "hello \n",
    ),
    (
        "empty details",
        forever(event({"reasoning_details": [{"type": "reasoning.text", "index": 0}]}), start=OPEN),
        "",
    ),
    ("comments", forever(b": OPENROUTER PROCESSING\n\n", start=OPEN), ""),
    ("comments behind text", forever(b": OPENROUTER PROCESSING\n\n", start=OPEN + HELLO), "hello \n"),
    ("blank lines", forever(b"\n", start=OPEN), ""),
    ("pings", forever(b"event: ping\n\n", start=OPEN + HELLO), "hello \n"),
    ("gzip bomb of blank lines", gzip_bomb(HELLO, b"\n"), "hello \n"),
]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        *(pytest.param(*case, id=name) for name, *case in NO_GROWTH),
        *(pytest.param(*case, id=name, marks=slow) for name, *case in MORE_WITHOUT_GROWTH),
    ],
)
def test_a_busy_answer_that_does_not_grow_is_given_up_and_its_text_kept(
    ask: Ask, sent: Callable[[], Sent], text: str
) -> None:
    with serve(sent) as server:
        result = put_measured(ask, server)
    assert (result.code, result.text) == (10 if text else 5, text)


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (forever(b": OPENROUTER PROCESSING\n\n", 0.1, start=OPEN), ""),
        (forever(event({"role": "assistant", "content": ""}), 0.1, start=OPEN + HELLO), "hello \n"),
        (forever(b"x", 0.1, start=OPEN + HELLO + b"data: "), "hello \n"),
        (forever(b"x", 0.1, start=JSON_HEAD + b'{"choices": "'), ""),
        (forever(b"X", 0.1, start=CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(HELLO), HELLO)), "hello \n"),
        (forever(b"0", 0.1, start=CHUNKED + b"%x\r\n%s\r\n" % (len(HELLO), HELLO)), "hello \n"),
    ],
    ids=["comments", "empty text", "event", "body", "trailer", "chunk size"],
)
def test_a_trickling_answer_that_does_not_grow_is_given_up_and_its_text_kept(
    ask: Ask, sent: Callable[[], Sent], text: str
) -> None:
    with serve(sent) as server:
        result = put(ask, server)
    assert (result.code, result.text) == (10 if text else 5, text)


TOO_LARGE = [
    ("event", forever(LARGE, start=OPEN + HELLO + b"data: "), "hello "),
    ("gzip bomb in an event", gzip_bomb(HELLO + b"data: ", b"x"), "hello "),
    ("objects in an event", forever(b"{}," * 20_000, start=OPEN + HELLO + b"data: ["), "hello "),
    ("body", forever(LARGE, start=JSON_HEAD + b'{"x": "'), ""),
]
MORE_TOO_LARGE = [
    ("gzip bomb of objects", gzip_bomb(b"[", b"{},"), ""),
    ("line", forever(LARGE, start=OPEN + HELLO), "hello "),
    ("data lines", forever(b"data: " + LARGE + b"\n", start=OPEN + HELLO), "hello "),
    ("gzip bomb in a line", gzip_bomb(HELLO, b"x"), "hello "),
    ("objects in a body", forever(b"{}," * 20_000, start=JSON_HEAD + b"["), ""),
    ("page", forever(LARGE, start=JSON_HEAD + b"<"), ""),
]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        *(pytest.param(*case, id=name) for name, *case in TOO_LARGE),
        *(pytest.param(*case, id=name, marks=slow) for name, *case in MORE_TOO_LARGE),
    ],
)
def test_one_endless_event_or_body_is_given_up_in_bounded_memory(ask: Ask, sent: Callable[[], Sent], text: str) -> None:
    with serve(sent) as server:
        result = put_measured(ask, server)
        assert server.connections == 1
    assert (result.code, result.text.rstrip("\n")) == (10 if text else 5, text.rstrip("\n"))


def many(delta: wire.Json, count: int = 500) -> bytes:
    return event(delta) * count


PIECES = {
    "text": many({"content": "x" * 1000}),
    "wide text": many({"content": "\U0001f600" * 1000}),
    "reasoning": many({"reasoning": "x" * 1000}),
    "reasoning details": many({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "x" * 1000}]}),
    "arguments": many({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 1000}}]}),
}
IN_EVERY_RUN = {("text", "--json"), ("arguments", "--no-save")}


@pytest.mark.parametrize(
    ("piece", "form"),
    [
        pytest.param(piece, form, marks=() if (piece, form) in IN_EVERY_RUN else slow)
        for piece in PIECES
        for form in ("--plain", "--json", "--no-save")
    ],
)
def test_an_endless_answer_is_cut_in_bounded_memory(ask: Ask, piece: str, form: str) -> None:
    call = event({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "read_file", "arguments": "{"}}]})
    with serve(forever(PIECES[piece], start=OPEN + HELLO + call)) as server:
        result = put_measured(ask, server, form)
        assert server.connections == 1
    text = json.loads(result.text)["text"] if form == "--json" else result.text
    assert result.code == 10
    assert text.startswith("hello ")


@pytest.mark.parametrize(
    "item",
    [
        lambda i: wire.chunk({"tool_calls": [{"index": i, "id": str(i), "function": {"name": "x"}}]}),
        pytest.param(lambda i: wire.chunk({"reasoning_details": [{"type": str(i), "index": i}]}), marks=slow),
        pytest.param(lambda i: {f"field{i}": [{}] * 1000}, marks=slow),
    ],
    ids=["calls", "details", "fields"],
)
def test_many_items_are_cut_in_bounded_memory(ask: Ask, item: Callable[[int], wire.Json]) -> None:
    def sent() -> Sent:
        yield OPEN + HELLO
        for start in itertools.count(0, 100):
            yield b"".join(wire.event(item(start + i)) for i in range(100))

    with serve(sent) as server:
        result = put_measured(ask, server)
    assert (result.code, result.text) == (10, "hello \n")


@slow
def test_a_tool_argument_of_200_mb_is_cut_in_bounded_memory(ask: Ask) -> None:
    piece = event({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 1_000_000}}]})
    call = event(
        {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "write_file", "arguments": '{"path": "'}}]}
    )

    def sent() -> Sent:
        yield OPEN + call
        for _ in range(200):
            yield piece
        yield event({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]})
        yield wire.sse(wire.finish("tool_calls"))

    with serve(sent) as server:
        result = put_measured(ask, server)
        assert (result.code, result.text, server.connections) == (10, "", 1)


@pytest.mark.parametrize(
    "after",
    [
        b"data: {}\n\n",
        pytest.param(LARGE, marks=slow),
        pytest.param(b": comment\n\n", marks=slow),
        pytest.param(wire.event(wire.text("more")), marks=slow),
    ],
    ids=["empty events", "a line", "comments", "text"],
)
def test_after_the_end_marker_an_endless_stream_is_left(ask: Ask, after: bytes) -> None:
    with serve(forever(after, start=OPEN + HELLO + wire.sse(wire.finish()))) as server:
        result = put_measured(ask, server)
    assert result.code == 0
    assert result.text.startswith("hello ")


@pytest.mark.parametrize(
    ("provider", "start", "piece"),
    [
        pytest.param("ollama", b"", b'{"message": {"content": "%s"}}\n' % (b"x" * 1000), marks=slow),
        ("ollama", b"", b'{"message": {"tool_calls": [{"function": {"name": "x"}}]}}\n'),
        pytest.param(
            "anthropic",
            b'event: message_start\ndata: {"type": "message_start", "message": {}}\n\n',
            b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "%s"}}\n\n'
            % (b"x" * 1000),
            marks=slow,
        ),
        ("anthropic", b"", b'data: {"type": "content_block_start", "content_block": {"type": "tool_use"}}\n\n'),
    ],
)
def test_endless_answers_on_other_wires_are_cut_too(ask: Ask, provider: str, start: bytes, piece: bytes) -> None:
    with serve(forever(piece * 200, start=OPEN + start)) as server:
        assert put_measured(ask, server, "--no-save", provider=provider).code == 10


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
def test_answers_on_other_wires_that_do_not_grow_are_given_up_too(ask: Ask, provider: str, piece: bytes) -> None:
    with serve(forever(piece, 0.01, start=OPEN)) as server:
        assert put(ask, server, provider=provider).code == 5


# Answers that are errors, and lists of models


@pytest.mark.parametrize(
    "sent",
    [forever(LARGE), forever(b"x", 0.1), pytest.param(gzip_bomb(b"", b"x"), marks=slow)],
    ids=["endless", "slow", "gzip bomb"],
)
def test_an_error_s_body_is_read_in_bounded_time_and_memory(ask: Ask, sent: Callable[[], Sent]) -> None:
    def answer() -> Sent:
        steps = sent()
        first = next(steps)
        assert isinstance(first, bytes)
        head = first or HEAD + b"Connection: close\r\n\r\n"
        yield head.replace(b"200 OK", b"401 Unauthorized")
        yield from steps

    with serve(answer) as server:
        result = put_measured(ask, server)
        assert (result.code, server.connections) == (6, 1)
    assert "401" in result.stderr


@pytest.mark.parametrize(
    "sent",
    [forever(LARGE, start=JSON_HEAD + b'"'), pytest.param(forever(b"{}," * 9999, start=JSON_HEAD + b"["), marks=slow)],
    ids=["a text", "objects"],
)
def test_an_endless_list_of_models_is_given_up(ask: Ask, sent: Callable[[], Sent]) -> None:
    with serve(sent) as server:
        result = run_measured(ask, "models", "-p", "openrouter", env=address(server, "openrouter"))
        assert (result.code, server.connections) == (5, 1)


# What is legitimate


@pytest.mark.slow
def test_a_long_and_slow_answer_is_not_cut_off(ask: Ask) -> None:
    """Steady tokens for longer than the timeout, keep-alive comments before and between them."""

    def sent() -> Sent:
        yield OPEN
        for number in range(7):
            yield b": OPENROUTER PROCESSING\n\n"
            yield 0.25
            yield wire.event(wire.text(f"{number} "))
        yield wire.sse(wire.finish())

    with serve(sent) as server:
        result = put(ask, server, timeout=1)
    assert (result.code, result.text.split()) == (0, [str(number) for number in range(7)])


@pytest.mark.slow
def test_a_large_answer_is_read_to_its_end(ask: Ask) -> None:
    text = "All work and no play. " * 50_000
    pieces = re.findall(".{1,100}", text)

    def sent() -> Sent:
        yield OPEN
        for start in range(0, len(pieces), 1000):
            yield b"".join(event({"content": piece}) for piece in pieces[start : start + 1000])
        yield wire.sse(wire.finish())

    with serve(sent) as server:
        result = put_measured(ask, server)
    assert (result.code, result.text.strip()) == (0, text.strip())


def test_a_compressed_answer_in_chunks_is_read(ask: Ask) -> None:
    body = gzip.compress(wire.sse(wire.text("hello"), wire.finish()))

    def sent() -> Sent:
        yield HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"

    with serve(sent) as server:
        result = put(ask, server)
    assert (result.code, result.text) == (0, "hello\n")
