"""Lists for the listing subcommands: aligned for a terminal, tab-separated for a pipe, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ask.console import StandardOutput
from ask.render.width import measure_width, pad_text, truncate_text
from ask.text import format_one_line

COLUMN_GAP = "  "
MIN_COLUMN_WIDTH = 12
"""Characters to which a column may be cut so that a row fits on one line; the first is never cut."""


def write_table(
    output: StandardOutput, rows: Sequence[Mapping[str, Any]], *, as_json: bool, wrap_last: bool = False
) -> None:
    """Write rows that all have the same columns. In a pipe there is no heading.

    Args:
        output: where they go.
        rows: the values by column; None is shown as nothing.
        as_json: write them as one JSON array.
        wrap_last: cut nothing: on a terminal the last column takes as many lines as it needs.
    """
    if as_json:
        output.write(json.dumps([dict(row) for row in rows], ensure_ascii=False, indent=2) + "\n")
        return
    if not rows:
        return
    cells = [[format_cell(value) for value in row.values()] for row in rows]
    if not output.is_terminal:
        output.write("".join("\t".join(row) + "\n" for row in cells))
        return
    heading = [column.upper().replace("_", " ") for column in rows[0]]
    write_aligned(output, [heading, *([format_one_line(cell) for cell in row] for row in cells)], wrap_last=wrap_last)


def write_aligned(output: StandardOutput, cells: Sequence[Sequence[str]], *, wrap_last: bool) -> None:
    """Write rows of cells to a terminal, each column as wide as it needs, as far as there is room."""
    from shutil import get_terminal_size  # slow to load, and for a terminal alone

    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    room = get_terminal_size().columns
    if wrap_last:
        cells = wrap_last_cells(cells, room - sum(width + len(COLUMN_GAP) for width in widths[:-1]))
    else:
        widths = shrink_widths(widths, room)
    for row in cells:
        line = COLUMN_GAP.join(
            pad_text(truncate_text(cell, width), width) for cell, width in zip(row, widths, strict=True)
        )
        output.write(line.rstrip() + "\n")


def wrap_last_cells(cells: Sequence[Sequence[str]], max_width: int) -> list[list[str]]:
    """The rows with the last cell of each on as many lines as its words need in that room."""
    from textwrap import wrap

    lines: list[list[str]] = []
    for *others, last in cells:
        first, *further = wrap(
            last, max(max_width, MIN_COLUMN_WIDTH), break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines.append([*others, first])
        lines += [[*([""] * len(others)), line] for line in further]
    return lines


def shrink_widths(widths: Sequence[int], max_width: int) -> list[int]:
    """The widths of columns, the widest but the first cut until a row fits into the room, as far as that goes."""
    fitted = list(widths)
    excess = sum(fitted) + len(COLUMN_GAP) * (len(fitted) - 1) - max_width
    while excess > 0 and max(fitted[1:], default=0) > MIN_COLUMN_WIDTH:
        fitted[fitted.index(max(fitted[1:]), 1)] -= 1
        excess -= 1
    return fitted


def format_cell(value: Any) -> str:
    """A value as a table shows it."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
