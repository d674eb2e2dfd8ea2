"""Unified diffs of texts."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ask.undo.text_diff import NO_NEWLINE, format_unified_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "", "\r", "-- x", "@@", "\u2028"]), max_size=8).map("\n".join)


def test_equal_texts_have_no_diff() -> None:
    assert format_unified_diff("a\n", "a\n") == []
    assert format_unified_diff("", "") == []


def test_a_missing_newline_is_marked() -> None:
    assert format_unified_diff("a\n", "a") == ["@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]


def test_texts_with_too_many_different_lines_are_not_compared() -> None:
    many = "".join(f"{number}\n" for number in range(2_001))
    assert format_unified_diff(many, many.replace("\n", "x\n")) is None
    assert format_unified_diff(many, many + "x\n") is not None
    assert format_unified_diff("x\n" + many, "y\n" + many) is not None


@given(TEXTS, TEXTS)
def test_applying_the_diff_produces_the_other_text(before: str, after: str) -> None:
    hunks = format_unified_diff(before, after)
    assert hunks is not None
    assert apply_diff(before, hunks) == after


def apply_diff(text: str, hunks: list[str]) -> str:
    """Apply a diff, which must match the text."""
    old = re.findall(r"[^\n]*\n|[^\n]+", text)
    new: list[str] = []
    taken = 0
    for place, line in enumerate(hunks):
        if head := re.fullmatch(r"@@ -(\d+)(,0)?(?:,\d+)? \+\d+(?:,\d+)? @@", line):
            start = int(head[1]) - (not head[2])
            new += old[taken:start]
            taken = start
        elif line != NO_NEWLINE:
            content = line[1:] + ("" if hunks[place + 1 : place + 2] == [NO_NEWLINE] else "\n")
            if line[0] in " -":
                assert old[taken] == content
                taken += 1
            if line[0] in " +":
                new.append(content)
    return "".join(new + old[taken:])
