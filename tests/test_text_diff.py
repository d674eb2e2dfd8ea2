"""Unified diffs of texts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.text_diff import MAX_DIFF_CHARACTERS, NO_NEWLINE, compare_texts, draw_diff, format_unified_diff

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


def draw(before: str, after: str, **options: Any) -> list[str]:
    """Return the rows of a diff without its first, the line numbers."""
    rows = [text for text, _ in draw_diff(compare_texts(before, after).lines, **options)]
    return rows[1:] if rows[0].startswith("@@") else rows


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("a\r\nb\r\n", "a\r\nc\r\n", [" a", "-b", "+c"]),
        ("a\r\nb\n", "a\nb\n", ["-a\\r", "+a", " b"]),
        ("\tx\n", "\ty\n", ["-    x", "+    y"]),
        ("\tx\n", "    x\n", ["-\\tx", "+    x"]),
        ("x  \n", "x\n", ["-x\\x20\\x20", "+x"]),
        ("x", "x\n", ["-x", NO_NEWLINE, "+x"]),
        ("", "a\nb\n", ["+a", "+b"]),
        ("", "a\r\nb\r\n", ["+a\\r", "+b\\r"]),
        ("x\n", "x\u200b\n", ["-x", "+x\\u200b"]),
        ("x\n", "\U000e0041\u202ex\n", ["-x", "+\\U000e0041\\u202ex"]),
        ("a\n", "", ["-a"]),
    ],
)
def test_changes_that_cannot_be_seen_are_made_visible(before: str, after: str, rows: list[str]) -> None:
    assert draw(before, after) == rows


def test_a_limit_counts_the_lines_that_are_left_out() -> None:
    assert draw("", "a\n" * 13, limit=12) == [*["+a"] * 12, "… 1 more line"]
    assert draw("", "a\n" * 1_512, limit=12)[-1] == "… 1,500 more lines"


def test_long_lines_begin_shortly_before_their_difference() -> None:
    start, end = "x" * 500, "y" * 500
    removed, note, added, _ = draw(f"{start}1{end}", f"{start}2{end}", width=60)
    assert (removed, added) == (f"-…{'x' * 20}1{end}", f"+…{'x' * 20}2{end}")
    assert note == NO_NEWLINE
    assert draw(f"{start}1", f"{start}2")[0] == f"-{start}1"


def test_a_diff_is_counted_even_where_it_is_not_kept() -> None:
    diff = compare_texts("", "a\n" * MAX_DIFF_CHARACTERS)
    assert (diff.added, len(diff.lines) + diff.omitted) == (MAX_DIFF_CHARACTERS, MAX_DIFF_CHARACTERS + 1)
    assert 0 < len(diff.lines) < MAX_DIFF_CHARACTERS


def test_very_long_lines_are_shortened_but_show_where_they_differ() -> None:
    start, end = "x" * MAX_DIFF_CHARACTERS, "y" * MAX_DIFF_CHARACTERS
    diff = compare_texts(f"{start}1{end}", f"{start}2{end}")
    assert (diff.added, diff.removed, diff.omitted) == (1, 1, 0)
    removed, _, added, _ = draw(f"{start}1{end}", f"{start}2{end}", width=60)
    assert (removed[:24], added[:24]) == (f"-…{'x' * 20}1y", f"+…{'x' * 20}2y")
    assert sum(map(len, diff.lines)) < MAX_DIFF_CHARACTERS


@given(TEXTS, TEXTS)
def test_a_drawn_diff_shows_every_line_on_one_row(before: str, after: str) -> None:
    lines = format_unified_diff(before, after) or []
    assert [text for text, _ in draw_diff(lines, exact=True)] == lines
    rows = [text for text, _ in draw_diff(lines)]
    is_new = bool(lines) and lines[0].startswith("@@ -0,0 ")
    assert len(rows) == len(lines) - is_new
    assert not any("\r" in row or "\n" in row for row in rows)


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
