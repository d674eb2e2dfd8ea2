"""A JSON Schema in the strict form that OpenAI, and most that speak its wire, can hold a model to.

There every object lists all that may be in it, and all of it must be there.
https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask.parsing import as_dict, as_list

KEPT = frozenset(
    {"$ref", "type", "title", "description", "enum", "const", "pattern", "format", "minItems", "maxItems"}
    | {"required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
"""Keywords that the strict form knows as they are."""
SAYING = frozenset({"type", "enum", "const", "anyOf", "$ref"})
"""Keywords of which every schema has one."""


class _Unsayable(Exception):
    """There is no strict form."""


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in strict form, where whatever fits that form fits the schema; None where there is no such form.

    Objects that do not say so are closed; `$schema` and `$id` are left out.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict({name: part for name, part in schema.items() if name not in ("$schema", "$id")})
    except _Unsayable:
        return None


def _strict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or ("$ref" in value and len(value) > 1) or not value.keys() & SAYING:
        raise _Unsayable
    made = {name: _strict_part(name, part) for name, part in value.items()}
    types = made.get("type")
    if "object" not in (types if isinstance(types, list) else [types]):
        if "properties" in made:
            raise _Unsayable
        return made
    properties = as_dict(made.get("properties"))
    if not properties or set(properties) - set(as_list(made.get("required"))):
        raise _Unsayable
    return made | {"additionalProperties": False}


def _strict_part(name: str, part: Any) -> Any:
    """What stands under a keyword."""
    if name in KEPT or (name == "additionalProperties" and part is False):
        return part
    if name in ("properties", "$defs"):
        return {key: _strict(inner) for key, inner in as_dict(part).items()}
    if name == "anyOf":
        return [_strict(choice) for choice in as_list(part)]
    if name == "items":
        return _strict(part)
    raise _Unsayable
