"""A JSON Schema in the strict form that OpenAI, and most that speak its wire, can hold a model to.

There every object lists all that may be in it, and all of it must be there.
https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask.parsing import as_dict, as_list

PRESERVED_KEYWORDS = frozenset(
    {"$ref", "type", "title", "description", "enum", "const", "pattern", "format", "minItems", "maxItems"}
    | {"required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
"""Keywords that the strict form knows as they are."""
TYPE_KEYWORDS = frozenset({"type", "enum", "const", "anyOf", "$ref"})
"""Keywords of which every schema has one."""


class _NoStrictSchemaError(Exception):
    """There is no strict form."""


def to_strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in strict form, where whatever fits that form fits the schema; None where there is no such form.

    Objects that do not say so are closed; `$schema` and `$id` are left out.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _convert_schema({name: part for name, part in schema.items() if name not in ("$schema", "$id")})
    except _NoStrictSchemaError:
        return None


def _convert_schema(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or ("$ref" in value and len(value) > 1) or not value.keys() & TYPE_KEYWORDS:
        raise _NoStrictSchemaError
    made = {name: _convert_keyword(name, part) for name, part in value.items()}
    types = made.get("type")
    if "object" not in (types if isinstance(types, list) else [types]):
        if "properties" in made:
            raise _NoStrictSchemaError
        return made
    properties = as_dict(made.get("properties"))
    if not properties or set(properties) - set(as_list(made.get("required"))):
        raise _NoStrictSchemaError
    return made | {"additionalProperties": False}


def _convert_keyword(keyword: str, value: Any) -> Any:
    """What stands under a keyword."""
    if keyword in PRESERVED_KEYWORDS or (keyword == "additionalProperties" and value is False):
        return value
    if keyword in ("properties", "$defs"):
        return {key: _convert_schema(inner) for key, inner in as_dict(value).items()}
    if keyword == "anyOf":
        return [_convert_schema(choice) for choice in as_list(value)]
    if keyword == "items":
        return _convert_schema(value)
    raise _NoStrictSchemaError
