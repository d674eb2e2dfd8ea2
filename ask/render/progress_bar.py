"""The progress of `ask map` on standard error: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import time
from collections import deque

from ask.console import STDERR, StderrConsole
from ask.map.engine import Progress
from ask.render.amounts import format_dollars
from ask.render.live_region import get_terminal_size
from ask.render.text_layout import truncate_text
from ask.text import format_duration, format_one_line

RATE_SECONDS = 30.0
"""The time over which the rate is measured."""
LOG_SECONDS = 60.0
"""The time between two lines in a log, as in rclone's."""
MAX_REFUSAL_CHARACTERS = 80
MIN_BAR_WIDTH, MAX_BAR_WIDTH = 8, 30
SEPARATOR = "  "


class ProgressBar:
    """Shows the progress of a job: a bar on a terminal, or lines in a log.

    Args:
        console: shows the bar, or prints the lines.
        total: how many rows there are; None if unknown.
        log_seconds: the time between two lines.
    """

    def __init__(self, console: StderrConsole, total: int | None, log_seconds: float = LOG_SECONDS) -> None:
        self._console = console
        self._total = total
        self._log_seconds = log_seconds
        self._next_line = time.monotonic() + log_seconds
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
        if self._console.is_terminal:
            width = get_terminal_size(STDERR).columns - 1
            self._console.show_status(format_progress(progress, self._total, rate, width))
        elif now >= self._next_line:
            self._next_line = now + self._log_seconds
            self._console.print_notice(SEPARATOR.join(_format_parts(progress, self._total, rate)))


def format_progress(progress: Progress, total: int | None, rate: float, width: int) -> str:
    """Format the progress of a job in at most `width` columns.

    Args:
        progress: the state of the run.
        total: how many rows there are; None if unknown.
        rate: rows per second.
        width: the columns to use. Details for which there is no room are left out, the last first.
    """
    parts = _format_parts(progress, total, rate)
    while len(parts) > 1 and len(SEPARATOR.join(parts)) > width:
        parts.pop()
    text = SEPARATOR.join(parts)
    bar_width = min(MAX_BAR_WIDTH, width - len(text) - len(SEPARATOR))
    if total and bar_width >= MIN_BAR_WIDTH:
        filled = bar_width * min(progress.answered + progress.failed, total) // total
        return f"{'█' * filled}{'░' * (bar_width - filled)}{SEPARATOR}{text}"
    return truncate_text(text, width)


def _format_parts(progress: Progress, total: int | None, rate: float) -> list[str]:
    """Format the numbers of a job, the most important first."""
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
    if progress.refusal:
        parts.append(f"refused: {format_one_line(progress.refusal, MAX_REFUSAL_CHARACTERS)}")
    return parts
