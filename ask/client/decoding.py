"""Decoders for response bodies: gzip and chunked transfer encoding, both with limits."""

from __future__ import annotations

import zlib

GZIP_MAGIC = b"\x1f\x8b"
_GZIP_ONLY = 31
"""zlib's window bits for gzip streams: https://docs.python.org/3/library/zlib.html#zlib.decompressobj"""


class GzipDecoder:
    """Decodes a body with one gzip stream or several in a row; anything after them is ignored."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_ONLY)
        self._rest = b""
        self.pending = False
        """Whether `decode` stopped at its limit: more output is available without more input."""

    @property
    def complete(self) -> bool:
        """Whether the last stream has ended."""
        return self._stream.eof

    def decode(self, data: bytes, limit: int) -> bytes:
        """Take a piece of the body and return at most `limit` bytes; while `pending`, call again with b"".

        Raises:
            zlib.error: the data is not gzip, or damaged.
        """
        data, self._rest = self._rest + data, b""
        out = b""
        while True:
            if self._stream.eof:
                if not data.startswith(GZIP_MAGIC):
                    data = b""
                    break
                self._stream = zlib.decompressobj(_GZIP_ONLY)
            out += self._stream.decompress(data, limit - len(out))
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if len(out) >= limit or not data:
                break
        self._rest = data
        # At the limit zlib may hold output of input that it has consumed.
        self.pending = len(out) >= limit
        return out


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
