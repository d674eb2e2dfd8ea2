"""Conversion of a server's tools, with names and sizes that every provider accepts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ask.mcp.server_config import ServerConfig
from ask.messages import ToolSpec
from ask.parsing import read_dict
from ask.records import NamedTuple
from ask.text import format_one_line, repair_surrogates
from ask.tools.base import Tool, ToolContext, ToolResult

NAME_LIMIT = 64
TOOLS_LIMIT = 128
"""Maximum number of tools of one server; some providers accept no more in total."""
DESCRIPTION_LIMIT = 2_000
"""Maximum number of characters of a description; longer ones are truncated."""
SCHEMA_LIMIT = 20_000
"""Maximum number of characters of a parameter schema, as JSON. Tools with a larger one are not offered."""


class ToolListing(NamedTuple):
    """A tool as listed by its server."""

    name: str
    description: str
    schema: Mapping[str, Any]
    reads_only: bool = False
    """The server says that the tool has no side effects."""
    needs_task: bool = False
    """The tool can be called only as a task, which ask does not support."""


class ServerTools(NamedTuple):
    """The tools that a server offers in a run, or why it cannot be used."""

    server: ServerConfig
    tools: Sequence[ToolListing] = ()
    """The tools to offer, normalized for all providers."""
    notes: Sequence[str] = ()
    """Messages about tools that are left out."""
    failure: str = ""
    """Why the server cannot be used, in one line; "" if it can."""
    version: str = ""
    """The name and version that the server reports, or ""."""
    lifetime: float = 0.0
    """Seconds that the server considers the list fresh; 0 if it does not say."""
    seconds: float = 0.0
    """How long the start took."""


ToolCaller = Callable[[str, Mapping[str, Any], ToolContext], ToolResult]
"""Calls a tool by the name that its server uses, with arguments and the context of the call."""


def build_tool_prefix(server_name: str) -> str:
    """Return the prefix of the names of a server's tools."""
    return f"{server_name if re.match('[A-Za-z_]', server_name) else '_' + server_name}__"


def has_allowed_tool(server_name: str, tool_names: Iterable[str]) -> bool:
    """Check whether any of the tool names belongs to the server."""
    return any(tool.startswith(build_tool_prefix(server_name)) for tool in tool_names)


def build_tool_name(server_name: str, tool_name: str, used_names: Iterable[str]) -> str:
    """Build the name under which a tool is offered: `SERVER__TOOL`.

    A name that is too long or in use is truncated and gets a hash of the original name.
    """
    name = build_tool_prefix(server_name) + re.sub(r"[^A-Za-z0-9_-]", "_", tool_name)
    if len(name) <= NAME_LIMIT and name not in used_names:
        return name
    digest = hashlib.sha256(tool_name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{name[: NAME_LIMIT - 9]}_{digest}"


def select_tools(server: ServerConfig, listings: Sequence[ToolListing]) -> ServerTools:
    """Select the tools to offer from a server's list."""
    notes = []
    listed_names = {listing.name for listing in listings}
    missing = [name for name in server.tools if name not in listed_names]
    if missing:
        notes.append(f"the MCP server {server.name} has no tool {', '.join(map(repr, missing))}")
    accepted = []
    rejected_names: dict[str, list[str]] = {}
    for listing in listings:
        if server.tools and listing.name not in server.tools:
            continue
        if reason := find_rejection_reason(listing):
            rejected_names.setdefault(reason, []).append(format_one_line(repair_surrogates(listing.name), 100))
        else:
            accepted.append(listing)
    for reason, names in rejected_names.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        notes.append(f"skipping tools of the MCP server {server.name}, {names[0]!r}{others}: {reason}")
    if len(accepted) > TOOLS_LIMIT:
        notes.append(
            f"the MCP server {server.name} has {len(accepted):,} tools; only the first {TOOLS_LIMIT} are offered "
            f"(choose others with mcp.servers.{server.name}.tools)"
        )
    return ServerTools(server, [normalize_listing(server, listing) for listing in accepted[:TOOLS_LIMIT]], notes)


def find_rejection_reason(listing: ToolListing) -> str:
    """Return why a tool cannot be offered; "" if it can."""
    if listing.needs_task:
        return "they can be called only as tasks, which ask does not support"
    if len(json.dumps(listing.schema)) > SCHEMA_LIMIT:
        return f"their parameters exceed {SCHEMA_LIMIT:,} characters"
    return ""


def normalize_listing(server: ServerConfig, listing: ToolListing) -> ToolListing:
    """Return a tool with a description of valid length, and with a schema that has the type "object" and properties.

    All other keys of the schema are kept: `$schema` selects the draft that arguments are validated against, and `$ref`
    needs `$defs`.
    """
    description = repair_surrogates(listing.description).strip()
    if len(description) > DESCRIPTION_LIMIT:
        description = f"{description[:DESCRIPTION_LIMIT]}..."
    if not description:
        description = f"The tool {format_one_line(repair_surrogates(listing.name), 100)} of {server.name}."
    schema = {**listing.schema, "type": "object", "properties": read_dict(listing.schema.get("properties"))}
    return listing._replace(description=description, schema=schema)


def to_tools(server_tools: ServerTools, call_tool: ToolCaller) -> list[Tool]:
    """Convert the tools of a server, whose calls are made with `call_tool`."""
    tools: dict[str, Tool] = {}
    for listing in server_tools.tools:
        name = build_tool_name(server_tools.server.name, listing.name, tools)
        if name not in tools:  # a server may list a tool twice
            spec = ToolSpec(name, listing.description, listing.schema)
            origin = f"mcp:{server_tools.server.name}"
            tools[name] = Tool(spec, partial(call_tool, listing.name), not listing.reads_only, origin)
    return list(tools.values())
