"""Rewriting tool schemas into a form that providers accept: valid draft 2020-12, with an object at the root."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ask import ToolSpec
from ask.plugin_api.provider import has_plain_schema
from ask.plugin_api.tool_schemas import VALID_NAME_PATTERN, UnusableToolError, normalize_tool, restore_property_names
from ask.tools.definitions import BUILTIN_TOOLS

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
ROOT_UNIONS = {"anyOf", "oneOf", "allOf", "enum", "not"}


def normalize(schema: Any, *, inline: bool = False) -> ToolSpec:
    return normalize_tool(ToolSpec("t", "Does it.", schema), inline_references=inline)


def normalize_parameter(part: Any, *, inline: bool = False, **root: Any) -> Any:
    """Return the normalized schema of a parameter."""
    schema = {"type": "object", "properties": {"x": part}, **root}
    return normalize(schema, inline=inline).parameters["properties"]["x"]


@pytest.mark.parametrize("inline", [False, True])
def test_builtin_tools_are_unchanged(inline: bool) -> None:
    for tool in BUILTIN_TOOLS:
        assert has_plain_schema(tool.spec)
        assert normalize_tool(tool.spec, inline_references=inline) == tool.spec


@pytest.mark.parametrize(
    "change",
    [
        {"required": []},
        {"required": ["b"]},
        {"required": ["a", "a"]},
        {"required": [["a"]]},
        {"additionalProperties": {}},
        {"type": ["object"]},
        {"minProperties": 1},
        {"properties": {"a": {"type": "string", "nullable": True}}},
        {"properties": {"a": {"type": "string", "description": 1}}},
        {"properties": {"a": {"type": "array"}}},
        {"properties": {"a": {}}},
        {"properties": {"a": True}},
        {"properties": {"a": TEXT, "[key removed]": TEXT}},
    ],
)
def test_only_plain_schemas_are_not_rewritten(change: dict[str, Any]) -> None:
    plain = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": False}
    assert has_plain_schema(ToolSpec("t", "", plain))
    assert not has_plain_schema(ToolSpec("t", "", {**plain, **change}))


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
def test_union_becomes_one_object_with_a_note(union: str, inline: bool) -> None:
    page = {
        "type": "object",
        "properties": {"kind": {"const": "page"}, "page_id": TEXT},
        "required": ["kind", "page_id"],
    }
    block = {"type": "object", "properties": {"kind": {"const": "block"}, "size": NUMBER}, "required": ["kind"]}
    tool = normalize({union: [page, block]}, inline=inline)
    assert tool.parameters == {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["page", "block"]}, "page_id": TEXT, "size": NUMBER},
        "required": ["kind"],
    }
    first, *notes = tool.description.splitlines()
    assert first == "Does it."
    assert '{kind: "page", page_id, ...}; {kind: "block", size?, ...}' in notes[0]


def test_alternative_required_properties_become_a_note() -> None:
    schema = {"properties": {"id": NUMBER, "name": TEXT}, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}
    tool = normalize(schema)
    assert tool.parameters == {"type": "object", "properties": {"id": NUMBER, "name": TEXT}}
    assert "{id, ...}; {name, ...}" in tool.description


def test_all_of_is_merged_into_one_object() -> None:
    schema = {
        "properties": {"a": TEXT},
        "required": ["a"],
        "allOf": [{"properties": {"b": NUMBER}, "required": ["b"]}, {"$ref": "#/$defs/more"}],
        "$defs": {"more": {"properties": {"c": TEXT}, "additionalProperties": False}},
    }
    result = normalize(schema).parameters
    assert result == {"type": "object", "properties": {"a": TEXT, "b": NUMBER, "c": TEXT}, "required": ["a", "b"]}


def test_reference_at_the_root_is_inlined() -> None:
    result = normalize({"$ref": "#/definitions/Args", "definitions": {"Args": {"properties": {"a": TEXT}}}}).parameters
    assert result == {"type": "object", "properties": {"a": TEXT}}


@pytest.mark.parametrize("name", ["filter[name]", "año", "$top", "@odata.type", "a b", "", "x" * 65])
@pytest.mark.parametrize("inline", [False, True])
def test_rejected_property_name_is_replaced_and_restored(name: str, inline: bool) -> None:
    inner = {"type": "object", "properties": {name: TEXT}, "required": [name]}
    schema = {
        "type": "object",
        "properties": {name: TEXT, "list": {"type": "array", "items": inner}},
        "required": [name],
        "dependentRequired": {name: ["list"]},
    }
    result = normalize(schema, inline=inline).parameters
    replacement, other = result["properties"]
    assert VALID_NAME_PATTERN.fullmatch(replacement)
    assert other == "list"
    assert result["properties"][replacement]["title"] == name
    assert (result["required"], result["dependentRequired"]) == ([replacement], {replacement: ["list"]})
    assert result["properties"]["list"]["items"]["required"] == [replacement]
    arguments = {replacement: "a", "list": [{replacement: "b"}]}
    assert restore_property_names(schema, arguments) == {name: "a", "list": [{name: "b"}]}


def test_similar_names_stay_distinct() -> None:
    names = ["a[b]", "a{b}", "a_b_", "a b"]
    result = normalize({"properties": dict.fromkeys(names, TEXT)}).parameters["properties"]
    assert len(result) == 4


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
def test_keyword_is_converted_to_draft_2020(part: Any, sent: Any, inline: bool) -> None:
    assert normalize_parameter(part, inline=inline) == sent


def test_forbidden_property_is_removed() -> None:
    assert normalize({"properties": {"x": False, "y": TEXT}}).parameters["properties"] == {"y": TEXT}


@pytest.mark.parametrize("reference", ["#/$defs/a~1b", "#/definitions/a~1b", "#/properties/y", "#here", "other#there"])
def test_references_point_to_definitions_or_are_inlined(reference: str) -> None:
    target = {"type": "object", "properties": {"city": TEXT}}
    root = {
        "$id": "https://example.com/root",
        "$defs": {"a/b": target, "h": {"$anchor": "here", **target}}
        | {"o": {"$id": "other", "$defs": {"t": {"$anchor": "there", **target}}}},
        "definitions": {"a/b": target},
    }
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": reference, "description": "d"}, "y": target},
        **root,
    }
    kept = normalize(schema).parameters
    reference = kept["properties"]["x"]["$ref"]
    assert kept["properties"]["x"]["description"] == "d"
    assert kept["$defs"] == {reference.removeprefix("#/$defs/"): target}
    inline = normalize(schema, inline=True).parameters
    assert inline["properties"]["x"] == target | {"description": "d"}
    assert "$defs" not in inline


def test_recursive_schema_is_kept_or_truncated() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "value": NUMBER}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    assert normalize(schema).parameters == schema
    inlined = normalize(schema, inline=True).parameters["properties"]["x"]
    assert inlined == {"type": "object", "properties": {"left": {"type": "object"}, "value": NUMBER}}


def test_mutually_recursive_definitions_do_not_multiply() -> None:
    names = [f"d{i}" for i in range(20)]
    definition = {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": dict.fromkeys(names, definition)}
    assert len(json.dumps(normalize(schema, inline=True).parameters)) < 200_000
    assert len(normalize(schema).parameters["$defs"]) == 1


def test_definitions_that_would_multiply_take_no_room_from_the_others() -> None:
    parent = {"type": "object", "properties": {"page": TEXT}, "required": ["page"]}
    blocks = {"type": "array", "items": {"anyOf": [{"$ref": f"#/$defs/{number}"} for number in range(10)]}}
    definitions = {str(number): {"type": "object", "properties": {"children": blocks}} for number in range(10)}
    schema = {"properties": {"children": blocks, "parent": {"$ref": "#/$defs/parent"}}}
    inlined = normalize({**schema, "$defs": {**definitions, "parent": parent}}, inline=True).parameters
    assert inlined["properties"]["parent"] == parent


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
def test_nested_unions_of_objects_are_flattened(union: str, inline: bool) -> None:
    """Moonshot refuses the type next to the union, Gemini the properties without a type."""
    part = {
        "type": "object",
        "properties": {"a": TEXT},
        union: [{"properties": {"b": NUMBER}, "required": ["b"]}, {"properties": {"c": TEXT}}],
    }
    result = normalize_parameter(part, inline=inline)
    assert (list(result["properties"]), result["type"]) == (["a", "b", "c"], "object")
    assert not {"anyOf", "oneOf"} & result.keys()
    assert "{b, ...}; {c?, ...}" in result["description"]


@pytest.mark.parametrize("inline", [False, True])
def test_each_required_name_is_a_property(inline: bool) -> None:
    """https://github.com/anomalyco/opencode/issues/3140"""
    part = {"type": "object", "properties": {"a": TEXT}, "required": ["b"]}
    assert normalize_parameter(part, inline=inline) == {**part, "properties": {"a": TEXT, "b": {}}}
    root = normalize({**part, "properties": {"a": TEXT}}, inline=inline).parameters
    assert root["properties"] == {"a": TEXT, "b": {}}


