"""Checks that a value has the type that a hook or another method of a plugin must return."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ask.plugin_api.types import Delta, StreamReader
from ask.text import format_one_line

MAX_VALUE_LENGTH = 60
"""The limit for a value in an error message, in characters."""


@cache
def get_return_type(method: Callable[..., Any]) -> Any:
    return typing.get_type_hints(method)["return"]


@cache
def get_field_types(value_type: Any) -> Mapping[str, Any]:
    """Return the types of the fields of a named tuple or delta; {} for any other type."""
    has_fields = hasattr(value_type, "_fields") or value_type in typing.get_args(Delta)
    return typing.get_type_hints(value_type) if has_fields else {}


def find_type_problem(value: Any, expected: Any) -> str:
    """Return what is wrong with the type of a value, its items or its fields; "" if nothing is."""
    if not (typing.get_origin(expected) is list and isinstance(value, list)):
        return find_item_problem(value, expected)
    (item_type,) = typing.get_args(expected)
    problems = (find_item_problem(item, item_type, "a list of ") for item in value)
    return next(filter(None, problems), "")


def find_item_problem(value: Any, expected: Any, prefix: str = "") -> str:
    if expected is StreamReader:
        members = (name for name in vars(StreamReader) if not name.startswith("_"))
        missing = next((name for name in members if not hasattr(value, name)), None)
        return f"returned an object of type {type(value).__name__} without {missing!r}" if missing else ""
    if not is_instance(value, expected):
        return f"must return {prefix}{describe_type(expected)}, not {describe(value)}"
    problem = find_field_problem(value)
    return f"returned a {type(value).__name__} whose {problem}" if problem else ""


def find_field_problem(value: Any) -> str:
    """Return which field of a value has the wrong type; "" if none has."""
    value_type: Any = type(value)
    for name, field_type in get_field_types(value_type).items():
        field = getattr(value, name)
        if not is_instance(field, field_type):
            return f"{name} is {describe(field)}, not {describe_type(field_type)}"
        if problem := find_field_problem(field):
            return f"{name}.{problem}"
    return ""


def is_instance(value: object, expected: Any) -> bool:
    """Check a value against a type hint; the items of containers are not checked."""
    origin = typing.get_origin(expected)
    if expected is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(is_instance(value, option) for option in typing.get_args(expected))
    if origin is typing.Literal:
        return value in typing.get_args(expected)
    return isinstance(value, (int, float) if expected is float else origin or expected)


def describe(value: object) -> str:
    """Describe a value for an error message."""
    return "None" if value is None else f"the {type(value).__name__} {format_one_line(repr(value), MAX_VALUE_LENGTH)}"


def describe_type(expected: Any) -> str:
    is_union = typing.get_origin(expected) in (typing.Union, types.UnionType)
    options = typing.get_args(expected) if is_union else (expected,)
    names = (getattr(typing.get_origin(option) or option, "__name__", str(option)) for option in options)
    return " or ".join(names).replace("NoneType", "None")
