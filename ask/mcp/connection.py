"""The connection to one server: its tools and other requests.

Everything here runs in the event loop of `ConnectionPool`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from ask import __version__
from ask.client.network_errors import find_proxy_name
from ask.config.base_url import is_loopback
from ask.config.mcp_servers import ServerConfig
from ask.errors import AskError
from ask.mcp.elicitation import (
    URL_ELICITATION_REQUIRED,
    decline_elicitation,
    describe_required_pages,
    is_elicitation_refusal,
)
from ask.mcp.http_connection import HttpServerTransport, unwrap_group
from ask.mcp.message_repair import read_raw_result, replace_result
from ask.mcp.process import SHUTDOWN_SECONDS, ServerProcess
from ask.mcp.tool_listing import MAX_TOOLS, ServerTools, ToolListing, parse_tools, select_tools
from ask.parsing import read_dict, read_list
from ask.text import format_one_line

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ErrorData, ListRootsResult

ServerTransport = ServerProcess | HttpServerTransport
CLOSE_TIMEOUT_SECONDS = SHUTDOWN_SECONDS + 2
"""Seconds before a connection that does not close is abandoned."""
MAX_PAGES = 1_000
"""Maximum number of pages of a list that are read."""
MAX_UNSOLICITED_MESSAGES = 10_000
"""Maximum number of other messages that a server may send between two responses."""
MAX_REASON_CHARACTERS = 300
INVALID_RESPONSE = re.compile(r"Failed to parse JSON response: \d+ validation error")
"""How the SDK's message about a response begins that is not a message, which may be empty."""
METHOD_NOT_FOUND, UNSUPPORTED_VERSION = -32601, -32022
"""Error codes of MCP and of JSON-RPC."""

# Without a handler, the SDK and its dependencies would write tracebacks with a server's text to standard error.
for name in ("mcp", "client", "asyncio", "httpx2", "httpcore2"):
    logging.getLogger(name).addHandler(logging.NullHandler())


T = TypeVar("T")


class RequestError(Exception):
    """A server cannot be used, or a request to it failed; the message is a one-line reason.

    `outcome` says what happened to the request, after the name of the server; "" if it was not sent.
    """

    def __init__(self, reason: str, outcome: str = "") -> None:
        super().__init__(reason)
        self.outcome = outcome


class MessageStream(aclosing[AsyncGenerator[Any]]):
    """A stream as the SDK expects it: an asynchronous iterator that a context closes."""

    def __init__(self, messages: AsyncGenerator[Any]) -> None:
        super().__init__(messages)
        self._messages = messages

    def __aiter__(self) -> AsyncGenerator[Any]:
        return self._messages


class RequestStream(AbstractAsyncContextManager["RequestStream"]):
    """A stream of messages to send, as the SDK expects it, which calls `on_send` with each message."""

    def __init__(self, stream: Any, on_send: Callable[[Any], None]) -> None:
        self._stream = stream
        self._on_send = on_send

    async def send(self, item: Any) -> None:
        self._on_send(item.message)
        await self._stream.send(item)

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._stream.__aexit__(*exc_info)


class Handshake(NamedTuple):
    """How a connection begins. A server that does not accept one is connected to again with another."""

    can_discover: bool = True
    """Whether the first message may be one that servers of older protocol revisions do not know."""
    can_elicit: bool = True
    """Whether the server is told that it may ask questions."""
    revision: str = ""
    """The protocol revision to request; "" for the newest one that has a handshake."""


DEFAULT_HANDSHAKE = Handshake()


