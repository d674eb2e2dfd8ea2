"""The tools of the configured MCP servers that a run offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ask.app import AppContext
from ask.config.installation import format_install_command
from ask.config.mcp_servers import ServerConfig
from ask.config.settings import Settings
from ask.errors import MissingDependencyError
from ask.mcp.lazy_servers import LazyServers
from ask.mcp.server_config import MCP_EXTRA, find_servers
from ask.mcp.sign_in_store import SignIns
from ask.mcp.tool_list_cache import ToolListCache
from ask.mcp.tool_listing import ServerTools, build_tool_prefix, has_allowed_tool, to_tools
from ask.text import format_suggestion
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.mcp.connection_pool import ConnectionPool

MCP_PACKAGE = "mcp"
ADD_SERVER_HINT = "ask mcp add adds one"


def is_mcp_installed() -> bool:
    """Check whether the optional package for MCP is installed."""
    return find_spec(MCP_PACKAGE) is not None


def check_mcp_installed() -> None:
    """Raise `MissingDependencyError` if the optional package for MCP is not installed."""
    if not is_mcp_installed():
        raise MissingDependencyError("the package mcp is not installed", format_install_command(MCP_EXTRA))


def format_server_hint(name: str, servers: Mapping[str, ServerConfig]) -> str:
    """Return the hint for an unknown server: a similar name, or those that are configured."""
    others = f"configured: {', '.join(servers)}" if servers else ADD_SERVER_HINT
    return format_suggestion(name, servers, others)


def load_mcp_tools(app: AppContext, settings: Settings, servers: LazyServers) -> tuple[list[Tool], list[str]]:
    """Load the tools of the usable servers; return them, and the name prefixes of tools that are not available now.

    A line is printed for each server that cannot be used. A server whose tool list is cached is started when one of its
    tools is called, any other immediately. In safe mode only servers with an allowed tool are used.
    """
    configured = find_servers(app.config, app.app_dirs.config)
    for warning in configured.warnings:
        app.console.print_notice(warning)
    all_servers = list(configured.servers.values())
    prefixes = {server.name: build_tool_prefix(server.name) for server in all_servers}
    servers.enabled_servers = [server for server in all_servers if server.enabled]
    usable_servers = [server for server in servers.enabled_servers if _can_start_server(server, settings)]
    if usable_servers and not is_mcp_installed():
        hint = format_install_command(MCP_EXTRA)
        app.console.print_notice(f"MCP servers need the package mcp: {hint}")
        usable_servers = []
    if not usable_servers:
        return [], list(prefixes.values())
    tool_lists = servers.load_tools(usable_servers)
    tools = [tool for tool_list in tool_lists for tool in collect_server_tools(tool_list, servers, app)]
    available_names = {tool_list.server.name for tool_list in tool_lists if not tool_list.failure}
    return tools, [prefix for name, prefix in prefixes.items() if name not in available_names]


def load_withheld_tools(app: AppContext, settings: Settings) -> list[Tool]:
    """Load the cached tools of servers that safe mode does not start.

    A line is printed for each of them whose tools are not in the cache.
    """
    servers = create_lazy_servers(app)
    tools: list[Tool] = []
    for server in find_servers(app.config, app.app_dirs.config).servers.values():
        if not server.enabled or _can_start_server(server, settings):
            continue
        if tool_list := servers.read_cached_tools(server):
            tools += collect_server_tools(tool_list, servers, app)
        else:
            name = server.name
            app.console.print_notice(
                f"safe mode cannot start the MCP server {name}; list its tools first with ask mcp list {name}"
            )
    return tools


def _can_start_server(server: ServerConfig, settings: Settings) -> bool:
    """Check whether a server may run. In safe mode it needs a tool that is allowed by name."""
    return not settings.safe or has_allowed_tool(server.name, settings.allow_tools)


def open_tool_list_cache(app: AppContext) -> ToolListCache:
    return ToolListCache(app.app_dirs.cache / "mcp")


def open_sign_ins(app: AppContext) -> SignIns:
    return SignIns(app.app_dirs.sign_ins, lambda name: app.key_store.find(name)[0])


def create_lazy_servers(app: AppContext) -> LazyServers:
    """Create the servers without starting them. Closing the `cleanup` of `app` ends those that were started."""
    directory = Path.cwd()

    def open_pool() -> ConnectionPool:
        from ask.mcp.connection_pool import ConnectionPool

        secrets = app.collect_secrets()
        return ConnectionPool(
            environment=secrets.build_child_environment(),
            variables=app.environment,
            directory=directory,
            log_folder=app.app_dirs.data / "mcp",
            redact=secrets.redact,
            sign_ins=open_sign_ins(app),
        )

    servers = LazyServers(
        open_tool_list_cache(app),
        variables=app.environment,
        directory=directory,
        open_pool=open_pool,
        show_status=app.console.show_status,
    )
    app.cleanup.callback(servers.close)
    return servers


def collect_server_tools(server_tools: ServerTools, servers: LazyServers, app: AppContext) -> Sequence[Tool]:
    """Convert a server's tool list to tools, printing its problems."""
    for line in filter(None, (server_tools.failure, *server_tools.notes, *server_tools.repair_notes)):
        app.console.print_notice(line)
    return to_tools(server_tools, partial(servers.call_tool, server_tools.server.name))
