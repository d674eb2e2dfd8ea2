"""Splits a byte stream into events: SSE frames, or the lines of NDJSON. Pure; reads no socket."""

from __future__ import annotations

import json

from ask.plugin_api.provider import ServerEvent

EVENT_BYTES = 8_000_000
"""Limit for one event, and for an answer that is not a stream."""
SMALL_EVENT_BYTES = 1_000_000
"""Events up to this size may hold anything: whatever they parse to is small."""
CONTAINERS = 200_000
"""Limit for the objects and arrays in a larger event: in memory, `{}` takes thirty times what it takes on the wire."""


class EventTooLargeError(ValueError):
    """One event, or one body, is larger than any answer."""


def check_size(data: bytes | bytearray) -> None:
    """Refuse JSON that is too large to be parsed in a reasonable amount of memory.

    Raises:
        EventTooLargeError: it is.
    """
    too_many = len(data) > SMALL_EVENT_BYTES and data.count(b"{") + data.count(b"[") > CONTAINERS
    if too_many or len(data) > EVENT_BYTES:
        raise EventTooLargeError


class Lines:
    """Cuts bytes into lines that end in LF, CRLF or CR, wherever the chunks were cut."""

    def __init__(self) -> None:
        self.rest = bytearray()
        """The incomplete line at the end."""
        self._after_return = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take a chunk; return the lines that are complete by now, without their ends."""
        if self._after_return:
            data = data.removeprefix(b"\n")
        self._after_return = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        if self.rest:
            self.rest += lines[0]
            if len(lines) == 1:
                return []
            lines[0] = bytes(self.rest)
        self.rest = bytearray(lines.pop())
        return lines


class ServerSentEvents:
    """The framing of https://html.spec.whatwg.org/multipage/server-sent-events.html, comments left out."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._event: str | None = None
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._first = True

    @property
    def pending(self) -> int:
        """Bytes of data that have come of the next event."""
        rest = self._lines.rest
        return self._data_bytes + (len(rest) if rest.startswith(b"data:") else 0)

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk; return the events that are complete by now.

        Raises:
            EventTooLargeError: one of them is, or the next one already is.
        """
        events = [event for line in self._lines.feed(chunk) for event in self._read(line)]
        if self._data_bytes + len(self._lines.rest) > EVENT_BYTES:
            raise EventTooLargeError
        return events

    def close(self) -> list[ServerEvent]:
        """The event that the end of the stream left without its blank line, unless it was cut short."""
        last = bytes(self._lines.rest)
        if last:
            self._read(last)
        return self._read(b"") if not last or is_whole(b"\n".join(self._data)) else []

    def _read(self, line: bytes) -> list[ServerEvent]:
        if self._first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._first = False
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(line)
        elif field == b"event":
            self._event = value.decode("utf-8", "replace") or None
        elif not line and self._data:
            data = b"\n".join(self._data)
            check_size(data)
            event = ServerEvent(self._event, data.decode("utf-8", "replace"))
            self._event, self._data, self._data_bytes = None, [], 0
            return [event]
        elif not line:
            self._event = None
        return []


class JsonLines:
    """NDJSON: a JSON value a line, blank lines left out."""

    def __init__(self) -> None:
        self._lines = Lines()

    @property
    def pending(self) -> int:
        """Bytes that have come of the next line."""
        return len(self._lines.rest)

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk; return the lines that are complete by now.

        Raises:
            EventTooLargeError: one of them is, or the next one already is.
        """
        events = [event for line in self._lines.feed(chunk) for event in self._read(line)]
        if self.pending > EVENT_BYTES:
            raise EventTooLargeError
        return events

    def close(self) -> list[ServerEvent]:
        """The last line, where it came without its end but was not cut short."""
        last = bytes(self._lines.rest)
        return self._read(last) if is_whole(last) else []

    def _read(self, line: bytes) -> list[ServerEvent]:
        if not line.strip():
            return []
        check_size(line)
        return [ServerEvent(None, line.decode("utf-8", "replace"))]


def is_whole(data: bytes) -> bool:
    """Whether data at the end of a stream, where nothing tells that its line has ended, was not cut short."""
    if data == b"[DONE]":
        return True
    try:
        return isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return False
