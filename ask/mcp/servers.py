"""The servers that a run has started, those of one start all at the same time: kept until it is over.

The SDK is asynchronous and the run is not, so a thread of its own holds the event loop in which they are.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ask.errors import ConfigError
from ask.installation import format_install_command
from ask.mcp.connection import CLOSING, Connection, Way
from ask.mcp.error_messages import Unreachable
from ask.mcp.http_connection import Link
from ask.mcp.log import Log
from ask.mcp.process import ServerProcess
from ask.mcp.server_config import EXTRA, Server
from ask.mcp.server_requests import ServerRequests, find_roots
from ask.mcp.tool_listing import Listed
from ask.mcp.variables import filled_in
from ask.tools.base import ToolError, ToolResult

T = TypeVar("T")
SLACK = CLOSING + 10
"""Seconds beyond those of a call after which the loop itself is given up."""
LOGGERS = ("mcp", "client", "asyncio", "httpx2", "httpcore2")
"""What the SDK and its packages log to; a logger without a handler writes to standard error."""


class Started(NamedTuple):
    """What became of a server.

    Attributes:
        server: as configured.
        tools: what it lists.
        version: its own name and version; "" where it does not tell.
        seconds: how long it was waited for.
        failure: why it cannot be used, one line; "" where it can.
        advice: what to do about that; "" for nothing.
    """

    server: Server
    tools: Sequence[Listed] = ()
    version: str = ""
    seconds: float = 0.0
    failure: str = ""
    advice: str = ""

    @property
    def problem(self) -> str:
        """The failure, and what to do about it; "" where there is none."""
        return ": ".join(filter(None, (self.failure, self.advice)))


class Servers:
    """The servers that a run uses.

    Args:
        environment: the environment of child processes.
        variables: the environment that `$NAME` is filled in from.
        directory: the working directory.
        logs: the folder for what they write to standard error.
        redact: takes the keys out of a text.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        variables: Mapping[str, str],
        directory: Path,
        logs: Path,
        redact: Callable[[str], str],
    ) -> None:
        self._environment = environment
        self._variables = variables
        self._directory = directory
        self._folder = logs
        self._redact = redact
        self._logs: dict[str, Log] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._processes: list[ServerProcess] = []
        self._connections: dict[str, Connection] = {}
        self._closing = False

    def start(self, servers: Sequence[Server]) -> list[Started]:
        """Start these, and return what became of each when that is known of all."""
        ways: dict[str, tuple[Server, Way]] = {}
        failed: dict[str, Started] = {}
        for server in servers:
            self._logs.setdefault(server.name, Log(self._folder / f"{server.name}.log", self._redact))
            try:
                filled = filled_in(server, self._variables, self._directory)
                ways[server.name] = (filled, self._find_way(filled))
            except ConfigError as error:
                failed[server.name] = Started(server, failure=error.message, advice=error.advice)
        opened = self._in_loop(self._open_all(ways), None) if ways else {}
        return [failed.get(server.name) or opened[server.name] for server in servers]

    def call(self, name: str, tool: str, arguments: Mapping[str, Any], seconds: float) -> ToolResult:
        """The result of a call of a server's tool; an exception, such as Ctrl-C, cancels it there too.

        Raises:
            ToolError: there is none.
        """
        try:
            connection = self._connections[name]
            patience = seconds + connection.server.timeout + SLACK
            return self._in_loop(connection.call(tool, arguments, seconds), patience)
        except TimeoutError:
            raise ToolError(f"the MCP server {name} did not answer within {seconds:g} s") from None

    def stop(self, name: str) -> None:
        """End one whose start was not waited for, so that it can be started anew."""
        with suppress(TimeoutError):
            self._in_loop(self._stop(name), CLOSING * 2)

    def close(self) -> None:
        """End them all: each is asked to end by itself, and is made to where it does not."""
        self._closing = True
        try:
            if self._connections:
                self._in_loop(self._close_all(), CLOSING * 2)
        except TimeoutError:
            pass
        finally:
            for process in self._processes:
                process.end()
            self._end_loop()
            for log in self._logs.values():
                log.close()

    def _find_way(self, server: Server) -> Way:
        """The way to a server, whose program runs then.

        Raises:
            ConfigError: it cannot be started.
        """
        if server.type != "stdio":
            return Link(server, self._variables)
        process = ServerProcess(server, self._environment, self._directory, self._logs[server.name])
        self._processes.append(process)
        if self._closing:
            process.end()
        return process

    async def _open_all(self, ways: Mapping[str, tuple[Server, Way]]) -> dict[str, Started]:
        try:  # it takes long, which no server is to be blamed for
            from mcp import Client  # noqa: F401
        except ImportError as fault:
            failure = f"the package mcp cannot be used ({fault})"
            advice = format_install_command(EXTRA)
            return {name: Started(server, failure=failure, advice=advice) for name, (server, _) in ways.items()}
        for name, (server, way) in ways.items():
            requests = ServerRequests(find_roots(server, self._directory))
            self._connections[name] = Connection(server, way, partial(self._find_way, server), requests)
        started = await asyncio.gather(*(self._open(one) for one in self._connections.values()))
        return {one.server.name: one for one in started}

    async def _open(self, connection: Connection) -> Started:
        server, begun = connection.server, time.monotonic()
        try:
            tools = await connection.open()
        except Unreachable as fault:
            failure = f"the MCP server {server.name} cannot be used: {fault}"
            log = self._logs[server.name]
            advice = f"what it wrote is in {log.path}" if log.last else ""
            if "answered 401" in failure or "answered 403" in failure:
                advice = f"set mcp.servers.{server.name}.headers to what it wants"
            return Started(server, failure=failure, advice=advice, seconds=time.monotonic() - begun)
        return Started(server, tools, connection.version, time.monotonic() - begun)

    async def _stop(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection:
            await connection.close()

    async def _close_all(self) -> None:
        await asyncio.gather(*(one.close() for one in self._connections.values()), return_exceptions=True)

    def _in_loop(self, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
        """What comes of the work, done in the loop; it is cancelled where nobody waits for it any more.

        Raises:
            TimeoutError: it takes longer than that.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result(seconds)
        except BaseException:
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            for name in LOGGERS:
                logging.getLogger(name).addHandler(logging.NullHandler())
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
            self._thread.start()
        return self._loop

    def _end_loop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1)
        if not self._thread.is_alive():
            self._loop.close()
        self._loop = None
