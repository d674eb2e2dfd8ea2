"""The rows that may change: what a terminal shows is what was said, and nothing above them is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.live_region import LiveRegion, TerminalRow
from tests.screen import Screen

COLUMNS = 20
WORDS = st.text(st.sampled_from("a漢"), max_size=3)
LINES = st.lists(WORDS, max_size=4)


class Shown:
    """A terminal, and the rows at its end."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.written: list[str] = []
        self.interrupted = False
        self.screen = Screen(COLUMNS, 10)
        self.bottom = LiveRegion(self.write, -1, environment or {})

    def write(self, text: str) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.written.append(text)
        self.screen.feed(text.replace("\n", "\r\n").encode())

    def show(self, done: list[str], rows: list[str]) -> None:
        self.bottom.update(done, [TerminalRow(row, len(row)) for row in rows])


def without_empty_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


@given(st.lists(st.tuples(LINES, LINES, st.booleans()), max_size=12))
def test_finished_lines_are_shown_above_the_live_rows(steps: list[tuple[list[str], list[str], bool]]) -> None:
    shown = Shown()
    above: list[str] = []
    for done, rows, stream in steps:
        if stream:
            shown.bottom.write_text("".join(f"{line}\n" for line in done) or "\n")
            above += done or [""]
        else:
            shown.show(done, rows)
            above += done
        assert shown.screen.lines == without_empty_end([*above, *([] if stream else rows)])


def test_only_what_differs_is_written() -> None:
    shown = Shown()
    for rows in (["a"], ["a b"], ["a b", "c"], ["a b", "d"], ["a b", "d"]):
        shown.show([], rows)
    shown.show(["a b", "d"], [])
    assert shown.written == ["a", " b", "\nc", "\r\x1b[Jd", "\n"]


def test_the_cursor_follows_the_last_row_when_rows_are_removed() -> None:
    shown = Shown()
    for rows in (["a", "b", "c"], ["a"], ["ab"], []):
        shown.show([], rows)
        assert shown.screen.lines == rows
    shown.show([], ["a", "b"])
    shown.show(["a"], [])
    shown.show(["b"], [])
    assert shown.screen.lines == ["a", "b"]


def test_long_lines_are_wrapped_by_the_terminal() -> None:
    shown = Shown()
    shown.show([], ["x" * COLUMNS, "yyy"])
    shown.show(["x" * COLUMNS + "yyy", "z"], ["live"])
    assert shown.screen.lines == ["x" * COLUMNS, "yyy", "z", "live"]


def test_output_of_others_is_kept() -> None:
    shown = Shown()
    shown.show(["done"], ["live"])
    shown.bottom.mark_cursor_lost()
    shown.write("\n[1]+ Stopped")
    shown.show(["live!"], ["more"])
    assert shown.screen.lines == ["done", "live", "[1]+ Stopped", "live!", "more"]


def test_an_interrupted_write_loses_no_line() -> None:
    shown = Shown()
    shown.show(["done"], ["one", "two"])
    shown.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        shown.show([], ["one", "2"])
    shown.interrupted = False
    shown.show(["end"], [])
    assert shown.screen.lines == ["done", "one", "two", "end"]


def test_an_unfinished_line_is_ended_before_the_next_output() -> None:
    shown = Shown()
    shown.show([], ["live"])
    shown.bottom.write_text("aaa")
    shown.bottom.write_text("bbb")
    shown.show([], [])
    shown.show(["done"], [])
    assert shown.screen.lines == ["aaabbb", "done"]
