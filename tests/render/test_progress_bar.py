"""The progress of `ask map`."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.console import StderrConsole
from ask.map.engine import Progress
from ask.map.input_rows import Input, InputFormat, estimate_row_count
from ask.render.progress_bar import ProgressBar, format_progress
from ask.text import measure_width

COUNTS = st.integers(0, 10**7)


def test_everything_is_shown_if_there_is_room() -> None:
    text = format_progress(Progress(3000, 20, 1000, 64, 1.2345), 40_000, 62.0, 120)
    bar, rest = text.split("  ", 1)
    assert set(bar) == {"█", "░"}
    assert bar.count("█") == len(bar) * 3020 // 40_000
    assert rest == "3,020/40,000  62.0/s  9.9 min left  20 failed  $1.23  64 in flight"


def test_details_are_left_out_where_they_do_not_fit() -> None:
    progress = Progress(3000, 20, 0, 64, 1.5)
    assert format_progress(progress, 40_000, 62.0, 40) == "3,020/40,000  62.0/s  9.9 min left"
    assert format_progress(progress, 40_000, 62.0, 12) == "3,020/40,000"
    assert format_progress(progress, None, 62.0, 60) == "3,020 rows  62.0/s  20 failed  $1.50  64 in flight"
    progress.refusal = "slow down (openrouter, 429)"
    assert format_progress(progress, None, 0.0, 100).endswith("64 in flight  refused: slow down (openrouter, 429)")
    assert "░" not in format_progress(progress, 100, 62.0, 80), "an estimate may be too low"


def test_a_log_gets_a_line_from_time_to_time(capfd: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar(StderrConsole({}, quiet=False, plain=False), 40_000, log_seconds=0.2)
    progress = Progress(3000, 20, 3000, 64, 1.2345)
    bar.show(progress)
    assert capfd.readouterr().err == "", "a short job prints only its summary"
    time.sleep(0.25)
    for _ in range(3):
        bar.show(progress)
    [line] = capfd.readouterr().err.splitlines()
    assert re.fullmatch(r"ask: 3,020/40,000  [\d.]+/s  .* left  20 failed  \$1\.23  64 in flight", line)


@given(COUNTS, COUNTS, st.none() | COUNTS, st.floats(0, 1e6), st.integers(1, 200))
def test_it_is_never_wider_than_the_terminal(
    answered: int, failed: int, total: int | None, rate: float, width: int
) -> None:
    progress = Progress(answered, failed, 0, 8, answered * 0.01)
    assert measure_width(format_progress(progress, total, rate, width)) <= width


@pytest.mark.parametrize(
    ("text", "input_format", "count"),
    [("a\nb\n", "lines", 2), ("a\nb", "lines", 2), ("x,y\n1,2\n", "csv", 1), ("", "jsonl", 0), ("a\0b", "nul", None)],
)
def test_rows_are_counted_by_lines(tmp_path: Path, text: str, input_format: InputFormat, count: int | None) -> None:
    (tmp_path / "in").write_text(text)
    assert estimate_row_count([Input(str(tmp_path / "in"), input_format)]) == count
    assert estimate_row_count([Input("-", input_format)]) is None
