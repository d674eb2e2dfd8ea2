"""How two texts differ, line by line. How that is shown is left to others."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_COMPARISONS = 4_000_000
"""How many pairs of lines are compared at most, those apart that are the same at both ends."""
LINE_PATTERN = re.compile(r"[^\n]*\n|[^\n]+")
NO_NEWLINE = "\\ No newline at end of file"


def format_unified_diff(before: str, after: str) -> list[str] | None:
    """The hunks of a unified diff, a line each, without the two lines that name the files.

    Nothing where the texts are the same; None where it would take too long to compare them.
    """
    from difflib import unified_diff

    old, new = LINE_PATTERN.findall(before), LINE_PATTERN.findall(after)
    if _count_comparisons(old, new) > MAX_COMPARISONS:
        return None
    lines = []
    for line in list(unified_diff(old, new))[2:]:
        lines += [line.removesuffix("\n"), *([] if line.endswith("\n") else [NO_NEWLINE])]
    return lines


def _count_comparisons(before: Sequence[str], after: Sequence[str]) -> int:
    """How many pairs of lines must be compared at most."""
    head = _count_common_lines(before, after)
    before, after = before[head:], after[head:]
    tail = _count_common_lines(before[::-1], after[::-1])
    return (len(before) - tail) * (len(after) - tail)


def _count_common_lines(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines are the same at the beginning."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(before), len(after)))
