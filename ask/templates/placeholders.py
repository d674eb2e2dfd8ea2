"""Find and fill in placeholders in a text: {{name}} or {{name|default}}."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ask.records import NamedTuple

INPUT_NAME = "input"
"""The placeholder for the user's prompt, files and piped text, or for the whole row of `ask map`."""
# There is only one way to divide a text among the parts of these patterns, and a default ends at the next placeholder.
# Both keep the time linear in any text.
DEFAULT_AND_END = r"(?:\|([^{}]*(?:(?:\{(?!\{)|\}(?!\}))[^{}]*)*))?\}\}"
VARIABLE_PATTERN = re.compile(r"(\\?)\{\{ *([^\W\d][\w-]*) *" + DEFAULT_AND_END)
COLUMN_PATTERN = re.compile(r"(\\?)\{\{ *(?! )([^{}| ]*(?: +[^{}| ]+)*) *" + DEFAULT_AND_END)
"""The placeholders of `ask map`, where a column may have any name."""
encode_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps() would create an encoder for each value


class Placeholder(NamedTuple):
    name: str
    default: str | None


def find_placeholders(text: str, pattern: re.Pattern[str] = VARIABLE_PATTERN) -> Iterator[Placeholder]:
    r"""Iterate over the placeholders in a text, except escaped ones: \{{name}}."""
    return (part for part in _parse(text, pattern) if isinstance(part, Placeholder))


def escape_placeholders(text: str, pattern: re.Pattern[str] = VARIABLE_PATTERN) -> str:
    """Escape what looks like a placeholder in a text, so that `fill_placeholders` leaves it unchanged."""
    return pattern.sub(lambda match: "\\" + match[0], text)


def fill_placeholders(text: str, values: Mapping[str, Any], pattern: re.Pattern[str] = VARIABLE_PATTERN) -> str:
    """Replace the placeholders in a text; placeholders in the values themselves are not replaced.

    Text is inserted as it is, None as nothing, and any other value as JSON.

    Raises:
        KeyError: a placeholder has neither a value nor a default.
    """
    return "".join([part if isinstance(part, str) else _format_value(part, values) for part in _parse(text, pattern)])


@lru_cache(maxsize=16)
def _parse(text: str, pattern: re.Pattern[str]) -> Sequence[str | Placeholder]:
    """Split a text at its placeholders."""
    parts: list[str | Placeholder] = []
    end = 0
    for match in pattern.finditer(text):
        escaped, name, default = match.groups()
        parts.append(text[end : match.start()])
        parts.append(match[0][1:] if escaped else Placeholder(name, default))
        end = match.end()
    return [*parts, text[end:]]


def _format_value(placeholder: Placeholder, values: Mapping[str, Any]) -> str:
    name, default = placeholder
    if default is not None and name not in values:
        return default.strip()
    value = values[name]
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return "" if value is None else encode_json(value)
