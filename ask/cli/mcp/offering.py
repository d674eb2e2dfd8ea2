"""The tools of the configured MCP servers, for a run: their servers are started here, and end with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ask.cli.workspace import Workspace
from ask.config import Settings
from ask.mcp.configured import Server, find_servers
from ask.mcp.offers import is_allowed, offer, prefix_of
from ask.mcp.servers import INSTALL, Servers, Started
from ask.render.streams import Console
from ask.tools import Tool

PACKAGE = "mcp"


class Offered(NamedTuple):
    """What the servers give to a run; `absent` is what the names of those tools begin with that cannot be had now."""

    tools: Sequence[Tool]
    absent: tuple[str, ...]


def is_installed() -> bool:
    """Whether the package that speaks to servers is there."""
    return find_spec(PACKAGE) is not None


def mcp_tools(workspace: Workspace, settings: Settings, console: Console, cleanup: ExitStack) -> Offered:
    """Start the servers that may be used, and take their tools; a line says what cannot be had.

    In safe mode a server is started only where one of its tools is allowed by name.

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
    wanted = [server for server in known if server.enabled]
    if settings.safe:
        wanted = [server for server in wanted if is_allowed(server.name, settings.allow_tools)]
    if wanted and not is_installed():
        console.line(f"ask: no MCP server can be used, as the package mcp is not installed: {INSTALL}")
        wanted = []
    if not wanted:
        return Offered([], tuple(prefixes.values()))
    servers = open_servers(wanted, workspace, cleanup)
    console.status(f"starting {', '.join(server.name for server in wanted)}")
    started = servers.start()
    console.status("")
    tools = [tool for one in started for tool in taken(one, servers, console)]
    there = {one.server.name for one in started if not one.failure}
    return Offered(tools, tuple(prefix for name, prefix in prefixes.items() if name not in there))


def open_servers(wanted: Sequence[Server], workspace: Workspace, cleanup: ExitStack) -> Servers:
    """The servers, not started yet, which end when `cleanup` is closed."""
    secrets = workspace.secrets()
    servers = Servers(
        wanted,
        environment=secrets.clean_environment(),
        variables=workspace.environment,
        directory=Path.cwd(),
        logs=workspace.places.data / "mcp",
        redact=secrets.redact,
    )
    cleanup.callback(servers.close)
    return servers


def taken(started: Started, servers: Servers, console: Console) -> Sequence[Tool]:
    """The tools of a server that has started; a line says what is left out, or why it has not."""
    if started.failure:
        console.line(f"ask: {': '.join(filter(None, (started.failure, started.advice)))}")
        return ()
    tools, notes = offer(started.server, started.tools, partial(servers.call, started.server.name))
    for note in notes:
        console.line(f"ask: {note}")
    return tools
