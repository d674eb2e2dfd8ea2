"""Parse the arguments of a tool call and check them against the tool's schema.

`type`, `enum`, `required`, `properties` and a closed `additionalProperties` are checked here: most tools use no other
keyword, and a model understands these messages best. A schema with more keywords is checked by `jsonschema` as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ask.messages import ToolSpec
from ask.parsing import as_list
from ask.tools.base import ToolError

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_SIMPLE_KEYWORDS = frozenset(
    {"type", "enum", "required", "properties", "title", "description", "default", "examples", "format"}
    | {"$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"}
)
"""Keywords that are checked here, and annotations. `format` is an annotation for the arguments of tools."""
_QUOTED = 200
_TOO_DEEP = "are nested too deeply"


def parse_arguments(spec: ToolSpec, text: str) -> dict[str, Any]:
    """Return the arguments of a call, checked against `spec.parameters`.

    An empty text is {}. Property names that were replaced for the provider get their own names back. null for an
    optional parameter that cannot be null counts as left out, and 5.0 becomes the integer 5.

    Raises:
        ToolError: says what is wrong, for the model, and repeats the start of what it wrote.
    """
    from ask.plugin_api.tool_schemas import restore_property_names

    try:
        value = _read_json(text) if text.strip() else {}
        if not isinstance(value, dict):
            _refuse(f"must be one JSON object, not {_kind(value)}")
        try:
            return _check(restore_property_names(spec.parameters, value), spec.parameters)
        except RecursionError:
            _refuse(_TOO_DEEP)
    except _Misfit as misfit:
        begin = text if len(text) <= _QUOTED else text[:_QUOTED] + "..."
        wrote = f". You wrote: {begin}" if begin.strip() else ""
        raise ToolError(f"nothing was run: the arguments of {spec.name} {misfit}{wrote}") from None


def _check(value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    if _is_simple(schema):
        return _fit_object(value, schema, "", _SimpleNullCheck())
    from ask.schemas.lenient_validation import LenientSchema

    checker = LenientSchema(schema)
    fitting = _fit_object(value, schema, "", checker)
    if problem := checker.problem(fitting):
        _refuse(f"do not fit: {problem}")
    return fitting


def _is_simple(schema: Any) -> bool:
    """Whether a schema uses no keyword but those that are checked here."""
    if not isinstance(schema, Mapping):
        return schema is True
    if any(name not in _SIMPLE_KEYWORDS and not _is_closed_or_open(name, schema[name]) for name in schema):
        return False
    properties = schema.get("properties", {})
    return isinstance(properties, Mapping) and all(map(_is_simple, properties.values()))


def _is_closed_or_open(name: str, value: Any) -> bool:
    return name == "additionalProperties" and (isinstance(value, bool) or value == {})


class _SimpleNullCheck:
    """Checks null against a simple schema."""

    def allows_null(self, schema: Any) -> bool:
        if not isinstance(schema, Mapping):
            return schema is not False
        types, choices = _types(schema), schema.get("enum")
        return (not types or "null" in types) and (not isinstance(choices, list) or None in choices)


class _Misfit(Exception):
    pass


def _refuse(what: str) -> NoReturn:
    raise _Misfit(what)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            _refuse(
                f"go on after the end of the first JSON value, at character {error.pos + 1}: make one call for each"
            )
        _refuse(f"are not JSON: {error.msg} at character {error.pos + 1} of {len(text)}")
    except RecursionError:
        _refuse(_TOO_DEEP)
    except ValueError as error:
        _refuse(f"are not JSON: {error}")


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"are not JSON: {name} is no JSON value")


def _fit_object(value: Mapping[str, Any], schema: Mapping[str, Any], where: str, nulls: Any) -> dict[str, Any]:
    properties = schema.get("properties")
    declared = properties if isinstance(properties, Mapping) else {}
    required = [name for name in as_list(schema.get("required")) if isinstance(name, str)]
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    fitting = {}
    for name, item in value.items():
        if closed and name not in declared:
            _refuse(_unknown(where + name, [where + known for known in declared]))
        part = declared.get(name, {})
        if item is None and name in declared and name not in required and not nulls.allows_null(part):
            continue
        fitting[name] = _fit(item, part, where + name, nulls)
    missing = [where + name for name in required if name not in fitting]
    if missing:
        _refuse(f"lack {', '.join(map(repr, missing))}")
    return fitting


def _fit(value: Any, schema: Any, where: str, nulls: Any) -> Any:
    if not isinstance(schema, Mapping) or "$ref" in schema:  # in older drafts $ref hides what stands beside it
        return value
    types = _types(schema)
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        value = int(value)
    if value is None and nulls.allows_null(schema):
        return value
    if types and not any(_is(value, name) for name in types):
        _refuse(f"have the wrong type: {where!r} must be {' or '.join(types)}, not {_kind(value)}")
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_equal(value, choice) for choice in choices):
        _refuse(f"have a wrong value: {where!r} must be one of {json.dumps(choices, ensure_ascii=False)}")
    return _fit_object(value, schema, where + ".", nulls) if isinstance(value, dict) else value


def _types(schema: Mapping[str, Any]) -> list[str]:
    """The type names that a schema allows; [] where it leaves the type open."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else as_list(named)
    return names if all(isinstance(name, str) and name in _TYPES for name in names) else []


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _equal(value: Any, choice: Any) -> bool:
    return bool(value == choice) and isinstance(value, bool) == isinstance(choice, bool)


def _kind(value: Any) -> str:
    return next(name for name in ("integer", *_TYPES) if _is(value, name))


def _unknown(name: str, known: Iterable[str]) -> str:
    from ask.suggestions import suggest

    known = list(known)
    near = suggest(name, known)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"have an unknown name, {name!r} (it takes {', '.join(known) or 'none'}{hint})"
