"""From a type hint to its JSON Schema, and from a JSON value that fits it to the Python value that it stands for."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, Required, Union, get_args, get_origin

Schema = dict[str, Any]


UNKNOWN: Any = object()
"""The default of what has none, or one that cannot be told."""


class NoTool(TypeError):
    """What cannot be made a tool, and why.

    Args:
        reason: why.
        place: the parameter that is in the way, and which part of it; () where it is none.
    """

    def __init__(self, reason: str, place: tuple[str, ...] = ()) -> None:
        super().__init__(f"the parameter {'.'.join(place)}: {reason}" if place else reason)
        self.reason, self.place = reason, place


def same(value: Any) -> Any:
    """The value itself."""
    return value


class Shape(NamedTuple):
    """A hint's schema, and what makes a Python value of a JSON value that fits it."""

    schema: Schema
    convert: Callable[[Any], Any] = same


class Field(NamedTuple):
    """A named part of an object; `name` is its key in JSON."""

    name: str
    hint: Any
    required: bool
    description: str = ""
    default: Any = UNKNOWN


PLAIN: Mapping[Any, Shape] = {
    str: Shape({"type": "string"}),
    int: Shape({"type": "integer"}, int),
    float: Shape({"type": "number"}, float),
    bool: Shape({"type": "boolean"}),
    None: Shape({"type": "null"}),
    type(None): Shape({"type": "null"}),
    Any: Shape({}),
    object: Shape({}),
    Path: Shape({"type": "string"}, Path),
}
LISTS: Mapping[Any, Callable[[Any], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection), list),
    tuple: tuple,
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
}
MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
UNIONS = (Union, types.UnionType)
JSON_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def shape_of(hint: Any, inside: tuple[Any, ...] = ()) -> Shape:
    """The shape that a hint has; `inside` are the classes that it is a part of.

    Raises:
        NoTool: it has none.
    """
    origin = get_origin(hint)
    if hasattr(hint, "__metadata__"):
        return _annotated(shape_of(hint.__origin__, inside), hint.__metadata__)
    if origin is Literal:
        return Shape(_enum(hint, get_args(hint)), _by_value(get_args(hint)))
    if origin in UNIONS:
        return _union([shape_of(part, inside) for part in get_args(hint)])
    other = _another_name_of(hint)
    if other is not None:
        return shape_of(other, inside)
    return _container(hint, inside) or _class(hint, inside)


def object_shape(fields: Sequence[Field], make: Callable[..., Any], inside: tuple[Any, ...] = ()) -> Shape:
    """The shape of an object with these fields, made by `make` from those that are given.

    Raises:
        NoTool: a field has none; says which.
    """
    shapes = {}
    for field in fields:
        try:
            shape = shape_of(without_none(field.hint) if omits_none(field) else field.hint, inside)
        except NoTool as fault:
            raise NoTool(fault.reason, (field.name, *fault.place)) from None
        told = {"description": field.description} if field.description else {}
        shapes[field.name] = shape._replace(schema={**shape.schema, **({} if "description" in shape.schema else told)})
    properties = {name: shape.schema for name, shape in shapes.items()}
    for field in fields:
        default = plain(field.default)
        if default is not None:
            properties[field.name] = {**properties[field.name], "default": default}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [field.name for field in fields if field.required]
    if required:
        schema["required"] = required

    def convert(value: Any) -> Any:
        return make(**{name: shapes[name].convert(part) for name, part in value.items() if name in shapes})

    return Shape(schema, convert)


def plain(value: Any) -> Any:
    """A value as JSON has it; None where it has not."""
    value = value.value if isinstance(value, enum.Enum) else value
    try:
        return value if json.loads(json.dumps(value, allow_nan=False)) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def omits_none(field: Field) -> bool:
    """Whether to leave out a part is the same as to give None, so that the model need not know of None."""
    return not field.required and field.default is None


def without_none(hint: Any) -> Any:
    """The hint without None, where it has something else too."""
    if hasattr(hint, "__metadata__"):
        return typing.Annotated[(without_none(hint.__origin__), *hint.__metadata__)]
    parts = tuple(part for part in get_args(hint) if part is not type(None))
    return Union[parts] if get_origin(hint) in UNIONS and parts else hint  # noqa: UP007 - it is made at run time


def named(hint: Any) -> str:
    """A hint as its author wrote it, about."""
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


def _annotated(shape: Shape, notes: Sequence[Any]) -> Shape:
    for note in notes:
        said = note if isinstance(note, str) else getattr(note, "documentation", None)
        if isinstance(said, str):
            return shape._replace(schema={**shape.schema, "description": said})
    return shape


def _enum(hint: Any, values: Sequence[Any]) -> Schema:
    in_json = [value.value if isinstance(value, enum.Enum) else value for value in values]
    names = {JSON_NAMES.get(type(value)) for value in in_json}
    if None in names or not in_json:
        raise NoTool(f"{named(hint)} has values that JSON has not")
    return {"type": names.pop(), "enum": in_json} if len(names) == 1 else {"enum": in_json}


