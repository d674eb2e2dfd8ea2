"""Convert type hints to JSON Schema, and JSON values that match it to Python values."""

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

SchemaDict = dict[str, Any]
NO_DEFAULT: Any = object()
"""Marks a field without a default, or with one that is unknown."""


class ToolDefinitionError(TypeError):
    """An object that cannot be used as a tool.

    Args:
        reason: What is wrong.
        parameter_path: The parameter that causes it and the part of that parameter; () if it is not about a parameter.
    """

    def __init__(self, reason: str, parameter_path: tuple[str, ...] = ()) -> None:
        super().__init__(f"the parameter {'.'.join(parameter_path)}: {reason}" if parameter_path else reason)
        self.reason, self.parameter_path = reason, parameter_path


def return_unchanged(value: Any) -> Any:
    return value


class TypeAdapter(NamedTuple):
    """The JSON Schema of a type hint, and the conversion of a matching JSON value to a Python value."""

    schema: SchemaDict
    convert: Callable[[Any], Any] = return_unchanged


class ObjectField(NamedTuple):
    """A field of an object; `name` is its JSON key."""

    name: str
    hint: Any
    required: bool
    description: str = ""
    default: Any = NO_DEFAULT


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


def make_type_adapter(hint: Any, enclosing_types: tuple[Any, ...] = ()) -> TypeAdapter:
    """Create the adapter for a hint; `enclosing_types` are the classes that contain it.

    Raises:
        ToolDefinitionError: The hint is not supported.
    """
    origin = get_origin(hint)
    if hasattr(hint, "__metadata__"):
        return _apply_metadata(make_type_adapter(hint.__origin__, enclosing_types), hint.__metadata__)
    if origin is Literal:
        return TypeAdapter(_make_enum_schema(hint, get_args(hint)), _make_value_lookup(get_args(hint)))
    if origin in UNION_TYPES:
        return _make_union_adapter([make_type_adapter(member, enclosing_types) for member in get_args(hint)])
    target = _unwrap_alias(hint)
    if target is not None:
        return make_type_adapter(target, enclosing_types)
    return _make_container_adapter(hint, enclosing_types) or _make_class_adapter(hint, enclosing_types)


def make_object_adapter(
    fields: Sequence[ObjectField], factory: Callable[..., Any], enclosing_types: tuple[Any, ...] = ()
) -> TypeAdapter:
    """Create the adapter for an object with these fields.

    Its conversion calls `factory` with the given fields as keyword arguments.

    Raises:
        ToolDefinitionError: The hint of a field is not supported; the message names the field.
    """
    adapters = {}
    for field in fields:
        try:
            adapter = make_type_adapter(
                remove_none(field.hint) if can_omit_none(field) else field.hint, enclosing_types
            )
        except ToolDefinitionError as error:
            raise ToolDefinitionError(error.reason, (field.name, *error.parameter_path)) from None
        description = {"description": field.description} if field.description else {}
        adapters[field.name] = adapter._replace(
            schema={**adapter.schema, **({} if "description" in adapter.schema else description)}
        )
    properties = {name: adapter.schema for name, adapter in adapters.items()}
    for field in fields:
        default = to_json_value(field.default)
        if default is not None:
            properties[field.name] = {**properties[field.name], "default": default}
    schema: SchemaDict = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [field.name for field in fields if field.required]
    if required:
        schema["required"] = required

    def convert(value: Any) -> Any:
        return factory(**{name: adapters[name].convert(item) for name, item in value.items() if name in adapters})

    return TypeAdapter(schema, convert)


def to_json_value(value: Any) -> Any:
    """Convert a default to JSON; None if it has no JSON form."""
    value = value.value if isinstance(value, enum.Enum) else value
    try:
        return value if json.loads(json.dumps(value, allow_nan=False)) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def can_omit_none(field: ObjectField) -> bool:
    """Check whether omitting a field means None, so that the model need not know about null."""
    return not field.required and field.default is None


