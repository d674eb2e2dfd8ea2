"""Convert JSON Schema to the subset that Anthropic's structured outputs support; unsupported limits are dropped.

The result is what Anthropic's own SDK would send, except that a schema the API would refuse becomes None.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask import as_dict, as_list

KEPT_KEYWORDS = ("title", "description")
STRING_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
)
SCALAR_TYPES = frozenset({"string", "integer", "number", "boolean", "null"})
ALLOWED_MIN_ITEMS = (0, 1)
"""The only values of `minItems` that the API accepts."""
SchemaDict = dict[str, Any]


def to_anthropic_schema(schema: Mapping[str, Any]) -> SchemaDict | None:
    """Convert a schema, closing every object; return None if the API cannot express it.

    Limits that are dropped here are checked by the host.
    """
    definitions: SchemaDict = {}
    for name in ("$defs", "definitions"):
        converted = {key: convert_schema(subschema) for key, subschema in as_dict(schema.get(name)).items()}
        if None in converted.values():
            return None
        definitions |= {name: converted} if converted else {}
    body = convert_schema(dict(schema))
    return None if body is None else definitions | body


def convert_schema(schema: Any) -> SchemaDict | None:
    """Convert one schema, without its definitions."""
    if not isinstance(schema, dict) or "allOf" in schema:
        return None
    if isinstance(schema.get("$ref"), str):
        return {"$ref": schema["$ref"]}
    annotations = {name: schema[name] for name in KEPT_KEYWORDS if isinstance(schema.get(name), str)}
    types = as_list(schema.get("type"))
    if "enum" in schema or "const" in schema:
        values = as_list(schema.get("enum")) or [schema.get("const")]
        return annotations | {"enum": values} if all(is_scalar(value) for value in values) else None
    choices = as_list(schema.get("anyOf") or schema.get("oneOf")) or [
        schema | {"type": type_name} for type_name in types
    ]
    if choices:
        parts = [convert_schema(choice) for choice in choices]
        return None if None in parts else annotations | {"anyOf": parts}
    match schema.get("type"):
        case "object":
            converted = convert_object(schema)
        case "array":
            converted = convert_array(schema)
        case str(type_name) if type_name in SCALAR_TYPES:
            converted = {"type": type_name} | (
                {"format": schema["format"]} if schema.get("format") in STRING_FORMATS else {}
            )
        case _:
            converted = None
    return None if converted is None else annotations | converted


def convert_object(schema: SchemaDict) -> SchemaDict | None:
    """Convert an object with listed properties; open objects are not supported."""
    properties = {name: convert_schema(subschema) for name, subschema in as_dict(schema.get("properties")).items()}
    is_open = schema.get("additionalProperties", False) is not False or "patternProperties" in schema
    if not properties or is_open or None in properties.values():
        return None
    required = [name for name in properties if name in as_list(schema.get("required"))]
    converted = {"type": "object", "properties": properties, "additionalProperties": False}
    return converted | ({"required": required} if required else {})


def convert_array(schema: SchemaDict) -> SchemaDict | None:
    items = convert_schema(schema.get("items"))
    min_items = schema.get("minItems")
    limits = {"minItems": min_items} if min_items in ALLOWED_MIN_ITEMS else {}
    return None if items is None or "prefixItems" in schema else {"type": "array", "items": items, **limits}


def is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