def test_nested_unions_are_simplified_without_references() -> None:
    assert normalize_parameter({"oneOf": [TEXT, NUMBER]}, inline=True) == {"anyOf": [TEXT, NUMBER]}
    assert normalize_parameter({"allOf": [TEXT, {"maxLength": 3}]}, inline=True) == TEXT | {"maxLength": 3}


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
def test_tool_without_object_arguments_is_unusable(schema: Any) -> None:
    with pytest.raises(UnusableToolError, match="object"):
        normalize(schema)


def test_tool_with_a_too_deep_schema_is_unusable() -> None:
    schema: dict[str, Any] = {}
    for _ in range(500):
        schema = {"type": "object", "properties": {"x": schema}}
    with pytest.raises(UnusableToolError, match="deep"):
        normalize(schema)
    with pytest.raises(UnusableToolError, match="deep"):
        normalize({"$ref": "#"}, inline=False)


KEYWORDS = [
    "type",
    "properties",
    "items",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "enum",
    "const",
    "required",
    "$ref",
    "$defs",
]
KEYWORDS += [
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
KEYWORDS += ["dependencies", "description", "default", "minItems", "$id", "$schema", "format", "definitions"]
VALUES = st.sampled_from(
    [None, True, False, 1, -2.5, "string", "object", "null", "#/$defs/a", "#", ["string", 3], ["a"]]
)
PARTS = st.recursive(
    VALUES,
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)
        | st.lists(inner, max_size=3)
        | st.builds(lambda part: {"type": "object", "properties": {"a": part, "b c": part}}, inner)
    ),
    max_leaves=12,
)


