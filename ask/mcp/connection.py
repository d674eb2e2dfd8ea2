"""The connection to one server: listing and calling its tools, and reconnecting once if it has ended.

Everything here runs in the event loop of `ServerPool`.
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
"""Seconds before a connection that does not close is abandoned."""
PAGES_LIMIT = 1_000
"""Maximum number of pages of a tool list that are read."""


class ServerConnection:
    """The connection to one server, whose variables must be expanded.

    `open_transport` is called to reconnect; it raises ConfigError if the server cannot be started.
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
        """The name and version that the server reports, or ""."""
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
        """Connect and return the server's tools.

        Raises:
            ServerUnavailableError: this fails or takes too long.
        """
        self._close_requested.clear()
        self._is_open = False
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._client_task = asyncio.create_task(self._run_client(ready))
        try:
            async with asyncio.timeout(self.server.timeout):
                futures: list[asyncio.Future[Any]] = [ready, self._client_task]
                await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    await self._client_task  # raises the error
                self._client = ready.result()
                return await self._list_tools(self._client)
        except Exception as error:  # noqa: BLE001 - a server may send anything
            has_ended = self._has_ended() or is_connection_closed(error)
            await self.close()
            reason = self._explain_failure(error, self.server.timeout, has_ended=has_ended)
            raise ServerUnavailableError(reason) from None

    async def _run_client(self, ready: asyncio.Future[Client]) -> None:
        """Keep the client open until `close` is called: the SDK requires that the same task opens and closes it."""
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
        """List the server's tools. Stops after `TOOLS_LIMIT` unless the user selected some by name."""
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
        """Call a tool. If the server has ended, reconnect first.

        Raises:
            ToolError: the call failed.
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
        except Exception as error:  # noqa: BLE001 - a server may send anything
            message = f"the MCP server {self.server.name}"
            if self._has_ended():
                await self.close()
                reason = self._explain_failure(error, timeout, has_ended=True)
                message = f"{message} ended during the call, which may have had its effect: {reason}"
            else:
                message = f"{message} failed: {self._explain_failure(error, timeout, has_ended=False)}"
            declined = self._request_handler.pop_declined_questions()
            raise ToolError("\n".join(filter(None, (message, declined)))) from None
        declined = self._request_handler.pop_declined_questions()
        return result._replace(text=f"{result.text}\n{declined}") if declined else result

    async def _call_with_reconnect(
        self, client: Client, tool_name: str, arguments: Mapping[str, Any], timeout: float
    ) -> ToolResult:
        """Call a tool; reconnect and repeat the call if the server no longer knows the session."""
        try:
            return await send_tool_call(client, tool_name, arguments, timeout)
        except Exception as error:
            if not is_session_terminated(error) or self._has_reconnected:
                raise
        return await send_tool_call(await self._reconnect(), tool_name, arguments, timeout)

    async def _reconnect(self) -> Client:
        """Connect again, which is allowed once.

        Raises:
            ToolError: this fails or was done before.
        """
        message = f"nothing was run: the MCP server {self.server.name} has ended"
        await self.close()
        if self._has_reconnected:
            raise ToolError(f"{message} twice, and is not started any more")
        self._has_reconnected = True
        try:
            self.transport = await asyncio.to_thread(self._open_transport)
            await self.open()
            return self._require_client()
        except Exception as error:  # noqa: BLE001 - the conversation continues whatever happens
            raise ToolError(f"{message}, and cannot be started again: {describe_error(error)}") from None

    def _require_client(self) -> Client:
        if self._client is None:
            raise ServerUnavailableError("it ended at once")
        return self._client

    def _has_ended(self) -> bool:
        client_is_running = self._client_task is not None and not self._client_task.done()
        stream_is_open = self._incoming is None or not self._incoming.closed
        server_is_running = not isinstance(self.transport, ServerProcess) or self.transport.is_running
        return not (client_is_running and stream_is_open and server_is_running)

    def _explain_failure(self, error: Exception, timeout: float, *, has_ended: bool) -> str:
        """Explain a failure. A cause that is known from the transport is preferred to the error that followed from it.

        `timeout` is the time limit of the operation; `has_ended` says whether the server ended by itself.
        """
        transport, incoming = self.transport, self._incoming
        causes = [incoming.failure if incoming else "", transport.failure]
        if isinstance(transport, HttpServerTransport):
            causes.append(transport.explain_certificate_failure(error))
        elif has_ended:
            causes.append(transport.exit_description)
        cause = next(filter(None, causes), "")
        if cause or not isinstance(error, TimeoutError):
            return cause or describe_error(error)
        invalid_input = incoming.invalid_input if incoming else ""
        suffix = f", and wrote what is no message: {invalid_input}" if invalid_input else ""
        return f"it did not answer within {timeout:g} s{suffix}"

    async def close(self) -> None:
        """Close the connection and end the server's process, if it is local."""
        task, self._client_task, self._client = self._client_task, None, None
        if self._call_task and self._call_task is not asyncio.current_task():
            if not self._call_task.cancelling():  # Ctrl-C came before the call was awaited
                self._call_task.cancel()
            await asyncio.wait([self._call_task], timeout=SHUTDOWN_TIMEOUT)  # it may still be sending the cancellation
        self._close_requested.set()
        if task is not None:
            await self._stop_task(task)
        if isinstance(self.transport, ServerProcess):
            await asyncio.to_thread(self.transport.kill)

    async def _stop_task(self, task: asyncio.Task[None]) -> None:
        """Wait for the client task, and cancel it if it does not end by itself."""
        if self._is_open:
            await asyncio.wait([task], timeout=CLOSE_TIMEOUT)
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_TIMEOUT)
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, or asyncio would log it


def to_tool_listing(tool: McpTool) -> ToolListing:
    """Convert a tool of the SDK."""
    return ToolListing(
        tool.name,
        tool.description or tool.title or "",
        tool.input_schema,
        reads_only=bool(tool.annotations and tool.annotations.read_only_hint),
        needs_task=bool(tool.execution and tool.execution.task_support == "required"),
    )


async def send_tool_call(client: Client, tool_name: str, arguments: Mapping[str, Any], timeout: float) -> ToolResult:
    """Send a call and return its result. The call is canceled after `timeout` seconds."""
    async with asyncio.timeout(timeout):
        return to_tool_result(await client.call_tool(tool_name, dict(arguments)))


def is_connection_closed(error: Exception) -> bool:
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


def is_session_terminated(error: Exception) -> bool:
    """Check whether a remote server no longer knows the session, and so has not run the call."""
    from mcp import MCPError

    return isinstance(error, MCPError) and error.message == "Session terminated"
