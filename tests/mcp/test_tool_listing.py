"""Tools built from a server's list have distinct names that every provider accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ask.agent.toolset import TOOL_NAME_PATTERN
from ask.config.mcp_servers import ServerConfig
from ask.mcp.tool_listing import (
    ToolListing,
    build_tool_name,
    build_tool_prefix,
    has_allowed_tool,
    select_tools,
    to_tools,
)
from ask.tools.base import RunToolContext, Tool, ToolResult
from tests.mcp.values import json_values

SERVER = ServerConfig("git", Path("config.toml"))
NAMES = st.from_regex(r"(?!.*__)[A-Za-z0-9_-]{1,32}", fullmatch=True)


def no_call(tool: str, arguments: Any, context: RunToolContext) -> ToolResult:
    return ToolResult(f"{tool} {arguments} {context.command_timeout}")


def tools_of(*listed: ToolListing) -> list[Tool]:
    return to_tools(select_tools(SERVER, listed), no_call)


def names(*tools: str) -> list[str]:
    return [tool.spec.name for tool in tools_of(*(ToolListing(name, "", {}) for name in tools))]


def test_a_tool_name_begins_with_the_server() -> None:
    assert names("log") == ["git__log"]
    assert build_tool_prefix("1password") == "_1password__"
    assert has_allowed_tool("git", ["bash", "git__log"])
    assert not has_allowed_tool("git", ["git_log", "gitx__log", "x__git__log"])


def test_characters_that_providers_reject_are_replaced() -> None:
    assert names("a.b/c d", "ä") == ["git__a_b_c_d", "git___"]


def test_colliding_names_stay_distinct() -> None:
    first, second, third = names("a.b", "a_b", "a/b")
    assert first == "git__a_b"
    assert second.startswith("git__a_b_")
    assert len({first, second, third}) == 3


def test_a_long_name_keeps_its_beginning_and_stays_distinct() -> None:
    one, two = names("x" * 100 + "1", "x" * 100 + "2")
    assert (len(one), len(two)) == (64, 64)
    assert one != two
    assert one.startswith("git__xxxx")
    assert names("x" * 100 + "1") == [one], "the same in every run"


def test_the_number_of_tools_is_not_given_for_a_list_that_was_not_read_to_its_end() -> None:
    """The list is read until it has more tools than are offered."""
    pages = [ToolListing(f"tool_{number}", "", {}) for number in range(150)]
    (note,) = select_tools(SERVER, pages).notes
    assert "150" not in note
    assert "more than 128 tools" in note


@given(NAMES, st.lists(st.text(max_size=100), max_size=20))
def test_any_names_fit(server: str, tools: list[str]) -> None:
    taken: list[str] = []
    for tool in dict.fromkeys(tools):
        name = build_tool_name(server, tool, taken)
        assert TOOL_NAME_PATTERN.fullmatch(name)
        assert name.startswith(build_tool_prefix(server))
        assert name not in taken
        taken.append(name)


def test_a_duplicate_tool_is_offered_once() -> None:
    assert len(names("a", "a")) <= 2
    assert names("a", "a")[0] == "git__a"


def test_only_tools_marked_read_only_have_no_side_effects() -> None:
    tools = tools_of(ToolListing("a", "", {}), ToolListing("b", "", {}, reads_only=True))
    assert [tool.has_side_effects for tool in tools] == [True, False]
    assert {tool.origin for tool in tools} == {"mcp:git"}


@given(json_values())
def test_any_schema_becomes_an_object_schema(schema: Any) -> None:
    listed = ToolListing("a", "Does.", schema if isinstance(schema, dict) else {"properties": schema})
    [tool] = tools_of(listed)
    assert tool.spec.parameters["type"] == "object"
    assert isinstance(tool.spec.parameters["properties"], dict)


def test_a_schema_stays_complete() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"filter": {"$ref": "#/$defs/filter"}, "old": {"$ref": "#/definitions/old"}},
        "$defs": {"filter": {"$anchor": "filter", "type": "object", "additionalProperties": {}}},
        "definitions": {"old": {"type": "string"}},
        "allOf": [{"required": ["filter"]}],
        "additionalProperties": False,
    }
    [tool] = tools_of(ToolListing("a", "Does.", schema))
    assert tool.spec.parameters == schema


def test_a_tool_without_a_description_gets_one() -> None:
    [tool] = tools_of(ToolListing("a\n\x1b", " ", {}))
    assert tool.spec.description == "The tool a \\x1b of git."
