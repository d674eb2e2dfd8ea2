"""Emulates a terminal: what it shows after a program wrote to it, including its scrollback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyte


class Screen:
    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.rows = rows
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        self._stream.feed(data)

    def resize(self, columns: int) -> None:
        """Change the width; the existing rows are not reflowed."""
        self._screen.resize(self.rows, columns)

    @property
    def lines(self) -> list[str]:
        """Return all rows from the first to the last written one."""
        rows = [self._text(row) for row in self._screen.history.top] + [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def cursor(self) -> tuple[int, int]:
        """Return the row on the screen and the column of the cursor."""
        return self._screen.cursor.y, self._screen.cursor.x

    def styles_of(self, text: str) -> set[str]:
        """Return the styles of a text on the screen: names of colors, "bold", and so on."""
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


def render_lines(data: bytes, columns: int = 80, rows: int = 24) -> list[str]:
    """Return all rows that a terminal shows after this output."""
    screen = Screen(columns, rows)
    screen.feed(data)
    return screen.lines
