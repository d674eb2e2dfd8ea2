"""What the subcommands of `ask mcp` share: the configured servers, and the words for them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ask.agent.mcp_tools import is_installed
from ask.agent.workspace import Workspace
from ask.console import Console
from ask.errors import MissingProgram, UsageError
from ask.installation import format_install_command
from ask.mcp.server_config import EXTRA, Server, find_servers
from ask.suggestions import suggest

HOW_TO_ADD = "ask mcp add --help tells how to add one"


def read_servers(workspace: Workspace, console: Console) -> Mapping[str, Server]:
    """All configured servers; a line says what is not understood."""
    found = find_servers(workspace.config, workspace.places.config)
    for warning in (*workspace.config.warnings, *found.warnings):
        console.line(f"ask: {warning}")
    return found.servers


def chosen(servers: Mapping[str, Server], names: Sequence[str]) -> list[Server]:
    """The servers of these names; without any, all that are enabled.

    Raises:
        UsageError: there is none of a name.
    """
    for name in names:
        if name not in servers:
            raise UsageError(f"there is no MCP server {name!r}", suggest_server(name, servers))
    return [servers[name] for name in names] if names else [one for one in servers.values() if one.enabled]


def suggest_server(name: str, servers: Mapping[str, Server]) -> str:
    """What to do about a server that is not there."""
    near = suggest(name, servers)
    return f"did you mean {near}?" if near else f"there are {', '.join(servers)}" if servers else HOW_TO_ADD


def need_package() -> None:
    """Say what is missing.

    Raises:
        MissingProgram: the package that speaks to servers is.
    """
    if not is_installed():
        raise MissingProgram("the package mcp is not installed", format_install_command(EXTRA))


def target_of(server: Server) -> str:
    """What a server is: its command, or its URL without what may be secret in it."""
    if not server.url:
        return shlex.join([server.command, *server.args]) if server.command else ""
    parts = urlsplit(server.url)
    hidden = "?..." if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{hidden}"
