"""`ask tools`: what a model may call, and where each of it is from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ask.cli.groups import JSON_OPTION, listing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from ask.agent.workspace import Workspace
    from ask.console import Console
    from ask.settings import Settings
    from ask.tools.base import Tool

SANDBOXED, ASKS, NAMED = "sandboxed", "asks for hosts", "only with --allow-tool {}"
"""What safe mode makes of a tool."""
ANY = "?"
"""No tool's name. Where it is allowed, safe mode has those of plugins loaded, as it may be one of them."""


@listing("tools")
@click.option("--tool", "functions", metavar="FILE:FUNCTION", multiple=True, help="List this Python function too.")
@JSON_OPTION
def command(*, functions: tuple[str, ...], as_json: bool) -> None:
    """List the tools that a model may call, with their parameters; optional ones are marked with a question mark."""
    from contextlib import ExitStack

    from ask.agent.workspace import Workspace
    from ask.console import Console, Output
    from ask.render.table import write_table
    from ask.settings import resolve

    workspace = Workspace()
    settings = resolve({}, workspace.environment, workspace.config)
    console = Console(workspace.environment, quiet=False, plain=False)
    with ExitStack() as cleanup:
        rows = []
        for tool in every_tool(workspace, settings, console, cleanup, functions):
            name, safe = tool.spec.name, in_safe_mode(tool)
            allowed = not settings.safe or safe in (SANDBOXED, ASKS) or name in settings.allow_tools
            row: dict[str, Any] = {
                "name": name,
                "parameters": dict(tool.spec.parameters) if as_json else parameters(tool),
                "description": tool.spec.description,
                "runs_or_writes": tool.changes,
                "offered": settings.tools and name not in settings.disabled_tools and allowed,
                "safe": safe,
                "from": tool.origin,
            }
            rows.append(row)
    write_table(Output(), rows, as_json=as_json)


def every_tool(
    workspace: Workspace, settings: Settings, console: Console, cleanup: ExitStack, functions: Sequence[str]
) -> list[Tool]:
    """All tools that there are, in safe mode too, as far as no server is started for it that is not to be."""
    from ask.agent.toolbox import Toolbox, may_have_servers

    toolbox = Toolbox(workspace, console, cleanup, functions)
    if not settings.safe:
        return toolbox.all(settings)
    tools = toolbox.all(settings._replace(allow_tools=(*settings.allow_tools, ANY)))
    if may_have_servers(workspace):
        from ask.agent.mcp_tools import withheld_tools

        tools = [*tools, *withheld_tools(workspace, settings, console, cleanup)]
    return tools


def in_safe_mode(tool: Tool) -> str:
    """What safe mode makes of a tool."""
    from ask.safety.policy import OWN

    if tool.origin != OWN:
        return NAMED.format(tool.spec.name)
    return ASKS if tool.host_of else SANDBOXED


def parameters(tool: Tool) -> str:
    """The names of its parameters; a stranger's schema may say anything."""
    from ask.parsing import as_dict, as_list

    schema = tool.spec.parameters
    required = as_list(schema.get("required"))
    return ", ".join(name if name in required else f"{name}?" for name in as_dict(schema.get("properties")))
