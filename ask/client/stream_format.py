"""Splits a byte stream into events: SSE frames, or the lines of NDJSON. Pure; reads no socket."""

from __future__ import annotations

import json

from ask.plugin_api.provider import ServerEvent

MAX_EVENT_BYTES = 8_000_000
"""Limit for one event, and for an answer that is not a stream."""
SMALL_EVENT_BYTES = 1_000_000
"""Events up to this size may hold anything: whatever they parse to is small."""
MAX_CONTAINERS = 200_000
"""Limit for the objects and arrays in a larger event: in memory, `{}` takes thirty times what it takes on the wire."""


class EventTooLargeError(ValueError):
    """One event, or one body, is larger than any answer."""


def check_size(data: bytes | bytearray) -> None:
    """Refuse JSON that is too large to be parsed in a reasonable amount of memory.

    Raises:
        EventTooLargeError: it is.
    """
    too_many = len(data) > SMALL_EVENT_BYTES and data.count(b"{") + data.count(b"[") > MAX_CONTAINERS
    if too_many or len(data) > MAX_EVENT_BYTES:
        raise EventTooLargeError


class LineDecoder:
    """Cuts bytes into lines that end in LF, CRLF or CR, wherever the chunks were cut."""

    def __init__(self) -> None:
        self.incomplete_line = bytearray()
        """The incomplete line at the end."""
        self._after_carriage_return = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take a chunk; return the lines that are complete by now, without their ends."""
        if self._after_carriage_return:
            data = data.removeprefix(b"\n")
        self._after_carriage_return = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        if self.incomplete_line:
            self.incomplete_line += lines[0]
            if len(lines) == 1:
                return []
            lines[0] = bytes(self.incomplete_line)
        self.incomplete_line = bytearray(lines.pop())
        return lines


class SseDecoder:
    """The framing of https://html.spec.whatwg.org/multipage/server-sent-events.html, comments left out."""

    def __init__(self) -> None:
        self._line_decoder = LineDecoder()
        self._event_type: str | None = None
        self._data_lines: list[bytes] = []
        self._data_bytes = 0
        self._is_first_line = True

    @property
    def pending_bytes(self) -> int:
        """Bytes of data that have come of the next event."""
        rest = self._line_decoder.incomplete_line
        return self._data_bytes + (len(rest) if rest.startswith(b"data:") else 0)

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk; return the events that are complete by now.

        Raises:
            EventTooLargeError: one of them is, or the next one already is.
        """
        events = [event for line in self._line_decoder.feed(chunk) for event in self._decode_line(line)]
        if self._data_bytes + len(self._line_decoder.incomplete_line) > MAX_EVENT_BYTES:
            raise EventTooLargeError
        return events

    def flush(self) -> list[ServerEvent]:
        """The event that the end of the stream left without its blank line, unless it was cut short."""
        last = bytes(self._line_decoder.incomplete_line)
        if last:
            self._decode_line(last)
        return self._decode_line(b"") if not last or is_complete_event(b"\n".join(self._data_lines)) else []

    def _decode_line(self, line: bytes) -> list[ServerEvent]:
        if self._is_first_line:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._is_first_line = False
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data_lines.append(value)
            self._data_bytes += len(line)
        elif field == b"event":
            self._event_type = value.decode("utf-8", "replace") or None
        elif not line and self._data_lines:
            data = b"\n".join(self._data_lines)
            check_size(data)
            event = ServerEvent(self._event_type, data.decode("utf-8", "replace"))
            self._event_type, self._data_lines, self._data_bytes = None, [], 0
            return [event]
        elif not line:
            self._event_type = None
        return []


class NdjsonDecoder:
    """NDJSON: a JSON value a line, blank lines left out."""

    def __init__(self) -> None:
        self._line_decoder = LineDecoder()

    @property
    def pending_bytes(self) -> int:
        """Bytes that have come of the next line."""
        return len(self._line_decoder.incomplete_line)

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk; return the lines that are complete by now.

        Raises:
            EventTooLargeError: one of them is, or the next one already is.
        """
        events = [event for line in self._line_decoder.feed(chunk) for event in self._decode_line(line)]
        if self.pending_bytes > MAX_EVENT_BYTES:
            raise EventTooLargeError
        return events

    def flush(self) -> list[ServerEvent]:
        """The last line, where it came without its end but was not cut short."""
        last = bytes(self._line_decoder.incomplete_line)
        return self._decode_line(last) if is_complete_event(last) else []

    def _decode_line(self, line: bytes) -> list[ServerEvent]:
        if not line.strip():
            return []
        check_size(line)
        return [ServerEvent(None, line.decode("utf-8", "replace"))]


def is_complete_event(data: bytes) -> bool:
    """Whether data at the end of a stream, where nothing tells that its line has ended, was not cut short."""
    if data == b"[DONE]":
        return True
    try:
        return isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return False
