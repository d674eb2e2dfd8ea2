"""Conversion of schemas to OpenAI's strict form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from ask.plugin_api.strict_schema import to_strict_schema
from ask.schemas.short_form import parse_short_form
from tests.schemas.test_schema_short_form import ONE, objects

TEXT = {"type": "string"}


def make_strict_object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "short_form", ["name, age int|null, tags [string]", "a {b 'x'|null, c [{d float: how far}]}: all"]
)
def test_schema_with_all_properties_required_is_already_strict(short_form: str) -> None:
    assert to_strict_schema(parse_short_form(short_form)) == parse_short_form(short_form)


def test_objects_are_closed_at_any_depth_and_the_draft_is_removed() -> None:
    def remove_closing_keywords(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {
                name: remove_closing_keywords(value) for name, value in schema.items() if name != "additionalProperties"
            }
        return [remove_closing_keywords(value) for value in schema] if isinstance(schema, list) else schema

    strict = make_strict_object(
        a=TEXT,
        b={"type": "array", "items": make_strict_object(c=TEXT)},
        d={"anyOf": [make_strict_object(e=TEXT), {"type": "null"}]},
    )
    assert (
        to_strict_schema({"$schema": "https://json-schema.org/draft/2020-12/schema", **remove_closing_keywords(strict)})
        == strict
    )
    with_definitions = make_strict_object(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": make_strict_object(b=TEXT)}}
    assert to_strict_schema(remove_closing_keywords(with_definitions)) == with_definitions


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
        make_strict_object(a=TEXT) | {"additionalProperties": True},
        make_strict_object(a=TEXT) | {"additionalProperties": TEXT},
        make_strict_object(a=TEXT | {"minLength": 1}),
        make_strict_object(a={"oneOf": [TEXT]}),
        make_strict_object(a={"allOf": [TEXT]}),
        make_strict_object(a=True),
        make_strict_object(a={"type": "array"}) | {"required": []},
        make_strict_object(a={"type": "array", "items": {"properties": {"b": TEXT}}}),
        make_strict_object(a={"$ref": "#/$defs/A", "description": "d"}) | {"$defs": {"A": TEXT}},
    ],
)
def test_unsupported_schema_has_no_strict_form(schema: dict[str, Any]) -> None:
    assert to_strict_schema(schema) is None


def check_requirements(schema: Any) -> None:
    """Check OpenAI's requirements for objects in a strict schema.

    https://developers.openai.com/api/docs/guides/structured-outputs
    """
    if isinstance(schema, dict):
        if "properties" in schema and isinstance(schema.get("type"), str | list):
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) == set(schema["properties"])
        for value in schema.values():
            check_requirements(value)
    elif isinstance(schema, list):
        for value in schema:
            check_requirements(value)


@given(objects(ONE))
def test_strict_form_meets_the_requirements(short_form: str) -> None:
    strict = to_strict_schema(parse_short_form(short_form))
    if strict is not None:
        Draft202012Validator.check_schema(strict)
        check_requirements(strict)
        assert strict == parse_short_form(short_form)


def test_the_order_of_an_enum_is_left_out() -> None:
    level = {"type": "string", "enum": ["low", "high"]}
    assert to_strict_schema(make_strict_object(level=level | {"ordered": True})) == make_strict_object(level=level)
    assert to_strict_schema(make_strict_object(ordered=TEXT)) == make_strict_object(ordered=TEXT)
