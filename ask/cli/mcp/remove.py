"""`ask mcp remove`: a server out of config.toml."""

from __future__ import annotations

import click

from ask.cli.groups import listing


@listing("remove")
@click.argument("name", metavar="SERVER")
def command(*, name: str) -> None:
    """Take an MCP server out of config.toml."""
    from ask.agent.mcp_tools import kept_lists
    from ask.agent.workspace import Workspace
    from ask.cli.mcp.servers import read_servers, suggest_server
    from ask.config_file import REMOVED, change
    from ask.console import Console
    from ask.errors import UsageError
    from ask.text import as_text

    workspace = Workspace()
    console = Console(workspace.environment, quiet=False, plain=False)
    servers, name = read_servers(workspace, console), as_text(name)
    if name not in workspace.config.get("mcp.servers", {}):
        if name in servers:
            raise UsageError(f"the MCP server {name} is from {servers[name].origin}", "take it out there")
        raise UsageError(f"there is no MCP server {name!r}", suggest_server(name, servers))
    if not change(workspace.config_file, ("mcp", "servers", name), REMOVED):
        console.line(f"ask: comments in {workspace.config_file} are lost")
    kept_lists(workspace).forget(name)
    click.echo(f"{name} is out of {workspace.config_file}.", err=True)
