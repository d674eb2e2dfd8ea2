"""What the demo answers where JSON is asked for: the simplest value that fits the schema, its texts the question's.

No more of JSON Schema than what is usual is known: types, properties, items, enum, const, limits, anyOf, references.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ask import as_dict, as_int, as_list, as_number, as_text

DATE_EXAMPLES = {"date": "2026-01-01", "time": "12:00:00Z", "date-time": "2026-01-01T12:00:00Z"}
FORMAT_EXAMPLES = {**DATE_EXAMPLES, "email": "demo@example.com", "uri": "https://example.com/"}
"""A text in each format."""
MAX_DEPTH = 20


def make_value(schema: Mapping[str, Any], prompt: str) -> Any:
    """A value that fits, where the schema is a usual one."""
    return make_nested_value(dict(schema), dict(schema), prompt, 0)


def make_nested_value(schema: dict[str, Any], root: dict[str, Any], words: str, depth: int) -> Any:
    """The value for one schema inside `root`."""
    choices = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf")) or as_list(schema.get("allOf"))
    if depth == MAX_DEPTH or "const" in schema:
        return schema.get("const")
    if schema.get("enum"):
        return as_list(schema["enum"])[0]
    if "$ref" in schema or choices:
        return make_nested_value(
            resolve_reference(as_text(schema.get("$ref")), root) or as_dict(choices[0]), root, words, depth + 1
        )
    told = schema.get("type")
    kind = told[0] if isinstance(told, list) and told else told or ("object" if "properties" in schema else "string")
    inner = partial(make_nested_value, root=root, words=words, depth=depth + 1)
    least = as_number(schema.get("minimum")) or 0
    made: dict[Any, Callable[[], Any]] = {
        "object": lambda: {name: inner(as_dict(part)) for name, part in as_dict(schema.get("properties")).items()},
        "array": lambda: [inner(as_dict(schema.get("items")))] * max(as_int(schema.get("minItems")) or 0, 1),
        "integer": lambda: math.ceil(least),
        "number": lambda: least,
        "boolean": lambda: True,
        "null": lambda: None,
    }
    return made.get(kind, lambda: make_text(schema, words))()


def make_text(schema: Mapping[str, Any], prompt: str) -> str:
    """A text: the question, where no format or length speaks against it."""
    text = FORMAT_EXAMPLES.get(as_text(schema.get("format")), prompt)
    return text.ljust(as_int(schema.get("minLength")) or 0, ".")[: as_int(schema.get("maxLength"))]


def resolve_reference(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    """What a reference such as "#/$defs/Place" stands for; {} without one."""
    place: Any = root if reference else {}
    for step in reference.removeprefix("#").strip("/").split("/"):
        place = as_dict(place).get(step) if step else place
    return as_dict(place)
