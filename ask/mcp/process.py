"""The process of a local server, the message streams over its stdin and stdout, and the log of its stderr.

The SDK has a transport for this, too. This one starts the process before the SDK is imported, which takes as long as
most servers need to start, limits the size of a message, and reports the exit status.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

from ask.atomic_files import create_private_folder, open_private_file
from ask.config.mcp_servers import ServerConfig
from ask.errors import ConfigError
from ask.mcp.message_repair import parse_messages
from ask.mcp.server_config import resolve_server_folder, starts_in_empty_folder
from ask.process.process_tree import describe_exit, kill_process_tree, mark_environment
from ask.text import format_one_line

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES = 10_000_000
"""Maximum size of a message from a server."""
SHUTDOWN_SECONDS = 1.0
"""Seconds that a server has to exit after its stdin is closed."""
FLUSH_SECONDS = 0.5
"""Seconds to wait until the last output is received."""
MAX_LOG_BYTES = 1_000_000
"""Maximum number of bytes that a run adds to a log. A longer file is truncated first."""
QUOTED_BYTES = 200
"""Maximum number of bytes of an invalid message that are quoted."""
_POLL_SECONDS = 0.005
_READ_BYTES = 65_536


class ServerLog:
    """The log file for the standard error of a server, which is never shown directly.

    If it cannot be written, only the last line is available. `redact` removes keys from a line.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self.path = path
        self.last_line = ""
        """The last line that was not empty."""
        self._redact = redact
        self._remaining_bytes = MAX_LOG_BYTES
        self._file: FileIO | None = None

    def write_line(self, line: bytes) -> None:
        """Add a line without its newline."""
        text = self._redact(line.decode(errors="backslashreplace"))
        self.last_line = format_one_line(text, 200) or self.last_line
        data = f"{text}\n".encode()[: self._remaining_bytes]
        if data:
            self._remaining_bytes -= len(data)
            with suppress(OSError):
                self._open_file().write(data)

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _open_file(self) -> FileIO:
        if self._file is None:
            create_private_folder(self.path.parent)
            self._file = FileIO(open_private_file(self.path, os.O_WRONLY | os.O_APPEND), "a")
            if os.fstat(self._file.fileno()).st_size > MAX_LOG_BYTES:
                self._file.truncate(0)
            self._file.write(f"-- {datetime.now().astimezone().isoformat(timespec='seconds')}\n".encode())
        return self._file


class ServerProcess:
    """The process of a server. It has its own session, so Ctrl-C does not reach it.

    `mark` is in the environment of the process and of all processes that it starts.
    """

    has_lost_session = False

    def __init__(self, process: asyncio.subprocess.Process, mark: str, log: ServerLog) -> None:
        assert process.stdin and process.stdout and process.stderr, "they are pipes"  # noqa: S101
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._mark = mark
        self._log = log
        self._failure = ""
        self._was_stopped = False
        """Whether it was still running when the connection was closed."""
        self._log_task = asyncio.create_task(self._copy_to_log())

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def explain_failure(self, error: Exception, *, has_ended: bool) -> str:
        """Return why its messages are no longer read, or how it ended, with the last line of stderr; "" if unknown."""
        if self._failure or not has_ended or self._was_stopped or self._process.returncode is None:
            return self._failure
        return ": ".join(filter(None, (describe_exit(self._process.returncode), self._log.last_line)))

    def feed_message(self, message: Mapping[str, Any]) -> None:
        """Receive a message as if the server had written it."""
        self._stdout.feed_data(f"\n{json.dumps(message)}\n".encode())

    def kill(self) -> None:
        """Kill the process and all its descendants."""
        kill_process_tree(self._process.pid if self.is_running else None, self._mark)

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Any]:
        """Open the streams for received messages and for messages to send.

        At the end, the server's stdin is closed, and the server may exit by itself.
        """
        try:
            yield self._read_messages(), MessageWriter(self._stdin, self._stdout.feed_eof)
        finally:
            self._was_stopped = self.is_running and not self._stdout.at_eof()
            self._stdin.close()
            skip_task = asyncio.create_task(self._skip_output())
            deadline = time.monotonic() + SHUTDOWN_SECONDS
            while self.is_running and time.monotonic() < deadline:
                await asyncio.sleep(_POLL_SECONDS)
            if not self.is_running:  # otherwise the pipes stay open
                await asyncio.wait([skip_task, self._log_task], timeout=FLUSH_SECONDS)
            skip_task.cancel()
            await asyncio.gather(skip_task, return_exceptions=True)

    async def _read_messages(self) -> AsyncGenerator[Any]:
        try:
            async for line in self._stdout:
                if line.strip():
                    for message in parse_line(line):
                        yield message
        except ValueError:
            self._failure = f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"

    async def _skip_output(self) -> None:
        """Read the rest of the output, so that the server can exit instead of blocking on a full pipe."""
        while await self._stdout.read(_READ_BYTES):
            pass

    async def _copy_to_log(self) -> None:
        while not self._stderr.at_eof():
            with suppress(ValueError):  # a line of more than MAX_MESSAGE_BYTES bytes, which is dropped
                if line := await self._stderr.readline():
                    self._log.write_line(line.removesuffix(b"\n"))


