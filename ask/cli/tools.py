"""`ask tools`: what a model may call, and where each of it is from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ask.cli.listing import JSON_OPTION, listing

if TYPE_CHECKING:
    from ask.tools import Tool

SANDBOXED, ASKS, NAMED = "sandboxed", "asks for hosts", "only with --allow-tool {}"
"""What safe mode makes of a tool."""


@listing("tools")
@click.option("--tool", "functions", metavar="FILE:FUNCTION", multiple=True, help="List this Python function too.")
@JSON_OPTION
def command(*, functions: tuple[str, ...], as_json: bool) -> None:
    """List the tools that a model may call, with their parameters; optional ones are marked with a question mark."""
    from contextlib import ExitStack

    from ask.cli.toolbox import Toolbox
    from ask.cli.workspace import Workspace
    from ask.config import resolve
    from ask.render.streams import Console, Output
    from ask.render.table import write_table

    workspace = Workspace()
    settings = resolve({}, workspace.environment, workspace.config)
    console = Console(workspace.environment, quiet=False, plain=False)
    with ExitStack() as cleanup:
        every = Toolbox(workspace, console, cleanup, functions).all(settings._replace(safe=False))
        rows = []
        for tool in every:
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


def in_safe_mode(tool: Tool) -> str:
    """What safe mode makes of a tool."""
    from ask.safety.policy import OWN

    if tool.origin != OWN:
        return NAMED.format(tool.spec.name)
    return ASKS if tool.host_of else SANDBOXED


def parameters(tool: Tool) -> str:
    """The names of its parameters; a stranger's schema may say anything."""
    from ask.json_values import as_dict, as_list

    schema = tool.spec.parameters
    required = as_list(schema.get("required"))
    return ", ".join(name if name in required else f"{name}?" for name in as_dict(schema.get("properties")))
