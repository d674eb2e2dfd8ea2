"""The progress bar of `ask map`: one line on standard error that is never wider than the terminal."""

from __future__ import annotations

import time
from collections import deque

from ask.console import STDERR, StderrConsole
from ask.map.engine import Progress
from ask.render.amounts import format_dollars, format_duration
from ask.render.live_region import get_terminal_size
from ask.render.text_layout import truncate_text

RATE_SECONDS = 30.0
"""The time over which the rate is measured."""
MIN_BAR_WIDTH, MAX_BAR_WIDTH = 8, 30
SEPARATOR = "  "


class ProgressBar:
    """Shows the progress of a job on a terminal.

    Args:
        console: shows the line.
        total: how many rows there are; None if unknown.
    """

    def __init__(self, console: StderrConsole, total: int | None) -> None:
        self._console = console
        self._total = total
        self._samples = deque([(time.monotonic(), 0)])
        """Times, and how many rows this run had answered."""

    def show(self, progress: Progress) -> None:
        """Show the state of the run."""
        now = time.monotonic()
        self._samples.append((now, progress.answered + progress.failed - progress.resumed))
        while self._samples[1][0] < now - RATE_SECONDS:
            self._samples.popleft()
        (start, first), (_, last) = self._samples[0], self._samples[-1]
        rate = (last - first) / max(now - start, 0.001)
        self._console.show_status(format_progress(progress, self._total, rate, get_terminal_size(STDERR).columns - 1))


def format_progress(progress: Progress, total: int | None, rate: float, width: int) -> str:
    """Format the progress of a job in at most `width` columns.

    Args:
        progress: the state of the run.
        total: how many rows there are; None if unknown.
        rate: rows per second.
        width: the columns to use. Details for which there is no room are left out, the last first.
    """
    done = progress.answered + progress.failed
    total = None if total is None else max(total, done)
    parts = [f"{done:,} rows" if total is None else f"{done:,}/{total:,}", f"{rate:.1f}/s"]
    if total and rate:
        parts.append(f"{format_duration((total - done) / rate)} left")
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.cost:
        parts.append(format_dollars(progress.cost))
    parts.append(f"{progress.in_flight} in flight")
    while len(parts) > 1 and len(SEPARATOR.join(parts)) > width:
        parts.pop()
    text = SEPARATOR.join(parts)
    bar_width = min(MAX_BAR_WIDTH, width - len(text) - len(SEPARATOR))
    if total and bar_width >= MIN_BAR_WIDTH:
        filled = bar_width * done // total
        return f"{'█' * filled}{'░' * (bar_width - filled)}{SEPARATOR}{text}"
    return truncate_text(text, width)