class MessageWriter(AbstractAsyncContextManager["MessageWriter"]):
    """A stream as the SDK expects it, which writes messages to the stdin of a server."""

    def __init__(self, stdin: asyncio.StreamWriter, end_stdout: Callable[[], None]) -> None:
        self._stdin = stdin
        self._end_stdout = end_stdout

    async def send(self, message: SessionMessage) -> None:
        """Write a message. If stdin is closed, read no more messages: pending requests would wait forever."""
        try:
            self._stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await self._stdin.drain()
        except OSError:
            self._end_stdout()

    async def __aexit__(self, *_: object) -> None:
        """Leave stdin open: `ServerProcess.open_streams` closes it."""


async def start_process(
    server: ServerConfig, environment: Mapping[str, str], directory: Path, log: ServerLog
) -> ServerProcess:
    """Start the process of a server, whose variables must be expanded.

    Raises:
        ConfigError: the process cannot be started.
    """
    folder = resolve_server_folder(server, directory)
    if starts_in_empty_folder(server, directory):
        folder = log.path.parent / "empty"  # a cloned project, or the model in safe mode, could replace the server
        with suppress(OSError):  # the start fails, too
            create_private_folder(folder)
    env, mark = mark_environment({**environment, **server.env})
    try:
        process = await asyncio.create_subprocess_exec(
            os.path.expanduser(server.command),
            *server.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=MAX_MESSAGE_BYTES,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(*_explain_start_failure(server, folder, error)) from None
    return ServerProcess(process, mark, log)


def parse_line(line: bytes) -> Sequence[Any]:
    """Parse the messages in a line. It is an exception if it has none, as the SDK's streams expect."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    messages = parse_messages(line)
    if not messages:
        return [ValueError(line[:QUOTED_BYTES].decode(errors="backslashreplace"))]
    return [SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)) for message in messages]


def _explain_start_failure(server: ServerConfig, folder: Path, error: Exception) -> tuple[str, str]:
    """Return why a process could not be started, and a hint."""
    message = f"cannot start the MCP server {server.name}"
    if not folder.is_dir():
        return f"{message}: the folder {folder} does not exist", f"correct mcp.servers.{server.name}.cwd"
    if isinstance(error, OSError) and error.errno == errno.ENOENT:
        hint = "put its arguments in args" if " " in server.command else "install it, or use its full path"
        return f"{message}: {server.command!r} is not installed", hint
    return f"{message}: {getattr(error, 'strerror', '') or error}", f"correct mcp.servers.{server.name}"