def _by_value(values: Sequence[Any]) -> Callable[[Any], Any]:
    """What finds the value that JSON's stands for; true is not 1."""

    def convert(given: Any) -> Any:
        for value in values:
            in_json = value.value if isinstance(value, enum.Enum) else value
            if in_json == given and isinstance(in_json, bool) == isinstance(given, bool):
                return value
        raise ValueError(f"{given!r} is none of {values}")

    return convert


def _union(parts: Sequence[Shape]) -> Shape:
    schemas = [part.schema for part in parts]
    if {} in schemas:
        return Shape({})
    merged: Schema = {"anyOf": schemas}
    if all(schema.keys() == {"type"} for schema in schemas):
        merged = {"type": list(dict.fromkeys(schema["type"] for schema in schemas))}
    if all(part.convert is same for part in parts):
        return Shape(merged)

    def convert(value: Any) -> Any:
        from ask.schemas.schema import Schema as Checked

        return next(part.convert(value) for part in parts if not Checked(part.schema).problem(value))

    return Shape(merged, convert)


def _another_name_of(hint: Any) -> Any:
    """What a hint stands for that only names or wraps another; None for any other hint."""
    if get_origin(hint) in (Required, NotRequired):
        return get_args(hint)[0]
    if isinstance(hint, type):
        return None
    return getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)  # NewType, type Name = ...


def _container(hint: Any, inside: tuple[Any, ...]) -> Shape | None:
    """The shape of a plain type, list or mapping; None for any other hint."""
    container = get_origin(hint) or hint
    if not isinstance(container, abc.Hashable):
        return None
    if container in LISTS:
        return _list(hint, LISTS[container], get_args(hint), inside)
    if container in MAPPINGS:
        return _mapping(hint, get_args(hint), inside)
    return PLAIN.get(hint)


def _list(hint: Any, make: Callable[[Any], Any], arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    if make is tuple and arguments and arguments[1:] != (...,):
        return _fixed(hint, arguments, inside)
    item = shape_of(arguments[0], inside) if arguments else Shape({})
    schema: Schema = {"type": "array", "items": item.schema}
    if make in (set, frozenset):
        schema["uniqueItems"] = True
    return Shape(schema, lambda values: make(map(item.convert, values)))


def _fixed(hint: Any, arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    if any(argument != arguments[0] for argument in arguments):
        raise NoTool(f"{named(hint)} mixes types, for which not every provider has a schema; use a dataclass")
    item, count = shape_of(arguments[0], inside), len(arguments)
    schema = {"type": "array", "items": item.schema, "minItems": count, "maxItems": count}
    return Shape(schema, lambda values: tuple(map(item.convert, values)))


def _mapping(hint: Any, arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    if not arguments:
        return Shape({"type": "object"})
    if arguments[0] is not str:
        raise NoTool(f"{named(hint)} has keys that are not str, as all keys of JSON are")
    item = shape_of(arguments[1], inside)
    schema = {"type": "object", "additionalProperties": item.schema or True}
    return Shape(schema, lambda values: {name: item.convert(value) for name, value in values.items()})


def _class(hint: Any, inside: tuple[Any, ...]) -> Shape:
    if not isinstance(hint, type):
        raise NoTool(f"{named(hint)} has no JSON Schema")
    if issubclass(hint, enum.Enum):
        members = list(hint)
        return Shape(_enum(hint, members), _by_value(members))
    if hint in inside:
        raise NoTool(f"{named(hint)} refers to itself")
    inside = (*inside, hint)
    if typing.is_typeddict(hint):
        return object_shape(list(_keys(hint)), dict, inside)
    if dataclasses.is_dataclass(hint):
        return object_shape(list(_attributes(hint)), hint, inside)
    if issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints, defaults = resolved(hint), getattr(hint, "_field_defaults", {})
        names = [str(name) for name in hint._fields]
        fields = [Field(n, hints.get(n, Any), n not in defaults, default=defaults.get(n, UNKNOWN)) for n in names]
        return object_shape(fields, hint, inside)
    raise NoTool(f"{named(hint)} has no JSON Schema")


def _keys(hint: Any) -> Iterator[Field]:
    for name, part in resolved(hint).items():
        origin = get_origin(part)
        # Where hints are strings, the class itself has not understood these two.
        required = origin is Required or (origin is not NotRequired and name in hint.__required_keys__)
        yield Field(name, part, required)


def _attributes(hint: Any) -> Iterator[Field]:
    hints = resolved(hint)
    for field in dataclasses.fields(hint):
        if field.init:
            optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            default = UNKNOWN if field.default is dataclasses.MISSING else field.default
            yield Field(field.name, hints[field.name], not optional, default=default)


def resolved(value: Any) -> dict[str, Any]:
    """The hints of a class or function, by name.

    Raises:
        NoTool: one names what there is not.
    """
    try:
        return typing.get_type_hints(value, include_extras=True)
    except Exception as fault:  # noqa: BLE001 - a hint is code of its author's
        raise NoTool(f"its type hints cannot be read ({type(fault).__name__}: {fault})") from None
