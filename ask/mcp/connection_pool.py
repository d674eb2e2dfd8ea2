"""The connections to the MCP servers that a run uses: opening them, again if a server has exited, and closing them.

The SDK is asynchronous and the run is not, so the event loop of the connections runs in a separate thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ask.config.installation import format_install_command
from ask.config.mcp_servers import ServerConfig
from ask.errors import ConfigError
from ask.mcp.connection import (
    CLOSE_TIMEOUT_SECONDS,
    DEFAULT_HANDSHAKE,
    Handshake,
    RequestError,
    ServerConnection,
    ServerTransport,
    describe_error,
)
from ask.mcp.http_connection import HttpServerTransport
from ask.mcp.process import ServerLog, start_process
from ask.mcp.server_config import MCP_EXTRA, expand_variables, starts_in_empty_folder
from ask.mcp.sign_in_store import SignIns
from ask.mcp.tool_listing import ServerTools

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")
LOOP_MARGIN_SECONDS = CLOSE_TIMEOUT_SECONDS + 10
"""Seconds added to the timeout of a call, after which the event loop itself is considered to hang."""


@dataclass(kw_only=True)
class ConnectionPool:
    """The open connections of a run. A local server is started with its connection, and runs until the run ends.

    `environment` is the environment of the server processes, and `variables` that from which `$NAME` is expanded.
    `redact` removes keys from the logs.
    """

    environment: Mapping[str, str]
    variables: Mapping[str, str]
    directory: Path
    log_folder: Path
    redact: Callable[[str], str]
    sign_ins: SignIns

    def __post_init__(self) -> None:
        self._logs: dict[str, ServerLog] = {}
        self._transports: list[ServerTransport] = []
        self._connections: dict[str, ServerConnection] = {}
        self._restarted: set[str] = set()
        """The names of the local servers that were started a second time."""
        self._is_closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
        self._thread.start()

    def start(self, servers: Sequence[ServerConfig]) -> list[ServerTools]:
        """Start the servers at the same time and return their results in the same order."""
        return self._run_in_loop(self._open_connections(servers), None)

    def request(
        self, server_name: str, send: Callable[[Client], Awaitable[T]], timeout: float
    ) -> tuple[T, Sequence[str]]:
        """Make a request to a server. An exception such as Ctrl-C also cancels it on the server.

        Returns:
            What `send` returns, and the server's questions to the user, which were declined.

        Raises:
            RequestError: the request failed.
        """
        # The server may first have to be started again.
        loop_timeout = timeout + self._connections[server_name].server.timeout + LOOP_MARGIN_SECONDS
        try:
            return self._run_in_loop(self._send_request(server_name, send, timeout), loop_timeout)
        except TimeoutError:
            raise RequestError(f"it did not respond within {timeout:g} s", "failed") from None

    def stop(self, server_name: str) -> None:
        """Stop a server whose start was interrupted, so that it can be started again."""
        with suppress(TimeoutError):
            if connection := self._connections.pop(server_name, None):
                self._run_in_loop(connection.close(), CLOSE_TIMEOUT_SECONDS * 2)

    def close(self) -> None:
        """Stop all servers. Those that do not exit by themselves are killed."""
        self._is_closing = True
        try:
            self._run_in_loop(self._close_connections(), CLOSE_TIMEOUT_SECONDS * 2)
        except TimeoutError:
            pass
        finally:
            for transport in self._transports:
                transport.kill()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(1)
            if not self._thread.is_alive():
                self._loop.close()
            for log in self._logs.values():
                log.close()

    async def _send_request(
        self, server_name: str, send: Callable[[Client], Awaitable[T]], timeout: float
    ) -> tuple[T, Sequence[str]]:
        """Send a request. If the server has ended or no longer knows the session, connect again first."""
        connection = self._connections[server_name]
        if not connection.is_open:
            connection = await self._reconnect(connection)
        try:
            result = await connection.request(send, timeout)
        except RequestError:
            if not connection.has_lost_session:
                raise
            connection = await self._reconnect(connection)
            result = await connection.request(send, timeout)
        return result, connection.declined_questions

    async def _reconnect(self, connection: ServerConnection) -> ServerConnection:
        """Connect to a server again. A local server is started again only once.

        Raises:
            RequestError: this fails or is not allowed.
        """
        name, is_local = connection.server.name, not connection.server.url
        message = f"the MCP server {name} has exited" if is_local else f"the MCP server {name} has ended the session"
        await connection.close()
        if is_local and name in self._restarted:
            raise RequestError(f"{message} twice, and will not be started again")
        self._restarted.add(name)
        try:
            connection = await self._create_connection(connection.server, connection.handshake)
            await connection.open()
        except Exception as error:  # noqa: BLE001 - the conversation continues whatever happens
            action = "cannot be restarted" if is_local else "a new one fails"
            raise RequestError(f"{message}, and {action}: {describe_error(error)}") from None
        return connection

    async def _create_connection(
        self, server: ServerConfig, handshake: Handshake = DEFAULT_HANDSHAKE
    ) -> ServerConnection:
        """Create the connection to a server, which is started if it is local.

        Raises:
            ConfigError: the process cannot be started.
        """
        transport: ServerTransport
        if server.type == "stdio":
            transport = await start_process(server, self.environment, self.directory, self._logs[server.name])
        else:
            transport = HttpServerTransport(server, self.variables, self.sign_ins)
        self._transports.append(transport)
        if self._is_closing:
            transport.kill()
        connection = ServerConnection(server, self.directory, transport, handshake)
        self._connections[server.name] = connection
        return connection

    async def _open_connections(self, servers: Sequence[ServerConfig]) -> list[ServerTools]:
        results: dict[str, ServerTools] = {}
        started = []
        for server in servers:
            self._logs.setdefault(server.name, ServerLog(self.log_folder / f"{server.name}.log", self.redact))
            try:
                expanded = expand_variables(server, self.variables, self.directory)
                started.append(await self._create_connection(expanded))
            except ConfigError as error:
                results[server.name] = ServerTools(server, failure=str(error))
        try:  # imported here, because this is slow and must not count as a server's start time
            from mcp import Client  # noqa: F401
        except ImportError as error:
            failure = f"the package mcp cannot be used ({error}): {format_install_command(MCP_EXTRA)}"
            return [results.get(server.name) or ServerTools(server, failure=failure) for server in servers]
        opened = await asyncio.gather(*map(self._open_connection, started))
        results |= {result.server.name: result for result in opened}
        return [results[server.name] for server in servers]

    async def _open_connection(self, connection: ServerConnection) -> ServerTools:
        server, start = connection.server, time.monotonic()
        try:
            while True:
                try:
                    tools = await connection.open()
                    break
                except RequestError:
                    if not connection.next_handshake:
                        raise
                    connection = await self._create_connection(server, connection.next_handshake)
        except (RequestError, ConfigError) as error:
            failure = f"the MCP server {server.name} cannot be used: {error}"
            log = self._logs[server.name]
            if log.last_line:
                failure += f": its output is in {log.path}"
            elif server.url:
                failure += f"; mcp.servers.{server.name}.enabled = false disables it"
            if starts_in_empty_folder(server, self.directory) and time.monotonic() - start < server.timeout:
                failure += f"; it ran in an empty folder: mcp.servers.{server.name}.cwd sets another one"
            tools = ServerTools(server, failure=failure)
        return tools._replace(version=connection.version, seconds=time.monotonic() - start)

    async def _close_connections(self) -> None:
        await asyncio.gather(*(each.close() for each in self._connections.values()), return_exceptions=True)

    def _run_in_loop(self, coroutine: Coroutine[Any, Any, T], timeout: float | None) -> T:
        """Run a coroutine in the event loop and return its result. Any exception here cancels it.

        Raises:
            TimeoutError: this takes longer than `timeout` seconds.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise
