"""Framing: the same events, wherever the network cut the bytes and however a service ends its lines."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ask import ServerEvent
from ask.framing import JsonLines, ServerSentEvents

Framing = ServerSentEvents | JsonLines
BOM = b"\xef\xbb\xbf"
LINE_ENDS = [b"\n", b"\r\n", b"\r"]
TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
JSON_TEXT = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(TEXT, max_size=2), max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)


def read(framing: Framing, chunks: Sequence[bytes]) -> list[ServerEvent]:
    """All events of a stream that came in these chunks and then ended."""
    return [event for chunk in chunks for event in framing.feed(chunk)] + framing.close()


@st.composite
def chunked(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The bytes, cut anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


@st.composite
def sse_streams(draw: st.DrawFn) -> tuple[bytes, list[ServerEvent]]:
    """A stream, and the events in it: with and without names, comments, several data lines, space behind the colon."""
    end = draw(st.sampled_from(LINE_ENDS))
    lines: list[str] = []
    events = []
    noise = st.lists(TEXT.map(":{}".format) | st.sampled_from(["", "id: 7", "retry: 10", "unknown"]), max_size=2)
    for name, data in draw(st.lists(st.tuples(st.none() | st.sampled_from(["ping", "error"]), st.lists(TEXT)))):
        lines += draw(noise)
        if name:
            lines.append(f"event: {name}")
            lines += [line for line in draw(noise) if line]
        # A space at the start belongs to the framing, so that data of its own needs one before it.
        lines += [f"data:{' ' if part[:1] == ' ' or draw(st.booleans()) else ''}{part}" for part in data]
        lines.append("")
        events += [ServerEvent(name, "\n".join(data))] if data else []
    bom = draw(st.sampled_from([b"", BOM]))
    return bom + b"".join(line.encode() + end for line in lines), events


@settings(max_examples=100)
@given(st.data())
def test_sse_events_are_the_same_wherever_the_stream_is_cut(data: st.DataObject) -> None:
    stream, events = data.draw(sse_streams())
    assert read(ServerSentEvents(), data.draw(chunked(stream))) == events
    assert read(ServerSentEvents(), [stream[i : i + 1] for i in range(len(stream))]) == events


@given(st.binary(), st.data())
@pytest.mark.parametrize("framing", [ServerSentEvents, JsonLines])
def test_any_bytes_at_all_are_read_the_same_wherever_they_are_cut(
    framing: Callable[[], Framing], stream: bytes, data: st.DataObject
) -> None:
    assert read(framing(), data.draw(chunked(stream))) == read(framing(), [stream])


@settings(max_examples=100)
@given(st.data(), st.lists(JSON_TEXT), st.sampled_from(LINE_ENDS[:2]), st.booleans())
def test_ndjson_is_the_same_wherever_it_is_cut(data: st.DataObject, values: list[str], end: bytes, ended: bool) -> None:
    stream = end.join(value.encode() for value in values) + (end if ended else b"")
    assert read(JsonLines(), data.draw(chunked(stream))) == [ServerEvent(None, value) for value in values]


def test_blank_lines_between_ndjson_lines_are_left_out() -> None:
    assert read(JsonLines(), [b'\n{"a":1}\n\n  \r\n{"b":2}\n']) == [
        ServerEvent(None, '{"a":1}'),
        ServerEvent(None, '{"b":2}'),
    ]


@pytest.mark.parametrize("end", ["", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r"])
@pytest.mark.parametrize("data", ['{"a": [{}]}', "[DONE]", "[1]"])
def test_the_last_event_needs_no_blank_line(data: str, end: str) -> None:
    stream = f"data: first\n\nevent: x\ndata: {data}{end}".encode()
    assert read(ServerSentEvents(), [stream]) == [ServerEvent(None, "first"), ServerEvent("x", data)]


@pytest.mark.parametrize("end", LINE_ENDS)
def test_a_last_line_of_plain_text_counts_once_it_has_ended(end: bytes) -> None:
    assert read(ServerSentEvents(), [b"data: hello" + end]) == [ServerEvent(None, "hello")]


@given(JSON_TEXT.filter(lambda text: text != "{}"), st.data())
def test_a_last_line_that_was_cut_short_is_not_used(text: str, data: st.DataObject) -> None:
    value = text.encode()
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    first = ServerEvent(None, "first")
    assert read(ServerSentEvents(), [b"data: first\n\ndata: " + cut]) == [first]
    assert read(JsonLines(), [b"first\n" + cut]) == [first]


def test_an_event_of_which_only_some_lines_came_is_not_used() -> None:
    assert read(ServerSentEvents(), [b'data: {"a":\ndata: {"b": 1}']) == []
    assert read(ServerSentEvents(), [b'data: {"a":\ndata: {"b": 1}}']) == [ServerEvent(None, '{"a":\n{"b": 1}}')]


def test_a_name_without_data_is_no_event_and_names_no_other() -> None:
    assert read(ServerSentEvents(), [b"event: ping\n\ndata: x\n\n"]) == [ServerEvent(None, "x")]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert read(ServerSentEvents(), [b"data: a\xffb\n\n"]) == [ServerEvent(None, "a\ufffdb")]
    assert read(JsonLines(), [b'"a\xffb"\n']) == [ServerEvent(None, '"a\ufffdb"')]


@pytest.mark.parametrize(
    ("chunk", "progress"),
    [
        (b": OPENROUTER PROCESSING\n\n", False),
        (b"\n\n\r\n", False),
        (b"event: ping\n\n", False),
        (b"id: 1\nretry: 5\n", False),
        (b"data: x\n\n", True),
        (b": comment\n\ndata: x", True),
    ],
)
def test_only_data_is_progress(chunk: bytes, progress: bool) -> None:
    frames = ServerSentEvents()
    frames.feed(chunk)
    assert frames.progress is progress


@pytest.mark.parametrize("before", [b"", b"data: x\n\n", b": comment\n", b"data: x\r\n\r\n"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_each_chunk_of_a_long_data_line_is_progress(before: bytes, size: int) -> None:
    frames = ServerSentEvents()
    frames.feed(before)
    line = b"data: " + b"x" * 50
    chunks = [line[i : i + size] for i in range(0, len(line), size)]
    seen = [(frames.feed(chunk), frames.progress)[1] for chunk in chunks]
    known = len(b"data:") // size
    assert all(seen[known:])


def test_a_long_comment_is_no_progress() -> None:
    frames = ServerSentEvents()
    frames.feed(b"data: x\n\n")
    assert not any((frames.feed(b": data:"), frames.progress)[1] for _ in range(20))


def test_any_byte_of_ndjson_but_space_is_progress() -> None:
    frames = JsonLines()
    seen = [(frames.feed(chunk), frames.progress)[1] for chunk in (b'{"a"', b" ", b"\n\n", b":1}\n")]
    assert seen == [True, False, False, True]


def extra_memory(framing: Framing, chunk: bytes) -> int:
    """Bytes allocated at most while one more chunk is taken; the median of many, as lists grow by leaps."""
    peaks = []
    tracemalloc.start()
    for _ in range(21):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        framing.feed(chunk)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return sorted(peaks)[10]


@pytest.mark.parametrize(("framing", "start"), [(ServerSentEvents, b"data: "), (JsonLines, b'{"a": "')])
def test_a_small_chunk_costs_the_same_however_long_its_line_already_is(
    framing: Callable[[], Framing], start: bytes
) -> None:
    frames = framing()
    frames.feed(start)
    for _ in range(5000):
        frames.feed(b"x" * 200)
    assert extra_memory(frames, b"x" * 200) < 5000
    assert len(frames.feed(b"\n\n")[0].data) > 1_000_000


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        ("data:test\n data\ndata\nfoobar:xxx\njusttext\n:comment\ndata:test\n\n", [(None, "test\n\ntest")]),
        ("data:test\r\ndata\ndata:test\r\n\r\n", [(None, "test\n\ntest")]),
        ("data:\ttest\rdata: \ndata:  test\n\n", [(None, "\ttest\n\n test")]),
        ("data\n\ndata\ndata\n\ndata:x\n\n", [(None, ""), (None, "\n"), (None, "x")]),
        ("event:  test \ndata:x\n\n", [(" test ", "x")]),
        ("event: \ndata:x\n\n", [(None, "x")]),
        ("event:test\nevent\ndata:x\n\n", [(None, "x")]),
        ("Data:x\n\ndata :x\n\n:data:x\n\n", []),
        ("\ufeff\ufeffdata:1\n\ndata:2\n\n", [(None, "2")]),
        ("data:\0\n\n", [(None, "\0")]),
    ],
)
def test_fields_are_read_as_browsers_read_them(stream: str, events: list[tuple[str | None, str]]) -> None:
    data = stream.encode()
    expected = [ServerEvent(name, text) for name, text in events]
    assert read(ServerSentEvents(), [data]) == expected
    assert read(ServerSentEvents(), [data[i : i + 1] for i in range(len(data))]) == expected
