"""From what a server says of its tools to tools of ours: names that every provider takes, and no more than fits."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ask.mcp.server_config import ServerConfig
from ask.messages import ToolSpec
from ask.parsing import as_dict
from ask.text import format_one_line, repair_surrogates
from ask.tools.base import Tool, ToolContext, ToolResult

NAME_LIMIT = 64
TOOLS_LIMIT = 128
"""Tools of one server that are offered; some providers take no more in all."""
DESCRIPTION_LIMIT = 2_000
"""Characters of a description that a model gets."""
SCHEMA_LIMIT = 20_000
"""Characters that the schema of one tool's parameters may have, as JSON."""


class ToolListing(NamedTuple):
    """A tool as its server lists it.

    Attributes:
        reads_only: the server says that the tool changes nothing.
        needs_task: it can be called only as a task, which ask does not support.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    reads_only: bool = False
    needs_task: bool = False


class ServerTools(NamedTuple):
    """What a server has for a run.

    Attributes:
        server: as configured.
        tools: what is to be offered, made fit for every provider.
        notes: lines about what is left out.
        failure: why nothing can be had of it, one line; "" where that is not so.
    """

    server: ServerConfig
    tools: Sequence[ToolListing] = ()
    notes: Sequence[str] = ()
    failure: str = ""


ToolCaller = Callable[[str, Mapping[str, Any], float], ToolResult]
"""Calls a tool of a server, by its own name: with arguments, and for so many seconds at most."""


def build_tool_prefix(server_name: str) -> str:
    """What the names of a server's tools begin with."""
    return f"{server_name if re.match('[A-Za-z_]', server_name) else '_' + server_name}__"


def has_allowed_tool(server_name: str, tool_names: Iterable[str]) -> bool:
    """Whether one of these names is that of a tool of the server."""
    return any(tool.startswith(build_tool_prefix(server_name)) for tool in tool_names)


def build_tool_name(server_name: str, tool_name: str, used_names: Iterable[str]) -> str:
    """The name under which a tool is offered: `SERVER__TOOL`.

    Where that is no name for every provider, or is taken, what is left of it ends in a hash of what it was.
    """
    fit = build_tool_prefix(server_name) + re.sub(r"[^A-Za-z0-9_-]", "_", tool_name)
    if len(fit) <= NAME_LIMIT and fit not in used_names:
        return fit
    mark = hashlib.sha256(tool_name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{fit[: NAME_LIMIT - 9]}_{mark}"


def select_tools(server: ServerConfig, listings: Sequence[ToolListing]) -> ServerTools:
    """What is to be offered of all that a server lists."""
    notes = []
    own = {one.name for one in listings}
    missing = [name for name in server.tools if name not in own]
    if missing:
        notes.append(f"the MCP server {server.name} has no tool {', '.join(map(repr, missing))}")
    wanted = [one for one in listings if not server.tools or one.name in server.tools]
    fitting = []
    left_out: dict[str, list[str]] = {}
    for one in wanted:
        if reason := find_rejection_reason(one):
            left_out.setdefault(reason, []).append(format_one_line(repair_surrogates(one.name), 100))
        else:
            fitting.append(one)
    for reason, names in left_out.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        notes.append(f"the MCP server {server.name} has tools that are left out, {names[0]!r}{others}: {reason}")
    if len(fitting) > TOOLS_LIMIT:
        notes.append(
            f"the MCP server {server.name} has {len(fitting):,} tools, of which the first {TOOLS_LIMIT} are offered: "
            f"name those that you want in mcp.servers.{server.name}.tools"
        )
    return ServerTools(server, [normalize_listing(server, one) for one in fitting[:TOOLS_LIMIT]], notes)


def find_rejection_reason(listing: ToolListing) -> str:
    """Return why a tool cannot be offered; "" if it can."""
    if listing.needs_task:
        return "they can be called only as tasks, which ask does not support"
    if len(json.dumps(listing.schema)) > SCHEMA_LIMIT:
        return f"their parameters take more than {SCHEMA_LIMIT:,} characters"
    return ""


def normalize_listing(server: ServerConfig, listing: ToolListing) -> ToolListing:
    """A tool of a server with a description that is no longer than it may be, and the schema of an object."""
    description = repair_surrogates(listing.description).strip()
    if len(description) > DESCRIPTION_LIMIT:
        description = f"{description[:DESCRIPTION_LIMIT]}..."
    if not description:
        description = f"The tool {format_one_line(repair_surrogates(listing.name), 100)} of {server.name}."
    return listing._replace(description=description, schema=normalize_schema(listing.schema))


def to_tools(server_tools: ServerTools, call_tool: ToolCaller) -> list[Tool]:
    """The tools that stand for those of a server; `call_tool` carries out a call of it."""
    tools: dict[str, Tool] = {}
    for one in server_tools.tools:
        name = build_tool_name(server_tools.server.name, one.name, tools)
        if name not in tools:  # listed twice
            tools[name] = to_tool(server_tools.server, one, name, call_tool)
    return list(tools.values())


def to_tool(server: ServerConfig, listing: ToolListing, name: str, call_tool: ToolCaller) -> Tool:
    """The tool that stands for one of a server's, which has been made fit."""

    def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return call_tool(listing.name, arguments, context.command_timeout)

    spec = ToolSpec(name, listing.description, listing.schema)
    return Tool(spec, run, changes=not listing.reads_only, origin=f"mcp:{server.name}")


def normalize_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of parameters as an object's that names its properties.

    All else stays as it is: `$schema` says which draft the arguments are checked by, and `$ref` needs `$defs`.
    """
    return {**schema, "type": "object", "properties": as_dict(schema.get("properties"))}
