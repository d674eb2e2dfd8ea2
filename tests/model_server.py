"""A local HTTP server that plays the model, with replies scripted step by step.

It does not interpret the bytes; `tests.wire` builds them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

POLL = 0.005
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Ending(Enum):
    """A step that ends the reply early."""

    DROP = "close the connection in the middle of the reply"
    RESET = "the same, with a TCP reset"
    HOLD = "keep silent until the client leaves"


DROP, RESET, HOLD = Ending.DROP, Ending.RESET, Ending.HOLD


@dataclass(frozen=True)
class Repeat:
    """A step that repeats the same bytes every `seconds` until the client disconnects."""

    data: bytes = b": OPENROUTER PROCESSING\n\n"
    every: float = 0.02


Step = bytes | float | threading.Event | Repeat | Ending
"""Bytes to send, a pause in seconds, or a `threading.Event` to wait for."""


@dataclass(frozen=True)
class Reply:
    """One scripted reply.

    The status line and headers are sent with the first bytes, so `Reply((DROP,))` closes the connection without a
    response, and `Reply((b"", DROP))` after the headers.

    Attributes:
        steps: Sent in order.
        framing: How the client finds the end of the body: chunked transfer encoding, Content-Length (one byte too many
            if an ending truncates the reply), or neither, so that closing the connection ends the body.
        responses_api: Whether it may answer a request to the Responses API. If the next reply may not, the server
            does not have that API, and answers such a request with 404.
    """

    steps: Sequence[Step] = (b"",)
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: Literal["chunked", "length", "close"] = "chunked"
    responses_api: bool = False

    def framing_header(self) -> tuple[str, str]:
        """Return the header that marks the end of the body for the client."""
        if self.framing == "chunked":
            return "Transfer-Encoding", "chunked"
        if self.framing == "close":
            return "Connection", "close"
        promised = sum(len(step) for step in self.steps if isinstance(step, bytes))
        cut = any(isinstance(step, Ending) for step in self.steps)
        return "Content-Length", str(promised + cut)


@dataclass(frozen=True)
class Request:
    """A received request. `time` is monotonic, in seconds; `connection` is the number of the connection."""

    method: str
    path: str
    headers: Message
    body: bytes
    time: float
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[Request], Reply]
NO_REPLY = Reply((b"no reply is scripted",), status=500, content_type="text/plain")
NOT_FOUND = Reply((b'{"detail":"Not Found"}',), status=404)


class ModelServer:
    """The server, which runs while the context is open.

    Args:
        port: the port to listen on; 0 for a free one.

    Attributes:
        requests: All requests in order of arrival, except those to an API that the server does not have.
        unserved: The requests to an API that the server does not have.
        abandoned: The requests whose client disconnected before the reply ended.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.unserved: list[Request] = []
        self.abandoned: list[Request] = []
        self._replies: list[Reply | Script] = []
        self._next = 0
        self._changed = threading.Condition()
        self._listener = Listener(self, port)
        self._thread = threading.Thread(target=self._listener.accept_connections)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._listener.server_port}/api/v1"

    def reply(self, *replies: Reply | Script) -> None:
        """Add replies, one per request; the last is repeated. A script is called for its reply."""
        with self._changed:
            self._replies += replies

    def wait_for_requests(self, count: int, seconds: float = 30) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.requests) >= count, seconds)
        assert came, f"{len(self.requests)} requests came, not {count}"

    def wait_for_abandoned(self, count: int = 1, seconds: float = 30) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.abandoned) >= count, seconds)
        assert came, f"{len(self.abandoned)} replies were abandoned, not {count}"

    def take(self, request: Request) -> Reply:
        """Record a request and return its reply."""
        with self._changed:
            place = min(self._next, len(self._replies) - 1)
            reply = self._replies[place] if self._replies else NO_REPLY
            if request.path.endswith("/responses") and isinstance(reply, Reply) and not reply.responses_api:
                self.unserved.append(request)
                return NOT_FOUND
            self.requests.append(request)
            self._changed.notify_all()
            self._next = place + 1
        return reply if isinstance(reply, Reply) else reply(request)

    def note_abandoned(self, request: Request) -> None:
        with self._changed:
            self.abandoned.append(request)
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._listener.stop_accepting()
        self._thread.join()
        self._listener.close()
        if self._listener.faults and error is None:
            raise self._listener.faults[0]


