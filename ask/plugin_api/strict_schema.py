"""Converts JSON Schemas to the strict subset that OpenAI and most compatible services can enforce.

In strict schemas every object lists all its properties, and all are required.
https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask.parsing import read_dict, read_list

PRESERVED_KEYWORDS = frozenset(
    {"$ref", "type", "title", "description", "enum", "const", "pattern", "format", "minItems", "maxItems"}
    | {"required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
"""Keywords that strict schemas support unchanged."""
TYPE_KEYWORDS = frozenset({"type", "enum", "const", "anyOf", "$ref"})
"""Keywords of which a strict schema must have at least one."""


class _NoStrictSchemaError(Exception):
    pass


def to_strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a schema to strict form; return None if that is not possible.

    Whatever matches the strict form also matches the schema. `additionalProperties: false` is added where it is
    missing; `$schema`, `$id` and `ordered`, which only says something about an enum to --decide, are removed.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _convert_schema({name: value for name, value in schema.items() if name not in ("$schema", "$id")})
    except _NoStrictSchemaError:
        return None


def _convert_schema(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or ("$ref" in value and len(value) > 1) or not value.keys() & TYPE_KEYWORDS:
        raise _NoStrictSchemaError
    converted = {name: _convert_keyword(name, inner) for name, inner in value.items() if name != "ordered"}
    types = converted.get("type")
    if "object" not in (types if isinstance(types, list) else [types]):
        if "properties" in converted:
            raise _NoStrictSchemaError
        return converted
    properties = read_dict(converted.get("properties"))
    if not properties or set(properties) - set(read_list(converted.get("required"))):
        raise _NoStrictSchemaError
    return converted | {"additionalProperties": False}


def _convert_keyword(keyword: str, value: Any) -> Any:
    if keyword in PRESERVED_KEYWORDS or (keyword == "additionalProperties" and value is False):
        return value
    if keyword in ("properties", "$defs"):
        return {key: _convert_schema(inner) for key, inner in read_dict(value).items()}
    if keyword == "anyOf":
        return [_convert_schema(choice) for choice in read_list(value)]
    if keyword == "items":
        return _convert_schema(value)
    raise _NoStrictSchemaError
