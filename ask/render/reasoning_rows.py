"""The model's reasoning on a terminal: its last rows while it arrives, and a single line once it is over."""

from __future__ import annotations

import time

from ask.console import DIM, StderrConsole, apply_style, can_redraw_now
from ask.render.live_region import LiveRegion, TerminalRow
from ask.text import escape_control_characters, format_duration, measure_width, wrap_text

MAX_ROWS = 10
MAX_SHOWN_CHARACTERS = 4_000
"""The end of the reasoning, of which the last rows are shown."""
DRAW_PAUSE_SECONDS = 0.05
"""Minimum time between two redraws."""


class ReasoningRegion:
    """Shows reasoning that arrives in pieces."""

    def __init__(self, live_region: LiveRegion, console: StderrConsole) -> None:
        self._live_region = live_region
        self._console = console
        self._text = ""
        """The last characters of the reasoning."""
        self._start = time.monotonic()
        self._last_draw = 0.0
        self._is_drawn = False

    def feed(self, text: str) -> None:
        """Add a piece of reasoning."""
        self._text = (self._text + text)[-MAX_SHOWN_CHARACTERS:]
        self._is_drawn = False
        self.refresh()

    def refresh(self) -> None:
        """Redraw what has arrived, unless the last redraw was too recent."""
        if self._is_drawn or time.monotonic() < self._last_draw + DRAW_PAUSE_SECONDS or not can_redraw_now():
            return
        width, height = self._live_region.size
        text = escape_control_characters(self._console.redact(self._text.strip("\n")))
        rows = wrap_text(text, width)[-max(1, min(MAX_ROWS, height // 2)) :]
        self._live_region.update((), [TerminalRow(apply_style(row, DIM), measure_width(row)) for row in rows])
        self._last_draw, self._is_drawn = time.monotonic(), True

    def hide(self) -> None:
        """Clear the rows, so that other lines can be printed. The next redraw shows them again."""
        self._live_region.update((), ())
        self._is_drawn, self._last_draw = False, 0.0

    def fold(self) -> None:
        """Replace the rows with a line that says how long the model has reasoned."""
        self.hide()
        self._console.print_dim(f"· thought for {format_duration(time.monotonic() - self._start)}\n")
