"""Tables for the listing subcommands: aligned on a terminal, tab-separated in a pipe, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ask.console import StandardOutput
from ask.render.text_layout import measure_width, pad_text, truncate_text
from ask.text import format_one_line

COLUMN_GAP = "  "
MIN_COLUMN_WIDTH = 12
"""Width to which a column may be truncated so that a row fits on one line; the first is never truncated."""


def write_table(rows: Sequence[Mapping[str, Any]], *, as_json: bool, wrap_last: bool = False) -> None:
    """Write rows that all have the same columns to standard output; in a pipe there is no heading.

    With `wrap_last`, no cell is truncated: on a terminal the last column is wrapped.
    """
    output = StandardOutput()
    if as_json:
        output.write(json.dumps([dict(row) for row in rows], ensure_ascii=False, indent=2) + "\n")
        return
    if not rows:
        return
    cells = [[format_cell(value) for value in row.values()] for row in rows]
    if not output.is_terminal:
        output.write("".join("\t".join(row) + "\n" for row in cells))
        return
    from shutil import get_terminal_size  # slow to load, and only needed for a terminal

    heading = [column.upper().replace("_", " ") for column in rows[0]]
    cells = [heading, *([format_one_line(cell) for cell in row] for row in cells)]
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    terminal_width = get_terminal_size().columns
    if wrap_last:
        cells = wrap_last_cells(cells, terminal_width - sum(width + len(COLUMN_GAP) for width in widths[:-1]))
    else:
        widths = shrink_widths(widths, terminal_width)
    for row in cells:
        line = COLUMN_GAP.join(
            pad_text(truncate_text(cell, width), width) for cell, width in zip(row, widths, strict=True)
        )
        output.write(line.rstrip() + "\n")


def wrap_last_cells(cells: Sequence[Sequence[str]], max_width: int) -> list[list[str]]:
    """Wrap the last cell of each row.

    The other cells of the additional lines are empty.
    """
    from textwrap import wrap

    lines: list[list[str]] = []
    for *others, last in cells:
        first, *following = wrap(
            last, max(max_width, MIN_COLUMN_WIDTH), break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines.append([*others, first])
        lines += [[*([""] * len(others)), line] for line in following]
    return lines


def shrink_widths(widths: Sequence[int], max_width: int) -> list[int]:
    """Reduce the widest columns until a row fits in `max_width`.

    The first column is never reduced, the others not below `MIN_COLUMN_WIDTH`.
    """
    fitted = list(widths)
    excess = sum(fitted) + len(COLUMN_GAP) * (len(fitted) - 1) - max_width
    while excess > 0 and max(fitted[1:], default=0) > MIN_COLUMN_WIDTH:
        fitted[fitted.index(max(fitted[1:]), 1)] -= 1
        excess -= 1
    return fitted


def format_cell(value: Any) -> str:
    """Format a value for a table cell."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
