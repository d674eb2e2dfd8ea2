"""Convert type hints to JSON Schema, and JSON values that match it to Python values."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin

from ask.records import NamedTuple

SchemaDict = dict[str, Any]


class ToolDefinitionError(TypeError):
    """An object that cannot be used as a tool.

    Args:
        reason: what is wrong.
        parameter_path: the parameter that causes it and the part of that parameter; () if it is not about a parameter.
    """

    def __init__(self, reason: str, parameter_path: tuple[str, ...] = ()) -> None:
        super().__init__(f"the parameter {'.'.join(parameter_path)}: {reason}" if parameter_path else reason)
        self.reason, self.parameter_path = reason, parameter_path


def _return_unchanged(value: Any) -> Any:
    return value


class TypeAdapter(NamedTuple):
    """The JSON Schema of a type hint, and the conversion of a matching JSON value to a Python value."""

    schema: SchemaDict
    convert: Callable[[Any], Any] = _return_unchanged


class ObjectField(NamedTuple):
    """A field of an object; `name` is its JSON key. `default` is `Parameter.empty` if there is none."""

    name: str
    hint: Any
    required: bool
    description: str = ""
    default: Any = Parameter.empty


SCALAR_ADAPTERS: Mapping[Any, TypeAdapter] = {
    str: TypeAdapter({"type": "string"}),
    int: TypeAdapter({"type": "integer"}, int),
    float: TypeAdapter({"type": "number"}, float),
    bool: TypeAdapter({"type": "boolean"}),
    None: TypeAdapter({"type": "null"}),
    type(None): TypeAdapter({"type": "null"}),
    Any: TypeAdapter({}),
    object: TypeAdapter({}),
    Path: TypeAdapter({"type": "string"}, Path),
}
SEQUENCE_TYPES: Mapping[Any, Callable[[Any], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection), list),
    tuple: tuple,
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
}
MAPPING_TYPES = (dict, abc.Mapping, abc.MutableMapping)
UNION_TYPES = (Union, types.UnionType)
JSON_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def make_type_adapter(hint: Any, parents: tuple[Any, ...] = ()) -> TypeAdapter:
    """Create the adapter for a hint; `parents` are the classes that contain it.

    Raises:
        ToolDefinitionError: the hint is not supported.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        return _apply_metadata(make_type_adapter(hint.__origin__, parents), hint.__metadata__)
    if origin is Literal:
        return _make_enum_adapter(hint, arguments)
    if origin in UNION_TYPES:
        return _make_union_adapter([make_type_adapter(member, parents) for member in arguments])
    if origin in (Required, NotRequired):
        return make_type_adapter(arguments[0], parents)
    if not isinstance(hint, type) and (target := getattr(hint, "__supertype__", getattr(hint, "__value__", None))):
        return make_type_adapter(target, parents)  # NewType, type Name = ...
    return _make_container_adapter(hint, parents) or _make_class_adapter(hint, parents)


def make_object_adapter(
    fields: Sequence[ObjectField], factory: Callable[..., Any], parents: tuple[Any, ...] = ()
) -> TypeAdapter:
    """Create the adapter for an object with these fields.

    Its conversion calls `factory` with the given fields as keyword arguments.

    Raises:
        ToolDefinitionError: the hint of a field is not supported; the message names the field.
    """
    adapters, properties = {}, {}
    for field in fields:
        # If omitting a field means None, the model need not know about null.
        hint = _remove_none(field.hint) if not field.required and field.default is None else field.hint
        try:
            adapter = adapters[field.name] = make_type_adapter(hint, parents)
        except ToolDefinitionError as error:
            raise ToolDefinitionError(error.reason, (field.name, *error.parameter_path)) from None
        schema = properties[field.name] = dict(adapter.schema)
        if field.description:
            schema.setdefault("description", field.description)
        if (default := _to_json_value(field.default)) is not None:
            schema["default"] = default
    object_schema: SchemaDict = {"type": "object", "properties": properties, "additionalProperties": False}
    if required := [field.name for field in fields if field.required]:
        object_schema["required"] = required

    def convert(value: Any) -> Any:
        return factory(**{name: adapters[name].convert(item) for name, item in value.items() if name in adapters})

    return TypeAdapter(object_schema, convert)


def _to_json_value(value: Any) -> Any:
    """Convert a default to JSON; None if it has no JSON form."""
    value = value.value if isinstance(value, enum.Enum) else value
    try:
        return value if json.loads(json.dumps(value, allow_nan=False)) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def _remove_none(hint: Any) -> Any:
    """Remove None from a union that has other members."""
    if hasattr(hint, "__metadata__"):
        return typing.Annotated[(_remove_none(hint.__origin__), *hint.__metadata__)]
    members = tuple(member for member in get_args(hint) if member is not type(None))
    return Union[members] if get_origin(hint) in UNION_TYPES and members else hint  # noqa: UP007 - built at run time


def _format_hint(hint: Any) -> str:
    """Format a hint approximately as its author wrote it."""
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


def _apply_metadata(adapter: TypeAdapter, metadata: Sequence[Any]) -> TypeAdapter:
    for item in metadata:
        description = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(description, str):
            return adapter._replace(schema={**adapter.schema, "description": description})
    return adapter


