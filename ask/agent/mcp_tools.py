"""The tools of the configured MCP servers, for a run: what is started for them here ends with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ask.agent.workspace import Workspace
from ask.console import Console
from ask.mcp.lazy_server import OnDemand
from ask.mcp.server_config import EXTRA, Server, find_servers
from ask.mcp.tool_list_cache import KeptLists
from ask.mcp.tool_listing import Offer, as_tools, is_allowed, prefix_of
from ask.settings import Settings
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.mcp.servers import Servers

PACKAGE = "mcp"


class Offered(NamedTuple):
    """What the servers give to a run; `absent` is what the names of those tools begin with that cannot be had now."""

    tools: Sequence[Tool]
    absent: tuple[str, ...]


def is_installed() -> bool:
    """Whether the package that speaks to servers is there."""
    return find_spec(PACKAGE) is not None


def mcp_tools(workspace: Workspace, settings: Settings, console: Console, cleanup: ExitStack) -> Offered:
    """The tools of the servers that may be used; a line says what cannot be had.

    A server whose list is kept is started when one of its tools is called, any other now. In safe mode only those
    count of which a tool is allowed by name.

    Args:
        workspace: what is configured.
        settings: how the run works.
        console: takes the lines.
        cleanup: ends the servers when it is closed.
    """
    found = find_servers(workspace.config, workspace.places.config)
    for warning in found.warnings:
        console.line(f"ask: {warning}")
    known = list(found.servers.values())
    prefixes = {server.name: prefix_of(server.name) for server in known}
    wanted = [server for server in known if server.enabled and may_start(server, settings)]
    if wanted and not is_installed():
        from ask.installation import format_install_command

        hint = format_install_command(EXTRA)
        console.line(f"ask: no MCP server can be used, as the package mcp is not installed: {hint}")
        wanted = []
    if not wanted:
        return Offered([], tuple(prefixes.values()))
    servers = on_demand(workspace, console, cleanup)
    offers = servers.offers(wanted)
    tools = [tool for offer in offers for tool in taken(offer, servers, console)]
    there = {offer.server.name for offer in offers if not offer.failure}
    return Offered(tools, tuple(prefix for name, prefix in prefixes.items() if name not in there))


def withheld_tools(workspace: Workspace, settings: Settings, console: Console, cleanup: ExitStack) -> list[Tool]:
    """The tools of the servers that safe mode does not start, by the lists that are kept; a line names the others."""
    servers = on_demand(workspace, console, cleanup)
    tools: list[Tool] = []
    for server in find_servers(workspace.config, workspace.places.config).servers.values():
        if not server.enabled or may_start(server, settings):
            continue
        if offer := servers.kept(server):
            tools += taken(offer, servers, console)
        else:
            name = server.name
            console.line(f"ask: safe mode does not start the MCP server {name}: ask mcp list {name} lists its tools")
    return tools


def may_start(server: Server, settings: Settings) -> bool:
    """Whether a server may run: in safe mode only where one of its tools is allowed by name."""
    return not settings.safe or is_allowed(server.name, settings.allow_tools)


def kept_lists(workspace: Workspace) -> KeptLists:
    """What the servers have listed."""
    return KeptLists(workspace.places.cache / "mcp")


def on_demand(workspace: Workspace, console: Console, cleanup: ExitStack) -> OnDemand:
    """The servers, none of them started yet, which end when `cleanup` is closed."""
    directory = Path.cwd()
    servers = OnDemand(
        kept_lists(workspace),
        variables=workspace.environment,
        directory=directory,
        open_servers=partial(open_servers, workspace, directory),
        status=console.status,
    )
    cleanup.callback(servers.close)
    return servers


def open_servers(workspace: Workspace, directory: Path) -> Servers:
    """What servers run in."""
    from ask.mcp.servers import Servers

    secrets = workspace.secrets()
    return Servers(
        environment=secrets.clean_environment(),
        variables=workspace.environment,
        directory=directory,
        logs=workspace.places.data / "mcp",
        redact=secrets.redact,
    )


def taken(offer: Offer, servers: OnDemand, console: Console) -> Sequence[Tool]:
    """The tools of a server; a line says what is left out, or why there are none."""
    for line in filter(None, (offer.failure, *offer.notes)):
        console.line(f"ask: {line}")
    return as_tools(offer, partial(servers.call, offer.server.name))
