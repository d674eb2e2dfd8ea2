"""One server: connected to, asked for its tools, called, and connected to once more where it has gone.

All of it happens in the event loop of `servers`. What a fault is called is in `faults`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ask.mcp.error_messages import ServerUnavailableError, describe_error
from ask.mcp.http_connection import HttpServerTransport
from ask.mcp.limited_stream import LimitedStream
from ask.mcp.process import SHUTDOWN_TIMEOUT, ServerProcess
from ask.mcp.server_config import ServerConfig
from ask.mcp.server_requests import ServerRequestHandler
from ask.mcp.tool_listing import TOOLS_LIMIT, ToolListing
from ask.mcp.tool_results import to_tool_result
from ask.tools.base import ToolError, ToolResult
from ask.version import VERSION

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as McpTool

ServerTransport = ServerProcess | HttpServerTransport
CLOSE_TIMEOUT = SHUTDOWN_TIMEOUT + 2
"""Seconds in which a connection must be closed."""
PAGES_LIMIT = 1_000


class ServerConnection:
    """The connection to one server.

    Args:
        server: as configured, its variables filled in.
        transport: how it is reached at first.
        find_way: starts it anew; raises ConfigError where that cannot be.
        requests: answers what the server requests.

    Attributes:
        version: its own name and version; "" where it does not tell.
    """

    def __init__(
        self,
        server: ServerConfig,
        transport: ServerTransport,
        open_transport: Callable[[], ServerTransport],
        request_handler: ServerRequestHandler,
    ) -> None:
        self.server = server
        self._request_handler = request_handler
        self.version = ""
        self.transport = transport
        self._open_transport = open_transport
        self._has_reconnected = False
        self._client: Client | None = None
        self._incoming: LimitedStream | None = None
        self._client_task: asyncio.Task[None] | None = None
        self._close_requested = asyncio.Event()
        self._is_open = False
        self._call_task: asyncio.Task[Any] | None = None

    async def open(self) -> list[ToolListing]:
        """Connect, and return the tools.

        Raises:
            Unreachable: that cannot be, or takes too long.
        """
        self._close_requested.clear()
        self._is_open = False
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._client_task = asyncio.create_task(self._run_client(ready))
        try:
            async with asyncio.timeout(self.server.timeout):
                either: list[asyncio.Future[Any]] = [ready, self._client_task]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    await self._client_task  # which raises
                self._client = ready.result()
                return await self._list_tools(self._client)
        except Exception as fault:  # noqa: BLE001 - a server may answer anything
            ended = self._has_ended() or is_connection_closed(fault)
            await self.close()
            raise ServerUnavailableError(self._explain_failure(fault, self.server.timeout, has_ended=ended)) from None

    async def _run_client(self, ready: asyncio.Future[Client]) -> None:
        """Hold the connection until it is to end: what the SDK opens in a task must be closed there too."""
        from mcp import Client
        from mcp_types import Implementation

        client = Client(
            self._open_limited_streams(),
            client_info=Implementation(name="ask", version=VERSION),
            cache=None,
            list_roots_callback=self._request_handler.list_roots if self._request_handler.roots else None,
            elicitation_callback=self._request_handler.decline_elicitation,
        )
        async with client:
            info = client.server_info
            self.version = " ".join(filter(None, (info.name, info.version))) if info else ""
            ready.set_result(client)
            self._is_open = True
            await self._close_requested.wait()

    @asynccontextmanager
    async def _open_limited_streams(self) -> AsyncIterator[Any]:
        async with self.transport.open_streams() as (received, to_send):
            self._incoming = LimitedStream(received)
            yield self._incoming, to_send

    async def _list_tools(self, client: Client) -> list[ToolListing]:
        """The server's tools, a few more than are offered at most."""
        tools: list[ToolListing] = []
        if client.server_capabilities.tools is None:
            return tools
        cursor: str | None = None
        for _ in range(PAGES_LIMIT):
            page = await client.list_tools(cursor=cursor)
            tools += map(to_tool_listing, page.tools)
            cursor = page.next_cursor
            if cursor is None or (len(tools) > TOOLS_LIMIT and not self.server.tools):
                break
        return tools

    async def call_tool(self, tool_name: str, arguments: Mapping[str, Any], timeout: float) -> ToolResult:
        """The result of a call; a server that has gone is connected to once more.

        Raises:
            ToolError: there is none.
        """
        self._call_task = asyncio.current_task()
        self._request_handler.pop_declined_questions()
        client = self._client
        if client is None or self._has_ended():
            client = await self._reconnect()
        if self._incoming is not None:
            self._incoming.invalid_input = ""
        try:
            result = await self._call_with_reconnect(client, tool_name, arguments, timeout)
        except ToolError:
            raise
        except Exception as fault:  # noqa: BLE001 - a server may answer anything
            said = f"the MCP server {self.server.name}"
            if self._has_ended():
                await self.close()
                reason = self._explain_failure(fault, timeout, has_ended=True)
                reason = f"{said} ended during the call, which may have had its effect: {reason}"
            else:
                reason = f"{said} failed: {self._explain_failure(fault, timeout, has_ended=False)}"
            raise ToolError("\n".join(filter(None, (reason, self._request_handler.pop_declined_questions())))) from None
        declined = self._request_handler.pop_declined_questions()
        return result._replace(text=f"{result.text}\n{declined}") if declined else result

    async def _call_with_reconnect(
        self, client: Client, tool_name: str, arguments: Mapping[str, Any], timeout: float
    ) -> ToolResult:
        """Call a tool, a second time if the server has forgotten the session."""
        try:
            return await send_tool_call(client, tool_name, arguments, timeout)
        except Exception as fault:
            if not is_session_terminated(fault) or self._has_reconnected:
                raise
        return await send_tool_call(await self._reconnect(), tool_name, arguments, timeout)

    async def _reconnect(self) -> Client:
        """Connect once more.

        Raises:
            ToolError: that cannot be, or has been before.
        """
        said = f"nothing was run: the MCP server {self.server.name} has ended"
        await self.close()
        if self._has_reconnected:
            raise ToolError(f"{said} twice, and is not started any more")
        self._has_reconnected = True
        try:
            self.transport = await asyncio.to_thread(self._open_transport)
            await self.open()
            return self._require_client()
        except Exception as fault:  # noqa: BLE001 - whatever it is, the conversation goes on
            raise ToolError(f"{said}, and cannot be started again: {describe_error(fault)}") from None

    def _require_client(self) -> Client:
        if self._client is None:
            raise ServerUnavailableError("it ended at once")
        return self._client

    def _has_ended(self) -> bool:
        """Whether nothing can be asked of it any more."""
        served = self._client_task is not None and not self._client_task.done()
        heard = self._incoming is None or not self._incoming.closed
        runs = not isinstance(self.transport, ServerProcess) or self.transport.is_running
        return not (served and heard and runs)

    def _explain_failure(self, error: Exception, timeout: float, *, has_ended: bool) -> str:
        """Why something failed, as far as is known: what the server did wrong comes before what came of it.

        Args:
            error: what came of it.
            timeout: how long was waited.
            has_ended: whether it ended by itself.
        """
        way, incoming = self.transport, self._incoming
        told = [incoming.failure if incoming else "", way.failure]
        if isinstance(way, HttpServerTransport):
            told.append(way.explain_certificate_failure(error))
        elif has_ended:
            told.append(way.exit_description)
        known = next(filter(None, told), "")
        if known or not isinstance(error, TimeoutError):
            return known or describe_error(error)
        garbage = (
            f", and wrote what is no message: {incoming.invalid_input}" if incoming and incoming.invalid_input else ""
        )
        return f"it did not answer within {timeout:g} s{garbage}"

    async def close(self) -> None:
        """End the connection, and the server with it where it is a program."""
        task, self._client_task, self._client = self._client_task, None, None
        if self._call_task and self._call_task is not asyncio.current_task():
            if not self._call_task.cancelling():  # Ctrl-C came before anybody waited for it
                self._call_task.cancel()
            await asyncio.wait(
                [self._call_task], timeout=SHUTDOWN_TIMEOUT
            )  # it may still be telling that it is cancelled
        self._close_requested.set()
        if task is not None:
            await self._stop_task(task)
        if isinstance(self.transport, ServerProcess):
            await asyncio.to_thread(self.transport.kill)

    async def _stop_task(self, task: asyncio.Task[None]) -> None:
        """Return when the task is over, which is cancelled if it does not end by itself."""
        if self._is_open:
            await asyncio.wait([task], timeout=CLOSE_TIMEOUT)
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_TIMEOUT)
        if task.done() and not task.cancelled():
            task.exception()  # looked at, or it would be reported


def to_tool_listing(tool: McpTool) -> ToolListing:
    """Convert a tool as the SDK gives it."""
    return ToolListing(
        tool.name,
        tool.description or tool.title or "",
        tool.input_schema,
        reads_only=bool(tool.annotations and tool.annotations.read_only_hint),
        needs_task=bool(tool.execution and tool.execution.task_support == "required"),
    )


async def send_tool_call(client: Client, tool_name: str, arguments: Mapping[str, Any], timeout: float) -> ToolResult:
    """The result of a call, which is cancelled where it takes longer than that."""
    async with asyncio.timeout(timeout):
        return to_tool_result(await client.call_tool(tool_name, dict(arguments)))


def is_connection_closed(error: Exception) -> bool:
    """Whether it says that the connection is closed."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


def is_session_terminated(error: Exception) -> bool:
    """Whether a server that is elsewhere knows nothing of us any more, and so has not run the call."""
    from mcp import MCPError

    return isinstance(error, MCPError) and error.message == "Session terminated"
