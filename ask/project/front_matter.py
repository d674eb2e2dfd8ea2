"""YAML front matter: the top-level text values of a file that begins with `---`.

Only text is needed from it, so this supports the scalars of YAML 1.2.2 (https://yaml.org/spec/1.2.2/, chapters 7 and 8)
and refuses everything else with a reason. Unlike YAML, a plain value may contain ": ", which many authors write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from textwrap import dedent

_ENTRY_PATTERN = re.compile(r"([^\s#:][^:]*?)[ \t]*:(?:[ \t]+(.*))?")
_COMMENT_PATTERN = re.compile(r"(?:^|[ \t])#.*")
_BLOCK_HEADER_PATTERN = re.compile(r"([|>])[+-]?(?:[ \t]+#.*)?")
_SINGLE_QUOTED_PATTERN = re.compile(r"'((?:[^']|'')*)'\s*(?:#.*)?")
_DOUBLE_QUOTED_PATTERN = re.compile(r'("(?:[^"\\]|\\.)*")\s*(?:#.*)?')
_OTHER_SYNTAX = "[]{}&*!%@`"
"""The first characters of flow collections, anchors, aliases and tags, and those that YAML reserves."""


class FrontMatterError(ValueError):
    """Front matter that is malformed or uses unsupported syntax; the message is the reason."""


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


def read_values(lines: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """Return the text values of these top-level keys, without those that are missing.

    Raises:
        FrontMatterError: a line is malformed, or one of the values is not text.
    """
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        is_continuation = not line.strip() or line[0] in " \t" or line.startswith(("#", "- "))
        if not is_continuation:
            match = _ENTRY_PATTERN.fullmatch(line.rstrip())
            if not match:
                raise FrontMatterError(f"{line[:40]!r} in its front matter is not KEY: VALUE")
            key = match[1].strip("'\"")
            if key in entries:
                raise FrontMatterError(f"its front matter contains {key} twice")
            current = entries[key] = [match[2] or ""]
        elif current is not None and not line.startswith("#"):
            current.append(line)
    return {key: _parse_scalar(key, entries[key]) for key in keys if key in entries}


def _parse_scalar(key: str, lines: Sequence[str]) -> str:
    """Parse a value, whose first line is the rest of the line of its key."""
    first, following = lines[0].strip(), lines[1:]
    if first[:1] in ("|", ">"):
        header = _BLOCK_HEADER_PATTERN.fullmatch(first)
        if not header:
            raise FrontMatterError(f"{key} begins with {first!r}: only |, >, |- and >- are supported")
        block = dedent("\n".join(following)).strip("\n")
        return block if header[1] == "|" else _fold(block.split("\n"))
    if first[:1] == "'":
        return _match_quoted(_SINGLE_QUOTED_PATTERN, key, [first, *following]).replace("''", "'")
    if first[:1] == '"':
        quoted = _match_quoted(_DOUBLE_QUOTED_PATTERN, key, [first, *following])
        try:
            return str(json.loads(quoted))
        except ValueError:
            raise FrontMatterError(f"{key} contains an escape sequence that JSON does not support") from None
    text = _fold([_COMMENT_PATTERN.sub("", line) for line in (first, *following)])
    if text.startswith("- "):
        raise FrontMatterError(f"{key} is a list, not text")
    if text[:1] and text[0] in _OTHER_SYNTAX:
        raise FrontMatterError(f"{key} begins with {text[0]}: put it in quotes")
    return text


def _match_quoted(pattern: re.Pattern[str], key: str, lines: Sequence[str]) -> str:
    match = pattern.fullmatch(_fold(lines))
    if not match:
        raise FrontMatterError(f"the quotes of {key} do not end with its value")
    return match[1]


def _fold(lines: Sequence[str]) -> str:
    """Join lines with spaces; an empty line becomes a line break."""
    paragraphs = "\n".join(line.strip() for line in lines).strip("\n").split("\n\n")
    return "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs).strip()
