"""From JSON Schema to the part of it that Anthropic can hold an answer to; limits that it lacks are left out.

What its own SDK would send, but for what that refuses: there is None here.
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
"""The only ones that there may be."""
SchemaDict = dict[str, Any]


def to_anthropic_schema(schema: Mapping[str, Any]) -> SchemaDict | None:
    """The schema as the API takes it, with every object closed; None where it cannot say what the schema says.

    What the schema says beyond that, the host still checks.
    """
    made: SchemaDict = {}
    for name in ("$defs", "definitions"):
        parts = {key: convert_schema(part) for key, part in as_dict(schema.get(name)).items()}
        if None in parts.values():
            return None
        made |= {name: parts} if parts else {}
    body = convert_schema(dict(schema))
    return None if body is None else made | body


def convert_schema(schema: Any) -> SchemaDict | None:
    """One schema, without its definitions."""
    if not isinstance(schema, dict) or "allOf" in schema:
        return None
    if isinstance(schema.get("$ref"), str):
        return {"$ref": schema["$ref"]}
    kept = {name: schema[name] for name in KEPT_KEYWORDS if isinstance(schema.get(name), str)}
    types = as_list(schema.get("type"))
    if "enum" in schema or "const" in schema:
        values = as_list(schema.get("enum")) or [schema.get("const")]
        return kept | {"enum": values} if all(is_scalar(value) for value in values) else None
    choices = as_list(schema.get("anyOf") or schema.get("oneOf")) or [schema | {"type": kind} for kind in types]
    if choices:
        parts = [convert_schema(choice) for choice in choices]
        return None if None in parts else kept | {"anyOf": parts}
    match schema.get("type"):
        case "object":
            made = convert_object(schema)
        case "array":
            made = convert_array(schema)
        case str(kind) if kind in SCALAR_TYPES:
            made = {"type": kind} | ({"format": schema["format"]} if schema.get("format") in STRING_FORMATS else {})
        case _:
            made = None
    return None if made is None else kept | made


def convert_object(schema: SchemaDict) -> SchemaDict | None:
    """An object that lists its properties; there is none that is open."""
    properties = {name: convert_schema(part) for name, part in as_dict(schema.get("properties")).items()}
    is_open = schema.get("additionalProperties", False) is not False or "patternProperties" in schema
    if not properties or is_open or None in properties.values():
        return None
    required = [name for name in properties if name in as_list(schema.get("required"))]
    made = {"type": "object", "properties": properties, "additionalProperties": False}
    return made | ({"required": required} if required else {})


def convert_array(schema: SchemaDict) -> SchemaDict | None:
    """An array of items of one kind."""
    items = convert_schema(schema.get("items"))
    fewest = schema.get("minItems")
    limits = {"minItems": fewest} if fewest in ALLOWED_MIN_ITEMS else {}
    return None if items is None or "prefixItems" in schema else {"type": "array", "items": items, **limits}


def is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
