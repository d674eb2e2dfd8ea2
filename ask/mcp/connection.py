"""One server: connected to, asked for its tools, called, and connected to once more where it has gone.

All of it happens in the event loop of `servers`. What a fault is called is in `faults`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ask.mcp.error_messages import Unreachable, reason_of
from ask.mcp.http_connection import Link
from ask.mcp.process import GRACE, ServerProcess
from ask.mcp.server_config import Server
from ask.mcp.server_requests import ServerRequests
from ask.mcp.stream_limits import Counted
from ask.mcp.tool_listing import TOOLS_LIMIT, Listed
from ask.mcp.tool_results import as_result
from ask.tools.base import ToolError, ToolResult
from ask.version import VERSION

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as McpTool

Way = ServerProcess | Link
CLOSING = GRACE + 2
"""Seconds in which a connection must be closed."""
PAGES_LIMIT = 1_000


class Connection:
    """The connection to one server.

    Args:
        server: as configured, its variables filled in.
        way: how it is reached at first.
        find_way: starts it anew; raises ConfigError where that cannot be.
        requests: answers what the server requests.

    Attributes:
        version: its own name and version; "" where it does not tell.
    """

    def __init__(self, server: Server, way: Way, find_way: Callable[[], Way], requests: ServerRequests) -> None:
        self.server = server
        self._requests = requests
        self.version = ""
        self.way = way
        self._find_way = find_way
        self._again = False
        self._client: Client | None = None
        self._incoming: Counted | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._is_open = False
        self._calling: asyncio.Task[Any] | None = None

    async def open(self) -> list[Listed]:
        """Connect, and return the tools.

        Raises:
            Unreachable: that cannot be, or takes too long.
        """
        self._ending.clear()
        self._is_open = False
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(ready))
        try:
            async with asyncio.timeout(self.server.timeout):
                either: list[asyncio.Future[Any]] = [ready, self._task]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    await self._task  # which raises
                self._client = ready.result()
                return await self._list(self._client)
        except Exception as fault:  # noqa: BLE001 - a server may answer anything
            ended = self._has_ended() or is_end(fault)
            await self.close()
            raise Unreachable(self._reason(fault, self.server.timeout, ended=ended)) from None

    async def _serve(self, ready: asyncio.Future[Client]) -> None:
        """Hold the connection until it is to end: what the SDK opens in a task must be closed there too."""
        from mcp import Client
        from mcp_types import Implementation

        client = Client(
            self._counted(),
            client_info=Implementation(name="ask", version=VERSION),
            cache=None,
            list_roots_callback=self._requests.list_roots if self._requests.roots else None,
            elicitation_callback=self._requests.decline_question,
        )
        async with client:
            info = client.server_info
            self.version = " ".join(filter(None, (info.name, info.version))) if info else ""
            ready.set_result(client)
            self._is_open = True
            await self._ending.wait()

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[Any]:
        async with self.way.messages() as (received, to_send):
            self._incoming = Counted(received)
            yield self._incoming, to_send

    async def _list(self, client: Client) -> list[Listed]:
        """The server's tools, a few more than are offered at most."""
        tools: list[Listed] = []
        if client.server_capabilities.tools is None:
            return tools
        cursor: str | None = None
        for _ in range(PAGES_LIMIT):
            page = await client.list_tools(cursor=cursor)
            tools += map(to_listed, page.tools)
            cursor = page.next_cursor
            if cursor is None or (len(tools) > TOOLS_LIMIT and not self.server.tools):
                break
        return tools

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> ToolResult:
        """The result of a call; a server that has gone is connected to once more.

        Raises:
            ToolError: there is none.
        """
        self._calling = asyncio.current_task()
        self._requests.take_declined()
        client = self._client
        if client is None or self._has_ended():
            client = await self._open_again()
        if self._incoming is not None:
            self._incoming.garbage = ""
        try:
            result = await self._call(client, tool, arguments, seconds)
        except ToolError:
            raise
        except Exception as fault:  # noqa: BLE001 - a server may answer anything
            said = f"the MCP server {self.server.name}"
            if self._has_ended():
                await self.close()
                reason = self._reason(fault, seconds, ended=True)
                reason = f"{said} ended during the call, which may have had its effect: {reason}"
            else:
                reason = f"{said} failed: {self._reason(fault, seconds, ended=False)}"
            raise ToolError("\n".join(filter(None, (reason, self._requests.take_declined())))) from None
        declined = self._requests.take_declined()
        return result._replace(text=f"{result.text}\n{declined}") if declined else result

    async def _call(self, client: Client, tool: str, arguments: Mapping[str, Any], seconds: float) -> ToolResult:
        """Call a tool, a second time if the server has forgotten the session."""
        try:
            return await answer(client, tool, arguments, seconds)
        except Exception as fault:
            if not is_forgotten(fault) or self._again:
                raise
        return await answer(await self._open_again(), tool, arguments, seconds)

    async def _open_again(self) -> Client:
        """Connect once more.

        Raises:
            ToolError: that cannot be, or has been before.
        """
        said = f"nothing was run: the MCP server {self.server.name} has ended"
        await self.close()
        if self._again:
            raise ToolError(f"{said} twice, and is not started any more")
        self._again = True
        try:
            self.way = await asyncio.to_thread(self._find_way)
            await self.open()
            return self._opened()
        except Exception as fault:  # noqa: BLE001 - whatever it is, the conversation goes on
            raise ToolError(f"{said}, and cannot be started again: {reason_of(fault)}") from None

    def _opened(self) -> Client:
        if self._client is None:
            raise Unreachable("it ended at once")
        return self._client

    def _has_ended(self) -> bool:
        """Whether nothing can be asked of it any more."""
        served = self._task is not None and not self._task.done()
        heard = self._incoming is None or not self._incoming.ended
        runs = not isinstance(self.way, ServerProcess) or self.way.is_running
        return not (served and heard and runs)

    def _reason(self, fault: Exception, seconds: float, *, ended: bool) -> str:
        """Why something failed, as far as is known: what the server did wrong comes before what came of it.

        Args:
            fault: what came of it.
            seconds: how long was waited.
            ended: whether it ended by itself.
        """
        way, incoming = self.way, self._incoming
        told = [incoming.fault if incoming else "", way.fault]
        if isinstance(way, Link):
            told.append(way.explain(fault))
        elif ended:
            told.append(way.ending)
        known = next(filter(None, told), "")
        if known or not isinstance(fault, TimeoutError):
            return known or reason_of(fault)
        garbage = f", and wrote what is no message: {incoming.garbage}" if incoming and incoming.garbage else ""
        return f"it did not answer within {seconds:g} s{garbage}"

    async def close(self) -> None:
        """End the connection, and the server with it where it is a program."""
        task, self._task, self._client = self._task, None, None
        if self._calling and self._calling is not asyncio.current_task():
            if not self._calling.cancelling():  # Ctrl-C came before anybody waited for it
                self._calling.cancel()
            await asyncio.wait([self._calling], timeout=GRACE)  # it may still be telling that it is cancelled
        self._ending.set()
        if task is not None:
            await self._end(task)
        if isinstance(self.way, ServerProcess):
            await asyncio.to_thread(self.way.end)

    async def _end(self, task: asyncio.Task[None]) -> None:
        """Return when the task is over, which is cancelled if it does not end by itself."""
        if self._is_open:
            await asyncio.wait([task], timeout=CLOSING)
        task.cancel()
        await asyncio.wait([task], timeout=CLOSING)
        if task.done() and not task.cancelled():
            task.exception()  # looked at, or it would be reported


def to_listed(tool: McpTool) -> Listed:
    """Convert a tool as the SDK gives it."""
    return Listed(
        tool.name,
        tool.description or tool.title or "",
        tool.input_schema,
        reads_only=bool(tool.annotations and tool.annotations.read_only_hint),
        needs_task=bool(tool.execution and tool.execution.task_support == "required"),
    )


async def answer(client: Client, tool: str, arguments: Mapping[str, Any], seconds: float) -> ToolResult:
    """The result of a call, which is cancelled where it takes longer than that."""
    async with asyncio.timeout(seconds):
        return as_result(await client.call_tool(tool, dict(arguments)))


def is_end(fault: Exception) -> bool:
    """Whether it says that the connection is closed."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(fault, MCPError) and fault.code == CONNECTION_CLOSED


def is_forgotten(fault: Exception) -> bool:
    """Whether a server that is elsewhere knows nothing of us any more, and so has not run the call."""
    from mcp import MCPError

    return isinstance(fault, MCPError) and fault.message == "Session terminated"
