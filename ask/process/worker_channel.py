"""Frames exchanged with a worker process over two pipes. The sandbox and each tool plugin have a worker."""

from __future__ import annotations

import os
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing these would slow down the start of a worker
    from collections.abc import Callable, Iterator, Mapping

MAX_FRAME_BYTES = 16 << 20
"""The largest payload of a worker's frame: the largest file that tools read, in Base64."""
_MAX_REQUEST_BYTES = 1 << 28
"""The largest payload of a frame to a worker."""

READ_BYTES = 1 << 16
MAX_SELECT_SECONDS = 3_600.0
"""The longest wait for a selector; it overflows at a few weeks."""

READY, OUTPUT, DONE = b"R", b"O", b"D"
"""Frames sent by the worker: it is ready; live output; the result of a call."""
START, CALL = b"B", b"C"
"""Frames sent to the worker: the initial data, and a call."""

_HEADER = struct.Struct(">cI")


class InvalidFrameError(Exception):
    """The received bytes are not a valid frame."""


def encode_frame(kind: bytes, payload: bytes) -> bytes:
    return _HEADER.pack(kind, len(payload)) + payload


def write_frame(descriptor: int, kind: bytes, payload: bytes) -> None:
    """Write a frame to a blocking descriptor; partial writes are continued."""
    data = memoryview(encode_frame(kind, payload))
    while data:
        data = data[os.write(descriptor, data) :]


class FrameReader:
    """Splits received bytes into frames."""

    def __init__(self, max_size: int = MAX_FRAME_BYTES) -> None:
        self._max_size = max_size
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Add bytes and yield each frame that is complete, as (kind, payload).

        Raises:
            InvalidFrameError: a frame exceeds the maximum size.
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


def read_frames(descriptor: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames sent to a worker until the pipe is closed."""
    reader = FrameReader(_MAX_REQUEST_BYTES)
    while data := os.read(descriptor, 1 << 20):
        yield from reader.feed(data)


class WorkerDiedError(Exception):
    """The worker has exited or sent an invalid frame. The message, if any, explains why."""


class WorkerTimeoutError(Exception):
    """The worker has not answered in time."""


class WorkerChannel:
    """A channel to a worker.

    `requests` is the descriptor to write to, which is made non-blocking, and `replies` the one to read from.
    """

    def __init__(self, requests: int, replies: int, max_frame_size: int = MAX_FRAME_BYTES) -> None:
        self._requests = requests
        self._replies = replies
        self._reader = FrameReader(max_frame_size)
        os.set_blocking(requests, False)

    def exchange_frames(
        self,
        kind: bytes,
        payload: bytes,
        deadline: float,
        extra_readers: Mapping[int, Callable[[], bool]] | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame, and yield the frames that come back.

        As much as fits into the pipe is sent immediately, before the first frame is requested. The iterator does not
        end by itself: the caller stops at the frame it waits for. `deadline` is a time of `time.monotonic`.
        `extra_readers` maps further descriptors to functions that are called when they are readable, and return whether
        more may follow.

        Raises:
            WorkerDiedError: the worker has exited or sent an invalid frame.
            WorkerTimeoutError: the deadline has passed.
        """
        return self._receive_frames(self._send(memoryview(encode_frame(kind, payload))), deadline, extra_readers or {})

    def _receive_frames(
        self, unsent: memoryview, deadline: float, extra_readers: Mapping[int, Callable[[], bool]]
    ) -> Iterator[tuple[bytes, bytes]]:
        import selectors  # the worker in a sandbox does without

        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            if unsent:
                selector.register(self._requests, selectors.EVENT_WRITE)
            for descriptor in extra_readers:
                selector.register(descriptor, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(min(left, MAX_SELECT_SECONDS)):
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
        data = os.read(self._replies, READ_BYTES)
        if not data:
            raise WorkerDiedError
        try:
            yield from self._reader.feed(data)
        except InvalidFrameError:
            raise WorkerDiedError("it sent an invalid message") from None
