"""A server that is a program: its process, and the two streams of messages that go through its pipes.

The SDK has a transport for that too. This one starts the process before the SDK is loaded, which takes as long as
most servers take to start, and lets no message be longer than `MESSAGE_LIMIT`.
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
"""Bytes that one message of a server may have."""
SHUTDOWN_TIMEOUT = 1.0
"""Seconds that a server has to end by itself when its standard input is closed."""
FLUSH_TIMEOUT = 0.5
"""Seconds in which the last messages must go out."""
_POLL_INTERVAL = 0.005
_READ_SIZE = 65_536
_MARK_VARIABLE = "ASK_SERVER"


class ServerProcess:
    """A server's process, in a session of its own, so that Ctrl-C does not reach it.

    Args:
        server: as configured, its variables filled in.
        environment: the environment of child processes.
        directory: the working directory.
        log: takes what it writes to standard error.

    Attributes:
        failure: why its messages are read no more, where that is its fault.

    Raises:
        ConfigError: it cannot be started.
    """

    def __init__(self, server: ServerConfig, environment: Mapping[str, str], directory: Path, log: ServerLog) -> None:
        self.failure = ""
        self._mark = os.urandom(16).hex()
        self._log = log
        folder = resolve_server_folder(server, directory)
        program = os.path.expanduser(server.command)
        marks = f"{environment.get(_MARK_VARIABLE, '')} {self._mark}".strip()
        try:
            self._process: Popen[bytes] = Popen(
                [program, *server.args],
                bufsize=0,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=folder,
                env={**environment, **server.env, _MARK_VARIABLE: marks},
                start_new_session=True,
            )
        except (OSError, ValueError) as fault:
            raise ConfigError(*explain_start_failure(server, folder, fault)) from None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def exit_description(self) -> str:
        """How it ended, and what it said last; "" while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        how = f"exit status {code}" if code >= 0 else f"killed by signal {-code}, {signal.strsignal(-code)}"
        return f"{how}: {self._log.last_line}" if self._log.last_line else how

    def kill(self) -> None:
        """End it with all that it has started."""
        kill_process_tree(self._process.pid if self.is_running else None, self._mark)
        with suppress(TimeoutExpired):  # one that hangs in the kernel
            self._process.wait(1)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Any]:
        """The stream of its messages and the stream to it. In the end its input is closed, and it may end by itself."""
        import anyio

        said, from_stdout = await open_reader(self._process.stdout, MESSAGE_LIMIT)
        logged, from_stderr = await open_reader(self._process.stderr, _READ_SIZE)
        stdin = await open_writer(self._process.stdin)
        incoming, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        to_send, outgoing = anyio.create_memory_object_stream["SessionMessage"](0)
        tasks = [
            asyncio.create_task(self._read_messages(said, incoming)),
            asyncio.create_task(self._copy_to_log(logged)),
        ]
        writing = asyncio.create_task(self._write_messages(outgoing, stdin, incoming))
        try:
            yield received, to_send
        finally:
            received.close()
            to_send.close()
            await asyncio.wait([writing], timeout=FLUSH_TIMEOUT)
            stdin.close()
            end = time.monotonic() + SHUTDOWN_TIMEOUT
            while self.is_running and time.monotonic() < end:
                await asyncio.sleep(_POLL_INTERVAL)
            if not self.is_running:  # else its children may hold the pipes
                await asyncio.wait(tasks, timeout=FLUSH_TIMEOUT)
            for task in (writing, *tasks):
                task.cancel()
            await asyncio.gather(writing, *tasks, return_exceptions=True)
            for one in (incoming, outgoing, from_stdout, from_stderr):
                one.close()

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
            pass  # so that it can end, and does not wait for room in the pipe

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
            incoming.close()  # else whoever waits for an answer would do so for ever

    async def _copy_to_log(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_READ_SIZE):
            self._log.feed(data)


def parse_message(line: bytes) -> Any:
    """A message; the exception where it is none."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as fault:
        return fault


async def open_reader(pipe: IO[bytes] | None, limit: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """What reads from a pipe, lines of at most `limit` bytes; and what closes it."""
    reader = asyncio.StreamReader(limit)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


async def open_writer(pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    """What writes to a pipe."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return asyncio.StreamWriter(transport, protocol, reader, loop)


def explain_start_failure(server: ServerConfig, folder: Path, error: Exception) -> tuple[str, str]:
    """Why a process could not be started, and what to do about it."""
    message = f"the MCP server {server.name} does not start"
    if not folder.is_dir():
        return f"{message}: there is no folder {folder}", f"correct mcp.servers.{server.name}.cwd"
    if isinstance(error, OSError) and error.errno == errno.ENOENT:
        words = server.command.split()
        if len(words) > 1:
            return f"{message}: there is no program {server.command!r}", "put its arguments into args"
        return f"{message}: there is no program {server.command!r}", "install it, or give its whole path"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"{message}: {reason}", f"correct mcp.servers.{server.name}"
