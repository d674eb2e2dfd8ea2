"""`ask tools`: list the tools that a model may call, and where they are from."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ask.agent.app_context import AppContext
from ask.agent.mcp_servers import load_withheld_tools
from ask.agent.safe_mode import is_offered
from ask.agent.toolset import Toolset, has_context_files, has_mcp_configuration
from ask.cli.groups import JSON_OPTION, subcommand
from ask.console import StandardOutput, StderrConsole
from ask.parsing import read_dict, read_list
from ask.render.table import write_table
from ask.safety.policy import BUILTIN_ORIGIN
from ask.settings import SANDBOX_LEVEL, get_working_directory, resolve_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ask.settings import Settings
    from ask.tools.base import Tool

SANDBOXED, ASKS_FOR_HOSTS, NEEDS_ALLOW_TOOL = "sandboxed", "asks for hosts", "only with --allow-tool {}"
CONFINED, NOT_OFFERED, READS_SKILLS = "confined by path checks", "not with --safe-files", "reads skills only"
"""How safe mode restricts a tool."""
ANY_TOOL = "?"
"""A name that no tool has.

If it is allowed, safe mode also loads the tools of plugins, because one of them may have that name.
"""


@subcommand("tools")
@click.option("--tool", "functions", metavar="FILE:FUNCTION", multiple=True, help="Also list this Python function.")
@JSON_OPTION
def command(*, functions: tuple[str, ...], as_json: bool) -> None:
    """List the tools that a model may call, with their parameters; optional ones are marked with a question mark."""
    app = AppContext()
    settings = resolve_settings({}, app.environment, app.config)
    console = StderrConsole(app.environment, quiet=False, plain=False)
    with ExitStack() as cleanup:
        rows = []
        for tool in load_every_tool(app, settings, console, cleanup, functions):
            name, safe = tool.spec.name, describe_safe_mode(tool, settings.safe_level)
            allowed = not settings.safe or is_offered(tool, settings.safe_level, settings.allow_tools)
            row = to_tool_row(tool)
            if as_json:
                row["parameters"] = dict(tool.spec.parameters)
            row["offered"] = settings.tools and name not in settings.disabled_tools and allowed
            rows.append({**row, "safe": safe, "from": tool.origin})
    write_table(StandardOutput(), rows, as_json=as_json)


def load_every_tool(
    app: AppContext, settings: Settings, console: StderrConsole, cleanup: ExitStack, functions: Sequence[str]
) -> list[Tool]:
    """Load all tools, including those that safe mode leaves out.

    MCP servers that safe mode does not allow are not started.
    """
    toolset = Toolset(app, console, cleanup, functions)
    directory = get_working_directory()
    if has_context_files(directory, settings, app):
        from ask.agent.project_context import list_all_skills
        from ask.context.skills import create_skill_tool

        skills = [skill for skill in list_all_skills(app, directory) if not skill.problem]
        toolset.skill_tools = (create_skill_tool(skills),) if skills else ()
    if not settings.safe:
        return toolset.load_tools(settings)
    tools = toolset.load_tools(settings._replace(allow_tools=(*settings.allow_tools, ANY_TOOL)))
    if has_mcp_configuration(app):
        tools = [*tools, *load_withheld_tools(app, settings, console, cleanup)]
    return tools


def describe_safe_mode(tool: Tool, level: str) -> str:
    """Describe how safe mode restricts a tool at a level."""
    if tool.origin != BUILTIN_ORIGIN:
        return NEEDS_ALLOW_TOOL.format(tool.spec.name)
    if tool.get_host:
        return ASKS_FOR_HOSTS
    if not tool.is_sandboxed:
        return READS_SKILLS
    if level == SANDBOX_LEVEL:
        return SANDBOXED
    return CONFINED if is_offered(tool, level, ()) else NOT_OFFERED


def to_tool_row(tool: Tool) -> dict[str, Any]:
    """Convert a tool to a table row with its parameter names; its schema is not trusted."""
    schema = tool.spec.parameters
    required = read_list(schema.get("required"))
    names = (name if name in required else f"{name}?" for name in read_dict(schema.get("properties")))
    return {
        "name": tool.spec.name,
        "parameters": ", ".join(names),
        "description": tool.spec.description,
        "runs_or_writes": tool.has_side_effects,
    }
