"""Incremental decoders for response bodies: chunked transfer encoding, server-sent events and NDJSON. No I/O."""

from __future__ import annotations

import json
from http.client import HTTPException

from ask.messages import RawEvent

MAX_LINE_BYTES = 65_536
HEX_DIGITS = b"0123456789abcdefABCDEF"
_LINE_END_BYTES = len(b"\r\n")


class InvalidChunkError(HTTPException):
    """The data is not a valid chunked body."""


class ChunkedDecoder:
    """Decodes a chunked body (https://www.rfc-editor.org/rfc/rfc9112#section-7.1) from bytes split anywhere.

    http.client and urllib3 return one chunk at a time: 20,000 events, each in a chunk, would take four times as long.
    """

    def __init__(self) -> None:
        self.last_chunk_seen = False
        """Whether the final, empty chunk has begun; only trailers can follow."""
        self.complete = False
        """Whether the body, including its trailers, has ended."""
        self._partial_line = b""
        self._chunk_bytes_left = 0
        """Remaining bytes of the current chunk, including its line end."""

    def feed(self, data: bytes) -> bytes:
        """Decode received bytes; return the part of the body in them.

        Raises:
            InvalidChunkError: the data is not a valid chunked body. What came before in the same bytes is returned
                first, because it may be the end of the answer.
        """
        data, self._partial_line = self._partial_line + data, b""
        pieces, position = [], 0
        while not self.complete:
            if self._chunk_bytes_left:
                pieces.append(data[position : position + max(self._chunk_bytes_left - _LINE_END_BYTES, 0)])
                count = min(self._chunk_bytes_left, len(data) - position)
                position += count
                self._chunk_bytes_left -= count
                if self._chunk_bytes_left:
                    break
            end = data.find(b"\n", position)
            if end < 0:
                self._partial_line = data[position:]
                break
            try:
                self._read_line(data[position:end].strip())
            except InvalidChunkError:
                if not any(pieces):
                    raise
                self._partial_line = data[position:]
                return b"".join(pieces)
            position = end + 1
        if len(self._partial_line) > MAX_LINE_BYTES:
            raise InvalidChunkError
        return b"".join(pieces)

    def _read_line(self, line: bytes) -> None:
        """Process the line with a chunk's size, or a trailer after the last chunk."""
        if self.last_chunk_seen:
            self.complete = not line
            return
        size = line.partition(b";")[0].rstrip()
        if not size or size.strip(HEX_DIGITS):
            raise InvalidChunkError
        length = int(size, 16)
        self.last_chunk_seen = length == 0
        self._chunk_bytes_left = length + _LINE_END_BYTES if length else 0


# Events

MAX_EVENT_BYTES = 64_000_000
"""The limit for one event: generated images are in one each."""
MAX_BODY_BYTES = 200_000_000
"""The limit for a response that is not a stream: all images of an answer, or the results of a batch."""
SMALL_EVENT_BYTES = 1_000_000
"""Events up to this size are not checked for `MAX_CONTAINERS`: any JSON of this size is small in memory."""
MAX_CONTAINERS = 200_000
"""The limit for objects and arrays in a larger event: `{}` takes thirty times as much memory as bytes on the wire."""


class EventTooLargeError(ValueError):
    """An event or a body is too large to be a valid answer."""


def check_size(data: bytes | bytearray, max_bytes: int = MAX_EVENT_BYTES) -> None:
    """Raise `EventTooLargeError` for JSON that would take too much memory to parse."""
    max_containers = MAX_CONTAINERS * max_bytes // MAX_EVENT_BYTES
    has_many_containers = len(data) > SMALL_EVENT_BYTES and data.count(b"{") + data.count(b"[") > max_containers
    if has_many_containers or len(data) > max_bytes:
        raise EventTooLargeError


