"""Checks of values against type hints: what plugins return, and what TOML, YAML and JSON files contain.

A hint is a class, a union, a literal, a collection with the type of its items, or a record: a named tuple or TypedDict,
whose fields have hints of their own. `Annotated` adds a `Constraint`. Loaded only when there is something to check.
"""

from __future__ import annotations

import sys
import types
import typing
from binascii import a2b_base64
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from ask.records import Constraint, NamedTuple
from ask.text import format_one_line

T = TypeVar("T")
ValuePath = tuple[str | int, ...]
"""The keys and positions that lead from the outermost value to another one."""
MISSING = object()
"""The value of a field that is required and missing."""
MAX_VALUE_CHARACTERS = 60
"""The limit for a value in an error message."""
MAX_INTEGER = 2**63 - 1
"""The largest integer that TOML and SQLite can represent."""
_UNIONS = (typing.Union, types.UnionType)
_SEQUENCES: tuple[Any, ...] = (list, tuple, Sequence)
_MAPPINGS: tuple[Any, ...] = (dict, Mapping)
_DESCRIPTIONS: dict[Any, str] = {
    str: "a string",
    Path: "a string",
    bytes: "base64",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


_FORMS: dict[Any, Callable[[Any], bool]] = {
    Any: lambda _: True,
    None: lambda value: value is None,
    types.NoneType: lambda value: value is None,
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER,
    # The limit is also one for integers, and excludes NaN.
    float: lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    ),
}
"""What data can have a type; tables can be records, lists sequences, and strings all other types."""


class WrongTypeError(ValueError):
    """A value, at a path in another one, that does not have the expected type; `MISSING` for a missing field."""

    def __init__(self, path: ValuePath, expected: Any, value: object) -> None:
        problem = "is missing" if value is MISSING else f"must be {describe_expected(expected)}"
        super().__init__(f"{format_path(path)} {problem}")
        self.path = path
        self.problem = problem
        self.expected = expected
        self.value = value


def format_path(path: ValuePath) -> str:
    """Format a path, for example "servers.notes.args[0]"."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


@cache
def get_fields(record_type: Any) -> Mapping[str, Any]:
    """Return the hints of the fields of a record, in their order; {} for any other type."""
    names = getattr(record_type, "__match_args__", ())
    if not (names or typing.is_typeddict(record_type)):
        return {}
    hints = typing.get_type_hints(record_type, include_extras=True)
    return {name: hints[name] for name in names or hints}


def check_value(value: object, expected: Any, path: ValuePath = ()) -> None:
    """Check that a Python object, the items in its lists and mappings, and its fields have the expected types.

    Raises:
        WrongTypeError: one of them does not.
    """
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if not _is_instance(value, expected):
        raise WrongTypeError(path, expected, value)
    if origin in _UNIONS:
        check_value(value, next(option for option in arguments if _is_instance(value, option)), path)
    elif origin in _SEQUENCES and arguments[0] is not Any:
        items = cast("Sequence[object]", value)
        item_types = _list_item_types(expected, len(items))
        if len(item_types) != len(items):
            raise WrongTypeError(path, expected, value)
        for position, item in enumerate(items):
            check_value(item, item_types[position], (*path, position))
    elif origin in _MAPPINGS and arguments[1] is not Any:
        for key, item in cast("Mapping[str, object]", value).items():
            check_value(item, arguments[1], (*path, key))
    elif origin is None:
        for name, field_type in get_fields(expected).items():
            check_value(getattr(value, name), field_type, (*path, name))


def _is_instance(value: object, expected: Any) -> bool:
    """Check a Python object without what it contains."""
    origin = typing.get_origin(expected)
    if expected is Any:
        return True
    if origin in _UNIONS or origin is typing.Annotated:
        options = typing.get_args(expected)
        return any(_is_instance(value, option) for option in (options if origin in _UNIONS else options[:1]))
    if origin is typing.Literal:
        return value in typing.get_args(expected)
    if origin is Sequence and isinstance(value, str):
        return False
    return isinstance(value, (int, float) if expected is float else origin or expected)


def parse_value(
    value: Any,
    expected: type[T],
    path: ValuePath = (),
    on_unknown_key: Callable[[ValuePath, Any], object] = lambda _, __: None,
) -> T:
    """Convert data from TOML, YAML or JSON to the expected type.

    Tables become records, with the defaults of missing fields; lists become tuples, integers floats, base64 bytes and
    strings paths or members of an enum where that is the type.

    Args:
        value: the data.
        expected: the type, or another hint.
        path: where the data is in a larger value, for error messages.
        on_unknown_key: called with the path of each key that a record does not have, and the record type.

    Raises:
        WrongTypeError: the data, or a part of it, does not have the type. Numbers must also be finite, and integers
            have at most 64 bits.
    """
    try:
        return cast("T", _Parser(on_unknown_key).parse(value, expected, path))
    except RecursionError:
        raise WrongTypeError(path, expected, value) from None


class _Parser(NamedTuple):
    """The recursion of `parse_value`."""

    on_unknown_key: Callable[[ValuePath, Any], object]

    def parse(self, value: Any, expected: Any, path: ValuePath) -> Any:
        origin, arguments = typing.get_origin(expected), typing.get_args(expected)
        if origin is typing.Annotated:
            return self._parse_annotated(value, expected, path)
        if not _has_form(value, expected):
            raise WrongTypeError(path, expected, value)
        if origin in _UNIONS:
            return self.parse(value, next(option for option in arguments if _has_form(value, option)), path)
        if fields := get_fields(expected):
            return expected(**self._parse_fields(value, expected, fields, path))
        if origin in _SEQUENCES:
            item_types = _list_item_types(expected, len(value))
            if len(item_types) != len(value):
                raise WrongTypeError(path, expected, value)
            items = [self.parse(item, item_types[position], (*path, position)) for position, item in enumerate(value)]
            return items if origin is list else tuple(items)
        if origin in _MAPPINGS:
            return {key: self.parse(item, arguments[1], (*path, key)) for key, item in value.items()}
        if expected is bytes or (isinstance(expected, type) and issubclass(expected, (Enum, Path, float))):
            try:
                value = a2b_base64(value, strict_mode=True) if expected is bytes else expected(value)
            except ValueError:
                raise WrongTypeError(path, expected, value) from None
        return value

    def _parse_annotated(self, value: Any, expected: Any, path: ValuePath) -> Any:
        hint, constraint = typing.get_args(expected)
        try:
            parsed = self.parse(constraint.convert(value) if isinstance(value, str) else value, hint, path)
        except ValueError as error:
            raise (error if getattr(error, "path", path) != path else WrongTypeError(path, expected, value)) from None
        if not constraint.is_valid(parsed):
            raise WrongTypeError(path, expected, value)
        return parsed

    def _parse_fields(
        self, table: Mapping[str, Any], record_type: Any, fields: Mapping[str, Any], path: ValuePath
    ) -> dict[str, Any]:
        for key in table:
            if key not in fields:
                self.on_unknown_key((*path, key), record_type)
        optional = record_type.__optional_keys__ if typing.is_typeddict(record_type) else record_type._field_defaults
        for name in fields:
            if name not in table and name not in optional:
                raise WrongTypeError((*path, name), fields[name], MISSING)
        return {name: self.parse(table[name], fields[name], (*path, name)) for name in fields if name in table}


def _has_form(value: Any, expected: Any) -> bool:
    """Check whether data can have a type, judging by itself without what it contains."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in _UNIONS or origin is typing.Annotated:
        return any(_has_form(value, option) for option in (arguments if origin in _UNIONS else arguments[:1]))
    if origin is typing.Literal:
        return any(type(value) is type(option) and value == option for option in arguments)
    if has_form := _FORMS.get(expected):
        return has_form(value)
    is_table = origin in _MAPPINGS or get_fields(expected)
    return isinstance(value, list if origin in _SEQUENCES else dict if is_table else str)


