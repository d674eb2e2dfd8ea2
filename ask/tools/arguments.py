"""Parse the arguments of a tool call and check them against the tool's schema.

`type`, `enum`, `required`, `properties` and a closed `additionalProperties` are checked here: most tools use only these
keywords, and models understand these messages best. A schema with more keywords is also checked by `jsonschema`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ask.messages import ToolSpec
from ask.parsing import read_list
from ask.suggestions import suggest
from ask.tools.base import ToolError

_NullCheck = Callable[[Any], bool]
"""Checks whether a schema allows null."""
_PYTHON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_SIMPLE_KEYWORDS = frozenset(
    {"type", "enum", "required", "properties", "additionalProperties"}
    | {"title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly"}
    | {"$schema", "$id", "$comment"}
)
"""Keywords checked here, and annotations. `format` is only an annotation in tool schemas."""
_MAX_QUOTED_LENGTH = 200
_TOO_DEEP_MESSAGE = "are nested too deeply"


def parse_arguments(
    spec: ToolSpec, arguments_json: str, report_unchecked: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Parse the arguments of a call and check them against `spec.parameters`.

    `report_unchecked` is called with a description of each part of the schema that could not be checked.

    An empty string or null means {}: models write these for a tool without parameters. Property names that were
    replaced for the provider are restored. null for an optional parameter that is not nullable counts as omitted, and
    5.0 becomes the integer 5.

    Raises:
        ToolError: The arguments are invalid; the message is for the model and quotes the start of what it wrote.
    """
    from ask.plugin_api.tool_schemas import restore_property_names

    try:
        value = _parse_json(arguments_json) if arguments_json.strip() else None
        value = {} if value is None else value
        if not isinstance(value, dict):
            _reject_arguments(f"must be a JSON object, not {_get_type_name(value)}")
        try:
            arguments = restore_property_names(spec.parameters, value)
            return _validate_arguments(arguments, spec.parameters, report_unchecked)
        except RecursionError:
            _reject_arguments(_TOO_DEEP_MESSAGE)
    except _InvalidArgumentsError as error:
        more = "..." if len(arguments_json) > _MAX_QUOTED_LENGTH else ""
        quote = f". You wrote: {arguments_json[:_MAX_QUOTED_LENGTH]}{more}" if arguments_json.strip() else ""
        raise ToolError(f"nothing was run: the arguments of {spec.name} {error}{quote}") from None


def _validate_arguments(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], report_unchecked: Callable[[str], None]
) -> dict[str, Any]:
    if _is_simple_schema(schema):
        return _validate_object(arguments, schema, "", _is_nullable)
    from ask.schemas.schema import LenientSchema

    checker = LenientSchema(schema)
    validated = _validate_object(arguments, schema, "", checker.is_nullable)
    problems = checker.describe_problems(validated)
    for description in checker.unchecked:
        report_unchecked(description)
    if problems:
        _reject_arguments(f"do not match its schema: {problems}")
    return validated


def _is_simple_schema(schema: Any) -> bool:
    """Check whether a schema uses only keywords that are checked here."""
    if not isinstance(schema, Mapping):
        return schema is True
    if schema.keys() - _SIMPLE_KEYWORDS or schema.get("additionalProperties", True) not in (True, False, {}):
        return False
    properties = schema.get("properties", {})
    return isinstance(properties, Mapping) and all(map(_is_simple_schema, properties.values()))


def _is_nullable(subschema: Any) -> bool:
    """Check whether a simple schema allows null."""
    if not isinstance(subschema, Mapping):
        return subschema is not False
    types, choices = _list_allowed_types(subschema), subschema.get("enum")
    return (not types or "null" in types) and (not isinstance(choices, list) or None in choices)


class _InvalidArgumentsError(Exception):
    pass


def _reject_arguments(reason: str) -> NoReturn:
    raise _InvalidArgumentsError(reason)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(
            text, parse_constant=lambda name: _reject_arguments(f"are not JSON: {name} is not a JSON value")
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            _reject_arguments(
                f"continue after the end of the first JSON value, at character {error.pos + 1}: make a separate "
                "call for each"
            )
        _reject_arguments(f"are not JSON: {error.msg} at character {error.pos + 1} of {len(text)}")
    except RecursionError:
        _reject_arguments(_TOO_DEEP_MESSAGE)
    except ValueError as error:
        _reject_arguments(f"are not JSON: {error}")


def _validate_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: str, is_nullable: _NullCheck
) -> dict[str, Any]:
    properties = schema.get("properties")
    declared = properties if isinstance(properties, Mapping) else {}
    required = [name for name in read_list(schema.get("required")) if isinstance(name, str)]
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    validated = {}
    for name, item in value.items():
        if closed and name not in declared:
            known_names = [path + known for known in declared]
            suggestion = suggest(path + name, known_names)
            hint = f"; did you mean {suggestion!r}?" if suggestion else ""
            takes = f"it takes {', '.join(known_names) or 'none'}{hint}"
            _reject_arguments(f"have an unknown name, {path + name!r} ({takes})")
        subschema = declared.get(name, {})
        if item is None and name in declared and name not in required and not is_nullable(subschema):
            continue
        validated[name] = _validate_value(item, subschema, path + name, is_nullable)
    missing = [path + name for name in required if name not in validated]
    if missing:
        _reject_arguments(f"are missing {', '.join(map(repr, missing))}")
    return validated


def _validate_value(value: Any, schema: Any, path: str, is_nullable: _NullCheck) -> Any:
    if not isinstance(schema, Mapping) or "$ref" in schema:  # older drafts ignore the keywords next to $ref
        return value
    types = _list_allowed_types(schema)
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        value = int(value)
    if value is None and is_nullable(schema):
        return value
    if types and not any(_is_of_type(value, name) for name in types):
        _reject_arguments(f"have the wrong type: {path!r} must be {' or '.join(types)}, not {_get_type_name(value)}")
    choices = schema.get("enum")
    # Python's True equals 1.
    equal_choices = [choice for choice in read_list(choices) if choice == value]
    if isinstance(choices, list) and isinstance(value, bool) not in [isinstance(one, bool) for one in equal_choices]:
        _reject_arguments(f"have an invalid value: {path!r} must be one of {json.dumps(choices, ensure_ascii=False)}")
    return _validate_object(value, schema, path + ".", is_nullable) if isinstance(value, dict) else value


def _list_allowed_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the type names that a schema allows; [] if it does not restrict the type."""
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else read_list(declared)
    return names if all(isinstance(name, str) and name in _PYTHON_TYPES for name in names) else []


def _is_of_type(value: Any, type_name: str) -> bool:
    return isinstance(value, _PYTHON_TYPES[type_name]) and (type_name == "boolean" or not isinstance(value, bool))


def _get_type_name(value: Any) -> str:
    return next(name for name in ("integer", *_PYTHON_TYPES) if _is_of_type(value, name))
