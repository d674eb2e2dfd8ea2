"""The last rows on a terminal, which may still change; what is above them is never touched again.

Only what differs is written, so that nothing flickers. What the rows say is left to others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

CLEAR_BELOW = "\x1b[J"
REFLOWING = ("TMUX", "TERM_PROGRAM", "VTE_VERSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID")
"""Variables that terminals set which fold the rows on the screen anew when they become narrower."""
FALLBACK = os.terminal_size((80, 24))


class Row(NamedTuple):
    """A row as it is written, and the columns that it takes: no more than there are."""

    shown: str
    columns: int


class Bottom:
    """The rows that may change.

    Args:
        write: takes what is written to the terminal.
        descriptor: the terminal.
        environment: tells what terminal it is.
    """

    def __init__(self, write: Callable[[str], None], descriptor: int, environment: Mapping[str, str]) -> None:
        self._write = write
        self._descriptor = descriptor
        self._reflows = any(name in environment for name in REFLOWING)
        self._rows: Sequence[Row] = ()
        self._in_line = False
        self._lost = False
        self._losses = 0
        """How often it was lost; a signal may tell of it while rows are written."""

    @property
    def size(self) -> os.terminal_size:
        """The columns and lines of the terminal, as they are now."""
        try:
            size = os.get_terminal_size(self._descriptor)
        except OSError:
            return FALLBACK
        return os.terminal_size((size.columns or FALLBACK.columns, size.lines or FALLBACK.lines))

    @property
    def open(self) -> bool:
        """Whether there are such rows; the cursor stands behind the last."""
        return bool(self._rows)

    def lose(self) -> None:
        """Somebody else may have written to the terminal: leave everything as it is, and begin below it."""
        self._lost = self._lost or self.open
        self._losses += 1

    def show(self, done: Sequence[str], rows: Sequence[Row]) -> None:
        """Put text above the rows for good, and other rows in the place of these.

        Args:
            done: lines of any length.
            rows: the rows from now on.

        Raises:
            AskError: it cannot be written.
        """
        # Ctrl-C, which comes from a terminal that takes what is written, waits for the end of it.
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._show(done, rows)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def _show(self, done: Sequence[str], rows: Sequence[Row]) -> None:
        before, lost, losses = self._rows, self._lost, self._losses
        shown = [*done, *(row.shown for row in rows)]
        begin = "\n" if self._in_line and shown else ""
        # Where a signal ends it in the middle, nobody knows where the cursor is.
        self._rows, self._lost = rows or before, True
        text = begin + ("\n" + "\n".join(shown) if lost else self._changes(before, shown))
        if shown and not rows:
            text += "\n"
        if text:
            self._write(text)
        self._rows, self._lost = rows, bool(rows) and self._losses != losses
        self._in_line = self._in_line and not shown

    def stream(self, text: str) -> None:
        """Put text that need not be whole lines above all that comes; there are no rows that may change any more."""
        if self._rows or self._lost:
            self.show((), ())
        self._in_line = not text.endswith("\n")
        self._write(text)

    def _changes(self, before: Sequence[Row], shown: Sequence[str]) -> str:
        """What makes of the rows before what is to be shown, the cursor behind its last row."""
        same = 0
        while same < min(len(before), len(shown)) and before[same].shown == shown[same]:
            same += 1
        if same == len(before):
            return ("\n" if before and len(shown) > same else "") + "\n".join(shown[same:])
        if same == len(before) - 1 < len(shown) and shown[same].startswith(before[same].shown):
            return "\n".join([shown[same][len(before[same].shown) :], *shown[same + 1 :]])
        if same == len(shown):
            same = max(0, same - 1)  # the cursor belongs behind the last row, not below it
        up = sum(map(self._height, before[same:])) - 1
        return "\r" + (f"\x1b[{up}A" if up else "") + CLEAR_BELOW + "\n".join(shown[same:])

    def _height(self, row: Row) -> int:
        """The rows that a row takes by now."""
        return max(1, -(-row.columns // self.size.columns)) if self._reflows else 1
