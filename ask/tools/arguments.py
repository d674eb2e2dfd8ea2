"""From the arguments as the model wrote them to a dict that fits the tool's schema.

`type`, `enum`, `required` and `properties` are checked here, as most tools say no more, and in words made for a model.
What else a schema says is left to `schemas`. Of one that cannot be understood, no more is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ask.json_values import as_list
from ask.messages import ToolSpec
from ask.tools import ToolError

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_OPEN = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref")
"""Where a schema has one of these, names other than its `properties` may be right."""
_KNOWN = frozenset(
    {"type", "enum", "required", "properties", "title", "description", "default", "examples"}
    | {"$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"}
)
"""What is checked here, and what says nothing of a value."""
_QUOTED = 200
_TOO_DEEP = "are nested too deeply"


def parse_arguments(spec: ToolSpec, text: str) -> dict[str, Any]:
    """The arguments of a call, checked against `spec.parameters`.

    Nothing but white space is {}; null for an optional parameter counts as left out; 5.0 is the integer 5.

    Raises:
        ToolError: says what is wrong, for the model, and repeats the start of what it wrote.
    """
    try:
        value = _read_json(text) if text.strip() else {}
        if not isinstance(value, dict):
            _refuse(f"must be one JSON object, not {_kind(value)}")
        try:
            return _fit_all(value, spec.parameters)
        except RecursionError:
            _refuse(_TOO_DEEP)
    except _Misfit as misfit:
        begin = text if len(text) <= _QUOTED else text[:_QUOTED] + "..."
        wrote = f". You wrote: {begin}" if begin.strip() else ""
        raise ToolError(f"nothing was run: the arguments of {spec.name} {misfit}{wrote}") from None


def _fit_all(value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    fitting = _fit_object(value, schema, "")
    if _says_more(schema) and (problem := _problem(schema, fitting)):
        _refuse(f"do not fit: {problem}")
    return fitting


def _says_more(schema: Any) -> bool:
    """Whether a schema says anything that is not checked here."""
    if not isinstance(schema, Mapping):
        return False
    if any(name not in _KNOWN for name in schema if (name, schema[name]) != ("additionalProperties", False)):
        return True
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and any(map(_says_more, properties.values()))


def _problem(schema: Mapping[str, Any], value: Any) -> str:
    """What keeps a value from fitting all that a schema says; "" for nothing, and where that cannot be told."""
    from ask.schemas.schema import checked

    try:
        return checked(dict(schema)).problem(value)
    except Exception:  # noqa: BLE001 - the schema is a stranger's: it may be none, or have patterns of another language
        return ""


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


def _fit_object(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    properties = schema.get("properties")
    required = as_list(schema.get("required"))
    declared = properties if isinstance(properties, Mapping) else {}
    fitting = {}
    for name, item in value.items():
        part = properties.get(name) if isinstance(properties, Mapping) else {}
        if part is None:
            if not schema.get("additionalProperties") and not any(key in schema for key in _OPEN):
                _refuse(_unknown(where + name, [where + known for known in properties or ()]))
            part = {}
        if item is None and name in declared and name not in required and not _takes_null(part):
            continue
        fitting[name] = _fit(item, part, where + name)
    missing = [where + name for name in required if name not in fitting]
    if missing:
        _refuse(f"lack {', '.join(map(repr, missing))}")
    return fitting


def _fit(value: Any, schema: Any, where: str) -> Any:
    types = _types(schema)
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        value = int(value)
    if types and not any(_is(value, name) for name in types):
        _refuse(f"have the wrong type: {where!r} must be {' or '.join(types)}, not {_kind(value)}")
    if not isinstance(schema, Mapping):
        return value
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_equal(value, choice) for choice in choices):
        _refuse(f"have a wrong value: {where!r} must be one of {json.dumps(choices, ensure_ascii=False)}")
    return _fit_object(value, schema, where + ".") if isinstance(value, dict) else value


def _types(schema: Any) -> list[str]:
    """The type names that a schema allows; [] where it leaves the type open."""
    named = schema.get("type") if isinstance(schema, Mapping) else None
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    return names if all(name in _TYPES for name in names) else []


def _takes_null(schema: Any) -> bool:
    """Whether a schema names null as a value."""
    if not isinstance(schema, Mapping):
        return False
    alternatives = [*as_list(schema.get("anyOf")), *as_list(schema.get("oneOf"))]
    return "null" in _types(schema) or None in as_list(schema.get("enum")) or any(map(_takes_null, alternatives))


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _equal(value: Any, choice: Any) -> bool:
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)


def _kind(value: Any) -> str:
    return next(name for name in ("integer", *_TYPES) if _is(value, name))


def _unknown(name: str, known: Iterable[str]) -> str:
    from ask.suggestions import suggest

    known = list(known)
    near = suggest(name, known)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"have an unknown name, {name!r} (it takes {', '.join(known) or 'none'}{hint})"
