"""Conversion of a server's tools, with names and sizes that every provider accepts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ask.config.mcp_servers import ServerConfig
from ask.messages import ToolSpec
from ask.parsing import read_dict
from ask.records import NamedTuple
from ask.text import format_one_line, repair_surrogates
from ask.tools.base import RunToolContext, Tool, ToolResult

MAX_NAME_CHARACTERS = 64
MAX_TOOLS = 128
"""Maximum number of tools of one server; some providers accept no more in total."""
MAX_DESCRIPTION_CHARACTERS = 2_000
"""Maximum number of characters of a description; longer ones are truncated."""
MAX_SCHEMA_CHARACTERS = 20_000
"""Maximum number of characters of a parameter schema, as JSON. Tools with a larger one are not offered."""


class ToolListing(NamedTuple):
    """A tool as listed by its server."""

    name: str
    description: str
    schema: Mapping[str, Any]
    reads_only: bool = False
    """The server says that the tool has no side effects."""
    repair: str = ""
    """What was missing or unusual in the list and is repaired; "" if nothing was."""
    rejection: str = ""
    """Why the tool cannot be offered; "" if it can."""


class ServerTools(NamedTuple):
    """The tools that a server offers in a run, or why it cannot be used."""

    server: ServerConfig
    tools: Sequence[ToolListing] = ()
    """The tools to offer, normalized for all providers."""
    notes: Sequence[str] = ()
    """Messages about tools that are left out."""
    repair_notes: Sequence[str] = ()
    """Messages about tools that are repaired; they are not cached, so that each run does not repeat them."""
    failure: str = ""
    """Why the server cannot be used, in one line; "" if it can."""
    version: str = ""
    """The name and version that the server reports, or ""."""
    lifetime: float = 0.0
    """Seconds that the server considers the list fresh; 0 if it does not say."""
    seconds: float = 0.0
    """How long the start took."""


ToolCaller = Callable[[str, Mapping[str, Any], RunToolContext], ToolResult]
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
    if len(name) <= MAX_NAME_CHARACTERS and name not in used_names:
        return name
    digest = hashlib.sha256(tool_name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{name[: MAX_NAME_CHARACTERS - 9]}_{digest}"


def parse_tools(entries: Sequence[object]) -> list[ToolListing]:
    """Parse the tools of a server's list, each alone: one that is unusual must not cost the user the others."""
    return list(map(_parse_tool, entries))


def _parse_tool(entry: object) -> ToolListing:
    """Parse a tool of a server's list. What has no obvious meaning is a reason to reject it."""
    fields = read_dict(entry)
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        return ToolListing("", "", {}, rejection="no name")
    annotations, execution = read_dict(fields.get("annotations")), read_dict(fields.get("execution"))
    texts = (fields.get("description"), fields.get("title"), annotations.get("title"))
    description = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    schema, repair, rejection = _parse_input_schema(fields.get("inputSchema"))
    if execution.get("taskSupport") == "required":
        rejection = "callable only as tasks, which ask does not support"
    reads_only = annotations.get("readOnlyHint") is True
    return ToolListing(name, description, schema, reads_only, repair=repair, rejection=rejection)


