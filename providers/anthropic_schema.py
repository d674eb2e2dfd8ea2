"""Convert JSON Schema to the subset that Anthropic's structured outputs support; unsupported limits are dropped.

The result is what Anthropic's own SDK would send.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask.parsing import read_dict, read_list

UNSUPPORTED_KEYWORDS = frozenset({"allOf", "patternProperties", "prefixItems"})
STRING_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
SCALAR_TYPES = frozenset({"string", "integer", "number", "boolean", "null"})
ALLOWED_MIN_ITEMS = (0, 1)
"""The only values of `minItems` that the API accepts."""
SchemaDict = dict[str, Any]


class UnsupportedSchemaError(Exception):
    """The API cannot express a schema."""


def to_anthropic_schema(schema: Mapping[str, Any]) -> SchemaDict | None:
    """Convert a schema, closing every object; return None if the API cannot express it.

    Limits that are dropped here are checked by the host, which also leaves out a schema that the API refuses, such as
    one that refers to itself.
    """
    try:
        definitions = {name: convert_members(schema[name]) for name in ("$defs", "definitions") if name in schema}
        return definitions | convert_schema(dict(schema))
    except UnsupportedSchemaError:
        return None


def convert_members(schemas: Any) -> SchemaDict:
    return {name: convert_schema(schema) for name, schema in read_dict(schemas).items()}


def convert_schema(schema: Any) -> SchemaDict:
    """Convert one schema, without its definitions."""
    if not isinstance(schema, dict) or UNSUPPORTED_KEYWORDS & schema.keys():
        raise UnsupportedSchemaError
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    converted = {name: schema[name] for name in ("title", "description") if name in schema}
    schema_type = schema.get("type")
    choices = schema.get("anyOf") or schema.get("oneOf") or [schema | {"type": name} for name in read_list(schema_type)]
    if "enum" in schema or "const" in schema:
        converted["enum"] = schema.get("enum") or [schema.get("const")]
        if any(isinstance(value, dict | list) for value in converted["enum"]):
            raise UnsupportedSchemaError
        return converted
    if choices:
        return converted | {"anyOf": [convert_schema(choice) for choice in choices]}
    converted["type"] = schema_type
    if schema_type == "object":
        converted["properties"] = properties = convert_members(schema.get("properties"))
        if not properties or schema.get("additionalProperties", False) is not False:
            raise UnsupportedSchemaError
        required = [name for name in properties if name in read_list(schema.get("required"))]
        return converted | {"additionalProperties": False} | ({"required": required} if required else {})
    if schema_type == "array":
        limits = {"minItems": schema["minItems"]} if schema.get("minItems") in ALLOWED_MIN_ITEMS else {}
        return converted | {"items": convert_schema(schema.get("items"))} | limits
    if schema_type not in SCALAR_TYPES:
        raise UnsupportedSchemaError
    return converted | ({"format": schema["format"]} if schema.get("format") in STRING_FORMATS else {})
