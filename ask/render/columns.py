"""Several texts side by side on a terminal, each in a column that grows while its text arrives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from ask.render.live_region import LiveRegion, TerminalRow
from ask.render.markdown_rows import render_markdown
from ask.render.text_layout import Row, get_plain_text, measure_width, split_at_width, to_ansi, truncate_text
from ask.text import escape_control_characters

SEPARATOR = " │ "
MIN_COLUMN_WIDTH = 24
BOLD, DIM = "1", "2"


def fits_columns(count: int, width: int) -> bool:
    """Check whether a terminal is wide enough for this many columns."""
    return (width + len(SEPARATOR)) // count - len(SEPARATOR) >= MIN_COLUMN_WIDTH


class ColumnView:
    """Draws Markdown texts in columns. A text that is higher than the terminal is shown from its end until it is final.

    Args:
        live_region: the rows at the end of the terminal.
        titles: the title of each column.
    """

    def __init__(self, live_region: LiveRegion, titles: Sequence[str]) -> None:
        self._live_region = live_region
        self._titles = titles
        self._texts = [""] * len(titles)
        self._footers = ["..."] * len(titles)

    def add_text(self, column: int, text: str) -> None:
        """Add to the text of a column."""
        self._texts[column] += escape_control_characters(text)

    def set_footer(self, column: int, text: str) -> None:
        """Set the line below a column."""
        self._footers[column] = text

    def draw(self, lines_above: Sequence[str] = ()) -> None:
        """Draw all columns; `lines_above` are written above them and stay there."""
        height = self._live_region.size.lines - 1
        rows = self._render(max_height=max(height - 2, 1))
        lines = [line for text in lines_above for line in escape_control_characters(text).splitlines()]
        self._live_region.update(lines, [*rows[:1], *rows[1:][-(height - 1) :]])

    def finish(self) -> None:
        """Write all texts completely; nothing is redrawn afterwards."""
        self._live_region.update([row.text for row in self._render()], ())

    def _render(self, max_height: int | None = None) -> list[TerminalRow]:
        """Render titles, texts and footers; of each text, the last `max_height` rows."""
        count, total_width = len(self._titles), self._live_region.size.columns
        width = max((total_width + len(SEPARATOR)) // count - len(SEPARATOR), 1)
        columns = []
        for title, text, footer in zip(self._titles, self._texts, self._footers, strict=True):
            rows = [part for row in render_markdown(text, width) for part in split_at_width(row, width)]
            rows = rows[-max_height:] if max_height else rows
            first, last = ([(truncate_text(label, width), style)] for label, style in ((title, BOLD), (footer, DIM)))
            columns.append((first, rows, last))
        titles, texts, footers = zip(*columns, strict=True)
        return [join_row(row, width) for row in (titles, *zip_longest(*texts, fillvalue=[]), footers)]


def join_row(cells: Sequence[Row], width: int) -> TerminalRow:
    """Join the cells of a row, padded to columns of equal width."""
    row: Row = []
    for cell in cells:
        padding = width - measure_width(get_plain_text(cell))
        row += [*([(SEPARATOR, DIM)] if row else []), *cell, (" " * padding, "")]
    return TerminalRow(to_ansi(row), measure_width(get_plain_text(row)))
