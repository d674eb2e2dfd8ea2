"""What a terminal shows of the bytes that a program writes to it, with what has scrolled away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyte


class Screen:
    """A terminal of some size."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.rows = rows
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        self._stream.feed(data)

    def resize(self, columns: int) -> None:
        """Make it wider or narrower; the rows stay as they are."""
        self._screen.resize(self.rows, columns)

    @property
    def lines(self) -> list[str]:
        """All rows from the first on, as far as anything was written."""
        rows = [self._text(row) for row in self._screen.history.top] + [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def cursor(self) -> tuple[int, int]:
        """The row on the screen and the column where the cursor is."""
        return self._screen.cursor.y, self._screen.cursor.x

    def styles_of(self, text: str) -> set[str]:
        """How a text on the screen looks: names of colours, "bold", and so on."""
        for number, shown in enumerate(self._screen.display):
            place = shown.find(text)
            if place >= 0:
                return set(self._looks(self._screen.buffer[number], range(place, place + len(text))))
        raise AssertionError(f"{text!r} is not on the screen")

    @staticmethod
    def _looks(row: Mapping[int, Any], places: range) -> Iterator[str]:
        for place in places:
            cell = row[place]
            if cell.fg != "default":
                yield cell.fg
            yield from (name for name in ("bold", "italics", "underscore", "strikethrough") if getattr(cell, name))

    def _text(self, row: Mapping[int, Any]) -> str:
        return "".join(row[place].data for place in range(self._screen.columns)).rstrip()


def lines_shown(data: bytes, columns: int = 80, rows: int = 24) -> list[str]:
    """All that a terminal shows in the end, row by row."""
    screen = Screen(columns, rows)
    screen.feed(data)
    return screen.lines