def test_required_names_that_providers_reject_are_replaced_and_restored() -> None:
    schema = {"type": "object", "required": ["$id"]}
    [name] = normalize(schema).parameters["required"]
    assert VALID_NAME_PATTERN.fullmatch(name)
    assert restore_property_names(schema, {name: 1}) == {"$id": 1}


@given(PARTS, PARTS, st.booleans())
def test_result_is_valid_for_any_schema(part: Any, definition: Any, inline: bool) -> None:
    schema = {"type": "object", "properties": {"x": part}, "anyOf": [part, definition], "$defs": {"a": definition}}
    serialized = json.dumps(schema)
    try:
        tool = normalize(schema, inline=inline)
    except UnusableToolError:
        return
    assert json.dumps(schema) == serialized
    Draft202012Validator.check_schema(tool.parameters)
    assert not ROOT_UNIONS & tool.parameters.keys()
    assert all(VALID_NAME_PATTERN.fullmatch(name) for name in list_property_names(tool.parameters))
    assert inline is False or "$ref" not in collect_keywords(tool.parameters)
    again = normalize_tool(tool, inline_references=inline)
    assert again.parameters.keys() == tool.parameters.keys()


def list_subschemas(schema: Any) -> list[Any]:
    """List the values that may contain schemas, leaving out data such as defaults."""
    if isinstance(schema, dict):
        return [part for word, part in schema.items() if word not in ("default", "const", "enum", "examples")]
    return schema if isinstance(schema, list) else []


def list_property_names(schema: Any) -> list[str]:
    parts = list_subschemas(schema)
    own = list(schema["properties"]) if isinstance(schema, dict) and isinstance(schema.get("properties"), dict) else []
    return own + [name for part in parts for name in list_property_names(part)]


def collect_keywords(schema: Any) -> set[str]:
    parts, words = list_subschemas(schema), set(schema) if isinstance(schema, dict) else set()
    for word in words & {"dependentRequired", "dependentSchemas"}:  # whose keys are names of properties
        parts.remove(schema[word])
        parts += schema[word].values() if isinstance(schema[word], dict) else []
    return words.union(*map(collect_keywords, parts))


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("inline", [True, False])
def test_references_that_multiply_are_normalized_or_rejected_quickly(keyword: str, inline: bool) -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)
    }
    definitions["d40"] = {"type": "object", "properties": {"text": {"type": "string"}}}
    spec = ToolSpec("bomb", "Explode.", {"type": "object", keyword: [{"$ref": "#/$defs/d0"}], "$defs": definitions})
    start = time.thread_time()
    with suppress(UnusableToolError):
        normalize_tool(spec, inline_references=inline)
    assert time.thread_time() - start < 2


def test_a_schema_that_is_nested_too_deeply_is_rejected() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(UnusableToolError):
        normalize_tool(ToolSpec("deep", "Go deep.", schema))
