"""Rewrites tool schemas into a form that every provider accepts.

What is lost here is not lost to the tool: ask validates the arguments of calls against the original schema.
"""

from __future__ import annotations

import json
import re
from binascii import crc32
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from ask.messages import ToolSpec
from ask.parsing import as_dict, as_list

SchemaDict = dict[str, Any]

VALID_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names that Anthropic, the strictest service, accepts for properties.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use
"""
MAX_REFERENCE_DEPTH = 5
"""The limit for nested references when they are inlined."""
MAX_SCHEMAS = 2_000
"""The limit for subschemas, after which references are no longer inlined."""
MAX_NOTE_LENGTH = 2_000
"""The limit for each note about unions in a tool's description, in characters."""
UNION_KEYWORDS = ("anyOf", "oneOf")
SCHEMA_KEYWORDS = frozenset(
    {"additionalProperties", "unevaluatedProperties", "items", "contains", "not", "if", "then", "else", "propertyNames"}
)
"""Keywords whose value is a schema."""
PLAIN_KEYWORDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), str),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), int),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), bool),
    **dict.fromkeys(("enum", "examples"), list),
    **dict.fromkeys(("type", "default"), object),
}
"""Keywords that are sent unchanged if their value has this type."""
TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}


class UnusableToolError(Exception):
    """No provider accepts a tool's parameters; the message is the reason."""