class Listener(ThreadingHTTPServer):
    """Accepts connections and can close them all."""

    daemon_threads = False  # makes server_close() wait for the handlers
    request_queue_size = 64

    def __init__(self, model: ModelServer, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.model = model
        self.stopping = threading.Event()
        self.faults: list[BaseException] = []
        self.connection_numbers = itertools.count(1)
        self._open: set[socket.socket] = set()

    def accept_connections(self) -> None:
        """Accept connections until `stop_accepting` is called, without the polling of `serve_forever`."""
        while not self.stopping.is_set():
            self.handle_request()

    def stop_accepting(self) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):  # another connection has just ended the wait for one
            socket.create_connection(("127.0.0.1", self.server_port)).close()

    def close(self) -> None:
        """Close all connections and wait for their threads."""
        for connection in self._open.copy():
            with contextlib.suppress(OSError):  # already closed by its thread or its client
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        request.close()  # without shutdown(), which would turn a reset into a normal end

    def handle_error(self, request: Any, client_address: Any) -> None:
        failure = sys.exc_info()[1]
        if failure is not None and not isinstance(failure, ConnectionError):
            self.faults.append(failure)


class Handler(BaseHTTPRequestHandler):
    server: Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.number = next(self.server.connection_numbers)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method's parameter
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.command, self.path, self.headers, body, time.monotonic(), self.number)
        try:
            self.play(self.server.model.take(request))
        except ConnectionError:
            self.close_connection = True
            if not self.server.stopping.is_set():
                self.server.model.note_abandoned(request)

    do_GET = do_POST  # noqa: N815

    def play(self, reply: Reply) -> None:
        self.head: Reply | None = reply
        for step in reply.steps:
            if isinstance(step, bytes):
                self.send(step, reply)
            elif isinstance(step, threading.Event):
                self.wait_until(step.is_set)
            elif isinstance(step, Repeat):
                while True:
                    self.send(step.data, reply)
                    self.pause(step.every)
            elif isinstance(step, Ending):
                self.end(step)
                return
            else:
                self.pause(step)
        self.send(b"", reply)
        if reply.framing == "chunked":
            self.wfile.write(b"0\r\n\r\n")

    def send(self, data: bytes, reply: Reply) -> None:
        """Send bytes of the body, after the headers if these are not sent yet."""
        if self.head is not None:
            self.head = None
            self.send_response(reply.status)
            for name, value in ({"Content-Type": reply.content_type} | dict(reply.headers)).items():
                self.send_header(name, value)
            self.send_header(*reply.framing_header())
            self.end_headers()
        if data and reply.framing == "chunked":
            data = b"%x\r\n%s\r\n" % (len(data), data)
        if data:
            self.wfile.write(data)

    def end(self, ending: Ending) -> None:
        self.close_connection = True
        if ending is HOLD:
            self.wait_until(lambda: False)
        if ending is RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    def pause(self, seconds: float) -> None:
        """Wait some seconds, or until the client disconnects."""
        end = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= end)

    def wait_until(self, done: Callable[[], bool]) -> None:
        """Wait until `done` is true; raise ConnectionError if the client disconnects or the server stops."""
        poll = select.poll()  # unlike select(), for any number of open files
        poll.register(self.connection, select.POLLIN)
        while not done():
            if self.server.stopping.wait(POLL):
                raise ConnectionAbortedError("the server is stopping")
            if poll.poll(0) and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError("the client left")