def remove_none(hint: Any) -> Any:
    """Remove None from a union that has other members."""
    if hasattr(hint, "__metadata__"):
        return typing.Annotated[(remove_none(hint.__origin__), *hint.__metadata__)]
    members = tuple(member for member in get_args(hint) if member is not type(None))
    return Union[members] if get_origin(hint) in UNION_TYPES and members else hint  # noqa: UP007 - built at run time


def format_hint(hint: Any) -> str:
    """Format a hint approximately as its author wrote it."""
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


def _apply_metadata(adapter: TypeAdapter, metadata: Sequence[Any]) -> TypeAdapter:
    for item in metadata:
        description = item if isinstance(item, str) else getattr(item, "documentation", None)
        if isinstance(description, str):
            return adapter._replace(schema={**adapter.schema, "description": description})
    return adapter


def _make_enum_schema(hint: Any, values: Sequence[Any]) -> SchemaDict:
    json_values = [value.value if isinstance(value, enum.Enum) else value for value in values]
    type_names = {JSON_TYPE_NAMES.get(type(value)) for value in json_values}
    if None in type_names or not json_values:
        raise ToolDefinitionError(f"{format_hint(hint)} has values that JSON has not")
    return {"type": type_names.pop(), "enum": json_values} if len(type_names) == 1 else {"enum": json_values}


