"""The strict form of a schema: whatever fits it fits the schema, and there is none where that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from ask.plugin_api.strict_schema import to_strict_schema
from ask.schemas.short_form import parse_short_form
from tests.test_schema_short_form import ONE, objects

TEXT = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@pytest.mark.parametrize("short", ["name, age int|null, tags [string]", "a {b 'x'|null, c [{d float: how far}]}: all"])
def test_what_has_no_options_is_strict_as_it_is(short: str) -> None:
    assert to_strict_schema(parse_short_form(short)) == parse_short_form(short)


def test_objects_are_closed_at_any_depth_and_the_draft_is_left_out() -> None:
    def opened(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {name: opened(part) for name, part in schema.items() if name != "additionalProperties"}
        return [opened(part) for part in schema] if isinstance(schema, list) else schema

    strict = closed(
        a=TEXT, b={"type": "array", "items": closed(c=TEXT)}, d={"anyOf": [closed(e=TEXT), {"type": "null"}]}
    )
    assert to_strict_schema({"$schema": "https://json-schema.org/draft/2020-12/schema", **opened(strict)}) == strict
    with_definitions = closed(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": closed(b=TEXT)}}
    assert to_strict_schema(opened(with_definitions)) == with_definitions


@pytest.mark.parametrize(
    "schema",
    [
        parse_short_form("a? int"),
        parse_short_form("a any"),
        parse_short_form("a object"),
        parse_short_form("a {b? int}"),
        parse_short_form("[string]"),
        {"type": "integer"},
        {"type": "object"},
        closed(a=TEXT) | {"additionalProperties": True},
        closed(a=TEXT) | {"additionalProperties": TEXT},
        closed(a=TEXT | {"minLength": 1}),
        closed(a={"oneOf": [TEXT]}),
        closed(a={"allOf": [TEXT]}),
        closed(a=True),
        closed(a={"type": "array"}) | {"required": []},
        closed(a={"type": "array", "items": {"properties": {"b": TEXT}}}),
        closed(a={"$ref": "#/$defs/A", "description": "d"}) | {"$defs": {"A": TEXT}},
    ],
)
def test_what_cannot_be_strict_has_no_strict_form(schema: dict[str, Any]) -> None:
    assert to_strict_schema(schema) is None


def requirements(schema: Any) -> None:
    """What OpenAI asks of every object in a schema: https://developers.openai.com/api/docs/guides/structured-outputs"""
    if isinstance(schema, dict):
        if "properties" in schema and isinstance(schema.get("type"), str | list):
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) == set(schema["properties"])
        for part in schema.values():
            requirements(part)
    elif isinstance(schema, list):
        for part in schema:
            requirements(part)


@given(objects(ONE))
def test_a_strict_form_meets_the_requirements(short: str) -> None:
    strict = to_strict_schema(parse_short_form(short))
    if strict is not None:
        Draft202012Validator.check_schema(strict)
        requirements(strict)
        assert strict == parse_short_form(short)
