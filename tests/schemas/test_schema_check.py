"""Schemas are checked and check values; problems are reported with their path, and nothing is fetched."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given

from ask.errors import UsageError
from ask.schemas.schema import JsonSchema, parse_schema
from ask.schemas.short_form import parse_short_form
from tests.json_strategies import any_json
from tests.model_server import ModelServer

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
PERSON = parse_schema(parse_short_form("name, age int, tags [string], born? date"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"name": "Ada", "age": 36, "tags": []}, ""),
        ({"name": "Ada", "age": 36, "tags": ["a"], "born": "1815-12-10"}, ""),
        ({"name": "Ada", "tags": []}, "$: 'age' is a required property"),
        (
            {"name": "Ada", "age": "36", "tags": [1]},
            "$.age: '36' is not of type 'integer'; $.tags[0]: 1 is not of type",
        ),
        ({"name": "Ada", "age": 36, "tags": [], "more": 1}, "('more' was unexpected)"),
        ({"name": "Ada", "age": 36, "tags": [], "born": "then"}, "$.born: 'then' is not a 'date'"),
        ([], "$: [] is not of type 'object'"),
        (None, "$: None is not of type 'object'"),
    ],
)
def test_problems_are_described_with_their_path(value: Any, problem: str) -> None:
    description = PERSON.describe_problems(value)
    assert problem in description
    assert bool(description) == bool(problem)


def test_problem_descriptions_are_one_short_line() -> None:
    description = PERSON.describe_problems(
        {"name": "\n\x1b[31m" * 1000, "age": "x" * 10_000, "tags": ["\n"] * 1000, "more": 1}
    )
    assert len(description.splitlines()) == 1
    assert "\x1b" not in description
    assert len(description) < 1000
    assert PERSON.describe_problems("\x1b") == "$: '\\x1b' is not of type 'object'"


@given(any_json())
def test_any_value_can_be_checked(value: Any) -> None:
    assert isinstance(PERSON.describe_problems(value), str)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_values_nested_too_deeply_are_invalid() -> None:
    deep = parse_schema({"type": "array", "items": {"$ref": "#"}})
    assert deep.describe_problems([[[]]]) == ""
    assert "too deep" in deep.describe_problems(nested(100_000))


def test_a_schema_that_only_refers_to_itself_accepts_no_value() -> None:
    assert "too deep" in parse_schema({"$ref": "#"}).describe_problems(1)


def test_a_reference_to_the_meta_schema_of_another_draft_is_valid() -> None:
    for draft in ("https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-04/schema#"):
        assert parse_schema({"$ref": draft}).describe_problems({"type": 5}), draft


@pytest.mark.slow
def test_references_into_nested_definitions_are_checked_once() -> None:
    nested: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        nested = {"type": "object", "properties": {"a": nested}}
    paths = ["#/$defs/nested" + "/properties/a" * depth for depth in range(60)]
    start = time.process_time()
    parse_schema({"$defs": {"nested": nested}, "type": "array", "prefixItems": [{"$ref": path} for path in paths]})
    assert time.process_time() - start < 1


def test_numbers_that_are_too_large_are_invalid() -> None:
    assert "too large" in parse_schema({"type": "number", "multipleOf": 0.5}).describe_problems(10**400)


def test_a_schema_is_found_in_the_objects_of_the_apis_of_openai_and_anthropic() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
    named: dict[str, Any] = {"name": "person", "strict": True, "schema": schema}
    unnamed: dict[str, Any] = {"type": "json_schema", "schema": schema}
    wrapped = ({"type": "json_schema", "json_schema": wrapper} for wrapper in (named, {"schema": schema}))
    for value in (named, {"type": "json_schema", **named}, unnamed, *wrapped):
        assert "not of type" in parse_schema(value).describe_problems(5)
        assert parse_schema(value).describe_problems({"name": "Ada"}) == ""
    assert "not of type" in parse_schema({**named, **schema}).describe_problems("a schema with unknown keywords")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "a JSON Schema must be an object"),
        (False, "nothing matches false"),
        ({"title": "Ada"}, "it does not constrain the answer"),
        ({"$schema": "https://example.com/mine", "type": "object"}, "unknown $schema"),
        ({"name": "Ada", "age": 36}, "it does not constrain the answer"),
        ({"type": "objekt"}, "$.type: 'objekt' is not valid"),
        (
            {"type": "object", "properties": {"a": {"type": "object", "required": "b"}}},
            "$.properties.a.required: 'b' is",
        ),
        ({"pattern": "("}, "$.pattern: not a regular expression that Python supports: '('"),
        ({"type": "array", "items": {"$ref": "#/$defs/none"}}, "'/$defs/none' does not exist in it"),
        ({"$ref": "#/more", "more": {"$ref": "#/none"}}, "'/none' does not exist in it"),
        ({"$ref": "#/more", "more": {"type": 5}}, "5 is not valid"),
        ({"$ref": "#/required", "required": ["a"]}, "is not of type 'object'"),
    ],
)
def test_invalid_schemas_are_reported_with_their_path(value: Any, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_schema(value)
    assert expected in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "draft",
    [
        "https://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft/2020-12/schema",
    ],
)
def test_the_url_of_a_draft_may_have_the_other_scheme(draft: str) -> None:
    schema = parse_schema({"$schema": draft, "type": "object", "required": ["a"]})
    assert schema.describe_problems({"a": 1}) == ""
    assert "'a' is a required" in schema.describe_problems({})


def test_nullable_of_openapi_is_the_type_null() -> None:
    colors = {"type": "string", "nullable": True, "enum": ["red"]}
    number = {"type": "integer", "nullable": True, "default": {"type": "string", "nullable": True}}
    schema = parse_schema({"properties": {"color": colors, "nullable": {"type": "array", "items": number}}})
    assert schema.describe_problems({"color": None, "nullable": [None, 1]}) == ""
    assert schema.describe_problems({"color": "blue"}) and schema.describe_problems({"nullable": ["1"]})
    assert schema.value["properties"]["color"] == {"type": ["string", "null"], "enum": ["red", None]}
    assert schema.value["properties"]["nullable"]["items"]["default"] == number["default"]


@pytest.mark.parametrize("keyword", ["properties", "$defs", "definitions"])
def test_a_field_with_the_name_of_a_keyword_may_be_nullable(keyword: str) -> None:
    field = {"type": "string", "nullable": True}
    schema = parse_schema({"type": "object", keyword: {"default": field, "enum": field}})
    assert schema.value[keyword]["default"] == schema.value[keyword]["enum"] == {"type": ["string", "null"]}


def test_remote_references_are_not_fetched(server: ModelServer) -> None:
    with pytest.raises(UsageError, match="does not exist in it"):
        parse_schema({"type": "object", "properties": {"a": {"$ref": f"{server.base_url}/schema.json"}}})
    assert not server.requests


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": DRAFT_7, "definitions": {"a": {"type": "integer"}}, "$ref": "#/definitions/a"},
        {"$defs": {"a": {"type": "integer"}}, "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]},
        {"$defs": {"a": {"$anchor": "one", "type": "integer"}}, "$ref": "#one"},
    ],
)
def test_references_work_in_several_drafts(schema: dict[str, Any]) -> None:
    assert parse_schema(schema).describe_problems(1) == ""
    assert parse_schema(schema).describe_problems("x")


def test_a_schema_is_not_checked_until_it_is_parsed() -> None:
    assert JsonSchema({"type": "integer"}).value == {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"minItems": 2}, [1, 2], [1]),
        ({"contains": {"const": 1}}, [1], [2]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"unevaluatedProperties": False, "properties": {"a": {}}}, {"a": 1}, {"b": 1}),
        ({"const": {"$ref": "#/nowhere"}}, {"$ref": "#/nowhere"}, {}),
        ({"enum": [{"$ref": "#/nowhere"}]}, {"$ref": "#/nowhere"}, {}),
        (
            {"$id": "https://example.com/a/", "$ref": "b"}
            | {"$defs": {"b": {"$id": "b", "$ref": "#/$defs/c", "$defs": {"c": {"type": "integer"}}}}},
            1,
            "x",
        ),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"minLength": 1}, {"minLength": -1}),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "a"}, {"$ref": 1}),
        ({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}, [1, [2]], [["a"]]),
    ],
)
def test_all_keywords_apply_and_refs_in_data_are_not_followed(schema: dict[str, Any], good: Any, bad: Any) -> None:
    assert parse_schema(schema).describe_problems(good) == ""
    assert parse_schema(schema).describe_problems(bad)


@pytest.mark.parametrize("schema", [True, {}])
def test_a_schema_that_allows_everything_accepts_any_value(schema: Any) -> None:
    assert parse_schema(schema).describe_problems([{"a": None}]) == ""


def test_formats_of_the_short_form_are_checked() -> None:
    event = parse_schema(parse_short_form("when datetime, link url, day? date, at? time, by? email"))
    good = {"when": "2026-11-22T10:00:00Z", "link": "https://example.com/a?b=c", "day": "2026-11-22"}
    assert event.describe_problems(good | {"at": "10:00:00Z", "by": "ada@example.com"}) == ""
    for wrong in ({"when": "tomorrow"}, {"link": "banana"}, {"day": "then"}, {"at": "noon"}, {"by": "ada"}):
        assert next(iter(wrong)) in event.describe_problems(good | wrong)
