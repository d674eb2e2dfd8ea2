"""Decompresses gzip piece by piece, so that a small body cannot become a large one in memory."""

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
