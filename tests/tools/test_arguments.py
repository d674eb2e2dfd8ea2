from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.messages import ToolSpec
from ask.tools.arguments import parse_arguments
from ask.tools.base import ToolError
from tests.program import run

SPEC = ToolSpec(
    "pick",
    "",
    {
        "type": "object",
        "properties": {
            "filepath": {"type": "string"},
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "deep": {"type": "boolean"},
            "kind": {"enum": ["one", "two", 3]},
            "maybe": {"type": ["string", "null"]},
            "box": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
            "items": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["filepath"],
        "additionalProperties": False,
    },
)
LOOSE = ToolSpec("loose", "", {"type": "object", "properties": {"a": {"type": "integer"}}})


def fit(**arguments: Any) -> dict[str, Any]:
    return parse_arguments(SPEC, json.dumps({"filepath": "x", **arguments}))


def refusal(text: str, spec: ToolSpec = SPEC) -> str:
    with pytest.raises(ToolError) as caught:
        parse_arguments(spec, text)
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "  \n", "{}", '""'])
def test_empty_text_is_an_empty_object(text: str) -> None:
    assert parse_arguments(LOOSE, text) == {}


def test_valid_arguments_are_unchanged() -> None:
    whole = {"count": 2, "share": 0.5, "deep": True, "kind": 3, "box": {"size": 1}, "items": ["a", "b"]}
    assert fit(**whole) == {"filepath": "x", **whole}


@pytest.mark.parametrize("text", ['{}{"a": 1}', '{"a": 1} {"a": 1}\n', '{"a": 1}"{\\"a\\": 1}"', '{"a": 1}{}{"a":1}'])
def test_repetitions_and_empty_objects_are_left_out(text: str) -> None:
    assert parse_arguments(LOOSE, text) == {"a": 1}


def test_null_for_an_optional_parameter_is_left_out() -> None:
    assert fit(count=None, kind=None) == {"filepath": "x"}


def test_arguments_after_an_omitted_null_are_kept() -> None:
    arguments = '{"count": null, "filepath": "x", "share": 0.5}'
    assert parse_arguments(SPEC, arguments) == {"filepath": "x", "share": 0.5}


def test_null_is_kept_if_the_schema_allows_it() -> None:
    assert fit(maybe=None) == {"filepath": "x", "maybe": None}


def test_integral_float_becomes_an_integer() -> None:
    fitted = fit(count=5.0, share=5.0)
    assert fitted["count"] == 5
    assert isinstance(fitted["count"], int)
    assert isinstance(fitted["share"], float)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"filepath": "a"', "not JSON: Expecting ',' delimiter at the end (16 characters)"),
        ('{"filepath": "a"}{"filepath": "b"}', "continue after the end of the first JSON value, at character 18"),
        ('{"filepath": "a"} oops', "continue after the end"),
        ('["a"]', "must be a JSON object, not array"),
        ("null", "missing 'filepath'"),
        ('{"count": NaN}', "not JSON: NaN"),
        ('{"count": ' + "9" * 5000 + "}", "not JSON: an integer has more than 4,300 digits"),
        ('{"count": 1}', "missing 'filepath'"),
        ('{"filepath": null}', "'filepath' must be string, not null"),
        ('{"filepath": 7}', "'filepath' must be string, not integer"),
        ('{"filepath": "a", "count": true}', "'count' must be integer, not boolean"),
        ('{"filepath": "a", "count": 5.5}', "'count' must be integer, not number"),
        ('{"filepath": "a", "count": "five"}', "'count' must be integer, not string"),
        ('{"filepath": "a", "deep": 1}', "'deep' must be boolean, not integer"),
        ('{"filepath": "a", "maybe": 1}', "'maybe' must be string or null, not integer"),
        ('{"filepath": "a", "kind": "four"}', '\'kind\' must be one of ["one", "two", 3]'),
        ('{"filepath": "a", "box": {}}', "missing 'box.size'"),
        ('{"filepath": "a", "box": {"size": "x"}}', "'box.size' must be integer, not string"),
        ('{"file_path": "a"}', "unknown name, 'file_path'"),
        ('{"file_path": "a"}', "did you mean 'filepath'?). You wrote: "),
    ],
)
def test_invalid_arguments_are_described_and_quoted(text: str, what: str) -> None:
    message = refusal(text)
    assert what in message
    assert "arguments of pick" in message
    assert text[:200] in message


def test_missing_argument_is_named_for_empty_arguments() -> None:
    assert refusal("").endswith("pick are missing 'filepath'")


def test_only_the_start_of_long_arguments_is_quoted() -> None:
    assert len(refusal('{"content": "' + "x" * 100_000)) < 400


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in refusal('{"a":' * 100_000)
    assert "nested too deeply" in refusal('{"a":' * 900 + "1" + "}" * 900, ToolSpec("t", "", {"type": "object"}))