class ServerConnection:
    """The connection to one server, whose variables must be expanded.

    `transport` leads to the server, which was started if it is local. `directory` is the only root that a server on
    this machine gets. Questions to the user are declined, see `ask.mcp.elicitation`.
    """

    def __init__(
        self,
        server: ServerConfig,
        directory: Path,
        transport: ServerTransport,
        handshake: Handshake = DEFAULT_HANDSHAKE,
    ) -> None:
        self.server = server
        self.handshake = handshake
        self.next_handshake: Handshake | None = None
        """Another one to connect with, if the server has not accepted this one."""
        self.version = ""
        """The name and version that the server reports, or ""."""
        self.failure = ""
        """Why its messages are no longer read, if the server is at fault."""
        self.has_lost_session = False
        """Whether the server did not know the session at the last request, which had no effect."""
        self.declined_questions: list[str] = []
        """The questions that the server asked the user during the last request."""
        self._has_refused_discovery = False
        """Whether the first message was refused for a server that had not responded to it in time."""
        self._roots = find_roots(server, directory)
        self._transport = transport
        self._client: Client | None = None
        self._client_task: asyncio.Task[None] | None = None
        self._close_requested = asyncio.Event()
        self._request_task: asyncio.Task[Any] | None = None
        self._pending_methods: dict[str, str] = {}
        """The methods of the requests without a response, by id."""
        self._invalid_input = ""
        """The beginning of the last input that was not a valid message."""
        self._stream_ended = False

    @property
    def has_ended(self) -> bool:
        is_connected = self._client_task is not None and not self._client_task.done() and not self._stream_ended
        return not (is_connected and self._transport.is_running)

    @property
    def is_open(self) -> bool:
        """Whether requests can be made. `open` may have been interrupted."""
        return self._client is not None and not self.has_ended

    async def open(self) -> ServerTools:
        """Connect to the server and return the tools to offer.

        Raises:
            RequestError: this fails or takes too long.
        """
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._client_task = asyncio.create_task(self._run_client(ready))
        timer = asyncio.get_running_loop().call_later(self.server.timeout / 2, self._refuse_discovery)
        try:
            async with asyncio.timeout(self.server.timeout):
                futures: list[asyncio.Future[Any]] = [ready, self._client_task]
                await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    await self._client_task  # raises the error
                self._client = ready.result()
                return await self._list_tools(self._client)
        except Exception as error:  # noqa: BLE001 - a server may send anything
            is_local = not self.server.url  # a remote one more often cannot be reached
            is_ignored = self._has_refused_discovery or "server/discover" in self._pending_methods.values()
            if is_local and is_ignored and not isinstance(error, TimeoutError):
                # Those made with rmcp exit (go-sdk#1177).
                self.next_handshake = (self.next_handshake or self.handshake)._replace(can_discover=False)
            remedy = f": mcp.servers.{self.server.name}.timeout allows more"  # npx and uvx may first download it
            failure = await self._end_failed_request(error, self.server.timeout, remedy)
            await self.close()
            raise failure from None
        finally:
            timer.cancel()

    def _refuse_discovery(self) -> None:
        """Refuse the first message for a local server that ignores it: the SDK then sends the one of older revisions.

        Those made with fastmcp for TypeScript do (rust-sdk#1142). The SDK itself would wait for longer than most
        servers may take to start.
        """
        for message_id, method in self._pending_methods.items():
            if method == "server/discover" and isinstance(self._transport, ServerProcess) and not self.has_ended:
                error = {"code": METHOD_NOT_FOUND, "message": "not answered"}
                self._transport.feed_message({"jsonrpc": "2.0", "id": int(message_id), "error": error})
                self._has_refused_discovery = True

    async def _run_client(self, ready: asyncio.Future[Client]) -> None:
        """Keep the client open until `close` is called: the SDK requires that the same task opens and closes it."""
        from mcp import Client
        from mcp_types import Implementation

        decline = partial(decline_elicitation, self.declined_questions)
        client = Client(
            self._open_streams(),
            client_info=Implementation(name="ask", version=__version__),
            cache=None,
            mode="auto" if self.handshake.can_discover else "legacy",
            list_roots_callback=self._list_roots if self._roots else None,
            elicitation_callback=decline if self.handshake.can_elicit else None,
        )
        async with client:
            info = client.server_info
            self.version = " ".join(filter(None, (info.name, info.version))) if info else ""
            ready.set_result(client)
            await self._close_requested.wait()

    @asynccontextmanager
    async def _open_streams(self) -> AsyncIterator[Any]:
        async with self._transport.open_streams() as (received, to_send):
            yield MessageStream(self.limit_messages(received)), RequestStream(to_send, self._prepare_message)

    def _prepare_message(self, message: Any) -> None:
        """Set the revision to request, and remember the method of a request until it is answered or canceled."""
        method, message_id = getattr(message, "method", ""), getattr(message, "id", None)
        if method == "initialize" and self.handshake.revision:
            message.params["protocolVersion"] = self.handshake.revision
        if method and message_id is not None:
            self._pending_methods[str(message_id)] = method
        elif method == "notifications/cancelled":
            self._pending_methods.pop(str((message.params or {}).get("requestId")), None)

    def _repair_response(self, message: Any) -> None:
        """Replace the result of a response by one that the SDK accepts."""
        if message.id is None and self._pending_methods:  # an error of a request that was not understood
            message.id = int(next(reversed(self._pending_methods)))
        method = self._pending_methods.pop(str(message.id), "")
        if not hasattr(message, "result"):
            if method == "initialize":
                self.next_handshake = _find_next_handshake(self.handshake, message.error)
            return
        if method == "initialize":
            message.result["protocolVersion"] = version = _find_handshake_version(message.result.get("protocolVersion"))
            self.failure = _explain_version(version)
        is_modern = self._client is not None and self._client.session.discover_result is not None
        message.result = replace_result(method, message.result, keep_schemas=is_modern)

    async def limit_messages(self, received: Any) -> AsyncGenerator[Any]:
        """Yield the messages of the server until there are too many unsolicited ones."""
        unsolicited_count = 0
        try:
            async with aclosing(received):
                async for item in received:
                    if isinstance(item, Exception):
                        self._invalid_input = format_one_line(str(item), 80)
                    message = getattr(item, "message", None)
                    is_response = hasattr(message, "result") or hasattr(message, "error")
                    unsolicited_count = 0 if is_response else unsolicited_count + 1
                    if is_response:
                        self._repair_response(message)
                    if unsolicited_count > MAX_UNSOLICITED_MESSAGES:
                        self.failure = f"it sent more than {MAX_UNSOLICITED_MESSAGES:,} unsolicited messages"
                        break
                    yield item
        finally:  # also if the transport fails
            self._stream_ended = True

    async def _list_roots(self, context: object) -> ListRootsResult:
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        return ListRootsResult(roots=[Root(uri=FileUrl(path.as_uri()), name=path.name or None) for path in self._roots])

    async def _list_tools(self, client: Client) -> ServerTools:
        """List the server's tools. Stops after `MAX_TOOLS` unless the user selected some by name."""
        if client.server_capabilities.tools is None:
            return ServerTools(self.server)
        tools: dict[str, ToolListing] = {}
        lifetimes = []
        problem = ""
        try:
            async for page in iterate_pages(client.list_tools):
                listings = parse_tools(read_entries(page, "tools"))
                if client.session.discover_result is not None:
                    listings = _reject_invalid_headers(listings, {tool.name for tool in page.tools})
                lifetimes.append(page.ttl_ms / 1_000)
                count = len(tools)
                for listing in listings:
                    # Those without a name are kept, too, to be reported; no tool has such a name.
                    tools.setdefault(listing.name or f"\n{len(tools)}", listing)
                # A page that repeats others would be followed by more of them.
                if (listings and len(tools) == count) or (len(tools) > MAX_TOOLS and not self.server.tools):
                    break
        except Exception as error:
            if not tools or self.has_ended:
                raise
            problem = f"the MCP server {self.server.name} lists only a part of its tools: {describe_error(error)}"
        selected = select_tools(self.server, list(tools.values()))
        notes = [*filter(None, [problem]), *selected.notes]
        return selected._replace(lifetime=min(lifetimes, default=0.0), notes=notes)

    async def request(self, send: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        """Make a request, which is canceled after `timeout` seconds, and return what `send` returns.

        Raises:
            RequestError: the request failed.
        """
        assert self._client, "it is connected"  # noqa: S101
        self._request_task = asyncio.current_task()
        self.declined_questions.clear()
        self._invalid_input = ""
        try:
            async with asyncio.timeout(timeout):
                return await send(self._client)
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001 - a server may send anything
            self.has_lost_session = self._transport.has_lost_session
            raise await self._end_failed_request(error, timeout) from None

    async def _end_failed_request(self, error: Exception, timeout: float, remedy: str = "") -> RequestError:
        """Return the error that explains why a request failed; close the connection if the server has ended."""
        outcome = "failed"
        has_ended = self.has_ended
        if has_ended:
            outcome = "exited during the call, which may have taken effect"
            await self.close()
        reason = self._explain_failure(error, timeout, remedy, has_ended=has_ended)
        return RequestError("; ".join([reason, *self.declined_questions]), outcome)

    def _explain_failure(self, error: Exception, timeout: float, remedy: str, *, has_ended: bool) -> str:
        """Explain why an operation with a time limit failed. `has_ended` says whether the server ended by itself.

        A cause that is known from the connection is preferred to the error that followed from it.
        """
        cause = self.failure or self._transport.explain_failure(error, has_ended=has_ended)
        if cause or not isinstance(error, TimeoutError):
            return cause or describe_error(error)
        suffix = f", and wrote an invalid message: {self._invalid_input}" if self._invalid_input else ""
        second = "" if self.handshake.can_discover else "was started again, and "
        return f"it {second}did not respond within {timeout:g} s{suffix or remedy}"

    async def close(self) -> None:
        """Close the connection and end the server's process, if it is local."""
        task, self._client_task = self._client_task, None
        if self._request_task and self._request_task is not asyncio.current_task():
            if not self._request_task.cancelling():  # Ctrl-C came before the request was awaited
                self._request_task.cancel()
            # It may still be sending the cancellation.
            await asyncio.wait([self._request_task], timeout=SHUTDOWN_SECONDS)
        self._close_requested.set()
        if task is not None:
            if self._client:
                await asyncio.wait([task], timeout=CLOSE_TIMEOUT_SECONDS)
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_TIMEOUT_SECONDS)
            if task.done() and not task.cancelled():
                task.exception()  # retrieved, or asyncio would log it
        self._client = None
        await asyncio.to_thread(self._transport.kill)


