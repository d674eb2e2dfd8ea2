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
from ask.mcp.connection import CLOSE_TIMEOUT, ServerConnection, ServerTransport
from ask.mcp.error_messages import ServerUnavailableError
from ask.mcp.http_connection import HttpServerTransport
from ask.mcp.log import ServerLog
from ask.mcp.process import ServerProcess
from ask.mcp.server_config import MCP_EXTRA, ServerConfig
from ask.mcp.server_requests import ServerRequestHandler, find_roots
from ask.mcp.tool_listing import ToolListing
from ask.mcp.variables import expand_variables
from ask.tools.base import ToolError, ToolResult

T = TypeVar("T")
LOOP_TIMEOUT_MARGIN = CLOSE_TIMEOUT + 10
"""Seconds beyond those of a call after which the loop itself is given up."""
LOGGER_NAMES = ("mcp", "client", "asyncio", "httpx2", "httpcore2")
"""What the SDK and its packages log to; a logger without a handler writes to standard error."""


class ServerStartResult(NamedTuple):
    """What became of a server.

    Attributes:
        server: as configured.
        tools: what it lists.
        version: its own name and version; "" where it does not tell.
        seconds: how long it was waited for.
        failure: why it cannot be used, one line; "" where it can.
        hint: what to do about that; "" for nothing.
    """

    server: ServerConfig
    tools: Sequence[ToolListing] = ()
    version: str = ""
    seconds: float = 0.0
    failure: str = ""
    hint: str = ""

    @property
    def problem(self) -> str:
        """The failure, and what to do about it; "" where there is none."""
        return ": ".join(filter(None, (self.failure, self.hint)))


class ServerPool:
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
        log_folder: Path,
        redact: Callable[[str], str],
    ) -> None:
        self._environment = environment
        self._variables = variables
        self._directory = directory
        self._log_folder = log_folder
        self._redact = redact
        self._logs: dict[str, ServerLog] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._processes: list[ServerProcess] = []
        self._connections: dict[str, ServerConnection] = {}
        self._is_closing = False

    def start(self, servers: Sequence[ServerConfig]) -> list[ServerStartResult]:
        """Start these, and return what became of each when that is known of all."""
        ways: dict[str, tuple[ServerConfig, ServerTransport]] = {}
        failed: dict[str, ServerStartResult] = {}
        for server in servers:
            self._logs.setdefault(server.name, ServerLog(self._log_folder / f"{server.name}.log", self._redact))
            try:
                filled = expand_variables(server, self._variables, self._directory)
                ways[server.name] = (filled, self._open_transport(filled))
            except ConfigError as error:
                failed[server.name] = ServerStartResult(server, failure=error.message, hint=error.advice)
        opened = self._run_in_loop(self._open_connections(ways), None) if ways else {}
        return [failed.get(server.name) or opened[server.name] for server in servers]

    def call_tool(self, server_name: str, tool_name: str, arguments: Mapping[str, Any], timeout: float) -> ToolResult:
        """The result of a call of a server's tool; an exception, such as Ctrl-C, cancels it there too.

        Raises:
            ToolError: there is none.
        """
        try:
            connection = self._connections[server_name]
            patience = timeout + connection.server.timeout + LOOP_TIMEOUT_MARGIN
            return self._run_in_loop(connection.call_tool(tool_name, arguments, timeout), patience)
        except TimeoutError:
            raise ToolError(f"the MCP server {server_name} did not answer within {timeout:g} s") from None

    def stop(self, server_name: str) -> None:
        """End one whose start was not waited for, so that it can be started anew."""
        with suppress(TimeoutError):
            self._run_in_loop(self._close_connection(server_name), CLOSE_TIMEOUT * 2)

    def close(self) -> None:
        """End them all: each is asked to end by itself, and is made to where it does not."""
        self._is_closing = True
        try:
            if self._connections:
                self._run_in_loop(self._close_connections(), CLOSE_TIMEOUT * 2)
        except TimeoutError:
            pass
        finally:
            for process in self._processes:
                process.kill()
            self._stop_loop()
            for log in self._logs.values():
                log.close()

    def _open_transport(self, server: ServerConfig) -> ServerTransport:
        """The way to a server, whose program runs then.

        Raises:
            ConfigError: it cannot be started.
        """
        if server.type != "stdio":
            return HttpServerTransport(server, self._variables)
        process = ServerProcess(server, self._environment, self._directory, self._logs[server.name])
        self._processes.append(process)
        if self._is_closing:
            process.kill()
        return process

    async def _open_connections(
        self, transports: Mapping[str, tuple[ServerConfig, ServerTransport]]
    ) -> dict[str, ServerStartResult]:
        try:  # it takes long, which no server is to be blamed for
            from mcp import Client  # noqa: F401
        except ImportError as fault:
            failure = f"the package mcp cannot be used ({fault})"
            advice = format_install_command(MCP_EXTRA)
            return {
                name: ServerStartResult(server, failure=failure, hint=advice)
                for name, (server, _) in transports.items()
            }
        for name, (server, way) in transports.items():
            requests = ServerRequestHandler(find_roots(server, self._directory))
            self._connections[name] = ServerConnection(server, way, partial(self._open_transport, server), requests)
        started = await asyncio.gather(*(self._open_connection(one) for one in self._connections.values()))
        return {one.server.name: one for one in started}

    async def _open_connection(self, connection: ServerConnection) -> ServerStartResult:
        server, begun = connection.server, time.monotonic()
        try:
            tools = await connection.open()
        except ServerUnavailableError as fault:
            failure = f"the MCP server {server.name} cannot be used: {fault}"
            log = self._logs[server.name]
            advice = f"what it wrote is in {log.path}" if log.last_line else ""
            if "answered 401" in failure or "answered 403" in failure:
                advice = f"set mcp.servers.{server.name}.headers to what it wants"
            return ServerStartResult(server, failure=failure, hint=advice, seconds=time.monotonic() - begun)
        return ServerStartResult(server, tools, connection.version, time.monotonic() - begun)

    async def _close_connection(self, server_name: str) -> None:
        connection = self._connections.pop(server_name, None)
        if connection:
            await connection.close()

    async def _close_connections(self) -> None:
        await asyncio.gather(*(one.close() for one in self._connections.values()), return_exceptions=True)

    def _run_in_loop(self, coroutine: Coroutine[Any, Any, T], timeout: float | None) -> T:
        """What comes of the work, done in the loop; it is cancelled where nobody waits for it any more.

        Raises:
            TimeoutError: it takes longer than that.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._ensure_loop())
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            for name in LOGGER_NAMES:
                logging.getLogger(name).addHandler(logging.NullHandler())
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
            self._thread.start()
        return self._loop

    def _stop_loop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1)
        if not self._thread.is_alive():
            self._loop.close()
        self._loop = None
