"""Tools in the form that providers accept: valid by draft 2020-12, an object at the root, and nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ask import ToolSpec, normalize_tool
from ask.plugin_api.tool_schemas import VALID_NAME_PATTERN, UnusableToolError, restore_property_names
from ask.tools.builtin import list_builtin_tools

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
ROOT_UNIONS = {"anyOf", "oneOf", "allOf", "enum", "not"}


def normalized(schema: Any, *, inline: bool = False) -> ToolSpec:
    return normalize_tool(ToolSpec("t", "Does it.", schema), inline_references=inline)


def part_of(part: Any, *, inline: bool = False, **root: Any) -> Any:
    """What a parameter's schema becomes."""
    schema = {"type": "object", "properties": {"x": part}, **root}
    return normalized(schema, inline=inline).parameters["properties"]["x"]


@pytest.mark.parametrize("inline", [False, True])
def test_the_own_tools_are_sent_as_they_are(inline: bool) -> None:
    for tool in list_builtin_tools():
        assert normalize_tool(tool.spec, inline_references=inline) == tool.spec


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
def test_a_union_of_forms_is_one_object_and_the_forms_in_words(union: str, inline: bool) -> None:
    page = {
        "type": "object",
        "properties": {"kind": {"const": "page"}, "page_id": TEXT},
        "required": ["kind", "page_id"],
    }
    block = {"type": "object", "properties": {"kind": {"const": "block"}, "size": NUMBER}, "required": ["kind"]}
    tool = normalized({union: [page, block]}, inline=inline)
    assert tool.parameters == {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["page", "block"]}, "page_id": TEXT, "size": NUMBER},
        "required": ["kind"],
    }
    first, *words = tool.description.splitlines()
    assert first == "Does it."
    assert '{kind: "page", page_id, ...}; {kind: "block", size?, ...}' in words[0]


def test_a_choice_of_what_is_required_is_said_in_words() -> None:
    schema = {"properties": {"id": NUMBER, "name": TEXT}, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}
    tool = normalized(schema)
    assert tool.parameters == {"type": "object", "properties": {"id": NUMBER, "name": TEXT}}
    assert "{id, ...}; {name, ...}" in tool.description


def test_what_all_must_fit_becomes_one_object() -> None:
    schema = {
        "properties": {"a": TEXT},
        "required": ["a"],
        "allOf": [{"properties": {"b": NUMBER}, "required": ["b"]}, {"$ref": "#/$defs/more"}],
        "$defs": {"more": {"properties": {"c": TEXT}, "additionalProperties": False}},
    }
    made = normalized(schema).parameters
    assert made == {"type": "object", "properties": {"a": TEXT, "b": NUMBER, "c": TEXT}, "required": ["a", "b"]}


def test_a_reference_at_the_root_is_written_out() -> None:
    made = normalized({"$ref": "#/definitions/Args", "definitions": {"Args": {"properties": {"a": TEXT}}}}).parameters
    assert made == {"type": "object", "properties": {"a": TEXT}}


@pytest.mark.parametrize("name", ["filter[name]", "año", "$top", "@odata.type", "a b", "", "x" * 65])
@pytest.mark.parametrize("inline", [False, True])
def test_a_name_that_providers_refuse_is_replaced_and_restored(name: str, inline: bool) -> None:
    inner = {"type": "object", "properties": {name: TEXT}, "required": [name]}
    schema = {
        "type": "object",
        "properties": {name: TEXT, "list": {"type": "array", "items": inner}},
        "required": [name],
        "dependentRequired": {name: ["list"]},
    }
    made = normalized(schema, inline=inline).parameters
    new, other = made["properties"]
    assert VALID_NAME_PATTERN.fullmatch(new)
    assert other == "list"
    assert made["properties"][new]["title"] == name
    assert (made["required"], made["dependentRequired"]) == ([new], {new: ["list"]})
    assert made["properties"]["list"]["items"]["required"] == [new]
    answered = {new: "a", "list": [{new: "b"}]}
    assert restore_property_names(schema, answered) == {name: "a", "list": [{name: "b"}]}


def test_names_that_look_alike_stay_distinct() -> None:
    names = ["a[b]", "a{b}", "a_b_", "a b"]
    made = normalized({"properties": dict.fromkeys(names, TEXT)}).parameters["properties"]
    assert len(made) == 4


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (True, {}),
        ({"const": "a"}, TEXT | {"enum": ["a"]}),
        ({"enum": [1, 2]}, NUMBER | {"enum": [1, 2]}),
        ({"enum": [1, None]}, {"type": ["integer", "null"], "enum": [1, None]}),
        ({"type": "integer", "enum": [1, 2]}, NUMBER | {"enum": [1, 2]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"type": "integer", "anyOf": [{"minimum": 1}, {"maximum": -1}]},
            {"anyOf": [NUMBER | {"minimum": 1}, NUMBER | {"maximum": -1}]},
        ),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": [TEXT, NUMBER], "additionalItems": False},
            {"type": "array", "prefixItems": [TEXT, NUMBER], "items": {}, "maxItems": 2},
        ),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"type": "STRING"}, TEXT),
        ({"type": "date", "required": True, "description": 5, "x-mine": 1}, {}),
        ({"dependencies": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
        ({"$ref": "#/nowhere", "description": "d"}, {"description": "d"}),
    ],
)
@pytest.mark.parametrize("inline", [False, True])
def test_a_keyword_is_sent_as_draft_2020_has_it(part: Any, sent: Any, inline: bool) -> None:
    assert part_of(part, inline=inline) == sent


def test_a_property_that_may_not_be_there_is_not_sent() -> None:
    assert normalized({"properties": {"x": False, "y": TEXT}}).parameters["properties"] == {"y": TEXT}


