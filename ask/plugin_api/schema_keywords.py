"""The keywords of schemas: older drafts' in those of draft 2020-12, and two schemas in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ask.parsing import as_dict, as_list

Schema = dict[str, Any]

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
UNIONS = ("anyOf", "oneOf")


def modernize(schema: Mapping[str, Any]) -> Schema:
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
    return _with_types(made)


def _with_types(schema: Schema) -> Schema:
    """Return a schema with `enum` for `const`, and with a type wherever one is known."""
    named = schema.pop("type", None)
    types = [str(name).lower() for name in (named if isinstance(named, list) else [named])]
    types = [name for name in dict.fromkeys(types) if name in TYPES]
    choices = [schema.pop("const")] if "const" in schema else as_list(schema.get("enum"))
    if choices and not types:
        types = sorted({KINDS.get(type(choice), "object") for choice in choices})
    if schema.get("nullable") is True:
        choices = [*choices, None] if choices and None not in choices else choices
        if types:
            types = list(dict.fromkeys([*types, "null"]))
        for union in UNIONS if not types else ():
            if union in schema:
                schema[union] = [*as_list(schema[union]), {"type": "null"}]
    if "array" in types and "items" not in schema:
        schema["items"] = True
    if choices:
        schema["enum"] = choices
    return ({"type": types[0] if len(types) == 1 else types} if types else {}) | schema


def combine(one: Schema, other: Schema) -> Schema:
    """Return a schema that says what two say; where they differ, the first counts."""
    made = other | one
    if "properties" in one and "properties" in other:
        both = {
            name: combine(one["properties"].get(name, {}), part) if name in one["properties"] else part
            for name, part in other["properties"].items()
        }
        made["properties"] = one["properties"] | both
    if "required" in one and "required" in other:
        made["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return made


def unite(forms: Sequence[Schema]) -> Schema:
    """Return one object's schema for several forms: all their properties, and what all of them require."""
    named = dict.fromkeys(name for form in forms for name in form.get("properties", {}))
    made: Schema = {
        "properties": {
            name: _either([form["properties"][name] for form in forms if name in form.get("properties", {})])
            for name in named
        }
    }
    common = set.intersection(*(set(form.get("required", [])) for form in forms))
    required = [name for name in forms[0].get("required", []) if name in common]
    return made | ({"required": required} if required else {})


def _either(parts: Sequence[Schema]) -> Schema:
    """Return a schema for what fits any of several."""
    different = [part for place, part in enumerate(parts) if part not in parts[:place]]
    bare = [{name: value for name, value in part.items() if name != "enum"} for part in different]
    if all("enum" in part for part in different) and all(part == bare[0] for part in bare):
        values = [value for part in different for value in part["enum"]]
        return bare[0] | {"enum": [value for place, value in enumerate(values) if value not in values[:place]]}
    return different[0] if len(different) == 1 else {"anyOf": different}


def describe_forms(union: str, forms: Sequence[Schema], whole: Schema) -> str:
    """Say which properties go together."""
    said = "; ".join(_describe_form(form, whole) for form in forms)
    return f"{'Exactly one' if union == 'oneOf' else 'At least one'} of these forms must fit: {said}"


def _describe_form(form: Schema, whole: Schema) -> str:
    properties, required = form.get("properties", {}), form.get("required", [])
    named = []
    for name in dict.fromkeys([*required, *properties]):
        choices = as_dict(properties.get(name)).get("enum")
        value = f": {json.dumps(choices[0], ensure_ascii=False)}" if choices and len(choices) == 1 else ""
        named.append(f"{name}{'' if name in required else '?'}{value}")
    more = ["..."] if any(name not in {*required, *properties} for name in whole.get("properties", {})) else []
    return "{" + ", ".join([*named, *more]) + "}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


PLAIN_KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    **dict.fromkeys(("enum", "examples"), _is_list),
    "type": lambda value: True,
    "default": lambda value: value is not None,
}
"""Keywords whose value is sent as it is, each with what tells that it is one."""
