"""The tools of the configured MCP servers, for a run: what is started for them here ends with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ask.agent.app_context import AppContext
from ask.console import StderrConsole
from ask.mcp.lazy_servers import LazyServers
from ask.mcp.server_config import MCP_EXTRA, ServerConfig, find_servers
from ask.mcp.tool_list_cache import ToolListCache
from ask.mcp.tool_listing import ServerTools, build_tool_prefix, has_allowed_tool, to_tools
from ask.settings import Settings
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.mcp.servers import ServerPool

MCP_PACKAGE = "mcp"


class McpTools(NamedTuple):
    """What the servers give to a run; `missing_prefixes` is what the names of those tools begin with that cannot be had now."""

    tools: Sequence[Tool]
    missing_prefixes: tuple[str, ...]


def is_mcp_installed() -> bool:
    """Whether the package that speaks to servers is there."""
    return find_spec(MCP_PACKAGE) is not None


def load_mcp_tools(app: AppContext, settings: Settings, console: StderrConsole, cleanup: ExitStack) -> McpTools:
    """The tools of the servers that may be used; a line says what cannot be had.

    A server whose list is kept is started when one of its tools is called, any other now. In safe mode only those
    count of which a tool is allowed by name.

    Args:
        app: what is configured.
        settings: how the run works.
        console: takes the lines.
        cleanup: ends the servers when it is closed.
    """
    found = find_servers(app.config, app.app_dirs.config)
    for warning in found.warnings:
        console.print_line(f"ask: {warning}")
    known = list(found.servers.values())
    prefixes = {server.name: build_tool_prefix(server.name) for server in known}
    wanted = [server for server in known if server.enabled and can_start_server(server, settings)]
    if wanted and not is_mcp_installed():
        from ask.installation import format_install_command

        hint = format_install_command(MCP_EXTRA)
        console.print_line(f"ask: no MCP server can be used, as the package mcp is not installed: {hint}")
        wanted = []
    if not wanted:
        return McpTools([], tuple(prefixes.values()))
    servers = create_lazy_servers(app, console, cleanup)
    offers = servers.load_tools(wanted)
    tools = [tool for offer in offers for tool in collect_server_tools(offer, servers, console)]
    there = {offer.server.name for offer in offers if not offer.failure}
    return McpTools(tools, tuple(prefix for name, prefix in prefixes.items() if name not in there))


def load_withheld_tools(app: AppContext, settings: Settings, console: StderrConsole, cleanup: ExitStack) -> list[Tool]:
    """The tools of the servers that safe mode does not start, by the lists that are kept; a line names the others."""
    servers = create_lazy_servers(app, console, cleanup)
    tools: list[Tool] = []
    for server in find_servers(app.config, app.app_dirs.config).servers.values():
        if not server.enabled or can_start_server(server, settings):
            continue
        if offer := servers.read_cached_tools(server):
            tools += collect_server_tools(offer, servers, console)
        else:
            name = server.name
            console.print_line(
                f"ask: safe mode does not start the MCP server {name}: ask mcp list {name} lists its tools"
            )
    return tools


def can_start_server(server: ServerConfig, settings: Settings) -> bool:
    """Whether a server may run: in safe mode only where one of its tools is allowed by name."""
    return not settings.safe or has_allowed_tool(server.name, settings.allow_tools)


def open_tool_list_cache(app: AppContext) -> ToolListCache:
    """What the servers have listed."""
    return ToolListCache(app.app_dirs.cache / "mcp")


def create_lazy_servers(app: AppContext, console: StderrConsole, cleanup: ExitStack) -> LazyServers:
    """The servers, none of them started yet, which end when `cleanup` is closed."""
    directory = Path.cwd()
    servers = LazyServers(
        open_tool_list_cache(app),
        variables=app.environment,
        directory=directory,
        open_pool=partial(create_servers, app, directory),
        show_status=console.show_status,
    )
    cleanup.callback(servers.close)
    return servers


def create_servers(app: AppContext, directory: Path) -> ServerPool:
    """What servers run in."""
    from ask.mcp.servers import ServerPool

    secrets = app.collect_secrets()
    return ServerPool(
        environment=secrets.build_child_environment(),
        variables=app.environment,
        directory=directory,
        log_folder=app.app_dirs.data / "mcp",
        redact=secrets.redact,
    )


def collect_server_tools(server_tools: ServerTools, servers: LazyServers, console: StderrConsole) -> Sequence[Tool]:
    """The tools of a server; a line says what is left out, or why there are none."""
    for line in filter(None, (server_tools.failure, *server_tools.notes)):
        console.print_line(f"ask: {line}")
    return to_tools(server_tools, partial(servers.call_tool, server_tools.server.name))