class EventDecoder:
    """Splits bytes, received in arbitrary chunks, into lines that end in LF, CRLF or CR, and these into events."""

    def __init__(self) -> None:
        self._incomplete_line = bytearray()
        """The bytes after the last line end."""
        self._after_carriage_return = False
        self._data_bytes = 0
        """The number of bytes in earlier lines of the next event."""

    @property
    def pending_bytes(self) -> int:
        """The number of bytes of data received for the next event."""
        return self._data_bytes + len(self._incomplete_line)

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Add a chunk and return the events that are now complete.

        Raises:
            EventTooLargeError: an event is too large, even if it is still incomplete.
        """
        if self._after_carriage_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_carriage_return = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = chunk.split(b"\n")
        self._incomplete_line += first
        events: list[RawEvent] = []
        if others:
            lines = [bytes(self._incomplete_line), *others[:-1]]
            self._incomplete_line = bytearray(others[-1])
            for line in lines:
                events += self._decode_line(line)
        if self._data_bytes + len(self._incomplete_line) > MAX_EVENT_BYTES:
            raise EventTooLargeError
        return events

    def _decode_line(self, line: bytes) -> list[RawEvent]:
        """Add a line and return the event that it completes, if any."""
        raise NotImplementedError

    def flush(self) -> list[RawEvent]:
        """Return the last event if only its end is missing."""
        raise NotImplementedError


class SseDecoder(EventDecoder):
    """Decodes server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

    def __init__(self) -> None:
        super().__init__()
        self._event_type: str | None = None
        self._data_lines: list[bytes] = []
        self._is_first_line = True

    @property
    def pending_bytes(self) -> int:
        return super().pending_bytes if self._incomplete_line.startswith(b"data:") else self._data_bytes

    def flush(self) -> list[RawEvent]:
        last_line = bytes(self._incomplete_line)
        if last_line:
            self._decode_line(last_line)
        return self._decode_line(b"") if not last_line or is_complete_event(b"\n".join(self._data_lines)) else []

    def _decode_line(self, line: bytes) -> list[RawEvent]:
        if self._is_first_line:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._is_first_line = False
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data" and value.startswith(b"data:"):  # https://github.com/paiml/aprender/pull/2015
            value = value.removeprefix(b"data:").removeprefix(b" ")
        events: list[RawEvent] = []
        if field == b"error" and value.startswith(b"{"):  # llama.cpp: https://github.com/ggml-org/llama.cpp/pull/16109
            self._event_type, field = "error", b"data"
        if field == b"data":
            # Some services leave out the blank line: https://github.com/rexxars/eventsource-parser/pull/31
            if len(self._data_lines) == 1 and _is_next_event(self._data_lines[0], value):
                events = self._take_event(None)
            self._data_lines.append(value)
            self._data_bytes += len(line)
        elif field == b"event":
            self._event_type = value.decode("utf-8", "replace") or None
        elif not line and self._data_lines:
            events = self._take_event(self._event_type)
            self._event_type = None
        elif not line:
            self._event_type = None
        return events

    def _take_event(self, event_type: str | None) -> list[RawEvent]:
        data = b"\n".join(self._data_lines)
        if len(data) > SMALL_EVENT_BYTES:
            check_size(data)
        self._data_lines, self._data_bytes = [], 0
        return [RawEvent(event_type, data.decode("utf-8", "replace"))]


class NdjsonDecoder(EventDecoder):
    """Decodes NDJSON: one JSON value per line, ignoring blank lines.

    The lines may also be the data of server-sent events, as some gateways send them.
    """

    def flush(self) -> list[RawEvent]:
        last_line = bytes(self._incomplete_line).removeprefix(b"data:").strip()
        return self._decode_line(last_line) if is_complete_event(last_line) else []

    def _decode_line(self, line: bytes) -> list[RawEvent]:
        line = line.removeprefix(b"data:")
        if not line.strip():
            return []
        if len(line) > SMALL_EVENT_BYTES:
            check_size(line)
        return [RawEvent(None, line.decode("utf-8", "replace"))]


def _is_next_event(line: bytes, next_line: bytes) -> bool:
    """Check whether a line of data is an object or a word such as "ping", and the next one begins another event.

    The lines of one JSON value never look like this.
    """
    if line.startswith(b"{"):
        return line.endswith(b"}") and (next_line.startswith((b"{", b"[DONE]")) or next_line[:1].isalpha())
    return line[:1].isalpha() and next_line.startswith((b'{"', b"[DONE]"))


def is_complete_event(data: bytes | bytearray) -> bool:
    """Check whether the last data of a stream, without a line end, is complete."""
    if data == b"[DONE]":
        return True
    try:
        return isinstance(json.loads(data, strict=False), dict | list)
    except (ValueError, RecursionError):
        return False