def _list_item_types(expected: Any, count: int) -> Sequence[Any]:
    """Return the types of the items of a sequence with `count` items; a tuple may require another number of items."""
    arguments = typing.get_args(expected)
    return arguments if typing.get_origin(expected) is tuple and arguments[-1] is not ... else arguments[:1] * count


def describe_expected(expected: Any) -> str:
    """Describe the data that a type allows, for example "a list of strings"."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is typing.Annotated:
        return cast("Constraint", arguments[1]).description
    if origin in _UNIONS:
        return " or ".join(describe_expected(option) for option in arguments if option is not types.NoneType)
    if origin is typing.Literal or (isinstance(expected, type) and issubclass(expected, Enum)):
        return f"one of {', '.join(filter(None, arguments or expected))}"
    if origin in _SEQUENCES:
        has_length = origin is tuple and arguments[-1] is not ...
        return f"a list of {len(arguments)} items" if has_length else f"a list{_describe_items(arguments[0])}"
    if origin in _MAPPINGS:
        return f"a table{_describe_items(arguments[1])}"
    return "a table" if get_fields(expected) else _DESCRIPTIONS.get(expected, f"a {expected.__name__}")


def _describe_items(item_type: Any) -> str:
    options = typing.get_args(item_type) if typing.get_origin(item_type) in _UNIONS else (item_type,)
    nouns = [describe_expected(option).partition(" of ")[0] for option in options if option is not Any]
    if not nouns or not all(noun.startswith("a ") for noun in nouns):
        return ""
    return f" of {' or '.join(noun.removeprefix('a ') + 's' for noun in nouns)}"


def describe_value(value: object) -> str:
    """Describe a Python object for an error message."""
    return (
        "None" if value is None else f"the {type(value).__name__} {format_one_line(repr(value), MAX_VALUE_CHARACTERS)}"
    )


def describe_type(expected: Any) -> str:
    """Describe a type as in Python, for the authors of plugins."""
    if typing.get_origin(expected) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(expected)))
    options = typing.get_args(expected) if typing.get_origin(expected) in _UNIONS else (expected,)
    # The `__origin__` of an `Annotated` is its type; `get_origin` returns `Annotated`.
    names = (getattr(getattr(option, "__origin__", option), "__name__", str(option)) for option in options)
    return " or ".join(names).replace("NoneType", "None")