@pytest.mark.parametrize("place", ["#/$defs/a~1b", "#/definitions/a~1b", "#/properties/y", "#here", "other#there"])
def test_references_lead_to_definitions_or_are_written_out(place: str) -> None:
    place_schema = {"type": "object", "properties": {"city": TEXT}}
    root = {
        "$id": "https://example.com/root",
        "$defs": {"a/b": place_schema, "h": {"$anchor": "here", **place_schema}}
        | {"o": {"$id": "other", "$defs": {"t": {"$anchor": "there", **place_schema}}}},
        "definitions": {"a/b": place_schema},
    }
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": place, "description": "d"}, "y": place_schema},
        **root,
    }
    kept = normalized(schema).parameters
    reference = kept["properties"]["x"]["$ref"]
    assert kept["properties"]["x"]["description"] == "d"
    assert kept["$defs"] == {reference.removeprefix("#/$defs/"): place_schema}
    inline = normalized(schema, inline=True).parameters
    assert inline["properties"]["x"] == place_schema | {"description": "d"}
    assert "$defs" not in inline


def test_a_schema_that_refers_to_itself_is_kept_or_ends() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "value": NUMBER}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    assert normalized(schema).parameters == schema
    written = normalized(schema, inline=True).parameters["properties"]["x"]
    assert written == {"type": "object", "properties": {"left": {"type": "object"}, "value": NUMBER}}


def test_definitions_that_all_name_each_other_do_not_multiply() -> None:
    names = [f"d{i}" for i in range(20)]
    tangle = {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": dict.fromkeys(names, tangle)}
    assert len(json.dumps(normalized(schema, inline=True).parameters)) < 200_000
    assert len(normalized(schema).parameters["$defs"]) == 1


def test_without_references_unions_inside_keep_all_properties() -> None:
    part = {
        "type": "object",
        "properties": {"a": TEXT},
        "oneOf": [{"properties": {"b": NUMBER}, "required": ["b"]}, {"properties": {"c": TEXT}}],
    }
    made = part_of(part, inline=True)
    assert list(made["properties"]) == ["a", "b", "c"]
    assert "{b, ...}; {c?, ...}" in made["description"]
    assert part_of({"oneOf": [TEXT, NUMBER]}, inline=True) == {"anyOf": [TEXT, NUMBER]}
    assert part_of({"allOf": [TEXT, {"maxLength": 3}]}, inline=True) == TEXT | {"maxLength": 3}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["array", "null"]},
        False,
        {"$ref": "#/$defs/a", "$defs": {"a": TEXT}},
        {"not": {}},
    ],
)
def test_a_tool_whose_arguments_are_no_object_cannot_be_offered(schema: Any) -> None:
    with pytest.raises(UnusableToolError, match="object"):
        normalized(schema)


def test_a_tool_whose_schema_is_too_deep_cannot_be_offered() -> None:
    schema: dict[str, Any] = {}
    for _ in range(500):
        schema = {"type": "object", "properties": {"x": schema}}
    with pytest.raises(UnusableToolError, match="deep"):
        normalized(schema)
    with pytest.raises(UnusableToolError, match="deep"):
        normalized({"$ref": "#"}, inline=False)


WORDS = ["type", "properties", "items", "anyOf", "oneOf", "allOf", "not", "enum", "const", "required", "$ref", "$defs"]
WORDS += [
    "additionalProperties",
    "nullable",
    "minimum",
    "exclusiveMinimum",
    "pattern",
    "if",
    "then",
    "prefixItems",
    "ä",
]
WORDS += ["dependencies", "description", "default", "minItems", "$id", "$schema", "format", "definitions"]
VALUES = st.sampled_from(
    [None, True, False, 1, -2.5, "string", "object", "null", "#/$defs/a", "#", ["string", 3], ["a"]]
)
PARTS = st.recursive(
    VALUES,
    lambda inner: (
        st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
        | st.lists(inner, max_size=3)
        | st.builds(lambda part: {"type": "object", "properties": {"a": part, "b c": part}}, inner)
    ),
    max_leaves=12,
)


@given(PARTS, PARTS, st.booleans())
def test_whatever_a_schema_holds_what_is_sent_is_valid(part: Any, definition: Any, inline: bool) -> None:
    schema = {"type": "object", "properties": {"x": part}, "anyOf": [part, definition], "$defs": {"a": definition}}
    before = json.dumps(schema)
    try:
        tool = normalized(schema, inline=inline)
    except UnusableToolError:
        return
    assert json.dumps(schema) == before
    Draft202012Validator.check_schema(tool.parameters)
    assert not ROOT_UNIONS & tool.parameters.keys()
    assert all(VALID_NAME_PATTERN.fullmatch(name) for name in names_of_properties(tool.parameters))
    assert inline is False or "$ref" not in keywords_in(tool.parameters)
    again = normalize_tool(tool, inline_references=inline)
    assert again.parameters.keys() == tool.parameters.keys()


def parts_of(schema: Any) -> list[Any]:
    """What may hold schemas: values that a tool would get are data, whatever they look like."""
    if isinstance(schema, dict):
        return [part for word, part in schema.items() if word not in ("default", "const", "enum", "examples")]
    return schema if isinstance(schema, list) else []


def names_of_properties(schema: Any) -> list[str]:
    parts = parts_of(schema)
    own = list(schema["properties"]) if isinstance(schema, dict) and isinstance(schema.get("properties"), dict) else []
    return own + [name for part in parts for name in names_of_properties(part)]


def keywords_in(schema: Any) -> set[str]:
    parts = parts_of(schema)
    return {*(schema if isinstance(schema, dict) else ())}.union(*map(keywords_in, parts))
