"""Servers that are started only when needed: if their tool list is not cached, or when a request is made.

The tools that are offered stay the same during a run, even if a server lists others when it is started later.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ask.config.mcp_servers import ServerConfig
from ask.errors import ConfigError
from ask.mcp.server_config import expand_variables
from ask.mcp.tool_list_cache import ToolListCache, compute_fingerprint, find_command_files
from ask.mcp.tool_listing import ServerTools
from ask.text import repair_json_surrogates
from ask.tools.base import RunToolContext, ToolError, ToolResult

if TYPE_CHECKING:
    from mcp import Client

    from ask.mcp.connection_pool import ConnectionPool

T = TypeVar("T")

_SCRIPT_SUFFIXES = (".cjs", ".jar", ".js", ".mjs", ".mts", ".pl", ".py", ".pyz", ".rb", ".sh", ".ts")


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
        open_pool: Callable[[], ConnectionPool],
        show_status: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._variables = variables
        self._directory = directory
        self._open_pool = open_pool
        self._show_status = show_status
        self.enabled_servers: Sequence[ServerConfig] = ()
        """The servers that are not disabled in the configuration."""
        self._pool: ConnectionPool | None = None
        self._offered: dict[str, ServerTools] = {}
        """The tools that are offered in this run, by server: from the cache, or as listed when it was started."""
        self._started: dict[str, ServerTools] = {}
        """The result of the last start of each server."""

    def load_tools(self, servers: Sequence[ServerConfig]) -> list[ServerTools]:
        """Load the tools of each server from the cache. Servers without a valid entry are started concurrently."""
        for server in servers:
            running = self._started.get(server.name)
            tools = running if running and not running.failure else self.read_cached_tools(server)
            if tools:
                self._offered[server.name] = tools
        results = self.start([server for server in servers if server.name not in self._offered])
        self._offered |= {result.server.name: result for result in results}
        return [self._offered[server.name] for server in servers]

    def read_cached_tools(self, server: ServerConfig) -> ServerTools | None:
        """Return the tools of a server from the cache, None if there is no valid entry."""
        return self._cache.read(server, compute_fingerprint(server, self._variables, self._directory))

    def list_programs(self) -> list[Path]:
        """List the programs and scripts that the commands of the offered and started servers name."""
        return [*self._find_programs([tools.server for tools in {**self._offered, **self._started}.values()])]

    def list_idle_programs(self) -> list[Path]:
        """List those of the other servers that are enabled."""
        used_names = {*self._offered, *self._started}
        return [*self._find_programs([server for server in self.enabled_servers if server.name not in used_names])]

    def _find_programs(self, servers: Iterable[ServerConfig]) -> Iterator[Path]:
        for configured in servers:
            with suppress(ConfigError):  # a variable is not set, so that the server cannot be started
                server = expand_variables(configured, self._variables, self._directory)
                for path, *_ in find_command_files(server, self._variables, self._directory) if server.command else ():
                    if path.endswith(_SCRIPT_SUFFIXES) or os.access(path, os.X_OK):
                        yield Path(os.path.abspath(path))

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
            self._started[name] = result
            self._cache.write(result, fingerprints[name])
        return results

    def call_tool(
        self, server_name: str, tool_name: str, arguments: Mapping[str, Any], context: RunToolContext
    ) -> ToolResult:
        """Call a tool of a server, which is started first if necessary.

        Raises:
            ToolError: the call failed.
        """
        from ask.mcp.connection import RequestError
        from ask.mcp.message_repair import read_raw_result
        from ask.mcp.tool_results import read_linked_files, to_tool_result

        valid_arguments = repair_json_surrogates(dict(arguments))  # messages are UTF-8

        async def send(client: Client) -> ToolResult:
            result = read_raw_result(await client.call_tool(tool_name, valid_arguments))
            return to_tool_result(await read_linked_files(client, result))

        offered = self._offered[server_name]
        started = self._started.get(server_name) or self._start_on_demand(offered.server)
        if reason := _explain_unavailable_tool(tool_name, offered, started):
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

        started = self._started.get(server.name)
        if not started or started.failure:
            started = self._start_on_demand(server)
        if started.failure:
            raise RequestError(started.failure)
        assert self._pool, "the server was started"  # noqa: S101
        result, _ = self._pool.request(server.name, send, timeout)
        return result

    def close(self) -> None:
        """Stop all servers that were started."""
        if self._pool:
            self._pool.close()

    def _start_on_demand(self, server: ServerConfig) -> ServerTools:
        try:
            [result] = self.start([server])
        except BaseException:  # such as Ctrl-C, after which a chat continues
            if self._pool:
                self._pool.stop(server.name)
            raise
        return result


def _explain_unavailable_tool(tool_name: str, offered: ServerTools, started: ServerTools) -> str:
    """Return why a tool that was offered cannot be called after its server was started; "" if it can."""
    if started.failure:
        return started.failure
    before, now = (
        next((listing for listing in tools.tools if listing.name == tool_name), None) for tools in (offered, started)
    )
    message = f"nothing was run: the MCP server {offered.server.name} no longer"
    if now is None:
        return f"{message} lists the tool {tool_name!r}"
    if before and before.reads_only and not now.reads_only:
        # The call was not confirmed, although the user may want to confirm all changes.
        return f"{message} marks {tool_name!r} as read-only; it can be called from the next run on"
    return ""
