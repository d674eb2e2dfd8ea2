"""Stream decoders: the events are the same for any split of the bytes and any line ends."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import RawEvent
from ask.client.stream_decoding import (
    MAX_EVENT_BYTES,
    EventTooLargeError,
    NdjsonDecoder,
    SseDecoder,
    _is_next_event,
)

Decoder = SseDecoder | NdjsonDecoder
BOM = b"\xef\xbb\xbf"
LINE_ENDS = [b"\n", b"\r\n", b"\r"]
TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
JSON_TEXT = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(TEXT, max_size=2), max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)


def read(decoder_class: Decoder, chunks: Sequence[bytes]) -> list[RawEvent]:
    """Decode a complete stream that arrives in these chunks."""
    return [event for chunk in chunks for event in decoder_class.feed(chunk)] + decoder_class.flush()


@st.composite
def split_bytes(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Split bytes into chunks at arbitrary positions."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


@st.composite
def sse_streams(draw: st.DrawFn) -> tuple[bytes, list[RawEvent]]:
    """Generate a stream and its events, with optional event types, comments, data lines and spaces after colons."""
    end = draw(st.sampled_from(LINE_ENDS))
    lines: list[str] = []
    events = []
    ignored_lines = st.lists(
        TEXT.map(":{}".format) | st.sampled_from(["", "id: 7", "retry: 10", "unknown"]), max_size=2
    )
    # Two lines that look like two events are read as two.
    parts = st.lists(TEXT).filter(lambda lines: not (lines[1:] and _is_next_event(*map(str.encode, lines[:2]))))
    for name, data in draw(st.lists(st.tuples(st.none() | st.sampled_from(["ping", "error"]), parts))):
        lines += draw(ignored_lines)
        if name:
            lines.append(f"event: {name}")
            lines += [line for line in draw(ignored_lines) if line]
        # The decoder removes one space after the colon, so data that begins with a space needs another.
        lines += [f"data:{' ' if part[:1] == ' ' or draw(st.booleans()) else ''}{part}" for part in data]
        lines.append("")
        events += [RawEvent(name, "\n".join(data))] if data else []
    bom = draw(st.sampled_from([b"", BOM]))
    return bom + b"".join(line.encode() + end for line in lines), events


@given(st.data())
def test_sse_events_are_the_same_for_any_split(data: st.DataObject) -> None:
    stream, events = data.draw(sse_streams())
    assert read(SseDecoder(), data.draw(split_bytes(stream))) == events
    assert read(SseDecoder(), [stream[i : i + 1] for i in range(len(stream))]) == events


@given(st.binary(), st.data())
@pytest.mark.parametrize("decoder_class", [SseDecoder, NdjsonDecoder])
def test_any_bytes_are_decoded_the_same_for_any_split(
    decoder_class: Callable[[], Decoder], stream: bytes, data: st.DataObject
) -> None:
    assert read(decoder_class(), data.draw(split_bytes(stream))) == read(decoder_class(), [stream])


@given(st.data(), st.lists(JSON_TEXT), st.sampled_from(LINE_ENDS[:2]), st.booleans())
def test_ndjson_is_the_same_for_any_split(
    data: st.DataObject, values: list[str], end: bytes, has_line_end: bool
) -> None:
    stream = end.join(value.encode() for value in values) + (end if has_line_end else b"")
    assert read(NdjsonDecoder(), data.draw(split_bytes(stream))) == [RawEvent(None, value) for value in values]


def test_blank_ndjson_lines_are_ignored() -> None:
    assert read(NdjsonDecoder(), [b'\n{"a":1}\n\n  \r\n{"b":2}\n']) == [
        RawEvent(None, '{"a":1}'),
        RawEvent(None, '{"b":2}'),
    ]


@pytest.mark.parametrize("end", ["", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r"])
@pytest.mark.parametrize("data", ['{"a": [{}]}', "[DONE]", "[1]"])
def test_last_event_needs_no_blank_line(data: str, end: str) -> None:
    stream = f"data: first\n\nevent: x\ndata: {data}{end}".encode()
    assert read(SseDecoder(), [stream]) == [RawEvent(None, "first"), RawEvent("x", data)]


@pytest.mark.parametrize("end", LINE_ENDS)
def test_last_line_of_plain_text_needs_a_line_end(end: bytes) -> None:
    assert read(SseDecoder(), [b"data: hello" + end]) == [RawEvent(None, "hello")]


@given(JSON_TEXT.filter(lambda text: text != "{}"), st.data())
def test_truncated_last_line_is_ignored(text: str, data: st.DataObject) -> None:
    value = text.encode()
    truncated = value[: data.draw(st.integers(0, len(value) - 1))]
    first = RawEvent(None, "first")
    assert read(SseDecoder(), [b"data: first\n\ndata: " + truncated]) == [first]
    assert read(NdjsonDecoder(), [b"first\n" + truncated]) == [first]


def test_event_with_missing_lines_is_ignored() -> None:
    assert read(SseDecoder(), [b'data: {"a":\ndata: {"b": 1}']) == []
    assert read(SseDecoder(), [b'data: {"a":\ndata: {"b": 1}}']) == [RawEvent(None, '{"a":\n{"b": 1}}')]


def test_event_type_without_data_is_ignored() -> None:
    assert read(SseDecoder(), [b"event: ping\n\ndata: x\n\n"]) == [RawEvent(None, "x")]


def test_invalid_utf8_is_replaced() -> None:
    assert read(SseDecoder(), [b"data: a\xffb\n\n"]) == [RawEvent(None, "a\ufffdb")]
    assert read(NdjsonDecoder(), [b'"a\xffb"\n']) == [RawEvent(None, '"a\ufffdb"')]


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
    decoder = SseDecoder()
    decoder.feed(chunk)
    assert decoder.pending_bytes == pending


def test_bytes_of_the_next_ndjson_line_are_pending() -> None:
    decoder = NdjsonDecoder()
    assert [(decoder.feed(chunk), decoder.pending_bytes)[1] for chunk in (b'{"a"', b":", b"1}\n\n", b"{")] == [
        4,
        5,
        0,
        1,
    ]


@pytest.mark.parametrize("decoder_class", [SseDecoder, NdjsonDecoder])
@pytest.mark.parametrize("piece", [b"x" * 65_536, b"data:" + b"x" * 65_000 + b"\n", b": " + b"x" * 65_000])
def test_endless_event_is_rejected(decoder_class: Callable[[], Decoder], piece: bytes) -> None:
    if decoder_class is NdjsonDecoder:
        piece = piece.replace(b"\n", b"")
    decoder = decoder_class()
    with pytest.raises(EventTooLargeError):
        for _ in range(MAX_EVENT_BYTES // len(piece) + 1):
            decoder.feed(piece)


@pytest.mark.parametrize("decoder_class", [SseDecoder, NdjsonDecoder])
def test_event_with_too_many_containers_is_rejected(decoder_class: Callable[[], Decoder]) -> None:
    start = b"data: [" if decoder_class is SseDecoder else b"["
    with pytest.raises(EventTooLargeError):
        decoder_class().feed(start + b"{}," * 400_000 + b"{}]\n\n")
    assert decoder_class().feed(start + b'"' + b"x" * 2_000_000 + b'"]\n\n')


def measure_peak_memory(decoder_class: Decoder, chunk: bytes) -> int:
    """Return the median peak memory for decoding one more chunk; some chunks make a list grow."""
    peaks = []
    tracemalloc.start()
    for _ in range(21):
        tracemalloc.reset_peak()
        memory_before = tracemalloc.get_traced_memory()[0]
        decoder_class.feed(chunk)
        peaks.append(tracemalloc.get_traced_memory()[1] - memory_before)
    tracemalloc.stop()
    return sorted(peaks)[10]


@pytest.mark.parametrize(("decoder_class", "start"), [(SseDecoder, b"data: "), (NdjsonDecoder, b'{"a": "')])
def test_memory_per_chunk_does_not_depend_on_the_line_length(
    decoder_class: Callable[[], Decoder], start: bytes
) -> None:
    decoder = decoder_class()
    decoder.feed(start)
    for _ in range(5000):
        decoder.feed(b"x" * 200)
    assert measure_peak_memory(decoder, b"x" * 200) < 5000
    assert len(decoder.feed(b"\n\n")[0].data) > 1_000_000


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
def test_fields_are_decoded_as_in_browsers(stream: str, events: list[tuple[str | None, str]]) -> None:
    data = stream.encode()
    expected = [RawEvent(name, text) for name, text in events]
    assert read(SseDecoder(), [data]) == expected
    assert read(SseDecoder(), [data[i : i + 1] for i in range(len(data))]) == expected


def test_error_field_of_llama_servers_is_an_event() -> None:
    stream = b'data: 1\n\nerror: {"message": "no"}\n\nerror: no\n\ndata: 2\n\n'
    assert read(SseDecoder(), [stream]) == [
        RawEvent(None, "1"),
        RawEvent("error", '{"message": "no"}'),
        RawEvent(None, "2"),
    ]
