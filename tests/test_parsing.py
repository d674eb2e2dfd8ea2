"""JSON values of any shape are read as a given type, or as its empty value."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from ask.parsing import format_unknown_reason, read_dict, read_int, read_list, read_number, read_str
from tests.json_strategies import any_json


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ([{"type": "text", "text": "one "}, {"type": "image"}, {"text": "two"}], "one two"),
        (["plain", {"text": None}], ""),
        (None, ""),
        (7, ""),
        ({"text": "alone"}, ""),
    ],
)
def test_text_can_be_given_as_a_string_or_as_parts(value: Any, text: str) -> None:
    assert read_str(value) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7, 7),
        (0.5, 0.5),
        ("0.25", 0.25),
        (" 7 ", 7),
        (True, None),
        ("seven", None),
        ("", None),
        ("nan", None),
        (math.inf, None),
        (10**400, None),
        (None, None),
        ([7], None),
    ],
)
def test_a_number_can_be_given_as_a_string_and_must_be_finite(value: Any, number: float | None) -> None:
    assert read_number(value) == number


@pytest.mark.parametrize(("value", "number"), [(7, 7), (7.0, 7), ("7", 7), (10**400, None), (False, None), ("x", None)])
def test_an_integer_can_be_given_as_a_float_or_string(value: Any, number: int | None) -> None:
    assert read_int(value) == number
    assert type(read_int(value)) in (int, type(None))


@given(any_json())
def test_any_value_can_be_read_as_each_type(value: Any) -> None:
    assert isinstance(read_dict(value), dict)
    assert isinstance(read_list(value), list)
    assert isinstance(read_str(value), str)
    number = read_number(value)
    assert number is None or math.isfinite(number)


@pytest.mark.parametrize(
    ("reason", "named"),
    [
        *(("stop", False), ("STOP", False), ("end_turn", False), ("eosFound", False), ("tool_calls", False)),
        *(("", False), (None, False), (7, False), ("length", False), ("melted", True), ("stop_it", True)),
    ],
)
def test_a_finish_reason_that_is_neither_known_nor_success_is_named(reason: Any, named: bool) -> None:
    assert (repr(reason) in format_unknown_reason(reason, ["length"])) == named