def test_enum_distinguishes_true_from_one() -> None:
    spec = ToolSpec("t", "", {"properties": {"a": {"enum": [1]}}})
    assert "one of [1]" in refusal('{"a": true}', spec)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {"b": {}}, "additionalProperties": True},
        {"properties": {"b": {}}, "patternProperties": {"^a": {}}},
        {"properties": {"b": {}}, "anyOf": [{"properties": {"a": {}}}]},
        {"properties": {"a": True}},
        {"properties": {"a": {"type": "date"}}},
        {"properties": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"type": "integer", "required": True, "minimum": 1}}},
        {"properties": {"a": True}, "patternProperties": {"(?<year>": {}}},
        {"properties": {"a": {"minimum": "nine"}}},
    ],
)
def test_missing_or_open_schema_accepts_everything(schema: dict[str, Any]) -> None:
    assert parse_arguments(ToolSpec("t", "", schema), '{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("part", "good", "bad", "expected"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1], ["a"], "$.a[0]: 'a' is not of type 'integer'"),
        ({"type": "integer", "minimum": 9}, 9, 5, "$.a: 5 is less than the minimum of 9"),
        ({"type": "string", "maxLength": 2}, "ab", "abc", "$.a: 'abc' is too long"),
        ({"type": "string", "pattern": "^x"}, "xy", "y", "$.a: 'y' does not match '^x'"),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, True, "x", "is not valid under any"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": 1}, {"k": "x"}, "$.a.k: 'x' is not"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"k": "v"}, {"k": 1}, "$.a.k: 1 is not"),
        ({"const": 5}, 5, 6, "$.a: 5 was expected"),
        ({"type": "object", "properties": {"n": {"maximum": 3}}}, {"n": 3}, {"n": 4}, "$.a.n: 4 is greater"),
        ({"$ref": "#/$defs/word"}, "w", 7, "$.a: 7 is not of type 'string'"),
        ({"type": "array", "uniqueItems": True}, [1, 2], [1, 1], "$.a: [1, 1] has non-unique elements"),
    ],
)
def test_keywords_beyond_types_are_checked(part: dict[str, Any], good: object, bad: object, expected: str) -> None:
    spec = ToolSpec("t", "", {"type": "object", "properties": {"a": part}, "$defs": {"word": {"type": "string"}}})
    assert parse_arguments(spec, json.dumps({"a": good})) == {"a": good}
    assert expected in refusal(json.dumps({"a": bad}), spec)


@pytest.mark.parametrize(
    "part", [{"anyOf": [{"type": "array"}, {"type": "null"}]}, {"enum": ["a", None]}, {"type": ["string", "null"]}]
)
def test_null_is_kept_wherever_the_schema_allows_it(part: dict[str, Any]) -> None:
    assert parse_arguments(ToolSpec("t", "", {"properties": {"a": part}}), '{"a": null}') == {"a": None}


def test_simple_schema_does_not_import_jsonschema() -> None:
    code = "import sys, json; from ask.messages import ToolSpec; from ask.tools.arguments import parse_arguments\n"
    code += "parse_arguments(ToolSpec('t', '', json.loads(sys.argv[1])), '{\"a\": [1]}')\n"
    code += "print('jsonschema' in sys.modules)"

    def loads(part: dict[str, Any]) -> str:
        return run([sys.executable, "-c", code, json.dumps({"properties": {"a": part}})]).text

    assert loads({"type": "array", "description": "numbers"}) == "False\n"
    assert loads({"type": "array", "items": {"type": "integer"}}) == "True\n"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text())
def test_any_text_is_parsed_or_raises_a_tool_error(text: str) -> None:
    try:
        assert isinstance(parse_arguments(LOOSE, text), dict)
    except ToolError as error:
        assert "arguments of loose" in str(error)


@given(st.dictionaries(st.sampled_from(sorted(SPEC.parameters["properties"])), anything))
def test_accepted_arguments_match_the_schema(arguments: dict[str, Any]) -> None:
    try:
        fitted = parse_arguments(SPEC, json.dumps(arguments))
    except ToolError:
        return
    assert isinstance(fitted["filepath"], str)
    assert type(fitted.get("count", 0)) is int
    assert type(fitted.get("share", 0)) in (int, float)
    assert fitted.get("kind", 3) in ("one", "two", 3)
    assert all(fitted[name] == arguments[name] for name in fitted)


@given(st.dictionaries(st.text(), anything))
def test_schema_without_properties_accepts_everything(arguments: dict[str, Any]) -> None:
    assert parse_arguments(ToolSpec("t", "", {}), json.dumps(arguments)) == arguments


def test_null_in_an_open_object_is_kept() -> None:
    spec = ToolSpec("t", "", {"properties": {"body": {"type": "object"}, "left": {"type": "string"}}})
    assert parse_arguments(spec, '{"body": {"a": null}, "left": null}') == {"body": {"a": None}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {}, "properties": {"b": {}}},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}},
        {"type": "object", "properties": {"b": {}}, "propertyNames": {"maxLength": 1}},
        {"type": "object", "properties": {"b": {}}, "dependentSchemas": {"a": {"required": ["a"]}}},
        {"type": "object", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
    ],
)
def test_schema_is_open_unless_additional_properties_is_false(schema: dict[str, Any]) -> None:
    assert parse_arguments(ToolSpec("t", "", schema), '{"a": {"x": 1}}') == {"a": {"x": 1}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"b": {}}, "additionalProperties": False},
        {"type": "object", "properties": {"b": {}}, "propertyNames": {"maxLength": 0}},
        {"type": "object", "properties": {"b": {}}, "dependentSchemas": {"a": {"required": ["b"]}}},
        {"type": "object", "properties": {"b": {}}, "dependentRequired": {"a": ["b"]}},
        {"type": "object", "allOf": [{"properties": {"b": {}}}], "unevaluatedProperties": False},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "patternProperties": {"^b": {}}, "additionalProperties": False},
    ],
)
def test_a_name_that_a_schema_forbids_is_refused(schema: dict[str, Any]) -> None:
    assert "a" in refusal('{"a": 1}', ToolSpec("t", "", schema))


