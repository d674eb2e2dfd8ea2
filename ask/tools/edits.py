"""Replace a text that occurs exactly once in a string, or explain why that is not possible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from ask.suggestions import find_similar
from ask.tools.base import ToolError

_MAX_OCCURRENCES_COUNTED = 100
_MAX_LINES_LISTED = 5
_MAX_LINES_COMPARED = 5_000
_MAX_WHITESPACE_SEARCH_COST = 50_000_000
"""Characters of the text times words to find, up to which differences in white space are ignored: about a second."""
_MAX_EXCERPT_LENGTH = 200


def replace_once(text: str, old_text: str, new_text: str) -> tuple[str, int]:
    """Replace the only occurrence of `old_text`; return the new text and the line number.

    A newline in `old_text` also matches CR LF, and `new_text` then gets the line endings used there. This does not
    apply if a line of `old_text` itself ends with CR.

    The search takes linear time, because both texts are untrusted.

    Raises:
        ToolError: `old_text` is empty, equal to `new_text`, missing, or found more than once.
    """
    if not old_text:
        raise ToolError("old_text is empty: write_file makes a whole file")
    if old_text == new_text:
        raise ToolError("old_text and new_text are the same")
    match_exactly = "\r\n" in old_text or old_text.endswith("\r")
    haystack = text if match_exactly else text.replace("\r\n", "\n")
    offsets = list(islice(_find_occurrences(old_text, haystack), _MAX_OCCURRENCES_COUNTED + 1))
    if not offsets:
        raise ToolError(f"old_text was not found{_suggest_match(text, old_text)}")
    if len(offsets) > 1:
        raise ToolError(_format_ambiguous_error(haystack, offsets))
    start, end = offsets[0], offsets[0] + len(old_text)
    line = _get_line_number(haystack, start)
    if len(haystack) < len(text):
        start, end = _to_crlf_offset(text, start), _to_crlf_offset(text, end)
    replaced = text[start:end]
    if not match_exactly and _has_mostly_crlf(replaced if "\n" in replaced else text):
        new_text = new_text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text[:start] + new_text + text[end:], line


def _find_occurrences(old_text: str, text: str) -> Iterator[int]:
    """Yield the offset of every occurrence, overlapping ones too: those are ambiguous as well."""
    offset = text.find(old_text)
    while offset >= 0:
        yield offset
        offset = text.find(old_text, offset + 1)


def _to_crlf_offset(text: str, offset: int) -> int:
    """Convert an offset in the text with LF to the offset in the same text with CR LF."""
    from bisect import bisect_right

    return bisect_right(range(len(text) + 1), offset, key=lambda end: end - text.count("\r\n", 0, end)) - 1


def _has_mostly_crlf(text: str) -> bool:
    return text.count("\r\n") * 2 > text.count("\n")


def _get_line_number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _format_ambiguous_error(text: str, offsets: list[int]) -> str:
    count = str(len(offsets)) if len(offsets) <= _MAX_OCCURRENCES_COUNTED else f"more than {_MAX_OCCURRENCES_COUNTED}"
    lines = ", ".join(str(_get_line_number(text, offset)) for offset in offsets[:_MAX_LINES_LISTED])
    more = ", ..." if len(offsets) > _MAX_LINES_LISTED else ""
    return f"old_text is there {count} times (lines {lines}{more}): take more of what stands around the right one"


def _suggest_match(text: str, old_text: str) -> str:
    """Suggest what the model may have meant by an `old_text` that was not found."""
    words = old_text.split()
    if not words:
        return ""
    if len(text) * len(words) <= _MAX_WHITESPACE_SEARCH_COST:
        match = re.search(r"\s++".join(map(re.escape, words)), text)
        if match:
            line, excerpt = _get_line_number(text, match.start()), match[0][:_MAX_EXCERPT_LENGTH]
            return f", but the same words with other white space are, from line {line} on: {excerpt!r}"
    first_line = next(line for line in old_text.split("\n") if line.strip())
    similar_lines = find_similar(first_line, text.split("\n", _MAX_LINES_COMPARED)[:_MAX_LINES_COMPARED], 1)
    return (
        f"; the nearest line is {similar_lines[0]!r}" if similar_lines else "; it must be exact, white space included"
    )
