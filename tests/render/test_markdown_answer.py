"""A streaming answer: in the end the terminal shows what it would have shown of the whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ask.render.live_region import LiveRegion
from ask.render.markdown_answer import MarkdownStreamRenderer
from tests.render.test_markdown_blocks import BLOCKS, LINES
from tests.screen import Screen

TABLE = "- item\n  - nested\n\n| Name | Size |\n|------|-----:|\n| one | 1 |\n\n"


class Shown:
    """An answer on a terminal, its block under way drawn anew for each piece."""

    def __init__(self, *, watched: bool) -> None:
        self.screen = Screen()
        self.bottom = LiveRegion(self.write, -1, {})
        self.answer = MarkdownStreamRenderer(self.bottom, lambda: watched, rest_factor=0)

    def write(self, text: str) -> None:
        self.screen.feed(text.replace("\n", "\r\n").encode())


@given(st.lists(st.sampled_from([*BLOCKS, *LINES]), max_size=14), st.integers(1, 30))
@example([TABLE, "end"], 1)
@example([TABLE, "end"], 7)
@example(["```py", *(f"x = {number}" for number in range(100)), "```", "end"], 9)
def test_a_streamed_answer_looks_like_a_complete_one(lines: list[str], size: int) -> None:
    text = "\n".join(lines)
    whole, streamed = Shown(watched=False), Shown(watched=True)
    whole.answer.feed(text)
    whole.answer.finish()
    for place in range(0, len(text), size):
        streamed.answer.feed(text[place : place + size])
    streamed.answer.finish()
    assert streamed.screen.lines == whole.screen.lines


@given(st.lists(st.sampled_from([*BLOCKS, *LINES]), max_size=14), st.integers(1, 30))
@example(["# Heading", "", "```", ""], 1)
def test_lines_of_others_are_shown_above_the_current_block(lines: list[str], place: int) -> None:
    text = "\n".join(lines)
    alone, disturbed = Shown(watched=True), Shown(watched=True)
    for piece in (text[:place], text[place:]):
        alone.answer.feed(piece)
        disturbed.answer.feed(piece)
        disturbed.answer.hide()
        disturbed.write("notice\n")
    alone.answer.finish()
    disturbed.answer.finish()
    shown = [line for line in disturbed.screen.lines if line != "notice"]
    while shown and not shown[-1]:  # a gap before code of which there is none, which ends no screen
        shown.pop()
    assert shown == alone.screen.lines


def lines_of(text: str, size: int = 4) -> list[str]:
    """The lines that a terminal shows in the end of an answer that comes in pieces of some characters."""
    shown = Shown(watched=True)
    for place in range(0, len(text), size):
        shown.answer.feed(text[place : place + size])
    shown.answer.finish()
    return shown.screen.lines


@pytest.mark.parametrize(
    "hostile",
    [
        "[red]no markup[/red] :smile: [link=http://x]y[/link]",
        "<b>no</b> <script>html</script>",
        "[a](javascript:alert(1))",
        "[1]: http://example.org",
        "![picture](http://example.org/x.png)",
    ],
)
def test_no_word_is_hidden(hostile: str) -> None:
    (line,) = lines_of(hostile)
    assert set(re.findall(r"\w+", hostile)) <= set(re.findall(r"\w+", line))


def test_a_very_long_line_is_shown_and_the_answer_continues_below() -> None:
    words = "word " * 800
    shown = "\n".join(lines_of(f"# One\n\n{words}\n\n# Two", 40))
    assert shown.startswith("One\n\nword word")
    assert shown.replace("\n", "").replace(" ", "").count("word") == 800
    assert shown.endswith("\n\nTwo")


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("| `ls | wc -l` | counts files |", ["ls | wc -l", "counts files"]),
        ("| `a` | b | c | d |", ["a", "b", "c", "d"]),
        ("`a` | b | c", ["a", "b", "c"]),
        ("| `x | y` | b | c |", ["`x", "y`", "b", "c"]),
    ],
)
@pytest.mark.parametrize("prefix", ["", "> "])
def test_no_cell_of_a_table_is_lost(row: str, cells: list[str], prefix: str) -> None:
    lines = ["| Command | What |", "|---|---|", "| `ls` | lists |", row]
    shown = lines_of("\n".join(prefix + line for line in lines))
    found = [part.strip() for part in shown[-1].removeprefix("│ ").split("│")]
    assert [cell for cell in found if cell] == cells


def test_html_is_shown_as_written() -> None:
    html = "<pre>\nx = a*b*2\n\n__init__ and `this`\n</pre>"
    shown = lines_of(f"*Above*\n{html}\n**below** <i title='*a*'>__x__</i>")
    assert "\n".join(line.rstrip() for line in shown) == f"Above\n{html}\nbelow <i title='*a*'>x</i>"
