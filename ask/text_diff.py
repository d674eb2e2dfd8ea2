"""How two texts differ, line by line. How that is shown is left to others."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_COMPARISONS = 4_000_000
"""How many pairs of lines are compared at most, those apart that are the same at both ends."""
LINES = re.compile(r"[^\n]*\n|[^\n]+")
NO_NEWLINE = "\\ No newline at end of file"


def unified(before: str, after: str) -> list[str] | None:
    """The hunks of a unified diff, a line each, without the two lines that name the files.

    Nothing where the texts are the same; None where it would take too long to compare them.
    """
    from difflib import unified_diff

    old, new = LINES.findall(before), LINES.findall(after)
    if _comparisons(old, new) > MOST_COMPARISONS:
        return None
    lines = []
    for line in list(unified_diff(old, new))[2:]:
        lines += [line.removesuffix("\n"), *([] if line.endswith("\n") else [NO_NEWLINE])]
    return lines


def _comparisons(before: Sequence[str], after: Sequence[str]) -> int:
    """How many pairs of lines must be compared at most."""
    head = _same(before, after)
    before, after = before[head:], after[head:]
    tail = _same(before[::-1], after[::-1])
    return (len(before) - tail) * (len(after) - tail)


def _same(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines are the same at the beginning."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(before), len(after)))
