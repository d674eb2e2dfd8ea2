"""Splits a byte stream into events: SSE frames, or the lines of NDJSON. Pure; reads no socket."""

from __future__ import annotations

import json

from ask.provider import ServerEvent


class Lines:
    """Cuts bytes into lines that end in LF, CRLF or CR, wherever the chunks were cut."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._after_return = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take a chunk; return the lines that are whole by now, without their ends."""
        if self._after_return:
            data = data.removeprefix(b"\n")
        self._after_return = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = data.split(b"\n")
        if first:
            self._rest.append(first)
        if not others:
            return []
        whole = [b"".join(self._rest), *others[:-1]]
        self._rest = [others[-1]] if others[-1] else []
        return whole

    @property
    def rest(self) -> bytes:
        """What has come of the line under way."""
        return b"".join(self._rest)

    def starts_with(self, prefix: bytes) -> bool:
        """Whether the line under way has begun with that."""
        pieces = self._rest[: len(prefix)]
        return b"".join(piece[: len(prefix)] for piece in pieces).startswith(prefix)


class ServerSentEvents:
    """The framing of https://html.spec.whatwg.org/multipage/server-sent-events.html, comments left out."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._event: str | None = None
        self._data: list[bytes] = []
        self._first = True
        self.progress = False
        """Whether the last chunk held any part of an event's data: comments only keep the connection alive."""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk; return the events that are whole by now."""
        self.progress = False
        events = [event for line in self._lines.feed(chunk) for event in self._read(line)]
        self.progress = self.progress or self._lines.starts_with(b"data:")
        return events

    def close(self) -> list[ServerEvent]:
        """The event that the end of the stream left without its blank line, unless it was cut short."""
        last = self._lines.rest
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
            self.progress = True
        elif field == b"event":
            self._event = value.decode("utf-8", "replace") or None
        elif not line and self._data:
            event = ServerEvent(self._event, b"\n".join(self._data).decode("utf-8", "replace"))
            self._event, self._data = None, []
            return [event]
        elif not line:
            self._event = None
        return []


class JsonLines:
    """NDJSON: a JSON value a line, blank lines left out."""

    def __init__(self) -> None:
        self._lines = Lines()
        self.progress = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk; return the lines that are whole by now."""
        self.progress = bool(chunk.strip())
        return [event for line in self._lines.feed(chunk) for event in self._read(line)]

    def close(self) -> list[ServerEvent]:
        """The last line, where it came without its end but was not cut short."""
        last = self._lines.rest
        return self._read(last) if is_whole(last) else []

    def _read(self, line: bytes) -> list[ServerEvent]:
        return [ServerEvent(None, line.decode("utf-8", "replace"))] if line.strip() else []


def is_whole(data: bytes) -> bool:
    """Whether data at the end of a stream, where nothing tells that its line has ended, was not cut short."""
    if data == b"[DONE]":
        return True
    try:
        return isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return False
