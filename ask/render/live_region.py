"""The last rows on a terminal, which are redrawn while they change; rows above them are never touched again.

Only differences are written, so that nothing flickers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

from ask.console import STDERR, get_descriptor
from ask.records import NamedTuple

CLEAR_BELOW = "\x1b[K\x1b[C\x1b[J\r"
"""Clears the row of the cursor and those below it.

From the second column: what tmux clears from the first column of the first row, it copies to the scrollback.
"""
REFLOW_VARIABLES = ("TMUX", "TERM_PROGRAM", "VTE_VERSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID")
"""Environment variables of terminals that rewrap rows on the screen when the window becomes narrower."""
FALLBACK_SIZE = os.terminal_size((80, 24))


def get_terminal_size(descriptor: int) -> os.terminal_size:
    """Return the columns and lines of a terminal, or those of a usual one if they are unknown.

    For a pipe to a pager, they are those in COLUMNS, or of the terminal on standard error.
    """
    try:
        size = os.get_terminal_size(get_descriptor(descriptor))
    except OSError:
        columns = os.environ.get("COLUMNS", "")
        if columns.isdecimal() and int(columns) > 0:
            return os.terminal_size((int(columns), FALLBACK_SIZE.lines))
        return FALLBACK_SIZE if descriptor == STDERR else get_terminal_size(STDERR)
    return os.terminal_size((size.columns or FALLBACK_SIZE.columns, size.lines or FALLBACK_SIZE.lines))


class TerminalRow(NamedTuple):
    """A row with its escape sequences, and its width: at most the terminal's."""

    text: str
    columns: int


class LiveRegion:
    """The rows at the end of a terminal that can be redrawn.

    `environment` is used to detect whether the terminal rewraps rows when its width changes.
    """

    def __init__(self, write: Callable[[str], None], descriptor: int, environment: Mapping[str, str]) -> None:
        self._write = write
        self._descriptor = descriptor
        self._has_reflow = any(name in environment for name in REFLOW_VARIABLES)
        self._rows: Sequence[TerminalRow] = ()
        self._is_cursor_lost = False
        self._cursor_loss_count = 0
        """Number of times the cursor was lost; a signal handler may increase it during a write."""

    @property
    def size(self) -> os.terminal_size:
        """The current columns and lines of the terminal."""
        return get_terminal_size(self._descriptor)

    def mark_cursor_lost(self) -> None:
        """Continue below the current rows.

        Called when another program may have written to the terminal.
        """
        self._is_cursor_lost = self._is_cursor_lost or bool(self._rows)
        self._cursor_loss_count += 1

    def update(self, finished_lines: Sequence[str], rows: Sequence[TerminalRow]) -> None:
        """Write finished lines above the region and replace the region's rows.

        Raises:
            AskError: the terminal cannot be written.
        """
        # Delay Ctrl-C until the write is complete, which is soon: a terminal that sends Ctrl-C also accepts output.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # may raise for a Ctrl-C just before it
            self._update(finished_lines, rows)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)

    def _update(self, finished_lines: Sequence[str], rows: Sequence[TerminalRow]) -> None:
        old_rows, was_lost, loss_count = self._rows, self._is_cursor_lost, self._cursor_loss_count
        lines = [*finished_lines, *(row.text for row in rows)]
        # If a signal handler raises during the write, the cursor position is unknown.
        self._rows, self._is_cursor_lost = rows or old_rows, True
        text = "\n" + "\n".join(lines) if was_lost else self._format_changes(old_rows, lines)
        if lines and not rows:
            text += "\n"
        if text:
            self._write(text)
        self._rows, self._is_cursor_lost = rows, bool(rows) and self._cursor_loss_count != loss_count

    def _format_changes(self, old_rows: Sequence[TerminalRow], new_lines: Sequence[str]) -> str:
        """Format the output that turns the old rows into the new lines.

        It leaves the cursor at the end of the last row.
        """
        unchanged = 0
        while unchanged < min(len(old_rows), len(new_lines)) and old_rows[unchanged].text == new_lines[unchanged]:
            unchanged += 1
        if unchanged == len(old_rows):
            return ("\n" if old_rows and len(new_lines) > unchanged else "") + "\n".join(new_lines[unchanged:])
        if unchanged == len(old_rows) - 1 < len(new_lines) and new_lines[unchanged].startswith(
            old_rows[unchanged].text
        ):
            return "\n".join([new_lines[unchanged][len(old_rows[unchanged].text) :], *new_lines[unchanged + 1 :]])
        if unchanged == len(new_lines):
            unchanged = max(0, unchanged - 1)  # the cursor belongs at the end of the last row, not below it
        rows_up = sum(map(self._count_screen_rows, old_rows[unchanged:])) - 1
        return "\r" + (f"\x1b[{rows_up}A" if rows_up else "") + CLEAR_BELOW + "\n".join(new_lines[unchanged:])

    def _count_screen_rows(self, row: TerminalRow) -> int:
        return max(1, -(-row.columns // self.size.columns)) if self._has_reflow else 1
