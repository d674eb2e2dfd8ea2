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
from ask.mcp.fingerprint import folder_of
from ask.mcp.log import Log
from ask.mcp.server_config import Server
from ask.tools.process_tree import end_all

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

MESSAGE_LIMIT = 10_000_000
"""Bytes that one message of a server may have."""
GRACE = 1.0
"""Seconds that a server has to end by itself when its standard input is closed."""
FLUSH = 0.5
"""Seconds in which the last messages must go out."""
_POLL = 0.005
_READ_SIZE = 65_536
_MARK = "ASK_SERVER"


class ServerProcess:
    """A server's process, in a session of its own, so that Ctrl-C does not reach it.

    Args:
        server: as configured, its variables filled in.
        environment: the environment of child processes.
        directory: the working directory.
        log: takes what it writes to standard error.

    Attributes:
        fault: why its messages are read no more, where that is its fault.

    Raises:
        ConfigError: it cannot be started.
    """

    def __init__(self, server: Server, environment: Mapping[str, str], directory: Path, log: Log) -> None:
        self.fault = ""
        self._mark = os.urandom(16).hex()
        self._log = log
        folder = folder_of(server, directory)
        program = os.path.expanduser(server.command)
        marks = f"{environment.get(_MARK, '')} {self._mark}".strip()
        try:
            self._process: Popen[bytes] = Popen(
                [program, *server.args],
                bufsize=0,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=folder,
                env={**environment, **server.env, _MARK: marks},
                start_new_session=True,
            )
        except (OSError, ValueError) as fault:
            raise ConfigError(*why_not(server, folder, fault)) from None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def ending(self) -> str:
        """How it ended, and what it said last; "" while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        how = f"exit status {code}" if code >= 0 else f"killed by signal {-code}, {signal.strsignal(-code)}"
        return f"{how}: {self._log.last}" if self._log.last else how

    def end(self) -> None:
        """End it with all that it has started."""
        end_all(self._process.pid if self.is_running else None, self._mark)
        with suppress(TimeoutExpired):  # one that hangs in the kernel
            self._process.wait(1)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    @asynccontextmanager
    async def messages(self) -> AsyncIterator[Any]:
        """The stream of its messages and the stream to it. In the end its input is closed, and it may end by itself."""
        import anyio

        said, from_stdout = await reader_of(self._process.stdout, MESSAGE_LIMIT)
        logged, from_stderr = await reader_of(self._process.stderr, _READ_SIZE)
        stdin = await writer_of(self._process.stdin)
        incoming, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        to_send, outgoing = anyio.create_memory_object_stream["SessionMessage"](0)
        tasks = [
            asyncio.create_task(self._read(said, incoming)),
            asyncio.create_task(self._keep_log(logged)),
        ]
        writing = asyncio.create_task(self._write(outgoing, stdin, incoming))
        try:
            yield received, to_send
        finally:
            received.close()
            to_send.close()
            await asyncio.wait([writing], timeout=FLUSH)
            stdin.close()
            end = time.monotonic() + GRACE
            while self.is_running and time.monotonic() < end:
                await asyncio.sleep(_POLL)
            if not self.is_running:  # else its children may hold the pipes
                await asyncio.wait(tasks, timeout=FLUSH)
            for task in (writing, *tasks):
                task.cancel()
            await asyncio.gather(writing, *tasks, return_exceptions=True)
            for one in (incoming, outgoing, from_stdout, from_stderr):
                one.close()

    async def _read(self, source: asyncio.StreamReader, into: MemoryObjectSendStream[Any]) -> None:
        import anyio

        try:
            async with into:
                while True:
                    line = await source.readuntil()
                    if line.strip():
                        await into.send(parsed(line))
        except asyncio.LimitOverrunError:
            self.fault = f"it sent a message of more than {MESSAGE_LIMIT:,} bytes"
        except (asyncio.IncompleteReadError, OSError):
            return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        while await source.read(_READ_SIZE):
            pass  # so that it can end, and does not wait for room in the pipe

    async def _write(
        self,
        source: MemoryObjectReceiveStream[SessionMessage],
        stdin: asyncio.StreamWriter,
        incoming: MemoryObjectSendStream[Any],
    ) -> None:
        try:
            async for message in source:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
        except OSError:
            incoming.close()  # else whoever waits for an answer would do so for ever

    async def _keep_log(self, source: asyncio.StreamReader) -> None:
        while data := await source.read(_READ_SIZE):
            self._log.feed(data)


def parsed(line: bytes) -> Any:
    """A message; the exception where it is none."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as fault:
        return fault


async def reader_of(pipe: IO[bytes] | None, limit: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """What reads from a pipe, lines of at most `limit` bytes; and what closes it."""
    reader = asyncio.StreamReader(limit)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


async def writer_of(pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    """What writes to a pipe."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return asyncio.StreamWriter(transport, protocol, reader, loop)


def why_not(server: Server, folder: Path, fault: Exception) -> tuple[str, str]:
    """Why a process could not be started, and what to do about it."""
    message = f"the MCP server {server.name} does not start"
    if not folder.is_dir():
        return f"{message}: there is no folder {folder}", f"correct mcp.servers.{server.name}.cwd"
    if isinstance(fault, OSError) and fault.errno == errno.ENOENT:
        words = server.command.split()
        if len(words) > 1:
            return f"{message}: there is no program {server.command!r}", "put its arguments into args"
        return f"{message}: there is no program {server.command!r}", "install it, or give its whole path"
    reason = fault.strerror if isinstance(fault, OSError) else str(fault)
    return f"{message}: {reason}", f"correct mcp.servers.{server.name}"
