"""`ask mcp test`: starts servers, and says what they are or why they cannot be used."""

from __future__ import annotations

import click

from ask.cli.groups import JSON_OPTION, listing


@listing("test")
@click.argument("names", metavar="[SERVER]...", nargs=-1)
@JSON_OPTION
def command(*, names: tuple[str, ...], as_json: bool) -> None:
    """Start the MCP servers, all or those that are named, and say what they are.

    Exit code 4 tells that one cannot be used.
    """
    from contextlib import ExitStack

    from ask.agent.mcp_tools import on_demand
    from ask.agent.workspace import Workspace
    from ask.cli.mcp.servers import HOW_TO_ADD, chosen, need_package, read_servers
    from ask.console import Console, Output
    from ask.errors import ConfigError, UsageError
    from ask.render.table import write_table

    workspace = Workspace()
    output, console = Output(), Console(workspace.environment, quiet=False, plain=False)
    need_package()
    servers = chosen(read_servers(workspace, console), names)
    if not servers:
        raise UsageError("no MCP server is configured", HOW_TO_ADD)
    with ExitStack() as cleanup:
        started = on_demand(workspace, console, cleanup).start(servers)
    rows = [
        {
            "name": one.server.name,
            "state": "failed" if one.failure else "ok",
            "version": one.version,
            "tools": None if one.failure else len(one.tools),
            "seconds": round(one.seconds, 2),
            "found": one.problem,
        }
        for one in started
    ]
    write_table(output, rows, as_json=as_json, whole=True)
    failed = sum(bool(one.failure) for one in started)
    if failed:
        those = "1 MCP server" if failed == 1 else f"{failed} MCP servers"
        raise ConfigError(f"{those} cannot be used", "why stands beside each")
