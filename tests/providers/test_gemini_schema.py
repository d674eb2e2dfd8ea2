"""What a tool's JSON Schema becomes for Gemini, which refuses a request over any keyword that it does not know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import ToolSpec
from ask.tools import builtin_tools
from providers.gemini import provider as gemini
from providers.gemini_schema import gemini_schema
from tests.any_json import names_in

TEXT = {"type": "string"}
PLACE = {"type": "object", "properties": {"city": TEXT}, "required": ["city"]}
KNOWN = {
    *("type", "description", "format", "enum", "nullable", "anyOf", "items", "properties", "required", "pattern"),
    *("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
}


def converted(part: Any, **root: Any) -> Any:
    """What a parameter's schema becomes."""
    return gemini_schema({"type": "object", "properties": {"x": part}, **root})["properties"]["x"]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string", "title": "X", "default": "a", "$comment": "c"}, TEXT),
        ({"type": ["string", "null"]}, TEXT | {"nullable": True}),
        ({"type": ["null"], "description": "d"}, {"type": "string", "description": "d", "nullable": True}),
        (
            {"type": ["string", "integer", "null"], "description": "d"},
            {
                "anyOf": [{"type": "string", "description": "d"}, {"type": "integer", "description": "d"}],
                "nullable": True,
            },
        ),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer", "nullable": True}),
        ({"oneOf": [TEXT, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}]}),
        ({"enum": ["a", "b"]}, TEXT | {"enum": ["a", "b"]}),
        ({"type": ["string", "null"], "enum": ["a", None]}, TEXT | {"enum": ["a"], "nullable": True}),
        ({"const": "a"}, TEXT | {"enum": ["a"]}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer"}),
        ({"enum": [""]}, TEXT),
        ({"type": "string", "format": "uri"}, TEXT),
        ({"type": "string", "format": "date-time"}, TEXT | {"format": "date-time"}),
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 9}, {"type": "integer", "minimum": 1}),
        ({"type": "array"}, {"type": "array", "items": TEXT}),
        ({"type": "array", "prefixItems": [{"type": "number"}]}, {"type": "array", "items": {"type": "number"}}),
        ({"items": {"type": "boolean"}}, {"type": "array", "items": {"type": "boolean"}}),
        ({}, TEXT),
        (True, TEXT),
        ({"type": "object", "properties": {}, "required": ["y"]}, {"type": "object"}),
        (PLACE | {"required": ["city", "y", ["z"]], "additionalProperties": False}, PLACE),
        (PLACE | {"anyOf": [{"required": ["city"]}, {"required": ["y"]}]}, PLACE),
        ({"allOf": [PLACE, {"properties": {"n": TEXT}}]}, PLACE | {"properties": {"n": TEXT, "city": TEXT}}),
    ],
)
def test_a_keyword_is_sent_in_geminis_terms_or_left_out(schema: Any, sent: Any) -> None:
    assert converted(schema) == sent


@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_references_are_written_out(place: str) -> None:
    part = {"$ref": f"#/{place}/a~1b", "description": "d"}
    assert converted(part, **{place: {"a/b": PLACE}}) == PLACE | {"description": "d"}
    assert converted({"allOf": [part]}, **{place: {"a/b": PLACE}}) == PLACE | {"description": "d"}


def test_references_in_circles_and_to_nowhere_come_to_an_end() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}
    assert converted({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": tree}}) == {
        "type": "object",
        "properties": {"left": {"type": "object"}},
    }
    assert converted({"$ref": "#"})["type"] == "object"
    assert converted({"$ref": "#/nowhere"}) == TEXT
    names = [f"d{i}" for i in range(9)]
    tangle = {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    assert converted({"$ref": "#/$defs/d0"}, **{"$defs": dict.fromkeys(names, tangle)})["type"] == "object"


def test_our_own_tools_lose_nothing_that_the_model_reads() -> None:
    for tool in builtin_tools():
        sent = gemini_schema(tool.spec.parameters)
        told = ("type", "description")
        assert [[part.get(name) for name in told] for part in sent["properties"].values()] == [
            [part.get(name) for name in told] for part in tool.spec.parameters["properties"].values()
        ]
        assert sent.get("required") == tool.spec.parameters.get("required")


def test_a_tool_without_parameters_is_declared_without() -> None:
    tool = ToolSpec("now", "Tells the time.", {"type": "object", "properties": {}, "additionalProperties": False})
    assert gemini.provider_format_tools([tool]) == [
        {"functionDeclarations": [{"name": "now", "description": "Tells the time."}]}
    ]


KEYWORDS = st.sampled_from(
    [*sorted(KNOWN), "$ref", "$defs", "oneOf", "allOf", "const", "prefixItems", "additionalProperties", "default"]
)
VALUES = st.sampled_from([None, True, 1, "string", "object", "null", "#/$defs/a", "#", "#/properties/x", ["string", 3]])


@given(
    st.recursive(
        VALUES, lambda part: st.dictionaries(KEYWORDS, part, max_size=4) | st.lists(part, max_size=3), max_leaves=12
    )
)
def test_no_schema_whatever_brings_in_an_unknown_keyword(part: Any) -> None:
    schema = {"type": "object", "properties": {"x": part}, "$defs": {"a": part}}
    before = json.dumps(schema)
    sent = gemini_schema(schema)
    assert names_in(sent) <= KNOWN | {"x"} | names_in(part)
    check(sent)
    assert json.dumps(schema) == before


def check(sent: Any) -> None:
    """Only known keywords stand where keywords stand, and one type at each place."""
    assert sent.keys() <= KNOWN
    assert isinstance(sent.get("type"), str) or "anyOf" in sent
    for part in [*sent.get("properties", {}).values(), *sent.get("anyOf", []), *filter(None, [sent.get("items")])]:
        check(part)
