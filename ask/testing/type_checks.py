"""Checks that a value has the type that a hook must return, including the fields of named tuples."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from ask import ModelInfo, ModelResponse, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta

ADVICE = {
    (ModelResponse, "finish_reason"): "Map the service's reasons to members of ask.FinishReason",
    (ToolCall, "arguments"): "arguments is JSON text: return it as the service sends it, or json.dumps an object",
}
"""What to do about a field of the wrong type."""
DELTA_FIELDS: Mapping[type, Mapping[str, type]] = {
    TextDelta: {"text": str},
    ReasoningDelta: {"text": str},
    ToolCallDelta: {"index": int, "name": str},
}


def find_type_problem(value: object, expected: Any) -> str:
    """Return what is wrong with the type of a value, and what to do; "" if nothing is wrong.

    `expected` is a type, a union, or `list[T]`.
    """
    if typing.get_origin(expected) is not list:
        return find_item_problem(value, expected)
    (item_type,) = typing.get_args(expected)
    if not isinstance(value, list):
        return f"returned {describe(value)}. Return a list of {describe_type(item_type)}."
    problems = (find_item_problem(item, item_type) for item in value)
    return next(filter(None, problems), "").replace("returned", "returned a list with", 1)


def find_item_problem(value: Any, expected: Any) -> str:
    """Return what is wrong with the type of a value or of one of its fields."""
    if not is_instance(value, expected):
        return f"returned {describe(value)}. Return {describe_type(expected)}."
    value_type: Any = type(value)
    name = value_type.__name__
    for field_name, field_type in list_field_types(value_type).items():
        field = getattr(value, field_name)
        if not is_instance(field, field_type):
            required = f"it must be {describe_type(field_type)}"
            advice = ADVICE.get((type(value), field_name), f"Convert {field_name} before creating the {name}")
            return f"returned a {name} whose {field_name} is {describe(field)}; {required}. {advice}."
        if hasattr(field, "_fields") and (problem := find_item_problem(field, type(field))):
            return problem
    if isinstance(value, ModelInfo) and not value.id:
        return "returned a ModelInfo with an empty id. Leave out entries without a name."
    return ""


@cache
def list_field_types(value_type: type) -> Mapping[str, Any]:
    if value_type in DELTA_FIELDS:
        return DELTA_FIELDS[value_type]
    return typing.get_type_hints(value_type) if hasattr(value_type, "_fields") else {}


def is_instance(value: object, expected: Any) -> bool:
    """Check a value against a type hint; the items of containers are not checked."""
    origin = typing.get_origin(expected)
    if expected is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(is_instance(value, option) for option in expected.__args__)
    if origin is typing.Literal:
        return value in expected.__args__
    if expected is float:
        return isinstance(value, int | float)
    return isinstance(value, origin or expected)


def describe(value: object) -> str:
    """Describe a value for a message: the type and, unless it is very long, the value."""
    if value is None:
        return "None"
    text = repr(value)
    return f"the {type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def describe_type(expected: Any) -> str:
    options = expected.__args__ if typing.get_origin(expected) in (typing.Union, types.UnionType) else (expected,)
    names = [describe_option(option) for option in options]
    return " or ".join(dict.fromkeys(names))


def describe_option(option: Any) -> str:
    if option is type(None):
        return "None"
    name = getattr(typing.get_origin(option) or option, "__name__", str(option))
    return name if option in (str, int, float, bool, dict) or name == "Mapping" else f"ask.{name}"
