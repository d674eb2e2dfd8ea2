"""Framing: the same events, wherever the network cut the bytes and however a service ends its lines."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import ServerEvent
from ask.client.stream_format import MAX_EVENT_BYTES, EventTooLargeError, NdjsonDecoder, SseDecoder

Framing = SseDecoder | NdjsonDecoder
BOM = b"\xef\xbb\xbf"
LINE_ENDS = [b"\n", b"\r\n", b"\r"]
TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
JSON_TEXT = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(TEXT, max_size=2), max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)


def read(framing: Framing, chunks: Sequence[bytes]) -> list[ServerEvent]:
    """All events of a stream that came in these chunks and then ended."""
    return [event for chunk in chunks for event in framing.feed(chunk)] + framing.flush()


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


@given(st.data())
def test_sse_events_are_the_same_wherever_the_stream_is_cut(data: st.DataObject) -> None:
    stream, events = data.draw(sse_streams())
    assert read(SseDecoder(), data.draw(chunked(stream))) == events
    assert read(SseDecoder(), [stream[i : i + 1] for i in range(len(stream))]) == events


@given(st.binary(), st.data())
@pytest.mark.parametrize("framing", [SseDecoder, NdjsonDecoder])
def test_any_bytes_are_read_the_same_wherever_they_are_cut(
    framing: Callable[[], Framing], stream: bytes, data: st.DataObject
) -> None:
    assert read(framing(), data.draw(chunked(stream))) == read(framing(), [stream])


@given(st.data(), st.lists(JSON_TEXT), st.sampled_from(LINE_ENDS[:2]), st.booleans())
def test_ndjson_is_the_same_wherever_it_is_cut(data: st.DataObject, values: list[str], end: bytes, ended: bool) -> None:
    stream = end.join(value.encode() for value in values) + (end if ended else b"")
    assert read(NdjsonDecoder(), data.draw(chunked(stream))) == [ServerEvent(None, value) for value in values]


def test_blank_lines_between_ndjson_lines_are_left_out() -> None:
    assert read(NdjsonDecoder(), [b'\n{"a":1}\n\n  \r\n{"b":2}\n']) == [
        ServerEvent(None, '{"a":1}'),
        ServerEvent(None, '{"b":2}'),
    ]


@pytest.mark.parametrize("end", ["", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r"])
@pytest.mark.parametrize("data", ['{"a": [{}]}', "[DONE]", "[1]"])
def test_the_last_event_needs_no_blank_line(data: str, end: str) -> None:
    stream = f"data: first\n\nevent: x\ndata: {data}{end}".encode()
    assert read(SseDecoder(), [stream]) == [ServerEvent(None, "first"), ServerEvent("x", data)]


@pytest.mark.parametrize("end", LINE_ENDS)
def test_a_last_line_of_plain_text_counts_once_it_has_ended(end: bytes) -> None:
    assert read(SseDecoder(), [b"data: hello" + end]) == [ServerEvent(None, "hello")]


@given(JSON_TEXT.filter(lambda text: text != "{}"), st.data())
def test_a_last_line_that_was_cut_short_is_not_used(text: str, data: st.DataObject) -> None:
    value = text.encode()
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    first = ServerEvent(None, "first")
    assert read(SseDecoder(), [b"data: first\n\ndata: " + cut]) == [first]
    assert read(NdjsonDecoder(), [b"first\n" + cut]) == [first]


def test_an_event_of_which_only_some_lines_came_is_not_used() -> None:
    assert read(SseDecoder(), [b'data: {"a":\ndata: {"b": 1}']) == []
    assert read(SseDecoder(), [b'data: {"a":\ndata: {"b": 1}}']) == [ServerEvent(None, '{"a":\n{"b": 1}}')]


def test_a_name_without_data_is_no_event_and_names_no_other() -> None:
    assert read(SseDecoder(), [b"event: ping\n\ndata: x\n\n"]) == [ServerEvent(None, "x")]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert read(SseDecoder(), [b"data: a\xffb\n\n"]) == [ServerEvent(None, "a\ufffdb")]
    assert read(NdjsonDecoder(), [b'"a\xffb"\n']) == [ServerEvent(None, '"a\ufffdb"')]


@pytest.mark.parametrize(
    ("chunk", "pending"),
    [
        (b": OPENROUTER PROCESSING\n\n", 0),
        (b"\n\n\r\n", 0),
        (b"event: ping\n\n", 0),
        (b"id: 1\nretry: 5\n", 0),
        (b"data: x\n\n", 0),
        (b": comment\n\ndata: x", len(b"data: x")),
        (b"data: x\ndata: y", len(b"data: xdata: y")),
        (b": a long comment without its end", 0),
        (b"data: x\n: comment", len(b"data: x")),
    ],
)
def test_only_data_of_the_next_event_is_pending(chunk: bytes, pending: int) -> None:
    frames = SseDecoder()
    frames.feed(chunk)
    assert frames.pending_bytes == pending


def test_bytes_of_the_next_line_of_ndjson_are_pending() -> None:
    frames = NdjsonDecoder()
    assert [(frames.feed(chunk), frames.pending_bytes)[1] for chunk in (b'{"a"', b":", b"1}\n\n", b"{")] == [4, 5, 0, 1]


@pytest.mark.parametrize("framing", [SseDecoder, NdjsonDecoder])
@pytest.mark.parametrize("piece", [b"x" * 65_536, b"data:" + b"x" * 65_000 + b"\n", b": " + b"x" * 65_000])
def test_an_event_without_end_is_given_up(framing: Callable[[], Framing], piece: bytes) -> None:
    if framing is NdjsonDecoder:
        piece = piece.replace(b"\n", b"")
    frames = framing()
    with pytest.raises(EventTooLargeError):
        for _ in range(MAX_EVENT_BYTES // len(piece) + 1):
            frames.feed(piece)


@pytest.mark.parametrize("framing", [SseDecoder, NdjsonDecoder])
def test_an_event_that_would_fill_the_memory_is_given_up(framing: Callable[[], Framing]) -> None:
    start = b"data: [" if framing is SseDecoder else b"["
    with pytest.raises(EventTooLargeError):
        framing().feed(start + b"{}," * 400_000 + b"{}]\n\n")
    assert framing().feed(start + b'"' + b"x" * 2_000_000 + b'"]\n\n')


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


@pytest.mark.parametrize(("framing", "start"), [(SseDecoder, b"data: "), (NdjsonDecoder, b'{"a": "')])
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
        ("data:1\n\n\ufeffdata:2\n\n", [(None, "1")]),
        ("data:\0\n\n", [(None, "\0")]),
    ],
)
def test_fields_are_read_as_browsers_read_them(stream: str, events: list[tuple[str | None, str]]) -> None:
    data = stream.encode()
    expected = [ServerEvent(name, text) for name, text in events]
    assert read(SseDecoder(), [data]) == expected
    assert read(SseDecoder(), [data[i : i + 1] for i in range(len(data))]) == expected
