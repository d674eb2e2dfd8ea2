"""An MCP server over HTTP whose sessions are processes of a server on stdin and stdout."""

from __future__ import annotations

import json
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

SESSION_HEADER = "Mcp-Session-Id"
SECONDS = 60


class Session:
    """A process, whose answers are found by the IDs of the requests."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._answers: dict[str, bytes] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                with self._changed:
                    self._answers[json.dumps(message["id"])] = line
                    self._changed.notify_all()

    def send(self, message: Mapping[str, Any]) -> bytes:
        """Send a message; return the answer, b"" if it needs none."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        if "id" not in message or "method" not in message:
            return b""
        key = json.dumps(message["id"])
        with self._changed:
            assert self._changed.wait_for(lambda: key in self._answers, SECONDS), message
            return self._answers.pop(key)


class HttpBridge(ThreadingHTTPServer):
    """The server, which runs while the context is open.

    Args:
        start_process: starts the process of a session, with pipes.
    """

    def __init__(self, start_process: Callable[[], subprocess.Popen[bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"
        self.start_process = start_process
        self.sessions: dict[str, Session] = {}
        self._thread = threading.Thread(target=self.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        for session in self.sessions.values():
            assert session.process.stdin
            session.process.stdin.close()
            session.process.wait(SECONDS)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HttpBridge

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = self.headers.get(SESSION_HEADER)
        if name is None:
            name = uuid.uuid4().hex
            self.server.sessions[name] = Session(self.server.start_process())
        answer = self.server.sessions[name].send(message)
        self._respond(200 if answer else 202, answer, name if message.get("method") == "initialize" else None)

    def do_GET(self) -> None:
        self._respond(405)

    def do_DELETE(self) -> None:
        self._respond(405)

    def _respond(self, status: int, body: bytes = b"", session: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if session:
            self.send_header(SESSION_HEADER, session)
        with suppress(ConnectionError):  # a client that only wanted the status
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
