"""The live region: the screen shows all text, and lines above the region are never redrawn."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.live_region import CLEAR_BELOW, LiveRegion, TerminalRow
from tests.program import run
from tests.screen import Screen

COLUMNS = 20
WORDS = st.text(st.sampled_from("a漢"), max_size=3)
LINES = st.lists(WORDS, max_size=4)


class LiveScreen:
    """A terminal with a live region."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.written: list[str] = []
        self.interrupted = False
        self.screen = Screen(COLUMNS, 10)
        self.region = LiveRegion(self.write, -1, environment or {})

    def write(self, text: str) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.written.append(text)
        self.screen.feed(text.replace("\n", "\r\n").encode())

    def show(self, finished_lines: list[str], rows: list[str]) -> None:
        self.region.update(finished_lines, [TerminalRow(row, len(row)) for row in rows])


def strip_empty_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


@given(st.lists(st.tuples(LINES, LINES), max_size=12))
def test_finished_lines_are_shown_above_the_live_rows(steps: list[tuple[list[str], list[str]]]) -> None:
    live = LiveScreen()
    lines_above: list[str] = []
    for finished_lines, rows in steps:
        live.show(finished_lines, rows)
        lines_above += finished_lines
        assert live.screen.lines == strip_empty_end([*lines_above, *rows])


def test_only_what_differs_is_written() -> None:
    live = LiveScreen()
    for rows in (["a"], ["a b"], ["a b", "c"], ["a b", "d"], ["a b", "d"]):
        live.show([], rows)
    live.show(["a b", "d"], [])
    assert live.written == ["a", " b", "\nc", f"\r{CLEAR_BELOW}d", "\n"]


def test_the_cursor_follows_the_last_row_when_rows_are_removed() -> None:
    live = LiveScreen()
    for rows in (["a", "b", "c"], ["a"], ["ab"], []):
        live.show([], rows)
        assert live.screen.lines == rows
    live.show([], ["a", "b"])
    live.show(["a"], [])
    live.show(["b"], [])
    assert live.screen.lines == ["a", "b"]


def test_long_lines_are_wrapped_by_the_terminal() -> None:
    live = LiveScreen()
    live.show([], ["x" * COLUMNS, "yyy"])
    live.show(["x" * COLUMNS + "yyy", "z"], ["live"])
    assert live.screen.lines == ["x" * COLUMNS, "yyy", "z", "live"]


def test_output_of_other_programs_is_kept() -> None:
    live = LiveScreen()
    live.show(["done"], ["live"])
    live.region.mark_cursor_lost()
    live.write("\n[1]+ Stopped")
    live.show(["live!"], ["more"])
    assert live.screen.lines == ["done", "live", "[1]+ Stopped", "live!", "more"]


def test_an_interrupted_write_loses_no_line() -> None:
    live = LiveScreen()
    live.show(["done"], ["one", "two"])
    live.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        live.show([], ["one", "2"])
    live.interrupted = False
    live.show(["end"], [])
    assert live.screen.lines == ["done", "one", "two", "end"]


@pytest.mark.needs("tmux")
def test_rows_at_the_top_of_a_tmux_window_leave_no_copies(tmp_path: Path) -> None:
    code = (
        "import os, time; from ask.render.live_region import CLEAR_BELOW, LiveRegion, TerminalRow\n"
        "region = LiveRegion(lambda text: os.write(1, text.encode()), 1, os.environ)\n"
        "for n in range(5): region.update((), [TerminalRow(f'{n + row}', 1) for row in range(3)])\n"
        "region.update(['one', 'two', 'end'], ()); time.sleep(60)"
    )
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", os.devnull]
    program = shlex.join([sys.executable, "-c", code])
    run([*tmux, "new-session", "-d", "-x", "20", "-y", "5", program], env={**os.environ, "SHELL": "/bin/sh"})
    try:
        deadline = time.monotonic() + 30
        while "end" not in (shown := run([*tmux, "capture-pane", "-p", "-S", "-"]).text):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)
    finally:
        run([*tmux, "kill-server"])
    assert shown.split() == ["one", "two", "end"]
