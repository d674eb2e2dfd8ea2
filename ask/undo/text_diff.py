"""Line diffs of two texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

MAX_COMPARISONS = 4_000_000
"""The largest number of line pairs to compare, not counting common lines at the beginning and end."""
LINE_PATTERN = re.compile(r"[^\n]*\n|[^\n]+")
NO_NEWLINE = "\\ No newline at end of file"


def format_unified_diff(before: str, after: str) -> list[str] | None:
    """Return the lines of a unified diff, without the two lines that name the files.

    Returns [] if the texts are equal, and None if comparing them would take too long.
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
    """Return the maximum number of line pairs to compare."""
    head = _count_common_lines(before, after)
    before, after = before[head:], after[head:]
    tail = _count_common_lines(before[::-1], after[::-1])
    return (len(before) - tail) * (len(after) - tail)


def _count_common_lines(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the lines that are the same at the beginning."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))])
