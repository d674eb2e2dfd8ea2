"""Frames exchanged with a worker process over two pipes. The sandbox and each tool plugin have a worker."""

from __future__ import annotations

import os
import selectors
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

MAX_FRAME_SIZE = 4 << 20
"""Bytes that a frame of the worker may have."""

READY, OUTPUT, OVERFLOW_OPEN, OVERFLOW_DATA, TEXT, DONE = b"R", b"O", b"F", b"S", b"T", b"D"
"""The worker's frames: it can start; live output; a spilled file begins; a piece of it; one of the result; the result.
"""
START, CALL = b"B", b"C"
"""Ask's frames: what there is to know at the start; a call."""

_HEADER = struct.Struct(">cI")


class InvalidFrameError(Exception):
    """What came is no frame."""


def encode_frame(kind: bytes, payload: bytes) -> bytes:
    """A frame."""
    return _HEADER.pack(kind, len(payload)) + payload


class FrameReader:
    """Takes bytes as they come and gives the frames that are whole."""

    def __init__(self, max_size: int = MAX_FRAME_SIZE) -> None:
        self._max_size = max_size
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The next frames.

        Raises:
            BadFrame: one is too long.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._buffer)
            if length > self._max_size:
                raise InvalidFrameError
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield kind, payload


READ_SIZE = 1 << 16
MAX_SELECT_TIMEOUT = 3_600.0
"""Seconds that a selector is made to wait at once; it overflows at a few weeks."""
NO_EXTRA_READERS: Mapping[int, Callable[[], bool]] = MappingProxyType({})


class WorkerDiedError(Exception):
    """The worker has ended, or says what it should not; the text, where there is one, tells what."""


class WorkerTimeoutError(Exception):
    """The worker has not answered in time."""


class WorkerChannel:
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

    def exchange_frames(
        self,
        kind: bytes,
        payload: bytes,
        deadline: float,
        extra_readers: Mapping[int, Callable[[], bool]] = NO_EXTRA_READERS,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame, at once as far as it fits into the pipe, and give what comes back until the caller has enough.

        Args:
            kind: of the frame.
            payload: what is in it.
            deadline: a moment of the monotonic clock.
            extra_readers: further descriptors, each with what reads it when there is something, and tells whether there may
                be more.

        Raises:
            WorkerLost: it has ended, or sends what is no frame.
            WorkerLate: the deadline has come.
        """
        return self._receive_frames(self._send(memoryview(encode_frame(kind, payload))), deadline, extra_readers)

    def _receive_frames(
        self, unsent: memoryview, deadline: float, extra_readers: Mapping[int, Callable[[], bool]]
    ) -> Iterator[tuple[bytes, bytes]]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            if unsent:
                selector.register(self._requests, selectors.EVENT_WRITE)
            for descriptor in extra_readers:
                selector.register(descriptor, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(min(left, MAX_SELECT_TIMEOUT)):
                    if key.fd == self._replies:
                        yield from self._read_frames()
                    elif key.fd == self._requests:
                        unsent = self._send(unsent)
                        if not unsent:
                            selector.unregister(self._requests)
                    elif not extra_readers[key.fd]():
                        selector.unregister(key.fd)
        raise WorkerTimeoutError

    def _send(self, data: memoryview) -> memoryview:
        try:
            return data[os.write(self._requests, data) :]
        except BlockingIOError:
            return data
        except BrokenPipeError:
            raise WorkerDiedError from None

    def _read_frames(self) -> Iterator[tuple[bytes, bytes]]:
        data = os.read(self._replies, READ_SIZE)
        if not data:
            raise WorkerDiedError
        try:
            yield from self._reader.feed(data)
        except InvalidFrameError:
            raise WorkerDiedError("it says what makes no sense") from None