async def iterate_pages(fetch_page: Callable[..., Awaitable[Any]]) -> AsyncGenerator[Any]:
    """Yield the pages of a list, each fetched with the cursor of the one before, until a cursor or a page repeats.

    There are none if the server does not know the method, even if it says that it does. An empty cursor is valid
    since protocol revision 2026-07-28 (https://github.com/PrefectHQ/fastmcp/issues/5025); some servers end a list with
    it, and return the first page for it, or an error.
    """
    cursor: str | None = None
    cursors: set[str] = set()
    pages: list[dict[str, Any]] = []
    while len(cursors) < MAX_PAGES:
        try:
            page = await fetch_page(cursor=cursor)
        except Exception as error:
            if cursor == "" or (cursor is None and getattr(error, "code", None) == METHOD_NOT_FOUND):
                return
            raise
        entries = {key: value for key, value in read_raw_result(page).items() if isinstance(value, list) and value}
        if entries and entries in pages:
            return
        pages.append(entries)
        yield page
        cursor = read_raw_result(page).get("nextCursor")
        if not isinstance(cursor, str) or cursor in cursors:
            return
        cursors.add(cursor)


def read_entries(result: Any, key: str) -> list[Any]:
    """Return the list under a key of a result, as the server sent it; a missing one is empty.

    Raises:
        RequestError: it is not a list.
    """
    entries = read_raw_result(result).get(key)
    if entries is not None and not isinstance(entries, list):
        raise RequestError(f"its {key} are not a list: {format_one_line(str(entries), 80)}")
    return entries or []