def restore_property_names(schema: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Restore the property names that `normalize_tool` replaced, in a call's arguments."""
    originals = {replacement: original for original, replacement in build_name_replacements(schema).items()}

    def restore_names(value: Any) -> Any:
        if isinstance(value, dict):
            return {originals.get(name, name): restore_names(item) for name, item in value.items()}
        return [restore_names(item) for item in value] if isinstance(value, list) else value

    return restore_names(arguments) if originals else arguments


def build_name_replacements(schema: Any) -> dict[str, str]:
    """Map each property name that some provider rejects to a replacement."""
    replacements: dict[str, str] = {}
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            for name in as_dict(value.get("properties")):
                if not VALID_NAME_PATTERN.fullmatch(name):
                    checksum = crc32(name.encode("utf-8", "backslashreplace"))
                    replacements[name] = f"{re.sub('[^a-zA-Z0-9_.-]', '_', name)[:55]}_{checksum:08x}"
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return replacements


def normalize_tool(tool: ToolSpec, *, inline_references: bool = False) -> ToolSpec:
    """Rewrite a tool's parameters into a form that providers accept.

    A union at the root becomes one object, and its variants are described in the tool's description. Property names
    that providers reject are replaced; ask restores them in the arguments of calls.

    Args:
        tool: a tool with any JSON Schema as its parameters.
        inline_references: whether to replace each `$ref` with the schema it refers to, for services that do not
            support references. Otherwise references point to `$defs`.

    Raises:
        UnusableToolError: the parameters cannot be an object, or the schema is nested too deeply.
    """
    try:
        schema, notes = _Normalizer(tool.parameters, inline_references).normalize_root()
    except RecursionError:
        raise UnusableToolError("its schema is nested too deeply") from None
    return ToolSpec(tool.name, "\n".join(filter(None, (tool.description, *notes))), schema)


class _Normalizer:
    """Rewrites one tool's schema."""

    def __init__(self, parameters: Any, inline_references: bool) -> None:
        self._parameters = parameters
        self._inline_references = inline_references
        self._replaced_names = build_name_replacements(parameters)
        self._definitions: dict[str, SchemaDict] = {}
        self._definition_names: dict[int, str] = {}
        self._active_targets: list[int] = []
        self._schema_count = 0

    def normalize_root(self) -> tuple[SchemaDict, list[str]]:
        """Return the rewritten schema of the arguments, which is always an object, and notes on what it lacks."""
        rewritten = self._rewrite_schema(self._parameters)
        if not self._can_be_object(rewritten):
            raise UnusableToolError("its parameters are not those of an object")
        flat, notes = self._flatten_unions(rewritten)
        schema: SchemaDict = {"type": "object", "properties": {}} | flat | {"type": "object"}
        undefined = [name for name in schema.get("required", ()) if name not in schema["properties"]]
        schema["properties"] = schema["properties"] | {name: {} for name in undefined}
        has_references = '"$ref": ' in json.dumps(schema)
        return schema | ({"$defs": self._definitions} if has_references else {}), notes

    def _rewrite_schema(self, schema: Any) -> SchemaDict:
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        self._schema_count += 1
        result: SchemaDict = {}
        for name, value in modernize_schema(schema).items():
            rewritten = self._rewrite_keyword(name, value)
            if rewritten is not None:
                result[name] = rewritten
        if self._inline_references:
            for part in result.pop("allOf", ()):
                result = merge_schemas(result, part)
            if "oneOf" in result:
                result.setdefault("anyOf", result.pop("oneOf"))
        if isinstance(schema.get("$ref"), str):
            target = self._rewrite_reference(schema["$ref"])
            result = merge_schemas(result, target) if self._inline_references else target | result
        return move_type_into_variants(result)

    def _rewrite_keyword(self, name: str, value: Any) -> Any:
        """Rewrite the value of a keyword; None drops a keyword that is unknown or invalid."""
        if name in SCHEMA_KEYWORDS:
            return value if name.endswith("Properties") and isinstance(value, bool) else self._rewrite_schema(value)
        if name in ("allOf", "prefixItems", *UNION_KEYWORDS):
            return [self._rewrite_schema(part) for part in as_list(value) if part is not False] or None
        if name in ("properties", "patternProperties"):
            return self._rewrite_properties(as_dict(value))
        if name == "required":
            names = [self._replaced_names.get(name, name) for name in as_list(value) if isinstance(name, str)]
            return list(dict.fromkeys(names)) or None
        expected_type = PLAIN_KEYWORDS.get(name, ())
        is_valid = isinstance(value, expected_type) and (not isinstance(value, bool) or expected_type in (bool, object))
        return value if is_valid and value != [] else None

    def _rewrite_properties(self, schemas: Mapping[str, Any]) -> dict[str, SchemaDict]:
        """Rewrite the schemas of properties; a replaced name is kept as the title."""
        rewritten = {}
        for name, schema in schemas.items():
            if schema is not False:
                title = {"title": name} if name in self._replaced_names else {}
                rewritten[self._replaced_names.get(name, name)] = title | self._rewrite_schema(schema)
        return rewritten

    def _rewrite_reference(self, reference: str) -> SchemaDict:
        """Return the target of a reference, or a reference to it in `$defs`; {} if it does not exist."""
        target = resolve_pointer(self._parameters, reference)
        key = id(target)
        if not isinstance(target, Mapping):
            return {}
        if not self._inline_references:
            if key not in self._definition_names:
                base = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2])[:50]
                name = base if base not in self._definitions else f"{base}_{len(self._definitions)}"
                self._definition_names[key] = name
                self._definitions[name] = {}
                self._definitions[name].update(self._rewrite_schema(target))
            return {"$ref": f"#/$defs/{self._definition_names[key]}"}
        depth = len(self._active_targets)
        if key in self._active_targets or depth >= MAX_REFERENCE_DEPTH or self._schema_count > MAX_SCHEMAS:
            return self._rewrite_schema({name: target[name] for name in ("type", "description") if name in target})
        self._active_targets.append(key)
        try:
            return self._rewrite_schema(target)
        finally:
            self._active_targets.pop()

    def _flatten_unions(self, schema: SchemaDict) -> tuple[SchemaDict, list[str]]:
        """Merge the references and unions of an object schema into its properties.

        The notes describe the variants of the unions.
        """
        merged_keywords = {"$ref", "allOf", "not", "enum", *UNION_KEYWORDS}
        result = {name: value for name, value in schema.items() if name not in merged_keywords}
        notes: list[str] = []
        targets = [self._get_target(schema)] if "$ref" in schema else []
        for part in [*targets, *schema.get("allOf", ())]:
            flat, part_notes = self._flatten_unions(part)
            flat.pop("additionalProperties", None)  # it closes this part, not the merged object
            result = merge_schemas(result, flat)
            notes += part_notes
        for union in UNION_KEYWORDS:
            object_variants = [variant for variant in schema.get(union, ()) if self._can_be_object(variant)]
            variants = [self._flatten_unions(variant)[0] for variant in object_variants]
            if variants:
                result = merge_schemas(result, merge_variants(variants))
                notes.append(describe_variants(union, variants, result)[:MAX_NOTE_LENGTH])
        return result, notes

    def _get_target(self, schema: SchemaDict) -> SchemaDict:
        return self._definitions[schema["$ref"].removeprefix("#/$defs/")]

    def _can_be_object(self, schema: SchemaDict) -> bool:
        if "$ref" in schema and "type" not in schema:
            return self._can_be_object(self._get_target(schema))
        types = schema.get("type", "object")
        return schema.get("not") != {} and "object" in ([types] if isinstance(types, str) else types)


