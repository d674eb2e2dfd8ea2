"""Rewrites tool schemas into a form that every provider accepts: draft 2020-12, with an object at the root."""

from __future__ import annotations

import json
import re
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ask.messages import ToolSpec
from ask.parsing import read_dict, read_list
from ask.records import NamedTuple

SchemaDict = dict[str, Any]

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
UNION_KEYWORDS = ("anyOf", "oneOf")


def _modernize_schema(schema: Mapping[str, Any]) -> SchemaDict:
    """Convert the top-level keywords of older drafts and of OpenAPI to draft 2020-12."""
    result = dict(schema)
    if isinstance(result.get("items"), list):
        result |= {"prefixItems": result["items"], "items": result.get("additionalItems", True)}
    if result.get("prefixItems") and result.get("items") is False:
        result |= {"items": True, "maxItems": len(read_list(result["prefixItems"]))}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if result.get(exclusive) is True and bound in result:
            result[exclusive] = result.pop(bound)
    for name, dependency in read_dict(result.get("dependencies")).items():
        keyword = "dependentRequired" if isinstance(dependency, list) else "dependentSchemas"
        result[keyword] = read_dict(result.get(keyword)) | {name: dependency}
    return _add_types(result)


def _add_types(schema: SchemaDict) -> SchemaDict:
    """Convert `const` to `enum` and `nullable` to a type, and infer a missing type."""
    declared = schema.pop("type", None)
    types = [str(name).lower() for name in (declared if isinstance(declared, list) else [declared])]
    types = [name for name in dict.fromkeys(types) if name in TYPES]
    choices = [schema.pop("const")] if "const" in schema else read_list(schema.get("enum"))
    if choices and not types:
        types = sorted({TYPE_NAMES.get(type(choice), "object") for choice in choices})
    if schema.get("nullable") is True:
        choices = [*choices, None] if choices and None not in choices else choices
        if types:
            types = list(dict.fromkeys([*types, "null"]))
        for union in UNION_KEYWORDS if not types else ():
            if union in schema:
                schema[union] = [*read_list(schema[union]), {"type": "null"}]
    if "array" in types and "items" not in schema:
        schema["items"] = True
    # Services reject all tools if one has an enum of another type: https://github.com/can1357/oh-my-pi/issues/2652
    choices = [choice for choice in choices if not types or _has_type(choice, types)]
    schema.pop("enum", None)
    if choices:
        schema["enum"] = choices
    return ({"type": types[0] if len(types) == 1 else types} if types else {}) | schema


def _has_type(choice: Any, types: Sequence[str]) -> bool:
    """Check whether an enum's value has one of the types; 1.0 is also an integer."""
    name = TYPE_NAMES.get(type(choice), "object")
    is_number = name in ("integer", "number") and "number" in types
    return name in types or is_number or (name == "number" and "integer" in types and choice.is_integer())


