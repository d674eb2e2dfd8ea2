"""`ask mcp list`: which MCP servers are configured, and what tools they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ask.cli.groups import JSON_OPTION, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ask.agent.workspace import Workspace
    from ask.console import Console
    from ask.mcp.server_config import Server


@listing("list")
@click.argument("names", metavar="[SERVER]...", nargs=-1)
@click.option("--tools", is_flag=True, help="Start all servers, and list their tools.")
@JSON_OPTION
def command(*, names: tuple[str, ...], tools: bool, as_json: bool) -> None:
    """List the MCP servers and where they are from. With a name, start that server and list its tools."""
    from ask.agent.workspace import Workspace
    from ask.cli.mcp.servers import chosen, read_servers
    from ask.console import Console, Output
    from ask.render.table import write_table

    workspace = Workspace()
    output, console = Output(), Console(workspace.environment, quiet=False, plain=False)
    servers = read_servers(workspace, console)
    if tools or names:
        rows = tool_rows(chosen(servers, names), workspace, console)
    else:
        rows = [server_row(server, as_json=as_json) for server in servers.values()]
    write_table(output, rows, as_json=as_json)


def server_row(server: Server, *, as_json: bool) -> dict[str, Any]:
    """What is shown of a server: of variables and headers the names alone, as their values may be secret."""
    from ask.cli.mcp.servers import target_of

    row: dict[str, Any] = {
        "name": server.name,
        "transport": server.type,
        "target": target_of(server),
        "enabled": server.enabled,
        "from": str(server.origin),
    }
    if as_json:
        row |= {"env": list(server.env), "headers": list(server.headers), "tools": list(server.tools) or None}
    return row


def tool_rows(servers: Sequence[Server], workspace: Workspace, console: Console) -> list[dict[str, Any]]:
    """The tools of servers that are started for it; a line says which cannot be.

    Raises:
        ConfigError: none can be.
    """
    from contextlib import ExitStack

    from ask.agent.mcp_tools import on_demand, taken
    from ask.cli.mcp.servers import need_package
    from ask.cli.tools import parameters
    from ask.errors import ConfigError
    from ask.mcp.lazy_server import as_offer

    need_package()
    with ExitStack() as cleanup:
        running = on_demand(workspace, console, cleanup)
        offers = [as_offer(one) for one in running.start(servers)]
        tools = [(one.server.name, tool) for one in offers for tool in taken(one, running, console)]
    if offers and all(one.failure for one in offers):
        raise ConfigError("no MCP server can be used", "ask mcp test says more")
    return [
        {
            "name": tool.spec.name,
            "parameters": parameters(tool),
            "description": tool.spec.description,
            "runs_or_writes": tool.changes,
            "server": name,
        }
        for name, tool in tools
    ]
