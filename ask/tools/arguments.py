"""Parse the arguments of a tool call and check them against the tool's schema.

`type`, `enum`, `required`, `properties` and a closed `additionalProperties` are checked here: most tools use only these
keywords, and models understand these messages best. A schema with more keywords is also checked by `jsonschema`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from ask.messages import ToolSpec
from ask.parsing import read_dict, read_list
from ask.text import describe_parse_error, suggest
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
_MAX_QUOTED_CHARACTERS = 200
_TOO_DEEP_MESSAGE = "are nested too deeply"
_CODE_FENCE = re.compile(r"\s*```\w*\n(.*?)```\s*", re.DOTALL)
_TRAILING_COMMA = re.compile(r",\s*(?=[}\]])")
_NEXT_VALUE = re.compile(r"\S|\Z")
_MAX_TRAILING_COMMAS = 20
_MAX_LITERAL_CHARACTERS = 100_000
"""Characters of Python syntax that are parsed, which takes far more memory than JSON."""


def parse_arguments(
    spec: ToolSpec, arguments_json: str, report_unchecked: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Parse the arguments of a call and check them against `spec.parameters`.

    `report_unchecked` is called with a description of each part of the schema that could not be checked.

    An empty string, also as JSON, or null means {}: models write these for a tool without parameters. Property names
    that were replaced for the provider are restored. null for an optional parameter that is not nullable counts as
    omitted, and 5.0 becomes the integer 5. What is not JSON, or has the wrong type, is repaired only if it has a single
    meaning: a call must never do anything that the model did not write.

    Raises:
        ToolError: the arguments are invalid; the message is for the model and quotes the start of what it wrote.
    """
    from ask.plugin_api.tool_schemas import restore_property_names

    try:
        value = _parse_json(arguments_json) if arguments_json.strip() else None
        value = {} if value in (None, "") else _decode_text(value) if isinstance(value, str) else value
        if not isinstance(value, dict):
            _reject_arguments(f"must be a JSON object, not {_get_type_name(value)}")
        try:
            arguments = restore_property_names(spec.parameters, value)
            return _validate_arguments(arguments, spec.parameters, report_unchecked)
        except RecursionError:
            _reject_arguments(_TOO_DEEP_MESSAGE)
    except _InvalidArgumentsError as error:
        more = "..." if len(arguments_json) > _MAX_QUOTED_CHARACTERS else ""
        quote = f". You wrote: {arguments_json[:_MAX_QUOTED_CHARACTERS]}{more}" if arguments_json.strip() else ""
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
        return _decode_json(text)
    except json.JSONDecodeError as error:
        repaired = _repair_json(text)
        if repaired is not None:
            return repaired
        if error.msg == "Extra data":
            _reject_arguments(
                f"continue after the end of the first JSON value, at character {error.pos + 1}: make a separate "
                "call for each"
            )
        place = f"character {error.pos + 1} of {len(text)}"
        if error.pos >= len(text):
            place = f"the end ({len(text)} characters)"
        _reject_arguments(f"are not JSON: {error.msg} at {place}")
    except RecursionError:
        _reject_arguments(_TOO_DEEP_MESSAGE)
    except ValueError as error:
        _reject_arguments(f"are not JSON: {describe_parse_error(error)}")


def _decode_json(text: str) -> Any:
    """Parse JSON in which line breaks and other control characters may be unescaped, as local models write them.

    Raises:
        ValueError, RecursionError: it cannot be parsed, or contains NaN or infinity.
    """
    return json.loads(text, strict=False, parse_constant=_reject_constant)


def _reject_constant(name: str) -> NoReturn:
    _reject_arguments(f"are not JSON: {name} is not a JSON value")


def _repair_json(text: str) -> Any:
    """Return the value of text in a code fence, repeated, with trailing commas or in Python's syntax; else None."""
    fence = _CODE_FENCE.fullmatch(text)
    text = fence[1] if fence else text
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if (repeated := _read_repeated_object(text.strip())) is not None:
            return repeated
        if text.lstrip().startswith("{'") and len(text) <= _MAX_LITERAL_CHARACTERS:
            import warnings
            from ast import literal_eval

            with warnings.catch_warnings():
                warnings.simplefilter("error")  # for an escape that Python does not know
                return json.loads(json.dumps(literal_eval(text.strip()), allow_nan=False))
        for _ in range(_MAX_TRAILING_COMMAS):
            try:
                return _decode_json(text)
            except json.JSONDecodeError as error:
                comma = _TRAILING_COMMA.match(text, max(0, text.rfind(",", 0, error.pos + 1)))
                if comma is None or error.pos not in comma.span():  # the position depends on Python's version
                    return None
                text = text[: comma.start()] + text[comma.end() :]
    return None


