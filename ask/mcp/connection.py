"""The connection to one server: its tools and other requests, and reconnecting once if it has ended.

Everything here runs in the event loop of `ServerPool`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from ask import __version__
from ask.client.network_errors import is_loopback
from ask.errors import AskError
from ask.mcp.http_connection import HttpServerTransport
from ask.mcp.process import SHUTDOWN_TIMEOUT, ServerProcess
from ask.mcp.server_config import ServerConfig
from ask.mcp.tool_listing import TOOLS_LIMIT, ToolListing
from ask.mcp.tool_results import to_tool_result
from ask.parsing import read_dict, read_list
from ask.text import format_one_line
from ask.tools.base import ToolError, ToolResult

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp import Client
    from mcp_types import ElicitRequestParams, ElicitResult, ListRootsResult
    from mcp_types import Tool as McpTool

ServerTransport = ServerProcess | HttpServerTransport
CLOSE_TIMEOUT = SHUTDOWN_TIMEOUT + 2
"""Seconds before a connection that does not close is abandoned."""
PAGES_LIMIT = 1_000
"""Maximum number of pages of a list that are read."""
UNSOLICITED_LIMIT = 10_000
"""Maximum number of other messages that a server may send between two responses."""
MAX_QUESTIONS = 5
"""Maximum number of questions of one call that are passed on to the model."""
MAX_QUESTION_LENGTH = 500
MAX_REASON_LENGTH = 300
URL_ELICITATION_REQUIRED = -32042

# Without a handler, the SDK and its dependencies would write tracebacks with a server's text to standard error.
for name in ("mcp", "client", "asyncio", "httpx2", "httpcore2"):
    logging.getLogger(name).addHandler(logging.NullHandler())


T = TypeVar("T")


class ServerUnavailableError(Exception):
    """A server cannot be used; the message is a one-line reason."""


class RequestError(Exception):
    """A request failed; the message is a one-line reason."""


class ListPage(Protocol):
    """A page of a list in the SDK."""

    next_cursor: str | None


P = TypeVar("P", bound=ListPage)


class ServerConnection:
    """The connection to one server, whose variables must be expanded.

    `open_transport` starts the server if it is local; it raises ConfigError if that fails. `directory` is the only root
    that a server on this machine gets.

    Questions to the user (elicitation) are declined: a run may have no terminal, and accepting by default would agree
    to something that the user has not read. The question is added to the result of the call, so that the model can ask
    the user in its answer.
    """

    def __init__(
        self, server: ServerConfig, directory: Path, open_transport: Callable[[], Awaitable[ServerTransport]]
    ) -> None:
        self.server = server
        self.version = ""
        """The name and version that the server reports, or ""."""
        self.list_lifetime = 0.0
        """Seconds that the server considers its tool list fresh; 0 if it does not say."""
        self._roots = find_roots(server, directory)
        self._open_transport = open_transport
        self._transport: ServerTransport | None = None
        self._has_reconnected = False
        self._client: Client | None = None
        self._client_task: asyncio.Task[None] | None = None
        self._close_requested = asyncio.Event()
        self._call_task: asyncio.Task[Any] | None = None
        self._declined_questions: list[str] = []
        self._invalid_input = ""
        """The beginning of the last input that was not a valid message."""
        self.failure = ""
        """Why its messages are no longer read, if the server is at fault."""
        self._stream_ended = False

    async def start(self) -> None:
        """Start the server if it is local.

        Raises:
            ConfigError: the process cannot be started.
        """
        self._transport = await self._open_transport()

    async def open(self) -> list[ToolListing]:
        """Connect to the server, which was started, and return its tools.

        Raises:
            ServerUnavailableError: this fails or takes too long.
        """
        self._close_requested.clear()
        self.failure = self._invalid_input = ""
        self._stream_ended = False
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
            has_ended = self._has_ended()
            await self.close()
            reason = self._explain_failure(error, self.server.timeout, has_ended=has_ended)
            raise ServerUnavailableError(reason) from None

    async def _run_client(self, ready: asyncio.Future[Client]) -> None:
        """Keep the client open until `close` is called: the SDK requires that the same task opens and closes it."""
        from mcp import Client
        from mcp_types import Implementation

        client = Client(
            self._open_limited_streams(),
            client_info=Implementation(name="ask", version=__version__),
            cache=None,
            list_roots_callback=self._list_roots if self._roots else None,
            elicitation_callback=self._decline_elicitation,
        )
        async with client:
            info = client.server_info
            self.version = " ".join(filter(None, (info.name, info.version))) if info else ""
            ready.set_result(client)
            await self._close_requested.wait()

    @asynccontextmanager
    async def _open_limited_streams(self) -> AsyncIterator[Any]:
        """Open the streams of the transport, which end after too many unsolicited messages."""
        import anyio

        assert self._transport, "it was opened"  # noqa: S101
        async with self._transport.open_streams() as (received, to_send):
            incoming, limited = anyio.create_memory_object_stream[Any](0)
            task = asyncio.create_task(self.forward_messages(received, incoming))
            try:
                yield limited, to_send
            finally:
                task.cancel()
                await asyncio.wait([task])
                limited.close()

    async def forward_messages(self, received: AsyncIterator[Any], incoming: MemoryObjectSendStream[Any]) -> None:
        """Forward messages of the server until there are too many unsolicited ones."""
        unsolicited_count = 0
        async with incoming:
            async for item in received:
                if isinstance(item, Exception):
                    self._invalid_input = format_invalid_input(item)
                message = getattr(item, "message", None)
                is_response = hasattr(message, "result") or hasattr(message, "error")
                unsolicited_count = 0 if is_response else unsolicited_count + 1
                if unsolicited_count > UNSOLICITED_LIMIT:
                    self.failure = f"it sent more than {UNSOLICITED_LIMIT:,} unsolicited messages"
                    break
                await incoming.send(item)
            self._stream_ended = True

    async def _list_roots(self, context: object) -> ListRootsResult:
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        return ListRootsResult(roots=[Root(uri=FileUrl(path.as_uri()), name=path.name or None) for path in self._roots])

    async def _decline_elicitation(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        from mcp_types import ElicitResult

        if len(self._declined_questions) < MAX_QUESTIONS:
            question = format_question(params.message, getattr(params, "url", ""))
            self._declined_questions.append(
                f"[the server asked the user a question, which was not answered: {question}]"
            )
        return ElicitResult(action="decline")

    async def _list_tools(self, client: Client) -> list[ToolListing]:
        """List the server's tools. Stops after `TOOLS_LIMIT` unless the user selected some by name."""
        tools: list[ToolListing] = []
        if client.server_capabilities.tools is None:
            return tools
        lifetimes = []
        async for page in iterate_pages(client.list_tools):
            tools += map(to_tool_listing, page.tools)
            lifetimes.append(page.ttl_ms / 1_000)
            self.list_lifetime = min(lifetimes)
            if len(tools) > TOOLS_LIMIT and not self.server.tools:
                break
        return tools

    async def call_tool(self, tool_name: str, arguments: Mapping[str, Any], timeout: float) -> ToolResult:
        """Call a tool. If the server has ended or no longer knows the session, reconnect first.

        Raises:
            ToolError: the call failed.
        """

        async def send(client: Client) -> ToolResult:
            return to_tool_result(await client.call_tool(tool_name, dict(arguments)))

        try:
            result = await self._send(send, timeout)
        except RequestError as error:
            raise ToolError(f"nothing was run: {error}") from None
        except Exception as error:  # noqa: BLE001 - a server may send anything
            has_ended = self._has_ended()
            outcome = "exited during the call, which may have taken effect" if has_ended else "failed"
            reason = await self._end_failed_request(error, timeout, has_ended=has_ended)
            message = f"the MCP server {self.server.name} {outcome}: {reason}"
            raise ToolError("\n".join([message, *self._declined_questions])) from None
        return result._replace(text="\n".join([result.text, *self._declined_questions]))

    async def request(self, send: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        """Make a request for the user and return what `send` returns. Reconnects as `call_tool` does.

        Raises:
            RequestError: the request failed.
        """
        try:
            return await self._send(send, timeout)
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001 - a server may send anything
            reason = await self._end_failed_request(error, timeout, has_ended=self._has_ended())
            raise RequestError("; ".join([reason, *self._declined_questions])) from None

    async def _send(self, send: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        """Send a request, which is canceled after `timeout` seconds; reconnect first if necessary."""
        self._call_task = asyncio.current_task()
        self._declined_questions.clear()
        if self._client is None or self._has_ended():
            await self._reconnect()
        self._invalid_input = ""
        try:
            return await self._send_once(send, timeout)
        except Exception as error:
            if self._has_reconnected or getattr(error, "message", "") != "Session terminated":
                raise
        await self._reconnect()
        return await self._send_once(send, timeout)

    async def _send_once(self, send: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        assert self._client, "it is connected"  # noqa: S101
        async with asyncio.timeout(timeout):
            return await send(self._client)

    async def _end_failed_request(self, error: Exception, timeout: float, *, has_ended: bool) -> str:
        """Return why a request failed; close the connection if the server has ended."""
        if has_ended:
            await self.close()
        return self._explain_failure(error, timeout, has_ended=has_ended)

    async def _reconnect(self) -> None:
        """Connect again, which is allowed once.

        Raises:
            RequestError: this fails or was done before.
        """
        message = f"the MCP server {self.server.name} has exited"
        await self.close()
        if self._has_reconnected:
            raise RequestError(f"{message} twice, and will not be started again")
        self._has_reconnected = True
        try:
            await self.start()
            await self.open()
        except Exception as error:  # noqa: BLE001 - the conversation continues whatever happens
            raise RequestError(f"{message}, and cannot be restarted: {describe_error(error)}") from None

    def _has_ended(self) -> bool:
        is_connected = self._client_task is not None and not self._client_task.done() and not self._stream_ended
        return not (is_connected and self._transport is not None and self._transport.is_running)

    def _explain_failure(self, error: Exception, timeout: float, *, has_ended: bool) -> str:
        """Explain why an operation with a time limit failed. `has_ended` says whether the server ended by itself.

        A cause that is known from the connection is preferred to the error that followed from it.
        """
        cause = self.failure
        if not cause and self._transport:
            cause = self._transport.explain_failure(error, has_ended=has_ended)
        if cause or not isinstance(error, TimeoutError):
            return cause or describe_error(error)
        suffix = f", and wrote an invalid message: {self._invalid_input}" if self._invalid_input else ""
        return f"it did not respond within {timeout:g} s{suffix}"

    async def close(self) -> None:
        """Close the connection and end the server's process, if it is local."""
        task, self._client_task = self._client_task, None
        if self._call_task and self._call_task is not asyncio.current_task():
            if not self._call_task.cancelling():  # Ctrl-C came before the call was awaited
                self._call_task.cancel()
            await asyncio.wait([self._call_task], timeout=SHUTDOWN_TIMEOUT)  # it may still be sending the cancellation
        self._close_requested.set()
        if task is not None:
            if self._client:
                await asyncio.wait([task], timeout=CLOSE_TIMEOUT)
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_TIMEOUT)
            if task.done() and not task.cancelled():
                task.exception()  # retrieved, or asyncio would log it
        self._client = None
        if self._transport:
            await asyncio.to_thread(self._transport.kill)


async def iterate_pages(fetch_page: Callable[..., Awaitable[P]]) -> AsyncGenerator[P]:
    """Yield the pages of a list, each fetched with the cursor of the one before."""
    cursor: str | None = None
    for _ in range(PAGES_LIMIT):
        page = await fetch_page(cursor=cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def find_roots(server: ServerConfig, directory: Path) -> list[Path]:
    """Return the roots of a server: the working directory if it runs on this machine, otherwise none.

    A remote server could not use the path, which often contains the user's name.
    """
    return [directory] if not server.url or is_loopback(urlsplit(server.url).hostname or "") else []


def to_tool_listing(tool: McpTool) -> ToolListing:
    """Convert a tool of the SDK."""
    return ToolListing(
        tool.name,
        tool.description or tool.title or "",
        tool.input_schema,
        reads_only=bool(tool.annotations and tool.annotations.read_only_hint),
        needs_task=bool(tool.execution and tool.execution.task_support == "required"),
    )


def format_question(message: str, url: str) -> str:
    """Format a question of a server, with the page that the user should open."""
    return format_one_line(f"{message} {url}", MAX_QUESTION_LENGTH)


def format_invalid_input(error: Exception) -> str:
    """Return the beginning of the invalid input that a validation error contains."""
    errors: list[dict[str, Any]] = getattr(error, "errors", list)()
    value = errors[0].get("input") if errors else None
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return format_one_line(str(value if value is not None else error), 80)


def describe_error(error: BaseException) -> str:
    """Describe an error of a server, or of the connection to it, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    module = type(error).__module__.partition(".")[0]
    reason = str(getattr(error, "message", error)) or type(error).__name__
    if isinstance(error, AskError):
        reason = error.summary
    elif module == "mcp" and getattr(error, "code", None) == URL_ELICITATION_REQUIRED:
        pages = [read_dict(item) for item in read_list(read_dict(getattr(error, "data", None)).get("elicitations"))]
        urls = "; ".join(format_question(str(page.get("message", "")), str(page.get("url", ""))) for page in pages)
        reason = f"the user must first open a page: {urls}"
    elif module.startswith("pydantic"):
        reason = "its response violates the protocol"
    elif module.startswith("httpx"):
        reason = f"it cannot be reached ({reason})"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return format_one_line(reason, MAX_REASON_LENGTH)