def _make_enum_adapter(hint: Any, values: Sequence[Any]) -> TypeAdapter:
    json_values = [value.value if isinstance(value, enum.Enum) else value for value in values]
    type_names = {JSON_TYPE_NAMES.get(type(value)) for value in json_values}
    if None in type_names or not json_values:
        raise ToolDefinitionError(f"{_format_hint(hint)} has values that JSON cannot represent")
    schema: SchemaDict = {"type": type_names.pop()} if len(type_names) == 1 else {}

    def convert(value: Any) -> Any:
        for candidate, json_value in zip(values, json_values, strict=True):
            if value == json_value and isinstance(value, bool) == isinstance(json_value, bool):  # true is not 1
                return candidate
        raise ValueError(f"{value!r} is not one of {json_values}")

    return TypeAdapter({**schema, "enum": json_values}, convert)


def _make_union_adapter(adapters: Sequence[TypeAdapter]) -> TypeAdapter:
    schemas = [adapter.schema for adapter in adapters]
    if {} in schemas:
        return TypeAdapter({})
    union: SchemaDict = {"anyOf": schemas}
    if all(schema.keys() == {"type"} for schema in schemas):
        union = {"type": list(dict.fromkeys(schema["type"] for schema in schemas))}
    if all(adapter.convert is _return_unchanged for adapter in adapters):
        return TypeAdapter(union)

    def convert(value: Any) -> Any:
        from ask.schemas.schema import JsonSchema

        return next(
            adapter.convert(value) for adapter in adapters if not JsonSchema(adapter.schema).describe_problems(value)
        )

    return TypeAdapter(union, convert)


def _make_container_adapter(hint: Any, parents: tuple[Any, ...]) -> TypeAdapter | None:
    """Create the adapter for a scalar, sequence or mapping; None for any other hint."""
    container = get_origin(hint) or hint
    if not isinstance(container, abc.Hashable):
        return None
    if container in SEQUENCE_TYPES:
        return _make_list_adapter(hint, SEQUENCE_TYPES[container], parents)
    if container in MAPPING_TYPES:
        return _make_mapping_adapter(hint, parents)
    return SCALAR_ADAPTERS.get(hint)


def _make_list_adapter(hint: Any, factory: Callable[[Any], Any], parents: tuple[Any, ...]) -> TypeAdapter:
    arguments = get_args(hint)
    has_fixed_length = factory is tuple and bool(arguments) and arguments[1:] != (...,)
    if has_fixed_length and any(argument != arguments[0] for argument in arguments):
        raise ToolDefinitionError(
            f"{_format_hint(hint)} mixes types, which not every provider supports; use a dataclass"
        )
    item = make_type_adapter(arguments[0], parents) if arguments else TypeAdapter({})
    schema: SchemaDict = {"type": "array", "items": item.schema}
    if has_fixed_length:
        schema |= {"minItems": len(arguments), "maxItems": len(arguments)}
    if factory in (set, frozenset):
        schema["uniqueItems"] = True
    return TypeAdapter(schema, lambda values: factory(map(item.convert, values)))


def _make_mapping_adapter(hint: Any, parents: tuple[Any, ...]) -> TypeAdapter:
    if not get_args(hint):
        return TypeAdapter({"type": "object"})
    key_type, item_type = get_args(hint)
    if key_type is not str:
        raise ToolDefinitionError(f"{_format_hint(hint)} has keys that are not str, as JSON requires")
    item = make_type_adapter(item_type, parents)
    schema = {"type": "object", "additionalProperties": item.schema or True}
    return TypeAdapter(schema, lambda values: {name: item.convert(value) for name, value in values.items()})


def _make_class_adapter(hint: Any, parents: tuple[Any, ...]) -> TypeAdapter:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _make_enum_adapter(hint, list(hint))
    if hint in parents:
        raise ToolDefinitionError(f"{_format_hint(hint)} refers to itself")
    if typing.is_typeddict(hint):
        return make_object_adapter(_list_typed_dict_fields(hint), dict, (*parents, hint))
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        return make_object_adapter(_list_init_fields(hint), hint, (*parents, hint))
    raise ToolDefinitionError(f"{_format_hint(hint)} has no JSON Schema")


def _list_typed_dict_fields(hint: Any) -> list[ObjectField]:
    fields = []
    for name, field_hint in resolve_hints(hint).items():
        origin = get_origin(field_hint)
        # If hints are strings, __required_keys__ ignores Required and NotRequired.
        required = origin is Required or (origin is not NotRequired and name in hint.__required_keys__)
        fields.append(ObjectField(name, field_hint, required))
    return fields


def _list_init_fields(hint: type) -> list[ObjectField]:
    """Return the fields of a dataclass or NamedTuple that its constructor takes."""
    hints, parameters = resolve_hints(hint), signature(hint).parameters.values()
    return [
        ObjectField(each.name, hints.get(each.name, Any), each.default is each.empty, default=each.default)
        for each in parameters
    ]


def resolve_hints(value: Any) -> dict[str, Any]:
    """Return the hints of a class or function, by name.

    Raises:
        ToolDefinitionError: a hint cannot be evaluated.
    """
    try:
        return typing.get_type_hints(value, include_extras=True)
    except Exception as error:  # noqa: BLE001 - evaluating a hint runs the plugin's code
        raise ToolDefinitionError(f"its type hints cannot be evaluated ({type(error).__name__}: {error})") from None
