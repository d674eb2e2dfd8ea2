"""Rewrite a tool's schema into a form that a provider accepts."""

from __future__ import annotations

import json
import re
from binascii import crc32
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ask.messages import ToolSpec
from ask.parsing import as_dict, as_list
from ask.plugin_api.schema_keywords import (
    PLAIN_KEYWORDS,
    TYPES,
    UNION_KEYWORDS,
    SchemaDict,
    describe_variants,
    merge_schemas,
    merge_variants,
    modernize_schema,
)

VALID_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use"""


def restore_property_names(schema: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the names of properties that `normalize_tool` replaced."""
    own_names = {name: original for original, name in build_name_replacements(schema).items()}

    def restore_names(value: Any) -> Any:
        if isinstance(value, dict):
            return {own_names.get(name, name): restore_names(item) for name, item in value.items()}
        return [restore_names(item) for item in value] if isinstance(value, list) else value

    return restore_names(arguments) if own_names else arguments


def build_name_replacements(schema: Any) -> dict[str, str]:
    """Return the names of properties that not every provider accepts, each with what stands for it."""
    names: dict[str, str] = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            for name in as_dict(part.get("properties")):
                if not VALID_NAME_PATTERN.fullmatch(name):
                    checksum = crc32(name.encode("utf-8", "backslashreplace"))
                    names[name] = f"{re.sub('[^a-zA-Z0-9_.-]', '_', name)[:55]}_{checksum:08x}"
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return names


OLD_DRAFT_PATTERN = re.compile(r"draft-0[3467]\b")
"""Drafts in which nothing beside a `$ref` counts."""
MAX_REFERENCE_DEPTH = 5
"""References that are followed into one another, where they are written out."""
MAX_SCHEMAS = 2_000
"""Parts that a schema may have with its references written out; where it would have more, fewer are."""
MAX_NOTE_LENGTH = 2_000
"""Characters of a tool's description that say which arguments go together."""
ANNOTATION_KEYWORDS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
CLOSING_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties"})
APPLICATORS = CLOSING_KEYWORDS | {"items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems"}
"""Keywords with a schema as their value."""


class UnusableToolError(Exception):
    """A tool whose parameters no provider accepts; the text says why."""


def normalize_tool(tool: ToolSpec, *, inline_references: bool = False) -> ToolSpec:
    """Return a tool in the form that providers accept.

    A union of several forms of arguments becomes one object, with the forms described in words. Names of properties
    that a provider refuses are replaced; the host restores them in the arguments that come back.

    Args:
        tool: with any JSON Schema as its parameters.
        inline_references: whether to write out what a `$ref` refers to, for services that do not know it. Without,
            references lead to `$defs`.

    Raises:
        UnusableToolError: its parameters cannot be those of a function.
    """
    for depth in range(MAX_REFERENCE_DEPTH, -1, -1) if inline_references else (None,):
        try:
            form = _Normalizer(tool.parameters, depth).normalize_root()
        except (_TooManySchemasError, RecursionError):
            continue
        return ToolSpec(tool.name, "\n".join(filter(None, (tool.description, *form.notes))), form.schema)
    raise UnusableToolError("its schema is nested too deeply")


class _TooManySchemasError(Exception):
    pass


class _Scope(NamedTuple):
    """Where a schema stands: what resolves its references, and those that led to it."""

    resolver: Any = None
    trail: tuple[int, ...] = ()


class _FlatSchema(NamedTuple):
    """An object's schema without unions, and what it no longer says, in words."""

    schema: SchemaDict
    notes: tuple[str, ...] = ()