def _parse_input_schema(value: object) -> tuple[Mapping[str, Any], str, str]:
    """Return the parameters of a tool, how they were repaired, and why they cannot be used; "" if that is not so."""
    repairs = []
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
            repairs.append("the inputSchema is a string")
    if value is None or value in ([], {}):
        return {"type": "object"}, "no inputSchema, so no parameters are offered", ""
    if not isinstance(value, dict):
        return {}, "", "the inputSchema is not an object"
    types = value.get("type", "object")
    type_names = [str(name).lower() for name in (types if isinstance(types, list) else [types])]
    properties = value.get("properties")
    if "object" not in type_names and not (properties and isinstance(properties, dict)):
        return {}, "", f"the type of the arguments is {format_one_line(' or '.join(type_names), 40)}, not object"
    if properties and not isinstance(properties, dict):
        return {}, "", "the properties in the inputSchema are not an object"
    if types != "object" and "type" in value:
        repairs.append("the type in the inputSchema is not object")
    if "properties" in value and not isinstance(properties, dict):  # PHP writes an empty object as []
        repairs.append("the properties in the inputSchema are not an object")
    schema = value
    if "required" in value and not _is_list_of_names(value["required"]):
        schema = {key: part for key, part in value.items() if key != "required"}
        repairs.append("required in the inputSchema is not a list of names")
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (ValueError, RecursionError):
        return {}, "", "the inputSchema is not valid JSON, or is nested too deeply"
    rejection = f"the parameters exceed {MAX_SCHEMA_CHARACTERS:,} characters" if size > MAX_SCHEMA_CHARACTERS else ""
    return schema, "; ".join(repairs), rejection


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def select_tools(server: ServerConfig, listings: Sequence[ToolListing]) -> ServerTools:
    """Select the tools to offer from a server's list."""
    listed_names = {listing.name for listing in listings}
    notes = []
    missing = [name for name in (*(server.tools or ()), *server.disabled_tools) if name not in listed_names]
    if missing:
        notes.append(f"the MCP server {server.name} has no tool {', '.join(map(repr, missing))}")
    names = (listed_names if server.tools is None else {*server.tools}).difference(server.disabled_tools)
    chosen = [listing for listing in listings if listing.name in names]
    accepted = [listing for listing in chosen if not listing.rejection]
    rejections = ((listing.name, listing.rejection) for listing in chosen)
    notes += _describe_tools("skipping", server, rejections)
    if len(accepted) > MAX_TOOLS:
        notes.append(
            f"the MCP server {server.name} has more than {MAX_TOOLS} tools; only the first {MAX_TOOLS} are offered "
            f"(choose others with mcp.servers.{server.name}.tools)"
        )
    offered = accepted[:MAX_TOOLS]
    repair_notes = tuple(_describe_tools("repaired", server, ((listing.name, listing.repair) for listing in offered)))
    return ServerTools(server, [normalize_listing(server, listing) for listing in offered], notes, repair_notes)


def _describe_tools(action: str, server: ServerConfig, reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Format one line for each reason, with the number of tools and the first name; "" is no reason."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons:
        if reason:
            names.setdefault(reason, []).append(repr(format_one_line(repair_surrogates(name), 100)) if name else "")
    lines = []
    for reason, (first, *others) in names.items():
        shown = f" ({first}{f' and {len(others)} more' if others else ''})" if first else ""
        count = f"{1 + len(others)} tools" if others else "1 tool"
        lines.append(f"{action} {count} of the MCP server {server.name}{shown}: {reason}")
    return lines


def normalize_listing(server: ServerConfig, listing: ToolListing) -> ToolListing:
    """Return a tool with a description of valid length, and with a schema that has the type "object" and properties.

    All other keys of the schema are kept: `$schema` selects the draft that arguments are validated against, and `$ref`
    needs `$defs`.
    """
    description = repair_surrogates(listing.description).strip()
    if len(description) > MAX_DESCRIPTION_CHARACTERS:
        description = f"{description[:MAX_DESCRIPTION_CHARACTERS]}..."
    if not description:
        description = f"The tool {format_one_line(repair_surrogates(listing.name), 100)} of {server.name}."
    schema = {**listing.schema, "type": "object", "properties": read_dict(listing.schema.get("properties"))}
    return listing._replace(description=description, schema=schema, repair="")


def to_tools(server_tools: ServerTools, call_tool: ToolCaller) -> list[Tool]:
    """Convert the tools of a server, whose calls are made with `call_tool`."""
    tools: dict[str, Tool] = {}
    for listing in server_tools.tools:
        name = build_tool_name(server_tools.server.name, listing.name, tools)
        if name not in tools:
            spec = ToolSpec(name, listing.description, listing.schema)
            origin = f"mcp:{server_tools.server.name}"
            tools[name] = Tool(spec, partial(call_tool, listing.name), not listing.reads_only, origin)
    return list(tools.values())
