"""Shows an answer in Markdown on a terminal while it streams: whole blocks for good, the one under way below them.

The time that is spent on the block under way is a fraction of all, so that the cost stays linear.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text

from ask.render.live_region import Bottom, Row
from ask.render.markdown_blocks import LONGEST, BlockReader, CodeBegun, CodeEnded, CodeLine, Piece, Unread, Whole
from ask.render.markdown_rows import ansi, cut_at, markdown_rows, widest
from ask.text import for_terminal

if TYPE_CHECKING:
    from ask.render.code_rows import CodeReader

QUICK = 0.004
"""Seconds that a picture of the block under way counts as taking, at least."""
REST = 8
"""How many times as long it is until the next."""
LONGEST_LINE = 2_000
"""Characters of a line of code under way that are shown: its end."""


class MarkdownAnswer:
    """An answer as it comes.

    Args:
        bottom: the rows at the end of the terminal.
        watched: whether there is somebody to whom the block under way can be shown.
        rest: how many times as long as a picture of that took it is until the next.
    """

    def __init__(self, bottom: Bottom, watched: Callable[[], bool], *, rest: float = REST) -> None:
        self._bottom = bottom
        self._watched = watched
        self._rest = rest
        self._blocks = BlockReader()
        self._code: CodeReader | None = None
        self._done: list[str] = []
        self._stale = False
        self._next = 0.0

    def feed(self, text: str) -> None:
        """Take a piece of the answer."""
        for piece in self._blocks.feed(for_terminal(text)):
            self._take(piece)
        self._stale = True
        self.refresh()

    def refresh(self) -> None:
        """Show what has come, unless a picture was made only just now."""
        now = time.monotonic()
        if self._stale and now >= self._next:
            self._draw()
            took = time.monotonic() - now
            self._next = now + self._rest * max(QUICK, took)

    def hide(self) -> None:
        """Make room for somebody else's lines; the next picture shows the block under way again."""
        self._bottom.show(self._taken(), ())
        self._stale, self._next = True, 0.0

    def end(self) -> None:
        """The answer is over: show all of it for good."""
        for piece in self._blocks.end():
            self._take(piece)
        self._blocks = BlockReader()
        self._bottom.show(self._taken(), ())
        self._stale, self._next = False, 0.0

    def _take(self, piece: Piece) -> None:
        match piece:
            case Whole(text, gap):
                self._begin(gap)
                self._done += map(ansi, self._read(text))
            case CodeBegun(language, gap):
                self._begin(gap)
                from ask.render.code_rows import CodeReader

                self._code = CodeReader(language)
            case CodeLine(text) if self._code:
                self._done += map(ansi, self._code.add(text))
            case CodeEnded() if self._code:
                self._done += map(ansi, self._code.end())
                self._code = None
            case Unread(text, gap):
                self._begin(gap)
                if self._done:
                    self._bottom.show(self._taken(), ())
                self._bottom.stream(text)

    def _begin(self, gap: bool) -> None:
        if gap:
            self._done.append("")

    def _read(self, text: str) -> list[Text]:
        if len(text) > LONGEST:
            return [Text(line) for line in text.split("\n")]
        return markdown_rows(text, self._bottom.size.columns)

    def _taken(self) -> list[str]:
        done, self._done = self._done, []
        return done

    def _draw(self) -> None:
        self._stale = False
        self._bottom.show(self._taken(), self._rows() if self._watched() else ())

    def _rows(self) -> list[Row]:
        """The block under way, or its last rows."""
        width, height = self._bottom.size
        begun = self._blocks.under_way
        rows: list[Text] = []
        if self._code:
            rows = self._code.rows(begun[-LONGEST_LINE:])
        elif begun:
            rows = [*([Text()] if self._blocks.gap else []), *self._read(half_open(begun))]
        most = max(1, height * 3 // 4)
        return [Row(ansi(row), widest(row.plain.rstrip())) for row in list(cut_at(rows[-most:], width))[-most:]]


def half_open(text: str) -> str:
    """The text with what its last line opens closed again, so that it looks now as it will then."""
    last = text.rpartition("\n")[2]
    if last.count("`") % 2:
        return text + "`"
    return text + "**" if last.count("**") % 2 and not last.endswith("*") else text
