"""One exact replacement in a text, or the reason why it cannot be made. Knows nothing of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from ask.tools import ToolError

_COUNTED = 100
_LINES_TOLD = 5
_LINES_COMPARED = 5_000
_LINE_LENGTH = 300
_NEWLINE = r"(?:\r\n|(?<!\r)\n)"


def replace_once(text: str, old: str, new: str) -> tuple[str, int]:
    """`text` with `new` in the place of the only `old`, and the number of the line where that begins.

    A newline in `old` stands for CR LF too, and then `new` gets the line ends that are used there.

    Raises:
        ToolError: `old` is empty, the same as `new`, not there, or there more than once.
    """
    if not old:
        raise ToolError("old_text is empty: write_file makes a whole file")
    if old == new:
        raise ToolError("old_text and new_text are the same")
    verbatim = "\r\n" in old
    pattern = re.compile(re.escape(old) if verbatim else _NEWLINE.join(map(re.escape, old.split("\n"))))
    matches = list(islice(_find(pattern, text), _COUNTED + 1))
    if not matches:
        raise ToolError(f"old_text was not found{_nearest(text, old)}")
    if len(matches) > 1:
        raise ToolError(_ambiguous(text, matches))
    match = matches[0]
    if not verbatim and _has_crlf(match[0] if "\n" in match[0] else text):
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    return text[: match.start()] + new + text[match.end() :], _line(text, match)


def _find(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Every match, those that overlap included: which of these is meant cannot be known either."""
    match = pattern.search(text)
    while match:
        yield match
        match = pattern.search(text, match.start() + 1)


def _has_crlf(text: str) -> bool:
    return text.count("\r\n") * 2 > text.count("\n")


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def _ambiguous(text: str, matches: list[re.Match[str]]) -> str:
    count = str(len(matches)) if len(matches) <= _COUNTED else f"more than {_COUNTED}"
    lines = ", ".join(str(_line(text, match)) for match in matches[:_LINES_TOLD])
    more = ", ..." if len(matches) > _LINES_TOLD else ""
    return f"old_text is there {count} times (lines {lines}{more}): take more of what stands around the right one"


def _nearest(text: str, old: str) -> str:
    words = old.split()
    if not words:
        return ""
    match = re.search(r"\s+".join(map(re.escape, words)), text)
    if match:
        return f", but the same words with other white space are, from line {_line(text, match)} on: {match[0][:200]!r}"
    from difflib import get_close_matches

    first = next(line for line in old.split("\n") if line.strip())
    lines = [line for line in text.split("\n", _LINES_COMPARED) if len(line) <= _LINE_LENGTH]
    near = get_close_matches(first, lines, 1) if len(first) <= _LINE_LENGTH else []
    return f"; the nearest line is {near[0]!r}" if near else "; it must be exact, white space included"
