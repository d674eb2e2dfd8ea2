"""One exact replacement in a text, or the reason why it cannot be made. Knows nothing of files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ask.tools.base import ToolError

_MAX_OCCURRENCES_COUNTED = 100
_MAX_LINES_LISTED = 5
_MAX_LINES_COMPARED = 5_000
_MAX_WHITESPACE_SEARCH_LENGTH = 2_000_000
"""Characters of the longest text whose white space is passed over in search of what may be meant."""
_MAX_EXCERPT_LENGTH = 200


def replace_once(text: str, old_text: str, new_text: str) -> tuple[str, int]:
    """`text` with `new_text` in the place of the only `old_text`, and the number of the line where that begins.

    A newline in `old_text` stands for CR LF too, and then `new_text` gets the line ends that are used there; but not where
    `old_text` itself has a CR at the end of a line.

    The search takes time in proportion to the lengths: both texts are a stranger's.

    Raises:
        ToolError: `old_text` is empty, the same as `new_text`, not there, or there more than once.
    """
    if not old_text:
        raise ToolError("old_text is empty: write_file makes a whole file")
    if old_text == new_text:
        raise ToolError("old_text and new_text are the same")
    verbatim = "\r\n" in old_text or old_text.endswith("\r")
    searched = text if verbatim else text.replace("\r\n", "\n")
    places = list(islice(_find_occurrences(old_text, searched), _MAX_OCCURRENCES_COUNTED + 1))
    if not places:
        raise ToolError(f"old_text was not found{_suggest_match(text, old_text)}")
    if len(places) > 1:
        raise ToolError(_format_ambiguous_error(searched, places))
    start, end = places[0], places[0] + len(old_text)
    line = _get_line_number(searched, start)
    if len(searched) < len(text):
        start, end = _to_crlf_offset(text, start), _to_crlf_offset(text, end)
    replaced = text[start:end]
    if not verbatim and _has_mostly_crlf(replaced if "\n" in replaced else text):
        new_text = new_text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text[:start] + new_text + text[end:], line


def _find_occurrences(old_text: str, text: str) -> Iterator[int]:
    """Where it is, those that overlap included: which of these is meant cannot be known either."""
    place = text.find(old_text)
    while place >= 0:
        yield place
        place = text.find(old_text, place + 1)


def _to_crlf_offset(text: str, offset: int) -> int:
    """A place in the text with CR LF, from the same place with LF alone."""
    from bisect import bisect_right

    return bisect_right(range(len(text) + 1), offset, key=lambda end: end - text.count("\r\n", 0, end)) - 1


def _has_mostly_crlf(text: str) -> bool:
    return text.count("\r\n") * 2 > text.count("\n")


def _get_line_number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _format_ambiguous_error(text: str, offsets: list[int]) -> str:
    count = str(len(offsets)) if len(offsets) <= _MAX_OCCURRENCES_COUNTED else f"more than {_MAX_OCCURRENCES_COUNTED}"
    lines = ", ".join(str(_get_line_number(text, place)) for place in offsets[:_MAX_LINES_LISTED])
    more = ", ..." if len(offsets) > _MAX_LINES_LISTED else ""
    return f"old_text is there {count} times (lines {lines}{more}): take more of what stands around the right one"


def _suggest_match(text: str, old_text: str) -> str:
    """What may be meant by an `old_text` that is not there."""
    words = old_text.split()
    if not words:
        return ""
    if len(text) <= _MAX_WHITESPACE_SEARCH_LENGTH and (place := _find_ignoring_whitespace(text, words)) is not None:
        excerpt = _truncate_excerpt(text[place : place + _MAX_EXCERPT_LENGTH], sum(map(len, words)))
        line = _get_line_number(text, place)
        return f", but the same words with other white space are, from line {line} on: {excerpt!r}"
    from ask.suggestions import find_similar

    first = next(line for line in old_text.split("\n") if line.strip())
    near = find_similar(first, text.split("\n", _MAX_LINES_COMPARED)[:_MAX_LINES_COMPARED], 1)
    return f"; the nearest line is {near[0]!r}" if near else "; it must be exact, white space included"


def _find_ignoring_whitespace(text: str, words: list[str]) -> int | None:
    """Where these words are, whatever white space is between them. The first may be the end of a longer one."""
    single_spaced = " ".join(text.split())
    place = single_spaced.find(" ".join(words))
    if place < 0:
        return None
    whole_words = single_spaced.count(" ", 0, place)
    rest = text.split(None, whole_words)[-1]
    return len(text) - len(rest) + place - (single_spaced.rfind(" ", 0, place) + 1)


def _truncate_excerpt(text: str, character_count: int) -> str:
    """The beginning of a text, up to the last of so many letters: characters that are no white space."""
    ends = (end for end, character in enumerate(text, 1) if not character.isspace())
    return text[: next(islice(ends, character_count - 1, None), len(text))]
