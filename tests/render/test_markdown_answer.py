"""A streaming answer: in the end the terminal shows what it would have shown of the whole."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ask.render.bottom import Bottom
from ask.render.markdown_answer import MarkdownAnswer
from tests.render.test_markdown_blocks import BLOCKS, LINES
from tests.screen import Screen

TABLE = "- item\n  - nested\n\n| Name | Size |\n|------|-----:|\n| one | 1 |\n\n"


class Shown:
    """An answer on a terminal, its block under way drawn anew for each piece."""

    def __init__(self, *, watched: bool) -> None:
        self.screen = Screen()
        self.bottom = Bottom(self.write, -1, {})
        self.answer = MarkdownAnswer(self.bottom, lambda: watched, rest=0)

    def write(self, text: str) -> None:
        self.screen.feed(text.replace("\n", "\r\n").encode())


@settings(max_examples=60)
@given(st.lists(st.sampled_from([*BLOCKS, *LINES]), max_size=14), st.integers(1, 30))
@example([TABLE, "end"], 1)
@example([TABLE, "end"], 7)
@example(["```py", *(f"x = {number}" for number in range(100)), "```", "end"], 9)
def test_streamed_it_looks_as_it_does_at_once(lines: list[str], size: int) -> None:
    text = "\n".join(lines)
    whole, streamed = Shown(watched=False), Shown(watched=True)
    whole.answer.feed(text)
    whole.answer.end()
    for place in range(0, len(text), size):
        streamed.answer.feed(text[place : place + size])
    streamed.answer.end()
    assert streamed.screen.lines == whole.screen.lines


@given(st.lists(st.sampled_from([*BLOCKS, *LINES]), max_size=14), st.integers(1, 30))
@example(["# Heading", "", "```", ""], 1)
def test_somebody_elses_lines_stand_above_the_block_under_way(lines: list[str], place: int) -> None:
    text = "\n".join(lines)
    alone, disturbed = Shown(watched=True), Shown(watched=True)
    for piece in (text[:place], text[place:]):
        alone.answer.feed(piece)
        disturbed.answer.feed(piece)
        disturbed.answer.hide()
        disturbed.write("notice\n")
    alone.answer.end()
    disturbed.answer.end()
    shown = [line for line in disturbed.screen.lines if line != "notice"]
    while shown and not shown[-1]:  # a gap before code of which there is none, which ends no screen
        shown.pop()
    assert shown == alone.screen.lines