class _Normalizer:
    """Rewrites one tool's schema.

    Args:
        parameters: the schema.
        depth: how many references are written out inside one another; None to keep references.
    """

    def __init__(self, parameters: Any, max_depth: int | None) -> None:
        self._parameters = parameters
        self._max_depth = max_depth
        self._replaced_names = build_name_replacements(parameters)
        self._definitions: dict[str, SchemaDict] = {}
        self._definition_names: dict[int, str] = {}
        self._schema_count = 0
        declared = parameters.get("$schema") if isinstance(parameters, Mapping) else None
        self._draft = declared if isinstance(declared, str) else ""

    def normalize_root(self) -> _FlatSchema:
        """Return the form of the arguments as a whole."""
        visited = self._rewrite_schema(self._parameters, _Scope())
        if "object" not in self._find_types(visited):
            raise UnusableToolError("its parameters are not those of an object")
        form = self._flatten_unions(visited)
        schema = {"type": "object", "properties": {}} | form.schema | {"type": "object"}
        used = self._collect_used_definitions(schema)
        return _FlatSchema(
            schema | ({"$defs": used} if used else {}), tuple(word[:MAX_NOTE_LENGTH] for word in form.notes)
        )

    def _collect_used_definitions(self, schema: Any) -> dict[str, SchemaDict]:
        used: dict[str, SchemaDict] = {}
        waiting = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                name = as_dict(part).get("$ref")
                if isinstance(name, str) and (name := name.removeprefix("#/$defs/")) not in used:
                    used[name] = self._definitions.get(name, {})
                    waiting.append(used[name])
                waiting += part.values()
            elif isinstance(part, list):
                waiting += part
        return used

    def _rewrite_schema(self, schema: Any, scope: _Scope) -> SchemaDict:
        """Return a schema with everything in it rewritten."""
        if not isinstance(schema, Mapping):
            return {"not": {}} if schema is False else {}
        self._schema_count += 1
        if self._max_depth and self._schema_count > MAX_SCHEMAS:
            raise _TooManySchemasError
        if isinstance(schema.get("$id"), str) and scope.resolver is not None:
            scope = scope._replace(resolver=_enter_subresource(scope.resolver, schema))
        if isinstance(schema.get("$ref"), str):
            return self._rewrite_reference(schema, scope)
        made: SchemaDict = {}
        for name, value in modernize_schema(schema).items():
            part = self._rewrite_keyword(name, value, scope)
            if part is not None:
                made[name] = part
        return self._simplify_unions(made)

    def _rewrite_keyword(self, name: str, value: Any, scope: _Scope) -> Any:
        """Return the value of a keyword rewritten; None where it is unknown, or no such value."""
        if name in APPLICATORS:
            return value if isinstance(value, bool) and name in CLOSING_KEYWORDS else self._rewrite_schema(value, scope)
        if name in ("allOf", "prefixItems", *UNION_KEYWORDS):
            parts = [part for part in as_list(value) if part is not False or name not in UNION_KEYWORDS]
            return [self._rewrite_schema(part, scope) for part in parts] or None
        if name in ("properties", "patternProperties", "dependentSchemas"):
            return self._rewrite_properties(value, scope)
        if name == "dependentRequired":
            return {self._rewrite_name(key): self._rewrite_names(names) for key, names in as_dict(value).items()}
        if name == "required":
            return self._rewrite_names(value) or None
        return value if name in PLAIN_KEYWORDS and PLAIN_KEYWORDS[name](value) else None

    def _rewrite_properties(self, schemas: Any, scope: _Scope) -> dict[str, SchemaDict]:
        """Return schemas by the names of properties; one under a replaced name gets its own as its title."""
        made = {}
        for name, part in as_dict(schemas).items():
            if part is not False:
                title = {"title": name} if name in self._replaced_names else {}
                made[self._rewrite_name(name)] = title | self._rewrite_schema(part, scope)
        return made

    def _rewrite_names(self, names: Any) -> list[str]:
        return list(dict.fromkeys(self._rewrite_name(name) for name in as_list(names) if isinstance(name, str)))

    def _rewrite_name(self, name: str) -> str:
        return self._replaced_names.get(name, name)

    # References

    def _rewrite_reference(self, schema: Mapping[str, Any], scope: _Scope) -> SchemaDict:
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        if OLD_DRAFT_PATTERN.search(self._draft):
            beside = {name: value for name, value in beside.items() if name in {*ANNOTATION_KEYWORDS, "nullable"}}
        found = self._resolve_reference(schema["$ref"], scope)
        nullable = beside.pop("nullable", None) is True
        rest = self._rewrite_schema(beside, scope) if beside else {}
        if found is None:
            return rest
        target, resolver = found
        if self._max_depth is None:
            made = {"$ref": f"#/$defs/{self._add_definition(schema['$ref'], target, resolver)}"}
        elif id(target) in scope.trail or len(scope.trail) >= self._max_depth:
            known = as_dict(target)
            made = self._rewrite_schema(
                {name: known[name] for name in ("type", "description") if name in known}, _Scope()
            )
        else:
            made = self._rewrite_schema(target, _Scope(resolver, (*scope.trail, id(target))))
        if nullable:
            return {"anyOf": [made, {"type": "null"}]} | rest
        return made | rest if self._max_depth is None else merge_schemas(rest, made)

    def _resolve_reference(self, reference: str, scope: _Scope) -> tuple[Any, Any] | None:
        """Return what a reference leads to, and what resolves the references in there; None where it leads nowhere."""
        resolver = scope.resolver or _make_root_resolver(self._parameters)
        try:
            found = resolver.lookup(reference)
        except Exception:  # noqa: BLE001 - the schema may hold any value where a reference passes
            return None
        return found.contents, found.resolver

    def _add_definition(self, reference: str, target: Any, resolver: Any) -> str:
        """Return the name under which `$defs` has what a reference leads to."""
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

    def _simplify_unions(self, schema: SchemaDict) -> SchemaDict:
        """Move the type into the parts of a union; without references, also merge what only full JSON Schema has."""
        if self._max_depth is not None:
            for part in schema.pop("allOf", []):
                schema = merge_schemas(schema, part)
            if "anyOf" not in schema and "oneOf" in schema:
                schema["anyOf"] = schema.pop("oneOf")
            if "anyOf" in schema and schema.get("properties"):
                form = self._flatten_unions(schema)
                words = " ".join(filter(None, (form.schema.get("description"), *form.notes)))
                return form.schema | ({"description": words} if words else {})
        union = next((name for name in UNION_KEYWORDS if name in schema), None)
        if union and "type" in schema and not schema.get("properties"):
            kind = schema["type"]
            parts = [part if {"type", "$ref"} & part.keys() else {"type": kind} | part for part in schema[union]]
            schema = schema | {union: parts}
            if all("type" in part for part in parts):
                del schema["type"]
        return schema

    def _flatten_unions(self, schema: SchemaDict) -> _FlatSchema:
        """Return an object's schema with what its unions say in its properties, and the forms in words."""
        made = {
            name: value
            for name, value in schema.items()
            if name not in ("$ref", "allOf", "not", "enum", *UNION_KEYWORDS)
        }
        words: list[str] = []
        parts = [self._definitions[schema["$ref"].removeprefix("#/$defs/")]] if "$ref" in schema else []
        for part in [*parts, *schema.get("allOf", [])]:
            form = self._flatten_unions(part)
            made = merge_schemas(
                made, {name: value for name, value in form.schema.items() if name not in CLOSING_KEYWORDS}
            )
            words += form.notes
        for part in (made.get("then", {}), made.get("else", {}), *made.get("dependentSchemas", {}).values()):
            if part.get("properties"):
                made = merge_schemas(made, {"properties": part["properties"]})
        for union in UNION_KEYWORDS:
            parts = [part for part in schema.get(union, []) if "object" in self._find_types(part)]
            forms = [self._flatten_unions(part).schema for part in parts]
            if forms:
                made = merge_schemas(made, merge_variants(forms))
                words.append(describe_variants(union, forms, made))
        words += [
            f"{said}: {json.dumps(schema[name], ensure_ascii=False)}"
            for name, said in (("not", "The arguments must not match"), ("enum", "The arguments are one of"))
            if name in schema
        ]
        missing = [name for name in made.get("required", []) if name not in made.get("properties", {})]
        if missing:
            made["properties"] = made.get("properties", {}) | {name: {} for name in missing}
        return _FlatSchema(made, tuple(words))

    def _find_types(self, schema: SchemaDict) -> Sequence[str]:
        """Return the types that a rewritten schema may have."""
        if schema.get("not") == {}:
            return ()
        if "$ref" in schema and "type" not in schema:
            target = self._definitions[schema["$ref"].removeprefix("#/$defs/")]
            return self._find_types(target) if "$ref" not in target else tuple(TYPES)
        named = schema.get("type", list(TYPES))
        return [named] if isinstance(named, str) else named


def _make_root_resolver(schema: Any) -> Any:
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    return REGISTRY.resolver_with_root(Resource.from_contents(schema, default_specification=DRAFT202012))


def _enter_subresource(resolver: Any, schema: Any) -> Any:
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    return resolver.in_subresource(Resource.from_contents(schema, default_specification=DRAFT202012))
