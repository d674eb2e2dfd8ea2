"""Placeholders in a text, {{name}} or {{name|default}}, and what is put in their places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

INPUT_NAME = "input"
"""The placeholder that stands for the user's words, files and piped text."""
PLACEHOLDER_PATTERN = re.compile(r"(\\?)\{\{ *([^\W\d][\w-]*) *(?:\|((?:(?!\}\}).)*))?\}\}", re.DOTALL)


class Placeholder(NamedTuple):
    """A place in a text to be filled in; `default` is None where there is none."""

    name: str
    default: str | None


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """The places in a text to be filled in. One behind a backslash is none."""
    for escaped, name, default in (match.groups() for match in PLACEHOLDER_PATTERN.finditer(text)):
        if not escaped:
            yield Placeholder(name, default)


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in; what is filled in is not looked at again.

    Raises:
        KeyError: there is neither a value nor a default for one.
    """

    def replace_match(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        return values[name] if name in values or default is None else default.strip()

    return PLACEHOLDER_PATTERN.sub(replace_match, text)
