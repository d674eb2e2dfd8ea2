"""The keywords of schemas: older drafts' in those of draft 2020-12, and two schemas in one."""

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
    """Return a schema in the keywords of draft 2020-12, without those of older drafts and of OpenAPI."""
    made = dict(schema)
    if isinstance(made.get("items"), list):
        made |= {"prefixItems": made["items"], "items": made.get("additionalItems", True)}
    if made.get("prefixItems") and made.get("items") is False:
        made |= {"items": True, "maxItems": len(as_list(made["prefixItems"]))}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if made.get(exclusive) is True and bound in made:
            made[exclusive] = made.pop(bound)
    for name, needed in as_dict(made.get("dependencies")).items():
        keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        made[keyword] = as_dict(made.get(keyword)) | {name: needed}
    return _add_types(made)


def _add_types(schema: SchemaDict) -> SchemaDict:
    """Return a schema with `enum` for `const`, and with a type wherever one is known."""
    named = schema.pop("type", None)
    types = [str(name).lower() for name in (named if isinstance(named, list) else [named])]
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
    """Return a schema that says what two say; where they differ, the first counts."""
    made = second | first
    if "properties" in first and "properties" in second:
        both = {
            name: merge_schemas(first["properties"].get(name, {}), part) if name in first["properties"] else part
            for name, part in second["properties"].items()
        }
        made["properties"] = first["properties"] | both
    if "required" in first and "required" in second:
        made["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return made


def merge_variants(variants: Sequence[SchemaDict]) -> SchemaDict:
    """Return one object's schema for several forms: all their properties, and what all of them require."""
    named = dict.fromkeys(name for form in variants for name in form.get("properties", {}))
    made: SchemaDict = {
        "properties": {
            name: _make_any_of([form["properties"][name] for form in variants if name in form.get("properties", {})])
            for name in named
        }
    }
    common = set.intersection(*(set(form.get("required", [])) for form in variants))
    required = [name for name in variants[0].get("required", []) if name in common]
    return made | ({"required": required} if required else {})


def _make_any_of(schemas: Sequence[SchemaDict]) -> SchemaDict:
    """Return a schema for what fits any of several."""
    different = [part for place, part in enumerate(schemas) if part not in schemas[:place]]
    bare = [{name: value for name, value in part.items() if name != "enum"} for part in different]
    if all("enum" in part for part in different) and all(part == bare[0] for part in bare):
        values = [value for part in different for value in part["enum"]]
        return bare[0] | {"enum": [value for place, value in enumerate(values) if value not in values[:place]]}
    return different[0] if len(different) == 1 else {"anyOf": different}


def describe_variants(keyword: str, variants: Sequence[SchemaDict], merged: SchemaDict) -> str:
    """Say which properties go together."""
    said = "; ".join(_describe_variant(form, merged) for form in variants)
    return f"{'Exactly one' if keyword == 'oneOf' else 'At least one'} of these forms must fit: {said}"


def _describe_variant(variant: SchemaDict, merged: SchemaDict) -> str:
    properties, required = variant.get("properties", {}), variant.get("required", [])
    named = []
    for name in dict.fromkeys([*required, *properties]):
        choices = as_dict(properties.get(name)).get("enum")
        value = f": {json.dumps(choices[0], ensure_ascii=False)}" if choices and len(choices) == 1 else ""
        named.append(f"{name}{'' if name in required else '?'}{value}")
    more = ["..."] if any(name not in {*required, *properties} for name in merged.get("properties", {})) else []
    return "{" + ", ".join([*named, *more]) + "}"


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
"""Keywords whose value is sent as it is, each with what tells that it is one."""