def _read_repeated_object(text: str) -> dict[str, Any] | None:
    """Return the only value of text that contains several: an object, alone or repeated, after an empty one or not.

    Streams begin with an empty one, or end with all arguments, again or as text:
    https://github.com/BerriAI/litellm/issues/4537, https://github.com/vllm-project/vllm/issues/51697 and
    https://github.com/BerriAI/litellm/issues/20480
    """
    decoder = json.JSONDecoder(strict=False, parse_constant=_reject_constant)
    found: dict[str, Any] = {}
    position = 0
    while position < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
        except ValueError:
            return None
        value = _decode_text(value) if found and isinstance(value, str) else value
        if not isinstance(value, dict) or (found and value not in ({}, found)):
            return None
        found = value or found
        position = _NEXT_VALUE.search(text, end).start()  # type: ignore[union-attr] # it matches the end, too
    return found


def _decode_text(text: str) -> Any:
    """Return the value of JSON in a text, or the text if it is anything else."""
    try:
        return _decode_json(text)
    except (ValueError, RecursionError, _InvalidArgumentsError):
        return text


def _validate_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: str, is_nullable: _NullCheck
) -> dict[str, Any]:
    properties = schema.get("properties")
    declared = properties if isinstance(properties, Mapping) else {}
    required = [name for name in read_list(schema.get("required")) if isinstance(name, str)]
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    validated = {}
    for name, item in value.items():
        if is_closed and name not in declared:
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
    value = _convert_value(value, types, schema)
    if _is_whole(value, types) and "number" not in types:
        value = int(value)
    if value is None and is_nullable(schema):
        return value
    if types and not _has_type(value, types):
        _reject_arguments(f"have the wrong type: {path!r} must be {' or '.join(types)}, not {_get_type_name(value)}")
    choices = _list_choices(schema, types)
    # Python's True equals 1.
    if choices and isinstance(value, bool) not in [isinstance(each, bool) for each in choices if each == value]:
        _reject_arguments(f"have an invalid value: {path!r} must be one of {json.dumps(choices, ensure_ascii=False)}")
    return _validate_object(value, schema, path + ".", is_nullable) if isinstance(value, dict) else value


def _convert_value(value: Any, types: list[str], schema: Mapping[str, Any]) -> Any:
    """Return the value in a text such as "5" or "[1]" where no text is allowed, and a single value as an array.

    Models and gateways write such arguments; asking some of them again does not help:
    https://github.com/jjang-ai/vmlx/pull/48
    """
    if not types or _has_type(value, types):
        return value
    if isinstance(value, str):
        decoded = _decode_text(value)
        is_finite = not isinstance(decoded, float) or math.isfinite(decoded)
        if is_finite and (_has_type(decoded, types) or _is_whole(decoded, types)):
            return decoded
    item_types = _list_allowed_types(read_dict(schema.get("items")))
    is_item = value != "" and _has_type(value, item_types)
    return [value] if types == ["array"] and is_item else value


def _list_choices(schema: Mapping[str, Any], types: list[str]) -> list[Any]:
    """Return the values in a schema's enum that have an allowed type; others are not sent to providers, either."""
    choices = read_list(schema.get("enum"))
    return [choice for choice in choices if not types or _has_type(choice, types) or _is_whole(choice, types)]


def _list_allowed_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the type names that a schema allows; [] if it does not restrict the type."""
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else read_list(declared)
    return names if all(isinstance(name, str) and name in _PYTHON_TYPES for name in names) else []


def _has_type(value: Any, types: Iterable[str]) -> bool:
    """Check whether a value has one of these types. Python's booleans are integers, too."""
    return any(
        isinstance(value, _PYTHON_TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in types
    )


def _is_whole(value: Any, types: Sequence[str]) -> bool:
    """Check whether a value is a number such as 5.0 where an integer is allowed."""
    return isinstance(value, float) and value.is_integer() and "integer" in types


def _get_type_name(value: Any) -> str:
    return next(name for name in ("integer", *_PYTHON_TYPES) if _has_type(value, [name]))
