"""Takes a body in chunked transfer encoding apart: many chunks at a time, where a stream has one for each event.

Pure; reads no socket. The libraries below hand out a chunk at a time, which costs more than all else there is to do
for an event.
"""

from __future__ import annotations

LONGEST_LINE = 65_536
DIGITS = b"0123456789abcdefABCDEF"
_LINE_END = len(b"\r\n")


class BadChunk(ValueError):
    """What came is no chunked body."""


class Chunks:
    """The decoder of https://www.rfc-editor.org/rfc/rfc9112#section-7.1, wherever the bytes were cut.

    Attributes:
        last: whether the chunk that ends the body has begun, behind which nothing counts any more.
        ended: whether the body is over, with all that may stand behind it.
    """

    def __init__(self) -> None:
        self.last = False
        self.ended = False
        self._line = b""
        self._left = 0
        """Bytes of the chunk under way that are still to come, its line end with them."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes as they came; return what of the body is in them.

        Raises:
            BadChunk: they are none of a chunked body.
        """
        data, self._line = self._line + data, b""
        pieces, place = [], 0
        while not self.ended:
            if self._left:
                pieces.append(data[place : place + max(self._left - _LINE_END, 0)])
                taken = min(self._left, len(data) - place)
                place += taken
                self._left -= taken
                if self._left:
                    break
            end = data.find(b"\n", place)
            if end < 0:
                self._line = data[place:]
                break
            self._read_line(data[place:end].strip())
            place = end + 1
        if len(self._line) > LONGEST_LINE:
            raise BadChunk
        return b"".join(pieces)

    def _read_line(self, line: bytes) -> None:
        """Take the line that begins a chunk, or one of those behind the last chunk."""
        if self.last:
            self.ended = not line
            return
        size = line.partition(b";")[0].rstrip()
        if not size or size.strip(DIGITS):
            raise BadChunk
        length = int(size, 16)
        self.last = length == 0
        self._left = length + _LINE_END if length else 0