def _merge_schemas(first: SchemaDict, second: SchemaDict) -> SchemaDict:
    """Merge two schemas, recursively for properties; in a conflict the first wins."""
    result = second | first
    if "properties" in first and "properties" in second:
        own = first["properties"]
        merged = {name: _merge_schemas(own.get(name, {}), schema) for name, schema in second["properties"].items()}
        result["properties"] = own | merged
    if "required" in first and "required" in second:
        result["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return result


def _merge_variants(variants: Sequence[SchemaDict]) -> SchemaDict:
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
    first, *others = (variant.get("required", []) for variant in variants)
    required = [name for name in first if all(name in other for other in others)]
    return result | ({"required": required} if required else {})


def _make_any_of(schemas: Sequence[SchemaDict]) -> SchemaDict:
    """Return a schema for the union of several; equal schemas and enums are combined."""
    unique = [schema for i, schema in enumerate(schemas) if schema not in schemas[:i]]
    without_enum = [{name: value for name, value in schema.items() if name != "enum"} for schema in unique]
    if all("enum" in schema for schema in unique) and all(schema == without_enum[0] for schema in without_enum):
        values = [value for schema in unique for value in schema["enum"]]
        return without_enum[0] | {"enum": [value for i, value in enumerate(values) if value not in values[:i]]}
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def _describe_variants(keyword: str, variants: Sequence[SchemaDict], merged: SchemaDict) -> str:
    """Describe for the model which properties of a merged schema belong together."""
    descriptions = "; ".join(_describe_variant(variant, merged) for variant in variants)
    return f"{'Exactly one' if keyword == 'oneOf' else 'At least one'} of these forms must fit: {descriptions}"


def _describe_variant(variant: SchemaDict, merged: SchemaDict) -> str:
    properties, required = variant.get("properties", {}), variant.get("required", [])
    parts = []
    for name in dict.fromkeys([*required, *properties]):
        choices = read_dict(properties.get(name)).get("enum")
        value = f": {json.dumps(choices[0], ensure_ascii=False)}" if choices and len(choices) == 1 else ""
        parts.append(f"{name}{'' if name in required else '?'}{value}")
    ellipsis = ["..."] if any(name not in {*required, *properties} for name in merged.get("properties", {})) else []
    return "{" + ", ".join([*parts, *ellipsis]) + "}"


KEYWORD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), str),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), int),
    **dict.fromkeys(("minContains", "maxContains"), int),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), bool),
    **dict.fromkeys(("enum", "examples"), list),
    "type": (str, list),
    "default": (str, int, float, list, dict),
}
"""Keywords whose value is sent unchanged if it has one of these types."""


def _is_valid(keyword: str, value: Any) -> bool:
    types = KEYWORD_TYPES[keyword]
    if types is int:
        return type(value) is int and value >= 0
    if types == (int, float):
        return type(value) in (int, float) and (value > 0 or keyword != "multipleOf")
    return isinstance(value, types) and (value != [] or keyword == "default")


VALID_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names that Anthropic, the strictest service, accepts for properties.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use
"""


def restore_property_names(schema: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Restore the property names that `normalize_tool` replaced, in a call's arguments."""
    originals = {replacement: original for original, replacement in _build_name_replacements(schema).items()}

    def restore_names(value: Any) -> Any:
        if isinstance(value, dict):
            return {originals.get(name, name): restore_names(item) for name, item in value.items()}
        return [restore_names(item) for item in value] if isinstance(value, list) else value

    return restore_names(arguments) if originals else arguments


def _build_name_replacements(schema: Any) -> dict[str, str]:
    """Map each property name that some provider rejects to a replacement."""
    replacements: dict[str, str] = {}
    for part in _iter_objects([schema]):
        for name in (*read_dict(part.get("properties")), *read_list(part.get("required"))):
            if isinstance(name, str) and not VALID_NAME_PATTERN.fullmatch(name):
                # 64 characters at most: the checksum and the underscore before it take nine.
                checksum = crc32(name.encode("utf-8", "backslashreplace"))
                replacements[name] = f"{re.sub('[^a-zA-Z0-9_.-]', '_', name)[:55]}_{checksum:08x}"
    return replacements


