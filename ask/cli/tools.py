"""`ask tools`: what a model may call, and where each of it is from."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ask.agent.app_context import AppContext
from ask.agent.mcp_tools import load_withheld_tools
from ask.agent.toolset import Toolset, has_mcp_configuration
from ask.cli.groups import JSON_OPTION, subcommand
from ask.console import StandardOutput, StderrConsole
from ask.parsing import as_dict, as_list
from ask.render.table import write_table
from ask.safety.policy import BUILTIN_ORIGIN
from ask.settings import resolve_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ask.settings import Settings
    from ask.tools.base import Tool

SANDBOXED, ASKS_FOR_HOSTS, NEEDS_ALLOW_TOOL = "sandboxed", "asks for hosts", "only with --allow-tool {}"
"""What safe mode makes of a tool."""
ANY_TOOL = "?"
"""No tool's name. Where it is allowed, safe mode has those of plugins loaded, as it may be one of them."""


@subcommand("tools")
@click.option("--tool", "functions", metavar="FILE:FUNCTION", multiple=True, help="List this Python function too.")
@JSON_OPTION
def command(*, functions: tuple[str, ...], as_json: bool) -> None:
    """List the tools that a model may call, with their parameters; optional ones are marked with a question mark."""
    workspace = AppContext()
    settings = resolve_settings({}, workspace.environment, workspace.config)
    console = StderrConsole(workspace.environment, quiet=False, plain=False)
    with ExitStack() as cleanup:
        rows = []
        for tool in load_every_tool(workspace, settings, console, cleanup, functions):
            name, safe = tool.spec.name, describe_safe_mode(tool)
            allowed = not settings.safe or safe in (SANDBOXED, ASKS_FOR_HOSTS) or name in settings.allow_tools
            row: dict[str, Any] = {
                "name": name,
                "parameters": dict(tool.spec.parameters) if as_json else format_parameters(tool),
                "description": tool.spec.description,
                "runs_or_writes": tool.changes,
                "offered": settings.tools and name not in settings.disabled_tools and allowed,
                "safe": safe,
                "from": tool.origin,
            }
            rows.append(row)
    write_table(StandardOutput(), rows, as_json=as_json)


def load_every_tool(
    app: AppContext, settings: Settings, console: StderrConsole, cleanup: ExitStack, functions: Sequence[str]
) -> list[Tool]:
    """All tools that there are, in safe mode too, as far as no server is started for it that is not to be."""
    toolbox = Toolset(app, console, cleanup, functions)
    if not settings.safe:
        return toolbox.load_tools(settings)
    tools = toolbox.load_tools(settings._replace(allow_tools=(*settings.allow_tools, ANY_TOOL)))
    if has_mcp_configuration(app):
        tools = [*tools, *load_withheld_tools(app, settings, console, cleanup)]
    return tools


def describe_safe_mode(tool: Tool) -> str:
    """What safe mode makes of a tool."""
    if tool.origin != BUILTIN_ORIGIN:
        return NEEDS_ALLOW_TOOL.format(tool.spec.name)
    return ASKS_FOR_HOSTS if tool.host_of else SANDBOXED


def format_parameters(tool: Tool) -> str:
    """The names of its parameters; a stranger's schema may say anything."""
    schema = tool.spec.parameters
    required = as_list(schema.get("required"))
    return ", ".join(name if name in required else f"{name}?" for name in as_dict(schema.get("properties")))
