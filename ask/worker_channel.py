"""Frames exchanged with a worker process over two pipes. The sandbox and each tool plugin have a worker."""

from __future__ import annotations

import os
import selectors
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

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


READ_SIZE = 1 << 16
LONGEST_WAIT = 3_600.0
"""Seconds that a selector is made to wait at once; it overflows at a few weeks."""
NOTHING: Mapping[int, Callable[[], bool]] = MappingProxyType({})


class WorkerLost(Exception):
    """The worker has ended, or says what it should not; the text, where there is one, tells what."""


class WorkerLate(Exception):
    """The worker has not answered in time."""


class Channel:
    """A channel to a worker.

    Args:
        requests: the descriptor that is written to, which is made not to block.
        replies: the descriptor that is read from.
    """

    def __init__(self, requests: int, replies: int) -> None:
        self._requests = requests
        self._replies = replies
        self._reader = FrameReader()
        os.set_blocking(requests, False)

    def exchange(
        self, kind: bytes, payload: bytes, deadline: float, beside: Mapping[int, Callable[[], bool]] = NOTHING
    ) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame, at once as far as it fits into the pipe, and give what comes back until the caller has enough.

        Args:
            kind: of the frame.
            payload: what is in it.
            deadline: a moment of the monotonic clock.
            beside: further descriptors, each with what reads it when there is something, and tells whether there may
                be more.

        Raises:
            WorkerLost: it has ended, or sends what is no frame.
            WorkerLate: the deadline has come.
        """
        return self._exchange(self._send(memoryview(encode(kind, payload))), deadline, beside)

    def _exchange(
        self, waiting: memoryview, deadline: float, beside: Mapping[int, Callable[[], bool]]
    ) -> Iterator[tuple[bytes, bytes]]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            if waiting:
                selector.register(self._requests, selectors.EVENT_WRITE)
            for descriptor in beside:
                selector.register(descriptor, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(min(left, LONGEST_WAIT)):
                    if key.fd == self._replies:
                        yield from self._receive()
                    elif key.fd == self._requests:
                        waiting = self._send(waiting)
                        if not waiting:
                            selector.unregister(self._requests)
                    elif not beside[key.fd]():
                        selector.unregister(key.fd)
        raise WorkerLate

    def _send(self, data: memoryview) -> memoryview:
        try:
            return data[os.write(self._requests, data) :]
        except BlockingIOError:
            return data
        except BrokenPipeError:
            raise WorkerLost from None

    def _receive(self) -> Iterator[tuple[bytes, bytes]]:
        data = os.read(self._replies, READ_SIZE)
        if not data:
            raise WorkerLost
        try:
            yield from self._reader.feed(data)
        except BadFrame:
            raise WorkerLost("it says what makes no sense") from None
