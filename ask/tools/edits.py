"""One exact replacement in a text, or the reason why it cannot be made. Knows nothing of files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ask.tools.base import ToolError

_COUNTED = 100
_LINES_TOLD = 5
_LINES_COMPARED = 5_000
_WORDS_COMPARED = 2_000_000
"""Characters of the longest text whose white space is passed over in search of what may be meant."""
_EXCERPT = 200


def replace_once(text: str, old: str, new: str) -> tuple[str, int]:
    """`text` with `new` in the place of the only `old`, and the number of the line where that begins.

    A newline in `old` stands for CR LF too, and then `new` gets the line ends that are used there; but not where
    `old` itself has a CR at the end of a line.

    The search takes time in proportion to the lengths: both texts are a stranger's.

    Raises:
        ToolError: `old` is empty, the same as `new`, not there, or there more than once.
    """
    if not old:
        raise ToolError("old_text is empty: write_file makes a whole file")
    if old == new:
        raise ToolError("old_text and new_text are the same")
    verbatim = "\r\n" in old or old.endswith("\r")
    searched = text if verbatim else text.replace("\r\n", "\n")
    places = list(islice(_find(old, searched), _COUNTED + 1))
    if not places:
        raise ToolError(f"old_text was not found{_nearest(text, old)}")
    if len(places) > 1:
        raise ToolError(_ambiguous(searched, places))
    start, end = places[0], places[0] + len(old)
    line = _line(searched, start)
    if len(searched) < len(text):
        start, end = _before_replacing(text, start), _before_replacing(text, end)
    replaced = text[start:end]
    if not verbatim and _has_crlf(replaced if "\n" in replaced else text):
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    return text[:start] + new + text[end:], line


def _find(old: str, text: str) -> Iterator[int]:
    """Where it is, those that overlap included: which of these is meant cannot be known either."""
    place = text.find(old)
    while place >= 0:
        yield place
        place = text.find(old, place + 1)


def _before_replacing(text: str, place: int) -> int:
    """A place in the text with CR LF, from the same place with LF alone."""
    from bisect import bisect_right

    return bisect_right(range(len(text) + 1), place, key=lambda end: end - text.count("\r\n", 0, end)) - 1


def _has_crlf(text: str) -> bool:
    return text.count("\r\n") * 2 > text.count("\n")


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _ambiguous(text: str, places: list[int]) -> str:
    count = str(len(places)) if len(places) <= _COUNTED else f"more than {_COUNTED}"
    lines = ", ".join(str(_line(text, place)) for place in places[:_LINES_TOLD])
    more = ", ..." if len(places) > _LINES_TOLD else ""
    return f"old_text is there {count} times (lines {lines}{more}): take more of what stands around the right one"


def _nearest(text: str, old: str) -> str:
    """What may be meant by an `old` that is not there."""
    words = old.split()
    if not words:
        return ""
    if len(text) <= _WORDS_COMPARED and (place := _same_words(text, words)) is not None:
        excerpt = _excerpt(text[place : place + _EXCERPT], sum(map(len, words)))
        line = _line(text, place)
        return f", but the same words with other white space are, from line {line} on: {excerpt!r}"
    from ask.suggestions import find_similar

    first = next(line for line in old.split("\n") if line.strip())
    near = find_similar(first, text.split("\n", _LINES_COMPARED)[:_LINES_COMPARED], 1)
    return f"; the nearest line is {near[0]!r}" if near else "; it must be exact, white space included"


def _same_words(text: str, words: list[str]) -> int | None:
    """Where these words are, whatever white space is between them. The first may be the end of a longer one."""
    single_spaced = " ".join(text.split())
    place = single_spaced.find(" ".join(words))
    if place < 0:
        return None
    whole_words = single_spaced.count(" ", 0, place)
    rest = text.split(None, whole_words)[-1]
    return len(text) - len(rest) + place - (single_spaced.rfind(" ", 0, place) + 1)


def _excerpt(text: str, letters: int) -> str:
    """The beginning of a text, up to the last of so many letters: characters that are no white space."""
    ends = (end for end, character in enumerate(text, 1) if not character.isspace())
    return text[: next(islice(ends, letters - 1, None), len(text))]
