"""`ask.config.type_checks`: values are checked against type hints, and an error says where the wrong one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.config.type_checks import (
    WrongTypeError,
    check_value,
    describe_expected,
    describe_type,
    format_path,
    parse_value,
)
from ask.records import Constraint, NamedTuple
from tests.json_strategies import any_json


class Color(StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: float
    y: float = 0
    label: str | None = None


class Options(TypedDict, total=False):
    color: Color
    sizes: tuple[int, ...]


class Drawing(NamedTuple):
    points: tuple[Point, ...]
    options: Options = Options()
    names: Mapping[str, str] = {}
    data: bytes = b""
    file: Path = Path()
    kind: Literal["line", "area"] = "line"
    tools: Annotated[bool | tuple[str, ...], Constraint("true, false or names")] = True
    even: Annotated[int, Constraint("an even number", lambda number: number % 2 == 0)] = 0
    rest: Mapping[str, Any] = {}
    pair: tuple[str, int | None] = ("", 0)


def test_data_becomes_a_record_with_the_defaults_of_missing_fields() -> None:
    data = {
        "points": [{"x": 1}, {"x": 2.5, "label": "b"}],
        "options": {"color": "red", "sizes": [1, 2]},
        "data": "aGk=",
        "file": "/tmp",
        "tools": ["a"],
        "rest": {"any": [None]},
        "pair": ["a", None],
    }
    drawing = parse_value(data, Drawing)
    assert drawing == Drawing(
        (Point(1.0), Point(2.5, label="b")),
        {"color": Color.RED, "sizes": (1, 2)},
        data=b"hi",
        file=Path("/tmp"),
        tools=("a",),
        rest={"any": [None]},
        pair=("a", None),
    )
    assert isinstance(drawing.points[0].x, float)
    check_value(drawing.points, tuple[Point, ...])


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"points": "x"}, "points", "must be a list of tables"),
        ({"points": [{"x": 1}, {}]}, "points[1].x", "is missing"),
        ({"points": [{"x": True}]}, "points[0].x", "must be a number"),
        ({"points": [{"x": float("nan")}]}, "points[0].x", "must be a number"),
        ({"points": [{"x": 10**400}]}, "points[0].x", "must be a number"),
        ({"points": [{"x": 1, "label": 2}]}, "points[0].label", "must be a string"),
        ({"options": {"sizes": [1, 2**63]}}, "options.sizes[1]", "must be a whole number"),
        ({"options": {"color": "blue"}}, "options.color", "must be one of red"),
        ({"names": {"a": 1}}, "names.a", "must be a string"),
        ({"names": []}, "names", "must be a table of strings"),
        ({"data": "%"}, "data", "must be base64"),
        ({"kind": "dot"}, "kind", "must be one of line, area"),
        ({"kind": []}, "kind", "must be one of line, area"),
        ({"tools": 1}, "tools", "must be true, false or names"),
        ({"tools": ["a", 1]}, "tools[1]", "must be a string"),
        ({"even": 1}, "even", "must be an even number"),
        ({"pair": ["a"]}, "pair", "must be a list of 2 items"),
        ({"pair": ["a", None, None]}, "pair", "must be a list of 2 items"),
        ({"pair": [None, None]}, "pair[0]", "must be a string"),
        ({"even": "2"}, "even", "must be an even number"),
    ],
)
def test_an_error_has_the_path_of_the_wrong_value(changes: dict[str, Any], path: str, problem: str) -> None:
    with pytest.raises(WrongTypeError) as caught:
        parse_value({"points": [], **changes}, Drawing)
    assert (format_path(caught.value.path), caught.value.problem) == (path, problem)
    assert str(caught.value) == f"{path} {problem}"


def test_unknown_keys_are_reported_with_their_paths() -> None:
    paths: list[str] = []
    data = {"points": [{"x": 1, "z": 1}], "options": {"shape": 1}, "more": 1, "rest": {"free": 1}}
    parse_value(
        data, Drawing, ("drawing",), lambda path, record: paths.append(f"{record.__name__} {format_path(path)}")
    )
    assert sorted(paths) == ["Drawing drawing.more", "Options drawing.options.shape", "Point drawing.points[0].z"]


@given(any_json())
def test_any_data_is_converted_or_refused(data: Any) -> None:
    for expected in (Drawing, Point, Options, Mapping[str, Drawing], tuple[Point, ...] | None, Color, bytes):
        try:
            parsed: Any = parse_value(data, expected)  # type: ignore[arg-type]
        except WrongTypeError:
            continue
        if expected is Point:
            check_value(parsed, expected)


@given(st.integers() | st.floats())
def test_numbers_keep_their_value(number: float) -> None:
    for expected in (int, float):
        try:
            assert parse_value(number, expected) == expected(number)
        except WrongTypeError:
            assert isinstance(number, float) or abs(number) >= 2**63


@pytest.mark.parametrize(
    ("value", "expected", "path"),
    [
        ([Point(1), Point("1")], list[Point], "[1].x"),  # type: ignore[arg-type]
        ([Point(1), None], list[Point], "[1]"),
        (Point(1, label=b"x"), Point | None, "label"),  # type: ignore[arg-type]
        ("text", Sequence[str], ""),
        (("a", 1), Sequence[str], "[1]"),
        ({"a": 1}, Mapping[str, str], "a"),
        (("a",), tuple[str, int], ""),
        (("a", "b"), tuple[str, int], "[1]"),
        ({"x": 1}, Point, ""),
    ],
)
def test_objects_are_checked_with_their_items_and_fields(value: Any, expected: Any, path: str) -> None:
    with pytest.raises(WrongTypeError) as caught:
        check_value(value, expected)
    assert format_path(caught.value.path) == path


@pytest.mark.parametrize(
    ("expected", "description"),
    [
        (list[str], "a list of strings"),
        (list[Mapping[str, Any] | str], "a list of tables or strings"),
        (Sequence[Mapping[str, int]], "a list of tables"),
        (Mapping[str, Any], "a table"),
        (Mapping[str, Mapping[str, Any]], "a table of tables"),
        (tuple[bool, ...], "a list"),
        (str | int | None, "a string or a whole number"),
        (Literal["a", "b", ""], "one of a, b"),
    ],
)
def test_types_are_described_in_words(expected: Any, description: str) -> None:
    assert describe_expected(expected) == description


def test_types_are_described_as_in_python_to_authors_of_plugins() -> None:
    expected = {str | None: "str or None", Literal["sse", "ndjson"]: "'sse' or 'ndjson'", Mapping[str, int]: "Mapping"}
    assert {kind: describe_type(kind) for kind in expected} == expected
