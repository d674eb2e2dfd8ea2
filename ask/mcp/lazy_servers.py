"""The servers of a run, started only where they are needed: for a list that is not kept, or by a call of a tool.

What is offered stays the same for the whole run, whatever a server lists when it is started later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.errors import ConfigError
from ask.mcp.fingerprint import compute_fingerprint
from ask.mcp.server_config import ServerConfig
from ask.mcp.tool_list_cache import ToolListCache
from ask.mcp.tool_listing import ServerTools, ToolListing, select_tools
from ask.tools.base import ToolError, ToolResult

if TYPE_CHECKING:
    from ask.mcp.servers import ServerPool, ServerStartResult


class LazyServers:
    """The servers that a run may use.

    Args:
        read_cached_tools: the lists that are kept.
        variables: the environment that `$NAME` is filled in from.
        directory: the working directory.
        open_servers: gives what servers run in, which takes long; called when the first is started.
        status: shows what is waited for; "" for nothing.
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
        self._pending_servers: dict[str, ServerTools] = {}
        """What is offered of servers that are not started yet."""
        self._failures: dict[str, str] = {}
        self._unavailable_tools: dict[str, dict[str, str]] = {}
        """By server, why a tool that is offered cannot be called any more."""

    def load_tools(self, servers: Sequence[ServerConfig]) -> list[ServerTools]:
        """What each server has: by its list where one is kept, else by starting it, all of those at the same time."""
        known = {server.name: offer for server in servers if (offer := self.read_cached_tools(server))}
        self._pending_servers |= known
        started = self.start([server for server in servers if server.name not in known])
        known |= {one.server.name: to_server_tools(one) for one in started}
        return [known[server.name] for server in servers]

    def read_cached_tools(self, server: ServerConfig) -> ServerTools | None:
        """What a server has by its list; None where none is kept that can be believed."""
        mark = self._compute_fingerprint(server)
        return self._cache.read(server, mark) if mark else None

    def start(self, servers: Sequence[ServerConfig]) -> list[ServerStartResult]:
        """Start all of them. What they list is kept from then on; of one that cannot be started nothing is."""
        if not servers:
            return []
        marks = {server.name: self._compute_fingerprint(server) for server in servers}
        self._show_status(f"starting {', '.join(marks)}")
        try:
            self._pool = self._pool or self._open_pool()
            started = self._pool.start(servers)
        finally:
            self._show_status("")
        for one in started:
            name = one.server.name
            if one.problem:
                self._cache.delete(name)
            else:
                self._cache.write(to_server_tools(one), marks[name], one.version)
        return started

    def call_tool(self, server_name: str, tool_name: str, arguments: Mapping[str, Any], timeout: float) -> ToolResult:
        """The result of a call of a server's tool, of a server that is started for it where it is not yet.

        Raises:
            ToolError: there is none.
        """
        if server_name in self._pending_servers:
            self._start_pending(server_name)
        reason = self._failures.get(server_name) or self._unavailable_tools.get(server_name, {}).get(tool_name)
        if reason or self._pool is None:
            raise ToolError(reason or f"the MCP server {server_name} does not run")
        return self._pool.call_tool(server_name, tool_name, arguments, timeout)

    def close(self) -> None:
        """End all that were started."""
        if self._pool:
            self._pool.close()

    def _start_pending(self, server_name: str) -> None:
        offer = self._pending_servers[server_name]
        try:
            [started] = self.start([offer.server])
        except BaseException:  # such as Ctrl-C, after which a chat goes on
            if self._pool:
                self._pool.stop(server_name)
            raise
        del self._pending_servers[server_name]
        if started.problem:
            self._failures[server_name] = started.problem
        else:
            self._unavailable_tools[server_name] = find_unavailable_tools(offer, started.tools)

    def _compute_fingerprint(self, server: ServerConfig) -> str:
        """The fingerprint of a server; "" where there is none, as it cannot be started."""
        try:
            return compute_fingerprint(server, self._variables, self._directory)
        except ConfigError:
            return ""


def to_server_tools(start_result: ServerStartResult) -> ServerTools:
    """What there is to offer of a server that was started."""
    if start_result.problem:
        return ServerTools(start_result.server, failure=start_result.problem)
    return select_tools(start_result.server, start_result.tools)


def find_unavailable_tools(server_tools: ServerTools, listings: Sequence[ToolListing]) -> dict[str, str]:
    """By name, why a tool that is offered cannot be called, as its server lists it no more, or as another one."""
    now = {one.name: one for one in listings if not one.needs_task}
    said = f"nothing was run: the MCP server {server_tools.server.name}"
    reasons = {}
    for one in server_tools.tools:
        if one.name not in now:
            reasons[one.name] = f"{said} no longer lists the tool {one.name!r}"
        elif one.reads_only and not now[one.name].reads_only:
            # Whoever wants to be asked before anything changes was not.
            reasons[one.name] = f"{said} no longer says that {one.name!r} only reads; the next run offers it as it is"
    return reasons
