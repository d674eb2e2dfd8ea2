"""Type hints to schemas, and matching arguments to Python values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.messages import ToolSpec
from ask.tools.arguments import parse_arguments
from ask.tools.plugins.type_hints import ToolDefinitionError, make_type_adapter


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: Annotated[float, "upwards"] = 0.0
    tags: list[str] = field(default_factory=list, hash=False)
    seen: bool = field(default=False, init=False)


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class Pair(NamedTuple):
    left: str
    right: Colour = Colour.RED


Name = NewType("Name", str)


@dataclass
class Loop:
    inner: Loop | None = None


SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (Path, {"type": "string"}),
    (Name, {"type": "string"}),
    (Any, {}),
    (list, {"type": "array", "items": {}}),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (tuple[int, int], {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
    (dict, {"type": "object"}),
    (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
    (dict[str, Any], {"type": "object", "additionalProperties": True}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}),
    (Colour, {"type": "string", "enum": ["red", "blue"]}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (int | str, {"type": ["integer", "string"]}),
    (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045 - as many still write it
    (list[int] | None, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
    (int | Any, {}),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (
        Point,
        {
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "y": {"type": "number", "description": "upwards", "default": 0.0},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["x"],
            "additionalProperties": False,
        },
    ),
    (
        Options,
        {
            "type": "object",
            "properties": {"deep": {"type": "boolean"}, "limit": {"type": "integer"}},
            "required": ["deep"],
            "additionalProperties": False,
        },
    ),
    (
        Pair,
        {
            "type": "object",
            "properties": {
                "left": {"type": "string"},
                "right": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            },
            "required": ["left"],
            "additionalProperties": False,
        },
    ),
]


@pytest.mark.parametrize(("hint", "schema"), SCHEMAS, ids=[str(hint) for hint, _ in SCHEMAS])
def test_a_hint_has_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert make_type_adapter(hint).schema == schema


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (bytes, "bytes has no JSON Schema"),
        (list[bytes], "bytes has no JSON Schema"),
        (dict[int, str], "keys that are not str"),
        (tuple[int, str], "use a dataclass"),
        (Loop, "Loop refers to itself"),
        (Literal[b"x"], "values that JSON cannot represent"),
        (object(), "has no JSON Schema"),
        ([int], "has no JSON Schema"),
        (Path | bytes, "bytes has no JSON Schema"),
    ],
)
def test_hint_without_a_schema_is_refused(hint: Any, expected: str) -> None:
    with pytest.raises(ToolDefinitionError, match=expected):
        make_type_adapter(hint)


def test_unsupported_field_of_an_object_is_named() -> None:
    class Inner(NamedTuple):
        data: bytes

    Inner.__annotations__ = {"data": bytes}
    with pytest.raises(ToolDefinitionError, match="the parameter data: bytes"):
        make_type_adapter(Inner)


# A value of each hint survives a round trip through JSON and validation.

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
points = st.builds(Point, x=st.integers(), y=numbers, tags=st.lists(st.text(), max_size=2))
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text()),
    (int, st.integers()),
    (float, numbers),
    (bool, st.booleans()),
    (Path, st.text(alphabet="abc/", min_size=1).map(Path)),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Literal["a", "b"], st.sampled_from("ab")),
    (Any, json_values.filter(lambda value: value is not None)),
    (Point, points),
    (Pair, st.builds(Pair, st.text(), st.sampled_from(Colour))),
    (Options, st.fixed_dictionaries({"deep": st.booleans()}, optional={"limit": st.integers()})),
    (int | str, st.integers() | st.text()),
    (str | None, st.none() | st.text()),
    (Path | int, st.integers()),
    (Point | list[Level], points | st.lists(st.sampled_from(Level))),
]


def make_containers(pair: tuple[Any, st.SearchStrategy[Any]]) -> list[tuple[Any, st.SearchStrategy[Any]]]:
    hint, values = pair
    return [
        (list[hint], st.lists(values, max_size=3)),  # type: ignore[valid-type]
        (tuple[hint, ...], st.lists(values, max_size=3).map(tuple)),  # type: ignore[valid-type]
        (dict[str, hint], st.dictionaries(st.text(), values, max_size=3)),  # type: ignore[valid-type]
        (Annotated[hint, "a note"], values),
    ]


HINTS = [*LEAVES, *(nested for leaf in LEAVES for nested in make_containers(leaf))]


def to_arguments(value: Any) -> Any:
    """Serialize a value as a model would write it."""
    if isinstance(value, Point):
        return {"x": value.x, "y": value.y, "tags": value.tags}
    if isinstance(value, Pair):
        return {"left": value.left, "right": value.right.value}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {name: to_arguments(part) for name, part in value.items()}
    return [to_arguments(part) for part in value] if isinstance(value, list | tuple) else value


@given(st.data())
def test_value_round_trips_through_json(data: st.DataObject) -> None:
    hint, values = data.draw(st.sampled_from(HINTS))
    value = data.draw(values)
    shape = make_type_adapter(hint)
    spec = ToolSpec("t", "", {"type": "object", "properties": {"value": shape.schema}, "required": ["value"]})
    arguments = parse_arguments(spec, json.dumps({"value": to_arguments(value)}))
    back = shape.convert(arguments["value"])
    assert back == value
    assert type(back) is type(value)
