"""JSON Schema keywords: conversion of older drafts to draft 2020-12, and merging of schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ask.parsing import as_dict, as_list

SchemaDict = dict[str, Any]

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
UNION_KEYWORDS = ("anyOf", "oneOf")


def modernize_schema(schema: Mapping[str, Any]) -> SchemaDict:
    """Convert the top-level keywords of older drafts and of OpenAPI to draft 2020-12."""
    result = dict(schema)
    if isinstance(result.get("items"), list):
        result |= {"prefixItems": result["items"], "items": result.get("additionalItems", True)}
    if result.get("prefixItems") and result.get("items") is False:
        result |= {"items": True, "maxItems": len(as_list(result["prefixItems"]))}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if result.get(exclusive) is True and bound in result:
            result[exclusive] = result.pop(bound)
    for name, dependency in as_dict(result.get("dependencies")).items():
        keyword = "dependentRequired" if isinstance(dependency, list) else "dependentSchemas"
        result[keyword] = as_dict(result.get(keyword)) | {name: dependency}
    return _add_types(result)


def _add_types(schema: SchemaDict) -> SchemaDict:
    """Convert `const` to `enum` and `nullable` to a type, and infer a missing type."""
    declared = schema.pop("type", None)
    types = [str(name).lower() for name in (declared if isinstance(declared, list) else [declared])]
    types = [name for name in dict.fromkeys(types) if name in TYPES]
    choices = [schema.pop("const")] if "const" in schema else as_list(schema.get("enum"))
    if choices and not types:
        types = sorted({TYPE_NAMES.get(type(choice), "object") for choice in choices})
    if schema.get("nullable") is True:
        choices = [*choices, None] if choices and None not in choices else choices
        if types:
            types = list(dict.fromkeys([*types, "null"]))
        for union in UNION_KEYWORDS if not types else ():
            if union in schema:
                schema[union] = [*as_list(schema[union]), {"type": "null"}]
    if "array" in types and "items" not in schema:
        schema["items"] = True
    if choices:
        schema["enum"] = choices
    return ({"type": types[0] if len(types) == 1 else types} if types else {}) | schema


def merge_schemas(first: SchemaDict, second: SchemaDict) -> SchemaDict:
    """Merge two schemas, recursively for properties; in a conflict the first wins."""
    result = second | first
    if "properties" in first and "properties" in second:
        merged = {
            name: merge_schemas(first["properties"].get(name, {}), schema) if name in first["properties"] else schema
            for name, schema in second["properties"].items()
        }
        result["properties"] = first["properties"] | merged
    if "required" in first and "required" in second:
        result["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return result


def merge_variants(variants: Sequence[SchemaDict]) -> SchemaDict:
    """Merge the variants of a union into one object schema.

    It has the properties of every variant, and requires those that every variant requires.
    """
    names = dict.fromkeys(name for variant in variants for name in variant.get("properties", {}))
    result: SchemaDict = {
        "properties": {
            name: _make_any_of(
                [variant["properties"][name] for variant in variants if name in variant.get("properties", {})]
            )
            for name in names
        }
    }
    required_by_all = set.intersection(*(set(variant.get("required", [])) for variant in variants))
    required = [name for name in variants[0].get("required", []) if name in required_by_all]
    return result | ({"required": required} if required else {})


def _make_any_of(schemas: Sequence[SchemaDict]) -> SchemaDict:
    """Return a schema for the union of several; equal schemas and enums are combined."""
    unique = [schema for i, schema in enumerate(schemas) if schema not in schemas[:i]]
    without_enum = [{name: value for name, value in schema.items() if name != "enum"} for schema in unique]
    if all("enum" in schema for schema in unique) and all(schema == without_enum[0] for schema in without_enum):
        values = [value for schema in unique for value in schema["enum"]]
        return without_enum[0] | {"enum": [value for i, value in enumerate(values) if value not in values[:i]]}
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def describe_variants(keyword: str, variants: Sequence[SchemaDict], merged: SchemaDict) -> str:
    """Describe for the model which properties of a merged schema belong together."""
    descriptions = "; ".join(_describe_variant(variant, merged) for variant in variants)
    return f"{'Exactly one' if keyword == 'oneOf' else 'At least one'} of these forms must fit: {descriptions}"


def _describe_variant(variant: SchemaDict, merged: SchemaDict) -> str:
    properties, required = variant.get("properties", {}), variant.get("required", [])
    parts = []
    for name in dict.fromkeys([*required, *properties]):
        choices = as_dict(properties.get(name)).get("enum")
        value = f": {json.dumps(choices[0], ensure_ascii=False)}" if choices and len(choices) == 1 else ""
        parts.append(f"{name}{'' if name in required else '?'}{value}")
    ellipsis = ["..."] if any(name not in {*required, *properties} for name in merged.get("properties", {})) else []
    return "{" + ", ".join([*parts, *ellipsis]) + "}"


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_non_negative_integer(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_non_empty_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


PLAIN_KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), _is_string),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_non_negative_integer
    ),
    **dict.fromkeys(("minContains", "maxContains"), _is_non_negative_integer),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_boolean),
    **dict.fromkeys(("enum", "examples"), _is_non_empty_list),
    "type": lambda value: True,
    "default": lambda value: value is not None,
}
"""Keywords whose value is sent unchanged, each with a check that the value is valid."""
