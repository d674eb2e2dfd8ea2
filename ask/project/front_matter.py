"""YAML front matter: the values at the beginning of a file, between two lines ---.

Many skills contain what YAML refuses, such as ": " or a leading "@" in text without quotes. It is read as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

MAX_CHARACTERS = 20_000
"""PyYAML reads about 100,000 of them per second."""
_ENTRY_PATTERN = re.compile(r"""["']?([\w-]+)["']?[ \t]*:(?:[ \t]+(.*))?""")
_COMMENT_PATTERN = re.compile(r"(?:^|[ \t])#.*")


class FrontMatterError(ValueError):
    """Front matter that is missing, malformed or too long; the message is the reason."""


def split_front_matter(text: str) -> tuple[list[str], str]:
    """Split a text into the lines of its front matter and the rest.

    Raises:
        FrontMatterError: it has none.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    delimiters = [number for number, line in enumerate(lines) if line.rstrip() == "---"][:2]
    if delimiters[:1] != [0]:
        raise FrontMatterError("it does not begin with front matter (a line ---)")
    if len(delimiters) == 1:
        raise FrontMatterError("its front matter has no end (a second line ---)")
    return lines[1 : delimiters[1]], "\n".join(lines[delimiters[1] + 1 :])


def read_values(lines: Sequence[str], keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of these top-level keys, without those that are missing. All scalars are strings.

    Raises:
        FrontMatterError: it is too long.
    """
    size = sum(map(len, lines))
    if size > MAX_CHARACTERS:
        raise FrontMatterError(f"its front matter has {size:,} characters, at most {MAX_CHARACTERS:,} are read")
    found = _load_yaml(lines)
    entries = _split_entries(lines)
    for key in entries.keys() & set(keys):
        # A table where text is expected is usually a sentence with a colon on a line of its own.
        if not isinstance(found.get(key), str | list):
            value = _load_yaml([line.expandtabs() for line in entries[key]]).get(key)
            found[key] = value if isinstance(value, str | list) else _read_text(entries[key])
    return {key: found[key] for key in keys if key in found}


def _load_yaml(lines: Sequence[str]) -> dict[str, Any]:
    """Parse YAML; return {} unless it is a valid table."""
    import yaml

    try:
        # The base loader creates strings, lists and dicts only, and aliases share one object.
        values = yaml.BaseLoader("\n".join(lines)).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):  # PyYAML passes on errors of chr()
        return {}
    return values if isinstance(values, dict) else {}


def _split_entries(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines of each top-level key, beginning with its own."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if match := _ENTRY_PATTERN.fullmatch(line.rstrip()):
            current = entries[match[1]] = []
        if not line.startswith("#"):
            current.append(line)
    return entries


def _read_text(lines: Sequence[str]) -> str:
    """Read the value of an entry as text over one or several lines, without comments and the quotes around it."""
    match = _ENTRY_PATTERN.fullmatch(lines[0].rstrip())
    first = (match and match[2]) or ""
    paragraphs = "\n".join(_COMMENT_PATTERN.sub("", line).strip() for line in (first, *lines[1:])).split("\n\n")
    text = "\n".join(" ".join(paragraph.split("\n")).strip() for paragraph in paragraphs).strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
