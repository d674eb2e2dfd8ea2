"""Servers that are started only when needed: if their tool list is not cached, or when a request is made.

The tools that are offered stay the same during a run, even if a server lists others when it is started later.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ask.mcp.server_config import ServerConfig
from ask.mcp.tool_list_cache import ToolListCache, compute_fingerprint
from ask.mcp.tool_listing import ServerTools
from ask.text import repair_surrogates
from ask.tools.base import ToolContext, ToolError, ToolResult

if TYPE_CHECKING:
    from mcp import Client

    from ask.mcp.servers import ServerPool

T = TypeVar("T")


class LazyServers:
    """The servers that a run may use.

    `variables` is the environment from which `$NAME` is expanded. `open_pool` is called when the first server is
    started, because importing its dependencies is slow. `show_status` shows what the user is waiting for; "" clears it.
    """

    def __init__(
        self,
        cache: ToolListCache,
        *,
        variables: Mapping[str, str],
        directory: Path,
        open_pool: Callable[[], ServerPool],
        show_status: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._variables = variables
        self._directory = directory
        self._open_pool = open_pool
        self._show_status = show_status
        self._pool: ServerPool | None = None
        self._running: dict[str, ServerTools] = {}
        """The tools of the servers that were started, by server."""
        self._pending_servers: dict[str, ServerTools] = {}
        """The tools offered by servers that have not been started yet, by server."""
        self._failures: dict[str, Mapping[str, str]] = {}
        """Why offered tools cannot be called, by server and tool."""

    def load_tools(self, servers: Sequence[ServerConfig]) -> list[ServerTools]:
        """Load the tools of each server from the cache. Servers without a valid entry are started concurrently."""
        tools = {server.name: self._running[server.name] for server in servers if server.name in self._running}
        cached = {
            server.name: tool_list
            for server in servers
            if server.name not in tools and (tool_list := self.read_cached_tools(server))
        }
        self._pending_servers |= cached
        tools |= cached
        started = self.start([server for server in servers if server.name not in tools])
        tools |= {result.server.name: result for result in started}
        return [tools[server.name] for server in servers]

    def read_cached_tools(self, server: ServerConfig) -> ServerTools | None:
        """Return the tools of a server from the cache, None if there is no valid entry."""
        return self._cache.read(server, compute_fingerprint(server, self._variables, self._directory))

    def start(self, servers: Sequence[ServerConfig]) -> list[ServerTools]:
        """Start all of the servers and cache their tools. A server that fails is removed from the cache."""
        if not servers:
            return []
        fingerprints = {each.name: compute_fingerprint(each, self._variables, self._directory) for each in servers}
        self._show_status(f"starting {', '.join(fingerprints)}")
        try:
            self._pool = self._pool or self._open_pool()
            results = self._pool.start(servers)
        finally:
            self._show_status("")
        for result in results:
            name = result.server.name
            if result.failure:
                self._cache.delete(name)
            else:
                self._running[name] = result
                self._cache.write(result, fingerprints[name])
        return results

    def call_tool(
        self, server_name: str, tool_name: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult:
        """Call a tool of a server, which is started first if necessary.

        Raises:
            ToolError: the call failed.
        """
        from ask.mcp.connection import RequestError
        from ask.mcp.tool_results import to_tool_result

        # Messages are UTF-8, which has no unpaired surrogates.
        valid_arguments = json.loads(repair_surrogates(json.dumps(arguments, ensure_ascii=False)))

        async def send(client: Client) -> ToolResult:
            return to_tool_result(await client.call_tool(tool_name, valid_arguments))

        if offered := self._pending_servers.get(server_name):
            self._start_on_demand(offered.server)
        if reason := self._failures.get(server_name, {}).get(tool_name):
            raise ToolError(reason)
        assert self._pool, "the server was started"  # noqa: S101
        try:
            result, questions = self._pool.request(server_name, send, context.command_timeout)
        except RequestError as error:
            outcome = f"the MCP server {server_name} {error.outcome}" if error.outcome else "nothing was run"
            raise ToolError(f"{outcome}: {error}") from None
        return result._replace(text="\n".join([result.text, *questions]))

    def request(self, server: ServerConfig, send: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        """Make a request to a server, which is started first if necessary, and return what `send` returns.

        Raises:
            RequestError: the server cannot be started, or the request failed.
        """
        from ask.mcp.connection import RequestError

        if server.name not in self._running and (failure := self._start_on_demand(server)):
            raise RequestError(failure)
        assert self._pool, "the server was started"  # noqa: S101
        result, _ = self._pool.request(server.name, send, timeout)
        return result

    def close(self) -> None:
        """Stop all servers that were started."""
        if self._pool:
            self._pool.close()

    def _start_on_demand(self, server: ServerConfig) -> str:
        """Start a server after its tools were offered or without offering them; return why this failed, or ""."""
        try:
            [result] = self.start([server])
        except BaseException:  # such as Ctrl-C, after which a chat continues
            if self._pool:
                self._pool.stop(server.name)
            raise
        if offered := self._pending_servers.pop(server.name, None):
            self._failures[server.name] = find_unavailable_tools(offered, result)
        return result.failure


def find_unavailable_tools(offered: ServerTools, started: ServerTools) -> dict[str, str]:
    """Return the offered tools that cannot be called any more, by name, with the reason."""
    current_listings = {listing.name: listing for listing in started.tools}
    message = f"nothing was run: the MCP server {offered.server.name} no longer"
    reasons = {}
    for tool in offered.tools:
        current = current_listings.get(tool.name)
        if started.failure:
            reasons[tool.name] = started.failure
        elif current is None:
            reasons[tool.name] = f"{message} lists the tool {tool.name!r}"
        elif tool.reads_only and not current.reads_only:
            # The call was not confirmed, although the user may want to confirm all changes.
            reasons[tool.name] = f"{message} now marks {tool.name!r} as read-only, from the next run on"
    return reasons
