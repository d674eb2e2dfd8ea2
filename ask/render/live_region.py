"""The last rows on a terminal, which may still change; what is above them is never touched again.

Only what differs is written, so that nothing flickers. What the rows say is left to others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

CLEAR_BELOW = "\x1b[J"
REFLOW_VARIABLES = ("TMUX", "TERM_PROGRAM", "VTE_VERSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID")
"""Variables that terminals set which fold the rows on the screen anew when they become narrower."""
FALLBACK_SIZE = os.terminal_size((80, 24))


class TerminalRow(NamedTuple):
    """A row as it is written, and the columns that it takes: no more than there are."""

    text: str
    columns: int


class LiveRegion:
    """The rows that may change.

    Args:
        write: takes what is written to the terminal.
        descriptor: the terminal.
        environment: tells what terminal it is.
    """

    def __init__(self, write: Callable[[str], None], descriptor: int, environment: Mapping[str, str]) -> None:
        self._write = write
        self._descriptor = descriptor
        self._has_reflow = any(name in environment for name in REFLOW_VARIABLES)
        self._rows: Sequence[TerminalRow] = ()
        self._is_mid_line = False
        self._is_cursor_lost = False
        self._cursor_loss_count = 0
        """How often it was lost; a signal may tell of it while rows are written."""

    @property
    def size(self) -> os.terminal_size:
        """The columns and lines of the terminal, as they are now."""
        try:
            size = os.get_terminal_size(self._descriptor)
        except OSError:
            return FALLBACK_SIZE
        return os.terminal_size((size.columns or FALLBACK_SIZE.columns, size.lines or FALLBACK_SIZE.lines))

    @property
    def is_open(self) -> bool:
        """Whether there are such rows; the cursor stands behind the last."""
        return bool(self._rows)

    def mark_cursor_lost(self) -> None:
        """Somebody else may have written to the terminal: leave everything as it is, and begin below it."""
        self._is_cursor_lost = self._is_cursor_lost or self.is_open
        self._cursor_loss_count += 1

    def update(self, finished_lines: Sequence[str], rows: Sequence[TerminalRow]) -> None:
        """Put text above the rows for good, and other rows in the place of these.

        Args:
            finished_lines: lines of any length.
            rows: the rows from now on.

        Raises:
            AskError: it cannot be written.
        """
        # Ctrl-C, which comes from a terminal that takes what is written, waits for the end of it.
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._update(finished_lines, rows)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def _update(self, finished_lines: Sequence[str], rows: Sequence[TerminalRow]) -> None:
        before, lost, losses = self._rows, self._is_cursor_lost, self._cursor_loss_count
        shown = [*finished_lines, *(row.text for row in rows)]
        begin = "\n" if self._is_mid_line and shown else ""
        # Where a signal ends it in the middle, nobody knows where the cursor is.
        self._rows, self._is_cursor_lost = rows or before, True
        text = begin + ("\n" + "\n".join(shown) if lost else self._format_changes(before, shown))
        if shown and not rows:
            text += "\n"
        if text:
            self._write(text)
        self._rows, self._is_cursor_lost = rows, bool(rows) and self._cursor_loss_count != losses
        self._is_mid_line = self._is_mid_line and not shown

    def write_text(self, text: str) -> None:
        """Put text that need not be whole lines above all that comes; there are no rows that may change any more."""
        if self._rows or self._is_cursor_lost:
            self.update((), ())
        self._is_mid_line = not text.endswith("\n")
        self._write(text)

    def _format_changes(self, old_rows: Sequence[TerminalRow], new_lines: Sequence[str]) -> str:
        """What makes of the rows before what is to be shown, the cursor behind its last row."""
        same = 0
        while same < min(len(old_rows), len(new_lines)) and old_rows[same].text == new_lines[same]:
            same += 1
        if same == len(old_rows):
            return ("\n" if old_rows and len(new_lines) > same else "") + "\n".join(new_lines[same:])
        if same == len(old_rows) - 1 < len(new_lines) and new_lines[same].startswith(old_rows[same].text):
            return "\n".join([new_lines[same][len(old_rows[same].text) :], *new_lines[same + 1 :]])
        if same == len(new_lines):
            same = max(0, same - 1)  # the cursor belongs behind the last row, not below it
        up = sum(map(self._count_screen_rows, old_rows[same:])) - 1
        return "\r" + (f"\x1b[{up}A" if up else "") + CLEAR_BELOW + "\n".join(new_lines[same:])

    def _count_screen_rows(self, row: TerminalRow) -> int:
        """The rows that a row takes by now."""
        return max(1, -(-row.columns // self.size.columns)) if self._has_reflow else 1
