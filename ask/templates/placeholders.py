"""Find and fill in placeholders in a text: {{name}} or {{name|default}}."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

INPUT_NAME = "input"
"""The placeholder for the user's prompt, files and piped text."""
PLACEHOLDER_PATTERN = re.compile(r"(\\?)\{\{ *([^\W\d][\w-]*) *(?:\|((?:(?!\}\}).)*))?\}\}", re.DOTALL)


class Placeholder(NamedTuple):
    """A placeholder in a text."""

    name: str
    default: str | None


def find_placeholders(text: str) -> Iterator[Placeholder]:
    r"""Yield the placeholders in a text, except escaped ones: \{{name}}."""
    for escaped, name, default in (match.groups() for match in PLACEHOLDER_PATTERN.finditer(text)):
        if not escaped:
            yield Placeholder(name, default)


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders in a text; placeholders in the values themselves are not replaced.

    Raises:
        KeyError: A placeholder has neither a value nor a default.
    """

    def replace_match(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        return values[name] if name in values or default is None else default.strip()

    return PLACEHOLDER_PATTERN.sub(replace_match, text)
