"""Checks of the MCP servers, as far as that goes without starting one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from ask.agent.workspace import Workspace
from ask.cli.doctor.finding import OK, WARNING, Finding
from ask.errors import ConfigError
from ask.installation import format_install_command
from ask.mcp.server_config import EXTRA, Server, find_servers
from ask.mcp.variables import filled_in
from ask.render.amounts import counted

CHECK = "mcp"


def check_mcp_servers(workspace: Workspace) -> Iterator[Finding]:
    """Which servers are configured, and whether what they need is there."""
    from ask.agent.mcp_tools import is_installed

    found = find_servers(workspace.config, workspace.places.config)
    for warning in found.warnings:
        yield Finding(WARNING, CHECK, warning, "ask mcp list shows those that are understood")
    used = [server for server in found.servers.values() if server.enabled]
    if used and not is_installed():
        names = ", ".join(server.name for server in used)
        fix = format_install_command(EXTRA)
        yield Finding(WARNING, CHECK, f"the package mcp is not installed, and {names} cannot be used", fix)
        return
    for server in used:
        yield from missing_of(server, workspace)
    if used:
        names = ", ".join(server.name for server in used)
        yield Finding(OK, CHECK, f"{counted(len(used), 'server')}: {names}", "ask mcp test starts them")
    elif not found.warnings:
        yield Finding(OK, CHECK, "no server is used", "ask mcp add adds one")


def missing_of(server: Server, workspace: Workspace) -> Iterator[Finding]:
    """What a server needs and has not."""
    try:
        filled = filled_in(server, workspace.environment, Path.cwd())
    except ConfigError as error:
        yield Finding(WARNING, CHECK, error.message, error.advice)
        return
    path = filled.env.get("PATH", workspace.environment.get("PATH"))
    if filled.command and not shutil.which(Path(filled.command).expanduser(), path=path):
        reason = f"the MCP server {server.name} does not start: there is no program {filled.command!r}"
        yield Finding(WARNING, CHECK, reason, "install it, or give its whole path")