@pytest.mark.parametrize(
    "part",
    [
        {"description": "any JSON value"},
        True,
        {"$ref": "#/$defs/maybe"},
        {"allOf": [{"$ref": "#/$defs/maybe"}, {"maxLength": 3}]},
        {"const": None},
        {"type": "string", "nullable": True},
        {"allOf": [{"$ref": "#/$defs/word"}], "nullable": True},
        {"enum": ["a", None]},
        {"not": {"type": "string"}},
    ],
)
def test_null_is_kept_unless_the_schema_forbids_it(part: Any) -> None:
    defs = {"maybe": {"type": ["string", "null"]}, "word": {"type": "string"}}
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "value": part}, "$defs": defs}
    given = {"id": 1, "value": None}
    assert parse_arguments(ToolSpec("t", "", schema), json.dumps(given)) == given


@pytest.mark.parametrize(
    "part",
    [{"type": "string", "maxLength": 3}, {"$ref": "#/$defs/word"}, {"const": 1}, {"not": {"type": "null"}}, False],
)
def test_forbidden_null_is_dropped_if_optional(part: Any) -> None:
    schema = {"type": "object", "properties": {"value": part}, "$defs": {"word": {"type": "string"}}}
    assert parse_arguments(ToolSpec("t", "", schema), '{"value": null}') == {}
    assert "value" in refusal('{"value": null}', ToolSpec("t", "", schema | {"required": ["value"]}))


DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"$schema": DRAFT_7, "properties": {"a": {"items": [{"type": "string"}], "additionalItems": False}}},
            {"a": ["x"]},
            {"a": ["x", "y"]},
        ),
        ({"properties": {"a": {"pattern": r"^\p{L}+$", "maxLength": 3}}}, {"a": "Üb"}, {"a": "Übel"}),
        ({"properties": {"a": {"default": {"$ref": "#/nowhere"}, "minimum": 3}}}, {"a": 3}, {"a": 2}),
        ({"properties": {"a": {"$ref": "#/nowhere", "minimum": 3}}}, {"a": 3}, {"a": 2}),
        ({"properties": {"a": {"$ref": "https://example.com/x.json", "minimum": 3}}}, {"a": 3}, {"a": 2}),
        ({"properties": {"a": {"items": [{"type": "string"}], "minItems": 2}}}, {"a": [1, 2]}, {"a": [1]}),
        ({"properties": {"a": {"type": ["date"], "minLength": 2}}}, {"a": "ab"}, {"a": "a"}),
        (
            {"properties": {"a": {"$ref": "#/$defs/endless"}, "b": {"minimum": 3}}}
            | {"$defs": {"endless": {"$ref": "#/$defs/endless"}}},
            {"a": 1, "b": 3},
            {"a": 1, "b": 2},
        ),
        (
            {"$schema": DRAFT_7, "properties": {"a": {"$ref": "#/definitions/n", "type": "string"}}}
            | {"definitions": {"n": {"type": "integer"}}},
            {"a": 1},
            {"a": "x"},
        ),
        (
            {"$id": "https://example.com/root", "properties": {"a": {"$ref": "part#n"}}}
            | {"$defs": {"p": {"$id": "part", "$defs": {"n": {"$anchor": "n", "type": "integer"}}}}},
            {"a": 1},
            {"a": "x"},
        ),
        ({"properties": {"a": {"maximum": 100, "exclusiveMaximum": True}}}, {"a": 50}, {"a": 101}),
        ({"properties": {"a": {"minimum": 0, "exclusiveMinimum": False}}}, {"a": 0}, {"a": -1}),
    ],
    ids=[
        *("tuple", "pattern", "default", "nowhere", "remote", "old tuple", "type", "endless", "old ref", "ids"),
        *("old exclusive bound", "old inclusive bound"),
    ],
)
def test_only_unsupported_keywords_are_ignored(schema: Any, good: Any, bad: Any) -> None:
    spec = ToolSpec("t", "", schema)
    assert parse_arguments(spec, json.dumps(good)) == good
    assert "do not match" in refusal(json.dumps(bad), spec)


def test_format_is_not_checked() -> None:
    date = {"type": "string", "format": "date", "description": "as MM/DD/YYYY", "maxLength": 10}
    spec = ToolSpec("t", "", {"type": "object", "properties": {"day": date}})
    assert parse_arguments(spec, '{"day": "12/31/2026"}') == {"day": "12/31/2026"}
