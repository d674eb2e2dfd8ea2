"""Tables for the listing subcommands: aligned on a terminal, tab-separated in a pipe, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ask.console import StandardOutput
from ask.render.text_layout import measure_width, pad_text, truncate_text, wrap_text
from ask.text import format_one_line

COLUMN_GAP = "  "
MIN_COLUMN_WIDTH = 12
"""Width to which the last column, or the one that is truncated, may be reduced."""
MAX_WORD_WIDTH = 20
"""Width of the words that a column has room for, except in the first column, which has room for all words."""
RECORD_INDENTATION = "  "


def write_table(rows: Sequence[Mapping[str, Any]], *, as_json: bool, truncated: str = "") -> None:
    """Write rows that all have the same columns to standard output; in a pipe there is no heading.

    On a terminal that is too narrow for a row, the column named `truncated` is shortened, or else cells are wrapped.
    If that is not enough, or takes more lines, each row is written as a list of its cells.
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

    names = list(rows[0])
    cells = [
        [name.upper().replace("_", " ") for name in names],
        *([format_one_line(cell) for cell in row] for row in cells),
    ]
    width = get_terminal_size().columns
    columns = format_columns(cells, width, names.index(truncated) if truncated else None)
    lines = min(filter(None, (columns, format_records(cells, width))), key=len)
    output.write("".join(f"{line}\n" for line in lines))


def format_columns(cells: Sequence[Sequence[str]], max_width: int, truncated: int | None) -> list[str]:
    """Format rows with aligned columns; return [] if they do not fit.

    `truncated` is the index of the column that is truncated; without one, cells are wrapped.
    """
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    excess = sum(widths) + len(COLUMN_GAP) * (len(widths) - 1) - max_width
    if truncated is None:
        words = [[word for cell in column for word in cell.split()] for column in zip(*cells, strict=True)]
        min_widths = [min(max(map(measure_width, column_words), default=0), MAX_WORD_WIDTH) for column_words in words]
        min_widths[0] = max(map(measure_width, words[0]), default=0)
        min_widths[-1] = min(widths[-1], MIN_COLUMN_WIDTH)
    else:
        min_widths = list(widths)
        min_widths[truncated] = min(widths[truncated], MIN_COLUMN_WIDTH)
    if excess > sum(widths) - sum(min_widths):
        return []
    for _ in range(excess):
        reducible = [index for index, width in enumerate(widths) if width > min_widths[index]]
        widths[max(reducible, key=widths.__getitem__)] -= 1
    lines = []
    for row in cells:
        parts = [
            [truncate_text(cell, width)]
            if index == truncated
            else wrap_text(cell, width, divide_words=index < len(widths) - 1)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        rows = zip_longest(*parts, fillvalue="")
        lines += [COLUMN_GAP.join(map(pad_text, row_cells, widths)).rstrip() for row_cells in rows]
    return lines


def format_records(cells: Sequence[Sequence[str]], max_width: int) -> list[str]:
    """Format each row as its first cell and, below it, the other cells with the names of their columns."""
    names, *rows = cells
    lines = []
    for first, *others in rows:
        facts = "; ".join(f"{name.lower()}: {cell}" for name, cell in zip(names[1:], others, strict=True) if cell)
        lines += wrap_text(first, max_width, divide_words=False)
        fact_lines = wrap_text(facts, max_width - len(RECORD_INDENTATION), divide_words=False)
        lines += [RECORD_INDENTATION + line for line in fact_lines if line]
    return lines


def format_cell(value: Any) -> str:
    """Format a value for a table cell."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