def _reject_invalid_headers(listings: Sequence[ToolListing], accepted_names: set[str]) -> list[ToolListing]:
    """Reject the tools that the SDK does not accept, because their arguments cannot be sent as headers."""
    return [
        listing
        if listing.rejection or listing.name in accepted_names
        else listing._replace(rejection="the x-mcp-header is invalid")
        for listing in listings
    ]


def find_roots(server: ServerConfig, directory: Path) -> list[Path]:
    """Return the roots of a server: the working directory if it runs on this machine, otherwise none.

    A remote server could not use the path, which often contains the user's name.
    """
    return [directory] if not server.url or is_loopback(urlsplit(server.url).hostname or "") else []


def _find_next_handshake(handshake: Handshake, error: ErrorData) -> Handshake | None:
    """Return the handshake for a server that has refused one; None if the error is about something else."""
    if handshake.can_elicit and is_elicitation_refusal(error.message):
        return handshake._replace(can_elicit=False)
    text = f"{error.message} {error.data}"
    named_versions = [version for version in _load_versions()[0][:-1] if version in text]
    if handshake.revision or not named_versions:
        return None
    return handshake._replace(revision=named_versions[-1])


def _find_handshake_version(version: Any) -> Any:
    """Return the version in the result of a handshake; the newest with one for servers that always name the newest."""
    handshake_versions, modern_versions = _load_versions()
    return handshake_versions[-1] if version in modern_versions else version


def _explain_version(version: Any) -> str:
    """Return why a server cannot be used that wants to speak a protocol revision; "" if it can."""
    handshake_versions, modern_versions = _load_versions()
    if version in handshake_versions:
        return ""
    versions = ", ".join(version) if isinstance(version, list) else json.dumps(version)
    known = ", ".join(handshake_versions + modern_versions)
    return f"it speaks protocol revision {format_one_line(versions, 80)}; ask speaks {known}"


def _load_versions() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the known protocol revisions that have a handshake, and those that have none, oldest first."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    return HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS


def _find_host(error: Any) -> tuple[str, str]:
    """Return the host and port to which a failed request of httpx was sent, and its proxy; "" for none."""
    with suppress(RuntimeError, AttributeError):
        url = error.request.url
        return url.netloc.decode(), find_proxy_name(str(url))
    return "", ""


def describe_error(error: BaseException) -> str:
    """Describe an error of a server, or of the connection to it, in one line."""
    error = unwrap_group(error)
    module = type(error).__module__.partition(".")[0]
    reason = str(getattr(error, "message", error)) or type(error).__name__
    if isinstance(error, AskError):
        reason = error.summary
    elif module == "mcp" and getattr(error, "code", None) == URL_ELICITATION_REQUIRED:
        reason = describe_required_pages(getattr(error, "data", None))
    elif module == "mcp" and getattr(error, "code", None) == UNSUPPORTED_VERSION:
        supported = read_list(read_dict(getattr(error, "data", None)).get("supported"))
        reason = _explain_version([str(version) for version in supported]) if supported else reason
    elif module.startswith("pydantic") or INVALID_RESPONSE.match(reason):
        reason = "its response violates the protocol"
    elif module.startswith("httpx"):
        host, proxy = _find_host(error)
        path = f" through the proxy {proxy}" if proxy else ""
        reason = f"{host or 'it'} cannot be reached{path} ({reason})"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return format_one_line(reason, MAX_REASON_CHARACTERS)
