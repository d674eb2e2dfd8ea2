"""Line diffs of two texts, and how they are drawn for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from ask.console import CYAN, DIM, GREEN, RED
from ask.records import NamedTuple
from ask.text import escape_control_characters, escape_invisible_characters, measure_width

MAX_COMPARISONS = 4_000_000
"""The largest number of line pairs to compare, not counting common lines at the beginning and end."""
MAX_DIFF_CHARACTERS = 100_000
"""Maximum number of characters in a `TextDiff`."""
MAX_LINE_CHARACTERS = 2_000
"""Maximum length of a line in a `TextDiff` that would have too many characters."""
LINE_PATTERN = re.compile(r"[^\n]*\n|[^\n]+")
NO_NEWLINE = "\\ No newline at end of file"
TOO_DIFFERENT = "too many changes to show"
_LINE_STYLES = {"-": RED, "+": GREEN, "@": CYAN, "\\": DIM}
_CONTEXT_LINES = 3
_NEW_FILE_HEADER = "@@ -0,0 "
_TAB_WIDTH = 4
_KEPT_START = 20
"""How much of what two long lines have in common is shown before their difference, in characters."""


class TextDiff(NamedTuple):
    """How a call has changed a file.

    Attributes:
        lines: The lines of a unified diff, without the two that name the files.
        added: How many lines were added.
        removed: How many lines were removed.
        omitted: How many lines of the diff are not in `lines`.
        note: Why there are no lines; "" if there are.
    """

    lines: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    omitted: int = 0
    note: str = ""


def compare_texts(before: str, after: str) -> TextDiff:
    """Return the difference between two texts, up to `MAX_DIFF_CHARACTERS`."""
    lines = format_unified_diff(before, after)
    if lines is None:
        return TextDiff(note=TOO_DIFFERENT)
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    if sum(map(len, lines)) > MAX_DIFF_CHARACTERS:
        lines = _shorten_pairs(lines, MAX_LINE_CHARACTERS, "…")
        lines = [f"{line[:MAX_LINE_CHARACTERS]}…" if len(line) > MAX_LINE_CHARACTERS else line for line in lines]
    length = kept = 0
    while kept < len(lines) and (length := length + len(lines[kept])) <= MAX_DIFF_CHARACTERS:
        kept += 1
    return TextDiff(tuple(lines[:kept]), added, removed, len(lines) - kept)


def format_unified_diff(before: str, after: str) -> list[str] | None:
    """Return the lines of a unified diff, without the two lines that name the files.

    Returns [] if the texts are equal, and None if comparing them would take too long.
    """
    from difflib import unified_diff

    old, new = LINE_PATTERN.findall(before), LINE_PATTERN.findall(after)
    head = _count_common(old, new)
    tail = _count_common(old[head:][::-1], new[head:][::-1])
    if (len(old) - head - tail) * (len(new) - head - tail) > MAX_COMPARISONS:
        return None
    # Without most of what is equal, because difflib needs seconds for a large file.
    start, end = max(head - _CONTEXT_LINES, 0), max(tail - _CONTEXT_LINES, 0)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    lines = []
    for line in list(unified_diff(old, new, n=_CONTEXT_LINES))[2:]:
        lines += [line.removesuffix("\n"), *([] if line.endswith("\n") else [NO_NEWLINE])]
        if line.startswith("@"):
            lines[-1] = re.sub(r"(?<=[-+])\d+", lambda match: str(int(match[0]) + start), lines[-1])
    return lines


def draw_diff(
    lines: Sequence[str],
    *,
    exact: bool = False,
    limit: int = 0,
    omitted: int = 0,
    width: int = 0,
    ellipsis: str = "…",
) -> Iterator[tuple[str, str]]:
    """Yield the rows of a diff, each with its style. A new file has no line numbers.

    Changes that cannot be seen become visible: line ends that are not the same everywhere, and white space where
    nothing else has changed. Other tabs become spaces.

    Args:
        lines: The lines of a unified diff.
        exact: Yield the lines as they are, with their styles.
        limit: The maximum number of lines, 0 for all. A last row says how many more there are.
        omitted: How many more lines there are that are not in `lines`.
        width: The width of the rows that the caller will cut off, 0 if it will not. What two long lines have in common
            at their beginning is then left out.
        ellipsis: Stands for what is left out.
    """
    if exact:
        yield from ((line, _LINE_STYLES.get(line[:1], "")) for line in lines)
        return
    lines = lines[1:] if lines and lines[0].startswith(_NEW_FILE_HEADER) else lines
    shown = list(lines[:limit] if limit else lines)
    omitted += len(lines) - len(shown)
    changed_lines = [line for line in lines if line[:1] in (" ", "+", "-")]
    is_new = all(line[:1] == "+" for line in changed_lines)
    has_crlf = not is_new and all(line.endswith("\r") for line in changed_lines)
    respaced = set.intersection(*({"".join(line[1:].split()) for line in lines if line[:1] == sign} for sign in "+-"))
    texts = []
    for line in shown:
        sign, content = line[:1], line[1:].removesuffix("\r") if has_crlf else line[1:].replace("\r", "\\r")
        if sign in ("+", "-") and "".join(content.split()) in respaced:
            visible = content.rstrip(" ")
            content = visible.replace("\t", "\\t") + "\\x20" * (len(content) - len(visible))
        content = escape_control_characters(content.expandtabs(_TAB_WIDTH))
        texts.append(sign + escape_invisible_characters(content))
    for text in _shorten_pairs(texts, width, ellipsis) if width else texts:
        yield text, _LINE_STYLES.get(text[:1], "")
    if omitted:
        yield f"{ellipsis} {omitted:,} more line{'' if omitted == 1 else 's'}", DIM


def cut_row(row: str, limit: int) -> str:
    """Cut off what is longer than the limit, and say how much that is: the row is to be approved."""
    omitted = len(row) - limit
    return f"{row[:limit]}[... {omitted:,} more characters ...]" if omitted > 0 else row


def _shorten_pairs(texts: Sequence[str], width: int, ellipsis: str) -> list[str]:
    """Leave out the common beginning of a removed line and the added one in its place, if they are too long."""
    shortened = list(texts)
    positions = (position for position, text in enumerate(texts) if text != NO_NEWLINE)
    blocks = [(sign, [*block]) for sign, block in groupby(positions, lambda position: texts[position][:1])]
    for (sign, removed), (next_sign, added) in pairwise(blocks):
        for old, new in zip(removed, added, strict=False) if (sign, next_sign) == ("-", "+") else ():
            start = _count_common(texts[old][1:], texts[new][1:]) - min(_KEPT_START, width // 3)
            if start > 0 and max(measure_width(texts[old]), measure_width(texts[new])) > width:
                shortened[old], shortened[new] = (
                    f"{texts[one][:1]}{ellipsis}{texts[one][1 + start :]}" for one in (old, new)
                )
    return shortened


def _count_common(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the lines, or the characters of two lines, that are the same at the beginning."""
    count, end = 0, min(len(before), len(after))
    while count < end:
        middle = (count + end + 1) // 2
        if before[count:middle] == after[count:middle]:
            count = middle
        else:
            end = middle - 1
    return count
