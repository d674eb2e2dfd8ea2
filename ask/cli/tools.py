"""`ask tools`: the tools that a model may call, and the calls that the user has approved in advance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ask.agent.toolset import Toolset, has_context_files, has_mcp_configuration
from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, CommandGroup, print_text
from ask.cli.commands import PATH
from ask.config.directories import get_working_directory
from ask.config.settings import SANDBOX_LEVEL, Settings
from ask.errors import FileError, UsageError
from ask.mcp.offered_tools import load_withheld_tools
from ask.parsing import read_dict, read_list
from ask.render.amounts import format_count, format_since
from ask.render.table import write_table
from ask.safety.approval_store import open_approvals
from ask.safety.tool_policy import is_offered
from ask.text import decode_argument, escape_control_characters, repair_surrogates
from ask.tools.base import BUILTIN_ORIGIN, Tool

ANY_TOOL = "?"
"""A name that no tool has.

If it is allowed, safe mode also loads the tools of plugins, because one of them may have that name.
"""


@click.group("tools", cls=CommandGroup)
def command() -> None:
    """List the tools available to models, and manage approvals. Without a command, list the tools."""


@command.command("list", short_help="List the tools available to models.")
@click.option(
    "--tool", "functions", metavar="FILE:FUNCTION", type=PATH, multiple=True, help="Also list this Python function."
)
@JSON_OPTION
def list_command(*, functions: tuple[str, ...], as_json: bool) -> None:
    """List the tools that a model may call, with their parameters; optional ones are marked with a question mark."""
    app = AppContext()
    settings = app.read_settings()
    with app.cleanup:
        rows = []
        for tool in _load_every_tool(app, settings, functions):
            name, safe = tool.spec.name, _describe_safe_mode(tool, settings.safe_level)
            allowed = not settings.safe or is_offered(tool, settings.safe_level, settings.allow_tools)
            row = to_tool_row(tool)
            if as_json:
                row["parameters"] = dict(tool.spec.parameters)
            row["offered"] = settings.tools and name not in settings.disabled_tools and allowed
            rows.append({**row, "safe": safe, "from": tool.origin})
    write_table(rows, as_json=as_json, optional=("from", "safe", "parameters", "runs_or_writes", "offered"))


@command.command("approvals", short_help="List the remembered approvals.")
@JSON_OPTION
def list_approvals(*, as_json: bool) -> None:
    """List the approvals that you gave for a folder, or always, when --confirm asked."""
    rows = [
        {
            "id": approval.id,
            "approves": approval.scope.value,
            "value": escape_control_characters(repair_surrogates(approval.value)),
            "folder": decode_argument(approval.folder) or (None if as_json else "all"),
            "safe": approval.level or (None if as_json else "any"),
            "since": format_since(approval.time, as_json=as_json),
        }
        for approval in open_approvals(AppContext()).read()
    ]
    write_table(
        rows,
        as_json=as_json,
        empty="no remembered approvals; with --confirm, ask remembers calls that you allow for a folder, or always",
        optional=("since", "safe", "folder", "approves"),
    )


@command.command("forget", short_help="Forget remembered approvals, so that ask asks again.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "forget_all", is_flag=True, help="Forget all approvals.")
def forget_approvals(*, ids: tuple[str, ...], forget_all: bool) -> None:
    """Forget the approvals with these IDs (see ask tools approvals). Later calls need approval again."""
    if bool(ids) == forget_all:
        raise UsageError("no approval given" if not ids else "--all forgets every ID", "pass the IDs, or --all")
    store = open_approvals(AppContext())
    known_ids = [approval.id for approval in store.read()]
    for unknown in set(ids).difference(known_ids):
        raise UsageError(f"there is no approval {decode_argument(unknown)!r}", "ask tools approvals lists them")
    count = store.remove(ids or known_ids)
    print_text(f"Forgot {format_count(count, 'approval')}.")


def _load_every_tool(app: AppContext, settings: Settings, functions: Sequence[str]) -> list[Tool]:
    """Load all tools, including those that safe mode leaves out.

    MCP servers that safe mode does not allow are not started.
    """
    toolset = Toolset(app, functions)
    try:
        directory = get_working_directory()
    except FileError:  # a deleted folder has no skills, but the user may have some
        directory = app.app_dirs.config
    if has_context_files(directory, settings, app):
        from ask.project.project_context import list_all_skills
        from ask.project.skills import create_skill_tool

        skills = [skill for skill in list_all_skills(app, directory) if not skill.problem]
        toolset.skill_tools = (create_skill_tool(skills),) if skills else ()
    if not settings.safe:
        return toolset.load_tools(settings)
    tools = toolset.load_tools(settings._replace(allow_tools=(*settings.allow_tools, ANY_TOOL)))
    if has_mcp_configuration(app):
        tools = [*tools, *load_withheld_tools(app, settings)]
    return tools


def _describe_safe_mode(tool: Tool, level: str) -> str:
    """Describe how safe mode restricts a tool at a level."""
    if tool.origin != BUILTIN_ORIGIN:
        return f"only with --allow-tool {tool.spec.name}"
    if tool.get_host:
        return "asks for hosts"
    if not tool.needs_sandbox:
        return "reads skills only"
    if level == SANDBOX_LEVEL:
        return "sandboxed"
    return "confined by path checks" if is_offered(tool, level, ()) else "not with --safe-files"


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