def resolve_pointer(root: Any, reference: str) -> Any:
    """Return the value that a reference such as "#/$defs/a" points to; None if there is none.

    References to anchors and to other documents are not supported: tools do not have them.
    """
    value = root if reference == "#" or reference.startswith("#/") else None
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isdecimal():
            value = dict(enumerate(value)).get(int(key))
        else:
            value = as_dict(value).get(key)
    return value


def modernize_schema(schema: Mapping[str, Any]) -> SchemaDict:
    """Convert the top-level keywords of older drafts and of OpenAPI to draft 2020-12.

    `const` becomes `enum` and `nullable` a type; a missing type is inferred.
    """
    result = dict(schema)
    if isinstance(result.get("items"), list):
        result |= {"prefixItems": result["items"], "items": result.get("additionalItems") or True}
    declared = result.pop("type", None)
    types = [str(name).lower() for name in (declared if isinstance(declared, list) else [declared])]
    types = [name for name in dict.fromkeys(types) if name in TYPES]
    choices = [result.pop("const")] if "const" in result else as_list(result.get("enum"))
    if choices and not types:
        types = sorted({TYPE_NAMES.get(type(choice), "object") for choice in choices})
    if result.get("nullable") is True and types:
        types = list(dict.fromkeys([*types, "null"]))
        choices = [*choices, None] if choices and None not in choices else choices
    if "array" in types:
        result.setdefault("items", True)
    if choices:
        result["enum"] = choices
    return ({"type": types[0] if len(types) == 1 else types} if types else {}) | result


def move_type_into_variants(schema: SchemaDict) -> SchemaDict:
    """Move the type next to a union into its variants, where Moonshot requires it."""
    union = next((name for name in UNION_KEYWORDS if name in schema), None)
    if not union or "type" not in schema or schema.get("properties"):
        return schema
    typed = {"type": schema["type"]}
    variants = [variant if {"type", "$ref"} & variant.keys() else typed | variant for variant in schema[union]]
    schema = schema | {union: variants}
    if all("type" in variant for variant in variants):
        del schema["type"]
    return schema


def merge_schemas(first: SchemaDict, second: SchemaDict) -> SchemaDict:
    """Merge two schemas, recursively for properties; in a conflict the first wins."""
    result = second | first
    if "properties" in first and "properties" in second:
        result["properties"] = first["properties"] | {
            name: merge_schemas(first["properties"].get(name, {}), schema)
            for name, schema in second["properties"].items()
        }
    if "required" in first and "required" in second:
        result["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return result


def merge_variants(variants: Sequence[SchemaDict]) -> SchemaDict:
    """Merge the variants of a union into one object schema.

    It has the properties of every variant, and requires those that every variant requires.
    """
    schemas: dict[str, list[SchemaDict]] = {}
    for variant in variants:
        for name, schema in variant.get("properties", {}).items():
            schemas.setdefault(name, []).append(schema)
    required = [
        name
        for name in variants[0].get("required", ())
        if all(name in variant.get("required", ()) for variant in variants)
    ]
    properties = {name: _make_any_of(alternatives) for name, alternatives in schemas.items()}
    return {"properties": properties} | ({"required": required} if required else {})


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
    names = dict.fromkeys([*required, *properties])
    parts = []
    for name in names:
        choices = properties.get(name, {}).get("enum", ())
        value = f": {json.dumps(choices[0], ensure_ascii=False)}" if len(choices) == 1 else ""
        parts.append(f"{name}{'' if name in required else '?'}{value}")
    has_others = any(name not in names for name in merged.get("properties", {}))
    return "{" + ", ".join([*parts, *(["..."] if has_others else [])]) + "}"