def _iter_objects(pending: list[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects inside JSON values, to which the caller may append others meanwhile."""
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value


OLD_DRAFT_PATTERN = r"draft-0[3467]\b"
"""Drafts in which keywords next to a `$ref` are ignored."""
MAX_REFERENCE_DEPTH = 5
"""The limit for nested references when they are inlined."""
MAX_SCHEMAS = 2_000
"""The limit for subschemas after inlining; a schema that exceeds it is inlined less deeply."""
MAX_MERGED_SCHEMAS = 2_000
"""The limit for objects and variants that are merged into the root; references can multiply them without end."""
MAX_DEPTH = 100
"""The limit for nested values in a schema."""
MAX_NOTE_CHARACTERS = 2_000
"""The limit for each note about unions in a tool's description."""
ANNOTATION_KEYWORDS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
CLOSING_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties"})
APPLICATORS = CLOSING_KEYWORDS | {"items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems"}
"""Keywords whose value is a schema."""


class UnusableToolError(Exception):
    """No provider accepts a tool's parameters; the message is the reason."""


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
    if _is_too_deep(tool.parameters):
        raise UnusableToolError("its schema is nested too deeply")
    # If inlining makes the schema too large, less is inlined.
    for max_depth in range(MAX_REFERENCE_DEPTH, -1, -1) if inline_references else (None,):
        try:
            schema, notes = _Normalizer(tool.parameters, max_depth).normalize_root()
        except (_TooManySchemasError, RecursionError):
            continue
        return ToolSpec(tool.name, "\n".join(filter(None, (tool.description, *notes))), schema)
    raise UnusableToolError("its schema is nested too deeply")


def _is_too_deep(value: Any) -> bool:
    """Check whether a JSON value is nested more deeply than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        parts = [part for part in level if isinstance(part, (Mapping, list))]
        if not parts:
            return False
        level = [item for part in parts for item in (part.values() if isinstance(part, Mapping) else part)]
    return True


class _TooManySchemasError(Exception):
    pass


class _Scope(NamedTuple):
    """The context of a schema: the resolver for its references, and the ids of the references being inlined."""

    resolver: Any = None
    reference_ids: tuple[int, ...] = ()


class _Normalizer:
    """Rewrites one tool's schema.

    References are inlined up to `max_depth` levels deep; None moves them to `$defs`.
    """

    def __init__(self, parameters: Any, max_depth: int | None) -> None:
        self._parameters = parameters
        self._max_depth = max_depth
        self._replaced_names = _build_name_replacements(parameters)
        self._definitions: dict[str, SchemaDict] = {}
        self._definition_names: dict[int, str] = {}
        self._schema_count = self._flattened_count = 0
        declared = parameters.get("$schema") if isinstance(parameters, Mapping) else None
        self._draft = declared if isinstance(declared, str) else ""

    def normalize_root(self) -> tuple[SchemaDict, list[str]]:
        """Return the rewritten schema of the arguments, which is always an object, and notes for the description."""
        rewritten = self._rewrite_schema(self._parameters, _Scope())
        if "object" not in self._find_types(rewritten):
            raise UnusableToolError("its parameters must be an object schema")
        flat, notes = self._flatten_unions(rewritten)
        # The type comes first, and replaces one that also allows other values.
        schema = {"type": "object", "properties": {}} | flat | {"type": "object"}
        used = self._collect_used_definitions(schema)
        return schema | ({"$defs": used} if used else {}), [note[:MAX_NOTE_CHARACTERS] for note in notes]

    def _collect_used_definitions(self, schema: Any) -> dict[str, SchemaDict]:
        used: dict[str, SchemaDict] = {}
        pending = [schema]
        for part in _iter_objects(pending):
            name = part.get("$ref")
            if isinstance(name, str) and (name := name.removeprefix("#/$defs/")) not in used:
                used[name] = self._definitions.get(name, {})
                pending.append(used[name])
        return used

    def _rewrite_schema(self, schema: Any, scope: _Scope) -> SchemaDict:
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        self._schema_count += 1
        if self._max_depth and self._schema_count > MAX_SCHEMAS:
            raise _TooManySchemasError
        if isinstance(schema.get("$id"), str) and scope.resolver is not None:
            scope = scope._replace(resolver=scope.resolver.in_subresource(_create_resource(schema)))
        if isinstance(schema.get("$ref"), str):
            return self._rewrite_reference(schema, scope)
        result: SchemaDict = {}
        for name, value in _modernize_schema(schema).items():
            rewritten = self._rewrite_keyword(name, value, scope)
            if rewritten is not None:
                result[name] = rewritten
        properties = result.get("properties")
        if properties:  # Gemini and Moonshot refuse a required name without a property
            missing: SchemaDict = {name: {} for name in result.get("required", []) if name not in properties}
            result["properties"] = properties | missing
        return self._simplify_unions(result, is_root=schema is self._parameters)

    def _rewrite_keyword(self, name: str, value: Any, scope: _Scope) -> Any:
        """Rewrite the value of a keyword; None drops a keyword that is unknown or invalid."""
        if name in APPLICATORS:
            return value if isinstance(value, bool) and name in CLOSING_KEYWORDS else self._rewrite_schema(value, scope)
        if name in ("allOf", "prefixItems", *UNION_KEYWORDS):
            parts = [part for part in read_list(value) if part is not False or name not in UNION_KEYWORDS]
            return [self._rewrite_schema(part, scope) for part in parts] or None
        if name in ("properties", "patternProperties", "dependentSchemas"):
            return self._rewrite_properties(value, scope)
        if name == "dependentRequired":
            return {self._rewrite_name(key): self._rewrite_names(names) for key, names in read_dict(value).items()}
        if name == "required":
            return self._rewrite_names(value) or None
        return value if name in KEYWORD_TYPES and _is_valid(name, value) else None

    def _rewrite_properties(self, schemas: Any, scope: _Scope) -> dict[str, SchemaDict]:
        """Rewrite the schemas of properties; a replaced name is kept as the title."""
        rewritten = {}
        for name, schema in read_dict(schemas).items():
            if schema is not False:
                title = {"title": name} if name in self._replaced_names else {}
                rewritten[self._rewrite_name(name)] = title | self._rewrite_schema(schema, scope)
        return rewritten

    def _rewrite_names(self, names: Any) -> list[str]:
        return list(dict.fromkeys(self._rewrite_name(name) for name in read_list(names) if isinstance(name, str)))

    def _rewrite_name(self, name: str) -> str:
        return self._replaced_names.get(name, name)

    # References

    def _rewrite_reference(self, schema: Mapping[str, Any], scope: _Scope) -> SchemaDict:
        siblings = {name: value for name, value in schema.items() if name != "$ref"}
        if re.search(OLD_DRAFT_PATTERN, self._draft):
            siblings = {name: value for name, value in siblings.items() if name in {*ANNOTATION_KEYWORDS, "nullable"}}
        resolved = self._resolve_reference(schema["$ref"], scope)
        is_nullable = siblings.pop("nullable", None) is True
        rest = self._rewrite_schema(siblings, scope) if siblings else {}
        if resolved is None:
            return rest
        target, resolver = resolved
        if self._max_depth is None:
            result = {"$ref": f"#/$defs/{self._add_definition(schema['$ref'], target, resolver)}"}
        elif id(target) in scope.reference_ids or len(scope.reference_ids) >= self._max_depth:
            fields = read_dict(target)
            result = self._rewrite_schema(
                {name: fields[name] for name in ("type", "description") if name in fields}, _Scope()
            )
        else:
            result = self._rewrite_schema(target, _Scope(resolver, (*scope.reference_ids, id(target))))
        if is_nullable:
            return {"anyOf": [result, {"type": "null"}]} | rest
        return result | rest if self._max_depth is None else _merge_schemas(rest, result)

    def _resolve_reference(self, reference: str, scope: _Scope) -> tuple[Any, Any] | None:
        """Return a reference's target and the resolver for references inside it, or None."""
        from jsonschema_specifications import REGISTRY

        resolver = scope.resolver or REGISTRY.resolver_with_root(_create_resource(self._parameters))
        try:
            resolved = resolver.lookup(reference)
        except Exception:  # noqa: BLE001 - a reference may pass through any value of an invalid schema
            return None
        return resolved.contents, resolved.resolver

    def _add_definition(self, reference: str, target: Any, resolver: Any) -> str:
        """Add the target of a reference to `$defs` once, and return its name there."""
        if id(target) not in self._definition_names:
            base = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rstrip("/#").rpartition("/")[2].strip("#"))[:50] or "root"
            name, count = base, 1
            while name in self._definitions:
                count += 1
                name = f"{base}_{count}"
            self._definition_names[id(target)] = name
            self._definitions[name] = {}
            self._definitions[name].update(self._rewrite_schema(target, _Scope(resolver)))
        return self._definition_names[id(target)]

    # Unions

    def _simplify_unions(self, schema: SchemaDict, *, is_root: bool) -> SchemaDict:
        """Move the type into the variants of a union, or the variants of an object into its properties.

        Moonshot refuses a type next to a union, Gemini properties without a type:
        https://github.com/vercel/ai/pull/18921
        Services that need inlined references support no `allOf` or `oneOf` either, so these are merged and replaced.
        """
        if self._max_depth is not None:
            for subschema in schema.pop("allOf", []):
                schema = _merge_schemas(schema, subschema)
            if "anyOf" not in schema and "oneOf" in schema:
                schema["anyOf"] = schema.pop("oneOf")
        union = next((name for name in UNION_KEYWORDS if name in schema), None)
        if union and schema.get("properties") and (not is_root or self._max_depth is not None):
            flat, notes = self._flatten_unions(schema)
            description = " ".join(filter(None, (flat.get("description"), *notes)))
            return flat | ({"description": description} if description else {})
        if union and "type" in schema and not schema.get("properties"):
            union_type = schema["type"]
            variants = [
                variant if {"type", "$ref"} & variant.keys() else {"type": union_type} | variant
                for variant in schema[union]
            ]
            schema = schema | {union: variants}
            if all("type" in variant for variant in variants):
                del schema["type"]
        return schema

    def _flatten_unions(self, schema: SchemaDict) -> tuple[SchemaDict, list[str]]:
        """Merge the references and unions of an object schema into its properties.

        The notes describe the variants of the unions.
        """
        self._flattened_count += 1
        if self._flattened_count > MAX_MERGED_SCHEMAS:
            raise _TooManySchemasError
        result = {
            name: value
            for name, value in schema.items()
            if name not in ("$ref", "allOf", "not", "enum", *UNION_KEYWORDS)
        }
        notes: list[str] = []
        targets = [self._definitions[schema["$ref"].removeprefix("#/$defs/")]] if "$ref" in schema else []
        for subschema in [*targets, *schema.get("allOf", [])]:
            flat, flat_notes = self._flatten_unions(subschema)
            result = _merge_schemas(result, {name: flat[name] for name in flat if name not in CLOSING_KEYWORDS})
            notes += flat_notes
        for subschema in (result.get("then", {}), result.get("else", {}), *result.get("dependentSchemas", {}).values()):
            if subschema.get("properties"):
                result = _merge_schemas(result, {"properties": subschema["properties"]})
        for union in UNION_KEYWORDS:
            object_variants = [variant for variant in schema.get(union, []) if "object" in self._find_types(variant)]
            variants = [self._flatten_unions(variant)[0] for variant in object_variants]
            if variants:
                result = _merge_schemas(result, _merge_variants(variants))
                notes.append(_describe_variants(union, variants, result))
        notes += [
            f"{note}: {json.dumps(schema[name], ensure_ascii=False)}"
            for name, note in (("not", "The arguments must not match"), ("enum", "The arguments are one of"))
            if name in schema
        ]
        missing = [name for name in result.get("required", []) if name not in result.get("properties", {})]
        if missing:
            result["properties"] = result.get("properties", {}) | {name: {} for name in missing}
        return result, notes

    def _find_types(self, schema: SchemaDict) -> Sequence[str]:
        """Return the types that a rewritten schema may have."""
        if schema.get("not") == {}:
            return ()
        if "$ref" in schema and "type" not in schema:
            target = self._definitions[schema["$ref"].removeprefix("#/$defs/")]
            return self._find_types(target) if "$ref" not in target else tuple(TYPES)
        types = schema.get("type", list(TYPES))
        return [types] if isinstance(types, str) else types


def _create_resource(schema: Any) -> Any:
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    return Resource.from_contents(schema, default_specification=DRAFT202012)
