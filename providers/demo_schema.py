"""Make simple values for a JSON Schema, for the demo's answers in JSON; strings repeat the prompt.

Only common keywords are supported: types, properties, items, enum, const, limits, anyOf and references.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ask import as_dict, as_int, as_list, as_number, as_text

DATE_EXAMPLES = {"date": "2026-01-01", "time": "12:00:00Z", "date-time": "2026-01-01T12:00:00Z"}
FORMAT_EXAMPLES = {**DATE_EXAMPLES, "email": "demo@example.com", "uri": "https://example.com/"}
"""An example string for each format."""
MAX_DEPTH = 20


def make_value(schema: Mapping[str, Any], prompt: str) -> Any:
    """Return a value that matches the schema if it uses only supported keywords."""
    return make_nested_value(dict(schema), dict(schema), prompt, 0)


def make_nested_value(schema: dict[str, Any], root: dict[str, Any], prompt: str, depth: int) -> Any:
    """Return a value for a schema inside `root`."""
    choices = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf")) or as_list(schema.get("allOf"))
    if depth == MAX_DEPTH or "const" in schema:
        return schema.get("const")
    if schema.get("enum"):
        return as_list(schema["enum"])[0]
    if "$ref" in schema or choices:
        return make_nested_value(
            resolve_reference(as_text(schema.get("$ref")), root) or as_dict(choices[0]), root, prompt, depth + 1
        )
    declared_type = schema.get("type")
    type_name = (
        declared_type[0]
        if isinstance(declared_type, list) and declared_type
        else declared_type or ("object" if "properties" in schema else "string")
    )
    make_part = partial(make_nested_value, root=root, prompt=prompt, depth=depth + 1)
    minimum = as_number(schema.get("minimum")) or 0
    factories: dict[Any, Callable[[], Any]] = {
        "object": lambda: {
            name: make_part(as_dict(subschema)) for name, subschema in as_dict(schema.get("properties")).items()
        },
        "array": lambda: [make_part(as_dict(schema.get("items")))] * max(as_int(schema.get("minItems")) or 0, 1),
        "integer": lambda: math.ceil(minimum),
        "number": lambda: minimum,
        "boolean": lambda: True,
        "null": lambda: None,
    }
    return factories.get(type_name, lambda: make_text(schema, prompt))()


def make_text(schema: Mapping[str, Any], prompt: str) -> str:
    """Return the prompt, adapted to the schema's length limits, or an example of its format."""
    text = FORMAT_EXAMPLES.get(as_text(schema.get("format")), prompt)
    return text.ljust(as_int(schema.get("minLength")) or 0, ".")[: as_int(schema.get("maxLength"))]


def resolve_reference(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference such as "#/$defs/Place" refers to; {} if there is none."""
    target: Any = root if reference else {}
    for step in reference.removeprefix("#").strip("/").split("/"):
        target = as_dict(target).get(step) if step else target
    return as_dict(target)
