"""Decoders for response bodies: gzip and chunked transfer encoding, both with limits."""

from __future__ import annotations

import zlib

GZIP_MAGIC = b"\x1f\x8b"
_GZIP_ONLY = 31
"""zlib's window bits for gzip streams: https://docs.python.org/3/library/zlib.html#zlib.decompressobj"""


class GzipDecoder:
    """Decodes a body with one gzip stream or several in a row; anything after them is ignored."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(_GZIP_ONLY)
        self._unconsumed = b""
        self.has_pending_output = False
        """Whether `decode` stopped at its limit: more output is available without more input."""

    @property
    def complete(self) -> bool:
        """Whether the last stream has ended."""
        return self._decompressor.eof

    def decode(self, data: bytes, limit: int) -> bytes:
        """Take a piece of the body and return at most `limit` bytes; while `has_pending_output`, call again with b"".

        Raises:
            zlib.error: the data is not gzip, or damaged.
        """
        data, self._unconsumed = self._unconsumed + data, b""
        out = b""
        while True:
            if self._decompressor.eof:
                if not data.startswith(GZIP_MAGIC):
                    data = b""
                    break
                self._decompressor = zlib.decompressobj(_GZIP_ONLY)
            out += self._decompressor.decompress(data, limit - len(out))
            data = self._decompressor.unused_data if self._decompressor.eof else self._decompressor.unconsumed_tail
            if len(out) >= limit or not data:
                break
        self._unconsumed = data
        # At the limit zlib may hold output of input that it has consumed.
        self.has_pending_output = len(out) >= limit
        return out


MAX_LINE_BYTES = 65_536
HEX_DIGITS = b"0123456789abcdefABCDEF"
_LINE_END_BYTES = len(b"\r\n")


class InvalidChunkError(ValueError):
    """What came is no chunked body."""


class ChunkedDecoder:
    """The decoder of https://www.rfc-editor.org/rfc/rfc9112#section-7.1, wherever the bytes were cut.

    Attributes:
        last_chunk_seen: whether the chunk that ends the body has begun, behind which nothing counts any more.
        complete: whether the body is over, with all that may stand behind it.
    """

    def __init__(self) -> None:
        self.last_chunk_seen = False
        self.complete = False
        self._partial_line = b""
        self._chunk_bytes_left = 0
        """Bytes of the chunk under way that are still to come, its line end with them."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes as they came; return what of the body is in them.

        Raises:
            BadChunk: they are none of a chunked body.
        """
        data, self._partial_line = self._partial_line + data, b""
        pieces, place = [], 0
        while not self.complete:
            if self._chunk_bytes_left:
                pieces.append(data[place : place + max(self._chunk_bytes_left - _LINE_END_BYTES, 0)])
                taken = min(self._chunk_bytes_left, len(data) - place)
                place += taken
                self._chunk_bytes_left -= taken
                if self._chunk_bytes_left:
                    break
            end = data.find(b"\n", place)
            if end < 0:
                self._partial_line = data[place:]
                break
            self._read_line(data[place:end].strip())
            place = end + 1
        if len(self._partial_line) > MAX_LINE_BYTES:
            raise InvalidChunkError
        return b"".join(pieces)

    def _read_line(self, line: bytes) -> None:
        """Take the line that begins a chunk, or one of those behind the last chunk."""
        if self.last_chunk_seen:
            self.complete = not line
            return
        size = line.partition(b";")[0].rstrip()
        if not size or size.strip(HEX_DIGITS):
            raise InvalidChunkError
        length = int(size, 16)
        self.last_chunk_seen = length == 0
        self._chunk_bytes_left = length + _LINE_END_BYTES if length else 0
