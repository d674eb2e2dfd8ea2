"""From JSON Schema to the part of OpenAPI's schemas that Gemini takes for a function's parameters.

It refuses a request over any keyword beyond them, so whatever has no place in them is left out: what a schema says
less here, the host still checks in the arguments. https://ai.google.dev/api/caching#Schema
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask import as_dict, as_list, as_text

KEPT = {
    "description": str,
    "pattern": str,
    "minimum": int | float,
    "maximum": int | float,
    "minItems": int,
    "maxItems": int,
    "minLength": int,
    "maxLength": int,
    "minProperties": int,
    "maxProperties": int,
}
"""Keywords that mean the same in both, with the type of their value."""
FORMATS = {"string": ("date-time",), "integer": ("int32", "int64"), "number": ("float", "double")}
DEEPEST = 5
"""How many references are followed into one another: definitions that all name each other multiply with each."""
TYPES = ("string", "number", "integer", "boolean", "array", "object")
Schema = dict[str, Any]


def gemini_schema(schema: Mapping[str, Any]) -> Schema:
    """The schema in Gemini's terms: references written out, alternatives as `anyOf`, null as `nullable`."""
    return convert(dict(schema), dict(schema), ())


def convert(schema: Schema, root: Schema, trail: tuple[str, ...]) -> Schema:
    """One schema inside `root`; `trail` holds the references that led to it, so that none is followed in circles."""
    schema, trail = resolved(schema, root, trail)
    types = [name for name in names_of_types(schema) if name != "null"]
    nullable = schema.get("nullable") is True or len(types) < len(names_of_types(schema))
    choices = [as_dict(choice) for choice in as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))]
    if schema.get("properties"):  # then the alternatives only say which of these go together
        choices = []
    elif not choices and len(types) > 1:
        choices = [{**schema, "type": name} for name in types]
    real = [choice for choice in choices if choice.get("type") != "null"]
    nullable = nullable or len(real) < len(choices)
    if real:
        converted = alternatives([convert(choice, root, trail) for choice in real], as_text(schema.get("description")))
    else:
        converted = plain(schema, types[0] if types else guess_type(schema), root, trail)
    return converted | {"nullable": True} if nullable else converted


def resolved(schema: Schema, root: Schema, trail: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
    """The schema with its `$ref` and its `allOf` written into it. One that leads back to itself says nothing."""
    reference = as_text(schema.get("$ref"))
    if reference:
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        if reference in trail or len(trail) == DEEPEST:
            return {"type": "object"} | beside, trail
        return resolved(find(reference, root) | beside, root, (*trail, reference))
    merged = {name: value for name, value in schema.items() if name != "allOf"}
    for part in as_list(schema.get("allOf")):
        inner, trail = resolved(as_dict(part), root, trail)
        properties = as_dict(inner.get("properties")) | as_dict(merged.get("properties"))
        required = [*as_list(merged.get("required")), *as_list(inner.get("required"))]
        merged = inner | merged | ({"properties": properties, "required": required} if properties else {})
    return merged, trail


def find(reference: str, root: Schema) -> Schema:
    """What a reference within the schema, such as "#/$defs/Place", stands for; {} where there is no such place."""
    place: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        place = as_dict(place).get(step.replace("~1", "/").replace("~0", "~")) if step else place
    return as_dict(place)


def names_of_types(schema: Schema) -> list[str]:
    """The types that a schema allows, in lower case; [] where it does not say."""
    told = schema.get("type")
    names = [as_text(name).lower() for name in (told if isinstance(told, list) else [told])]
    return [name for name in names if name in (*TYPES, "null")]


def guess_type(schema: Schema) -> str:
    """The type of a schema that names none, as Gemini wants one for each."""
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def alternatives(choices: list[Schema], description: str) -> Schema:
    """Any of these schemas. Beside `anyOf` Gemini takes nothing else, so the description goes into each."""
    described = [{"description": description} | choice if description else choice for choice in choices]
    return described[0] if len(described) == 1 else {"anyOf": described}


def plain(schema: Schema, kind: str, root: Schema, trail: tuple[str, ...]) -> Schema:
    """A schema of one type."""
    converted: Schema = {"type": kind}
    for name, value_type in KEPT.items():
        if isinstance(schema.get(name), value_type):
            converted[name] = schema[name]
    if schema.get("format") in FORMATS.get(kind, ()):
        converted["format"] = schema["format"]
    enum = as_list(schema.get("enum")) or [schema.get("const")]
    words = [value for value in enum if value is not None]
    if kind == "string" and words and all(isinstance(word, str) and word for word in words):
        converted["enum"] = words
    properties = as_dict(schema.get("properties"))
    if kind == "object" and properties:
        converted["properties"] = {name: convert(as_dict(part), root, trail) for name, part in properties.items()}
        required = [name for name in properties if name in as_list(schema.get("required"))]
        if required:
            converted["required"] = required
    if kind == "array":
        items = schema.get("items")
        first = next(iter(as_list(items) or as_list(schema.get("prefixItems"))), items)
        converted["items"] = convert(as_dict(first), root, trail)
    return converted
