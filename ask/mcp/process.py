"""The process of a local server, and the message streams over its stdin and stdout.

The SDK has a transport for this, too. This one starts the process before the SDK is imported, which takes as long as
most servers need to start, and limits the size of a message to `MESSAGE_LIMIT`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import IO, TYPE_CHECKING, Any

from ask.errors import ConfigError
from ask.mcp.fingerprint import resolve_server_folder
from ask.mcp.log import ServerLog
from ask.mcp.server_config import ServerConfig
from ask.tools.process_tree import kill_process_tree

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

MESSAGE_LIMIT = 10_000_000
"""Maximum size of a message from a server in bytes."""
SHUTDOWN_TIMEOUT = 1.0
"""Seconds that a server has to exit after its stdin is closed."""
FLUSH_TIMEOUT = 0.5
"""Seconds to wait until the last messages are sent and received."""
_POLL_INTERVAL = 0.005
_READ_SIZE = 65_536
_MARKER_VARIABLE = "ASK_SERVER"


class ServerProcess:
    """The process of a server whose variables must be expanded. It has its own session, so Ctrl-C does not reach it.

    Raises:
        ConfigError: the process cannot be started.
    """

    def __init__(self, server: ServerConfig, environment: Mapping[str, str], directory: Path, log: ServerLog) -> None:
        self.failure = ""
        """Why its messages are no longer read, if the server is at fault."""
        self._marker = os.urandom(16).hex()
        self._log = log
        folder = resolve_server_folder(server, directory)
        program = os.path.expanduser(server.command)
        markers = f"{environment.get(_MARKER_VARIABLE, '')} {self._marker}".strip()
        try:
            self._process: Popen[bytes] = Popen(
                [program, *server.args],
                bufsize=0,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=folder,
                env={**environment, **server.env, _MARKER_VARIABLE: markers},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ConfigError(*explain_start_failure(server, folder, error)) from None

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_description(self) -> str:
        """The exit status or signal, and the last line of stderr; "" while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        status = f"exit status {code}" if code >= 0 else f"killed by signal {-code}, {signal.strsignal(-code)}"
        return f"{status}: {self._log.last_line}" if self._log.last_line else status

    def kill(self) -> None:
        """Kill the process and all its descendants."""
        kill_process_tree(self._process.pid if self.is_running else None, self._marker)
        with suppress(TimeoutExpired):  # a process may hang in the kernel
            self._process.wait(1)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Any]:
        """Open the streams for received messages and for messages to send.

        At the end, the server's stdin is closed, and the server may exit by itself.
        """
        import anyio

        stdout, stdout_transport = await open_reader(self._process.stdout, MESSAGE_LIMIT)
        stderr, stderr_transport = await open_reader(self._process.stderr, _READ_SIZE)
        stdin = await open_writer(self._process.stdin)
        incoming, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        to_send, outgoing = anyio.create_memory_object_stream["SessionMessage"](0)
        read_tasks = [
            asyncio.create_task(self._read_messages(stdout, incoming)),
            asyncio.create_task(self._copy_to_log(stderr)),
        ]
        write_task = asyncio.create_task(self._write_messages(outgoing, stdin, incoming))
        try:
            yield received, to_send
        finally:
            received.close()
            to_send.close()
            await asyncio.wait([write_task], timeout=FLUSH_TIMEOUT)
            stdin.close()
            deadline = time.monotonic() + SHUTDOWN_TIMEOUT
            while self.is_running and time.monotonic() < deadline:
                await asyncio.sleep(_POLL_INTERVAL)
            if not self.is_running:  # otherwise the pipes stay open
                await asyncio.wait(read_tasks, timeout=FLUSH_TIMEOUT)
            for task in (write_task, *read_tasks):
                task.cancel()
            await asyncio.gather(write_task, *read_tasks, return_exceptions=True)
            for resource in (incoming, outgoing, stdout_transport, stderr_transport):
                resource.close()

    async def _read_messages(self, reader: asyncio.StreamReader, send_stream: MemoryObjectSendStream[Any]) -> None:
        import anyio

        try:
            async with send_stream:
                while True:
                    line = await reader.readuntil()
                    if line.strip():
                        await send_stream.send(parse_message(line))
        except asyncio.LimitOverrunError:
            self.failure = f"it sent a message of more than {MESSAGE_LIMIT:,} bytes"
        except (asyncio.IncompleteReadError, OSError):
            return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        while await reader.read(_READ_SIZE):
            pass  # drained, so that the server can exit instead of blocking on a full pipe

    async def _write_messages(
        self,
        receive_stream: MemoryObjectReceiveStream[SessionMessage],
        stdin: asyncio.StreamWriter,
        incoming: MemoryObjectSendStream[Any],
    ) -> None:
        try:
            async for message in receive_stream:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
        except OSError:
            incoming.close()  # otherwise pending requests would wait forever

    async def _copy_to_log(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_READ_SIZE):
            self._log.feed(data)


def parse_message(line: bytes) -> Any:
    """Parse a message. Return the exception if it is invalid, as the SDK's streams expect."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def open_reader(pipe: IO[bytes] | None, limit: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """Open a reader for a pipe, with lines of at most `limit` bytes, and the transport that closes it."""
    reader = asyncio.StreamReader(limit)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


async def open_writer(pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return asyncio.StreamWriter(transport, protocol, reader, loop)


def explain_start_failure(server: ServerConfig, folder: Path, error: Exception) -> tuple[str, str]:
    """Return why a process could not be started, and a hint."""
    message = f"the MCP server {server.name} does not start"
    if not folder.is_dir():
        return f"{message}: there is no folder {folder}", f"correct mcp.servers.{server.name}.cwd"
    if isinstance(error, OSError) and error.errno == errno.ENOENT:
        if len(server.command.split()) > 1:
            return f"{message}: there is no program {server.command!r}", "put its arguments into args"
        return f"{message}: there is no program {server.command!r}", "install it, or give its whole path"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"{message}: {reason}", f"correct mcp.servers.{server.name}"
