"""Command output without what is only meant for a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.base import RunToolContext
from ask.tools.definitions import BASH
from ask.tools.terminal_output import MAX_LINE_CHARACTERS, TerminalOutputFilter, render_lines
from tests.screen import Screen

PIECES = st.lists(
    st.sampled_from(["a", "bcd", "\r", "\b", "\n", "\r\n", "\x1b[31m", "\x1b[K", "\x1b[2K", "\x1b[1G", "\x1b]0;t\x07"]),
    max_size=12,
)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("\x1b[1;31merror\x1b[0m: no\n", "error: no\n"),
        ("\x1b[38;2;1;2;3mx\x1b[m", "x"),
        ("\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        (" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        (" 10%\r 50%\r", " 50%"),
        ("Downloading\rDone\x1b[K\n", "Done\n"),
        ("long line\rab\n", "long line\nab\n"),
        ("long line\rab       \n", "ab       \n"),
        ("1/2 a long name\r2/2 a name\rdone\r\n", "1/2 a long name\n2/2 a name\ndone\r\n"),
        ("50%\rwarning: disk full\r100%\n", "warning: disk full\n100%\n"),
        ("name\r\tage\r\n", "name\n\tage\r\n"),  # paste with a file of Windows
        ("50%\r\x1b[2K\r", ""),
        ("old\rMac\rfile: one line\rtwo\r", "old\nMac\nfile: one line\ntwo"),
        ("old\rMac\rfile: one line\rtwo\rend\n", "file: one line\nend\n"),
        ("one\x1b[2K\x1b[1Gtwo\n", "two\n"),
        ("ab\b\bcd\n", "cd\n"),
        ("o\bover\n", "over\n"),
        ("dos\r\nlines\r\n", "dos\r\nlines\r\n"),
        ("10%\r20%\r\n", "20%\r\n"),
        ("\x1b(B\x1b[?25lx\x1b[?25h\x1bM", "x"),
        ("plain\ttext\n", "plain\ttext\n"),
    ],
)
def test_the_last_state_of_a_line_counts(output: str, text: str) -> None:
    output_filter = TerminalOutputFilter()
    assert output_filter.feed(output) + output_filter.finish() == text


@given(PIECES)
def test_chunks_are_filtered_like_the_complete_output(pieces: list[str]) -> None:
    output_filter = TerminalOutputFilter()
    filtered = "".join([*map(output_filter.feed, pieces), output_filter.finish()])
    text = "".join(pieces)
    lines, newline, last_line = text.rpartition("\n")
    end = last_line.rstrip("\r")
    rest = render_lines(end)
    if not newline and "\n" in rest:
        rest = "\n".join(map(render_lines, end.split("\r")))
    assert filtered == render_lines(lines) + newline + rest


@given(PIECES.filter(lambda pieces: "\x1b]0;t\x07" not in pieces))
def test_lines_are_as_a_terminal_shows_them(pieces: list[str]) -> None:
    pieces = [f"{piece}\x1b[K" if piece in ("\r", "\x1b[1G") else piece for piece in pieces]
    screen = Screen(80, 30)
    screen.feed("".join(pieces).replace("\n", "\r\n").encode())
    shown = [line.rstrip() for line in render_lines("".join(pieces)).replace("\r\n", "\n").rstrip("\n").split("\n")]
    assert "\n".join(shown).rstrip("\r\n") == "\n".join(screen.lines).rstrip()


def test_an_endless_line_is_not_kept_in_memory() -> None:
    output_filter = TerminalOutputFilter()
    assert len(output_filter.feed("x" * (MAX_LINE_CHARACTERS + 1))) == MAX_LINE_CHARACTERS + 1
    assert output_filter.finish() == ""


@pytest.mark.parametrize("end", ["", "\n", "\x1b[K\n"])
def test_endless_progress_is_left_in_its_last_state(end: str) -> None:
    output_filter = TerminalOutputFilter()
    states = [f"{number:7} of 20000" for number in range(20_000)]
    output = "".join(f"{state}\r" for state in states) + states[-1] + end
    parts = [output_filter.feed(output[place : place + 999]) for place in range(0, len(output), 999)]
    assert "".join([*parts, output_filter.finish()]) == states[-1] + end.removeprefix("\x1b[K")


def test_each_line_of_a_long_file_of_an_old_mac_is_kept() -> None:
    output_filter = TerminalOutputFilter()
    lines = [f"line {number}" if number % 3 else "-" for number in range(20_000)]
    output = "\r".join(lines)
    parts = [output_filter.feed(output[place : place + 999]) for place in range(0, len(output), 999)]
    assert "".join([*parts, output_filter.finish()]).split("\n") == lines


def test_commands_see_no_editor_or_pager_that_waits(tmp_path: Path) -> None:
    shown: list[str] = []
    environment = {**os.environ, "EDITOR": "vim", "GIT_PAGER": "less", "HOME": str(tmp_path)}
    context = RunToolContext(tmp_path, environment, 20, tmp_path / "spill", shown.append)
    identity = "-c user.name=x -c user.email=x@example.com"
    command = (
        f"git init -q . && git {identity} commit -q --allow-empty -m one && "
        f"git {identity} commit --amend --allow-empty -q && "
        "git -c color.ui=always log --format='%Cred%s'; printf '%s' $PAGER"
    )
    result = BASH.run({"command": command}, context)
    assert result.text == "exit code: 0\nstdout:\none\ncat"
    assert "\x1b[31m" in "".join(shown)
