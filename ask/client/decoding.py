"""Incremental decoders for response bodies: gzip and chunked transfer encoding, both with limits."""

from __future__ import annotations

import zlib

GZIP_MAGIC = b"\x1f\x8b"
_GZIP_ONLY = 31
"""zlib's window bits for gzip streams: https://docs.python.org/3/library/zlib.html#zlib.decompressobj"""


class GzipDecoder:
    """Decodes a body of one or more gzip streams; anything after them is ignored."""

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
        """Decode a piece of the body and return at most `limit` bytes.

        While `has_pending_output` is set, call again with b"".

        Raises:
            zlib.error: the data is not gzip, or damaged.
        """
        data, self._unconsumed = self._unconsumed + data, b""
        output = b""
        while True:
            if self._decompressor.eof:
                if not data.startswith(GZIP_MAGIC):
                    data = b""
                    break
                self._decompressor = zlib.decompressobj(_GZIP_ONLY)
            output += self._decompressor.decompress(data, limit - len(output))
            data = self._decompressor.unused_data if self._decompressor.eof else self._decompressor.unconsumed_tail
            if len(output) >= limit or not data:
                break
        self._unconsumed = data
        # At the limit, zlib may have buffered output even if all input is consumed.
        self.has_pending_output = len(output) >= limit
        return output


MAX_LINE_BYTES = 65_536
HEX_DIGITS = b"0123456789abcdefABCDEF"
_LINE_END_BYTES = len(b"\r\n")


class InvalidChunkError(ValueError):
    """The data is not a valid chunked body."""


class ChunkedDecoder:
    """Decodes a chunked body (https://www.rfc-editor.org/rfc/rfc9112#section-7.1) from bytes split anywhere."""

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
            InvalidChunkError: the data is not a valid chunked body.
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
            self._read_line(data[position:end].strip())
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
