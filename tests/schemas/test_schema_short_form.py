"""The short form of schemas: its expansion and its errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ask.errors import UsageError
from ask.schemas.short_form import TYPES, parse_short_form

TEXT = {"type": "string"}


def fields(required: Any = None, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties, all required by default."""
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def told(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


@pytest.mark.parametrize(
    ("short", "schema"),
    [
        (
            "name, age int, tags [string]",
            fields(name=TEXT, age={"type": "integer"}, tags={"type": "array", "items": TEXT}),
        ),
        ("name", fields(name=TEXT)),
        ("{name}", fields(name=TEXT)),
        ("  name ,\n\n age  int,  ", fields(name=TEXT, age={"type": "integer"})),
        ("a? int, b", fields(["b"], a={"type": "integer"}, b=TEXT)),
        ("a int|null", fields(a={"type": ["integer", "null"]})),
        ("a int | int", fields(a={"type": "integer"})),
        ("a any|int", fields(a={})),
        ("a 'S'|\"M\"", fields(a={"type": "string", "enum": ["S", "M"]})),
        ("a 'S'|null", fields(a={"anyOf": [{"type": "string", "enum": ["S"]}, {"type": "null"}]})),
        ("a date|null", fields(a={"anyOf": [TYPES["date"], {"type": "null"}]})),
        ("a {b, c {d bool}}", fields(a=fields(b=TEXT, c=fields(d={"type": "boolean"})))),
        ("[string]", {"type": "array", "items": TEXT}),
        ("[[float]]", {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
        ("[{name, age? int}]", {"type": "array", "items": fields(["name"], name=TEXT, age={"type": "integer"})}),
        ("a: the name, b int: in years", fields(a=told("the name"), b={"type": "integer", "description": "in years"})),
        ('a: "one, two\\" }"', fields(a=told('one, two" }'))),
        ("a {b: the b}: all of it", fields(a=fields(b=told("the b")) | {"description": "all of it"})),
        ("a:", fields(a=TEXT)),
        ('"first name", größe-2 float', fields(**{"first name": TEXT, "größe-2": {"type": "number"}})),
        ("string, int", fields(string=TEXT, int=TEXT)),
        ("a 1..5, b", fields(a={"type": "integer", "minimum": 1, "maximum": 5}, b=TEXT)),
        ("a -1 .. 1: mood", fields(a={"type": "integer", "minimum": -1, "maximum": 1, "description": "mood"})),
        ("[0..100]", {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 100}}),
        ("a 1..2|null", fields(a={"anyOf": [{"type": "integer", "minimum": 1, "maximum": 2}, {"type": "null"}]})),
    ],
)
def test_short_forms_expand_to_schemas(short: str, schema: dict[str, Any]) -> None:
    assert parse_short_form(short) == schema


@pytest.mark.parametrize(
    ("short", "told"),
    [
        ("age itn", ["'itn'", "character 5", "did you mean int?"]),
        ("score int 1..5", ["character 11", "score 1..5"]),
        ("kind bug|order", ["'bug'", "character 6", '"bug"|"order"']),
        ("kind: bug | new order", ["character 7", '"bug"|"new order"']),
        ("kind enum", ["'enum'", '"a"|"b"']),
        ("age colour", ["'colour'", "character 5", "string,"]),
        ("a,\nb strng", ["'strng'", "line 2, character 3", "did you mean string?"]),
        ("a, b, a", ["'a'", "character 8"]),
        ("a int b", ["'b'", "character 7"]),
        ("a int?", ["?", "character 6"]),
        ("", ["character 1"]),
        ("a {}", ["character 4"]),
        ("a []", ["character 4"]),
        ("[string", ["]", "character 8"]),
        ("{a", ["}", "character 3"]),
        ("a [b, c]", ["'b'"]),
        ("a}", ["'}'", "character 2"]),
        ("[string] b", ["'b'", "character 10"]),
        ("5", ["'5'", "character 1"]),
        ("a 5", ["'5'", "character 3"]),
        ("a 5..1", ["5..1", "character 7"]),
        ("a 1..1", ["1..1", "character 7"]),
        ("a 1..2.5", ["'1..2.5'", "character 3"]),
        ("a 1...5", ["'1...5'", "character 3"]),
        ("a 'x", ["quote", "character 3"]),
        ("a |int", ["'|int'"]),
        ("a " + "[" * 100, ["too deep"]),
    ],
)
def test_errors_name_their_position(short: str, told: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_short_form(short)
    assert all(text in str(caught.value) for text in told)
    assert str(caught.value).startswith("--schema: ")


NAMES = st.from_regex(r"[a-zA-Zäé_][\w-]{0,8}", fullmatch=True)
DESCRIPTIONS = st.from_regex(r"([a-zA-Z][a-zA-Z .?:'\[\]{-]{0,20})?", fullmatch=True)


def lists(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return inner.map(lambda text: f"[ {text}]")


def objects(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Generate the fields of an object, without the braces."""
    field = st.tuples(st.sampled_from(["", "?"]), st.one_of(st.just(""), types.map(" {}".format)), DESCRIPTIONS)
    return st.dictionaries(NAMES, field, min_size=1, max_size=4).map(
        lambda made: ", ".join(f"{name}{mark}{kind}: {told}" for name, (mark, kind, told) in made.items())
    )


ONE = st.recursive(
    st.sampled_from([*TYPES, '"a text"', "'it\\'s'", "1..5", "-2 .. +2"]),
    lambda inner: st.one_of(
        lists(inner),
        objects(inner).map("{{{}}}".format),
        st.lists(inner, min_size=2, max_size=3).map(" | ".join),
    ),
    max_leaves=8,
)


@given(st.one_of(objects(ONE), lists(ONE)))
def test_any_short_form_is_a_valid_schema(short: str) -> None:
    Draft202012Validator.check_schema(parse_short_form(short))


@given(st.text(alphabet="ab?:|,{}[]'\" \n\\int", max_size=20))
def test_any_text_is_a_schema_or_an_error(text: str) -> None:
    try:
        schema = parse_short_form(text)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1
    else:
        Draft202012Validator.check_schema(schema)
        json.dumps(schema)
