"""What ask and a worker say to each other: a kind, a length and that many bytes. What it means is theirs to know.

The sandbox has such a worker, and so has each plugin with tools.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

FRAME_LIMIT = 4 << 20
"""Bytes that a frame of the worker may have."""

READY, OUTPUT, OPEN, SPILL, TEXT, DONE = b"R", b"O", b"F", b"S", b"T", b"D"
"""The worker's frames: it can start; live output; a spilled file begins; a piece of it; one of the result; the result.
"""
START, CALL = b"B", b"C"
"""Ask's frames: what there is to know at the start; a call."""

_HEAD = struct.Struct(">cI")


class BadFrame(Exception):
    """What came is no frame."""


def encode(kind: bytes, payload: bytes) -> bytes:
    """A frame."""
    return _HEAD.pack(kind, len(payload)) + payload


class FrameReader:
    """Takes bytes as they come and gives the frames that are whole."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._waiting = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The next frames.

        Raises:
            BadFrame: one is too long.
        """
        self._waiting += data
        while len(self._waiting) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._waiting)
            if length > self._limit:
                raise BadFrame
            end = _HEAD.size + length
            if len(self._waiting) < end:
                return
            payload = bytes(self._waiting[_HEAD.size : end])
            del self._waiting[:end]
            yield kind, payload