def _make_value_lookup(values: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a function that finds the Python value for a JSON value; true is not equal to 1."""

    def convert(json_value: Any) -> Any:
        for value in values:
            candidate = value.value if isinstance(value, enum.Enum) else value
            if candidate == json_value and isinstance(candidate, bool) == isinstance(json_value, bool):
                return value
        raise ValueError(f"{json_value!r} is none of {values}")

    return convert


def _make_union_adapter(adapters: Sequence[TypeAdapter]) -> TypeAdapter:
    schemas = [adapter.schema for adapter in adapters]
    if {} in schemas:
        return TypeAdapter({})
    union: SchemaDict = {"anyOf": schemas}
    if all(schema.keys() == {"type"} for schema in schemas):
        union = {"type": list(dict.fromkeys(schema["type"] for schema in schemas))}
    if all(adapter.convert is return_unchanged for adapter in adapters):
        return TypeAdapter(union)

    def convert(value: Any) -> Any:
        from ask.schemas.schema import JsonSchema

        return next(
            adapter.convert(value) for adapter in adapters if not JsonSchema(adapter.schema).describe_problems(value)
        )

    return TypeAdapter(union, convert)


def _unwrap_alias(hint: Any) -> Any:
    """Return the type behind an alias or wrapper; None for any other hint."""
    if get_origin(hint) in (Required, NotRequired):
        return get_args(hint)[0]
    if isinstance(hint, type):
        return None
    return getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)  # NewType, type Name = ...


def _make_container_adapter(hint: Any, enclosing_types: tuple[Any, ...]) -> TypeAdapter | None:
    """Create the adapter for a scalar, sequence or mapping; None for any other hint."""
    container = get_origin(hint) or hint
    if not isinstance(container, abc.Hashable):
        return None
    if container in SEQUENCE_TYPES:
        return _make_list_adapter(hint, SEQUENCE_TYPES[container], get_args(hint), enclosing_types)
    if container in MAPPING_TYPES:
        return _make_mapping_adapter(hint, get_args(hint), enclosing_types)
    return SCALAR_ADAPTERS.get(hint)


def _make_list_adapter(
    hint: Any, factory: Callable[[Any], Any], type_arguments: tuple[Any, ...], enclosing_types: tuple[Any, ...]
) -> TypeAdapter:
    if factory is tuple and type_arguments and type_arguments[1:] != (...,):
        return _make_fixed_tuple_adapter(hint, type_arguments, enclosing_types)
    item = make_type_adapter(type_arguments[0], enclosing_types) if type_arguments else TypeAdapter({})
    schema: SchemaDict = {"type": "array", "items": item.schema}
    if factory in (set, frozenset):
        schema["uniqueItems"] = True
    return TypeAdapter(schema, lambda values: factory(map(item.convert, values)))


def _make_fixed_tuple_adapter(
    hint: Any, type_arguments: tuple[Any, ...], enclosing_types: tuple[Any, ...]
) -> TypeAdapter:
    if any(argument != type_arguments[0] for argument in type_arguments):
        raise ToolDefinitionError(
            f"{format_hint(hint)} mixes types, for which not every provider has a schema; use a dataclass"
        )
    item, count = make_type_adapter(type_arguments[0], enclosing_types), len(type_arguments)
    schema = {"type": "array", "items": item.schema, "minItems": count, "maxItems": count}
    return TypeAdapter(schema, lambda values: tuple(map(item.convert, values)))


def _make_mapping_adapter(hint: Any, type_arguments: tuple[Any, ...], enclosing_types: tuple[Any, ...]) -> TypeAdapter:
    if not type_arguments:
        return TypeAdapter({"type": "object"})
    if type_arguments[0] is not str:
        raise ToolDefinitionError(f"{format_hint(hint)} has keys that are not str, as all keys of JSON are")
    item = make_type_adapter(type_arguments[1], enclosing_types)
    schema = {"type": "object", "additionalProperties": item.schema or True}
    return TypeAdapter(schema, lambda values: {name: item.convert(value) for name, value in values.items()})


def _make_class_adapter(hint: Any, enclosing_types: tuple[Any, ...]) -> TypeAdapter:
    if not isinstance(hint, type):
        raise ToolDefinitionError(f"{format_hint(hint)} has no JSON Schema")
    if issubclass(hint, enum.Enum):
        members = list(hint)
        return TypeAdapter(_make_enum_schema(hint, members), _make_value_lookup(members))
    if hint in enclosing_types:
        raise ToolDefinitionError(f"{format_hint(hint)} refers to itself")
    enclosing_types = (*enclosing_types, hint)
    if typing.is_typeddict(hint):
        return make_object_adapter(list(_iter_typed_dict_fields(hint)), dict, enclosing_types)
    if dataclasses.is_dataclass(hint):
        return make_object_adapter(list(_iter_dataclass_fields(hint)), hint, enclosing_types)
    if issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints, defaults = resolve_hints(hint), getattr(hint, "_field_defaults", {})
        names = [str(name) for name in hint._fields]
        fields = [
            ObjectField(n, hints.get(n, Any), n not in defaults, default=defaults.get(n, NO_DEFAULT)) for n in names
        ]
        return make_object_adapter(fields, hint, enclosing_types)
    raise ToolDefinitionError(f"{format_hint(hint)} has no JSON Schema")


def _iter_typed_dict_fields(hint: Any) -> Iterator[ObjectField]:
    for name, field_hint in resolve_hints(hint).items():
        origin = get_origin(field_hint)
        # If hints are strings, __required_keys__ ignores Required and NotRequired.
        required = origin is Required or (origin is not NotRequired and name in hint.__required_keys__)
        yield ObjectField(name, field_hint, required)


def _iter_dataclass_fields(hint: Any) -> Iterator[ObjectField]:
    hints = resolve_hints(hint)
    for field in dataclasses.fields(hint):
        if field.init:
            has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            default = NO_DEFAULT if field.default is dataclasses.MISSING else field.default
            yield ObjectField(field.name, hints[field.name], not has_default, default=default)


def resolve_hints(value: Any) -> dict[str, Any]:
    """Return the hints of a class or function, by name.

    Raises:
        ToolDefinitionError: A hint cannot be evaluated.
    """
    try:
        return typing.get_type_hints(value, include_extras=True)
    except Exception as error:  # noqa: BLE001 - evaluating a hint runs the plugin's code
        raise ToolDefinitionError(f"its type hints cannot be read ({type(error).__name__}: {error})") from None
