"""Tables for the listing subcommands: aligned on a terminal, tab-separated in a pipe, or JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ask.console import StandardOutput, StderrConsole, lend_standard_output
from ask.render.text_layout import pad_text, truncate_text
from ask.text import format_one_line, measure_width, wrap_text

COLUMN_GAP = "  "
MIN_TEXT_WIDTH = 30
"""Width to which a long column is truncated before optional columns are left out."""
MIN_COLUMN_WIDTH = 12
"""Width to which a column is truncated if none can be left out."""
MIN_WRAPPED_WIDTH = 20
"""Width of the column whose cells are wrapped."""
RECORD_INDENTATION = "  "


def write_table(
    rows: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
    empty: str = "",
    optional: Sequence[str] = (),
    wrapped: str = "",
) -> None:
    """Write rows that all have the same columns to standard output; in a pipe there is no heading.

    On a terminal that is too narrow, columns are left out and cells are truncated. If even that is not enough, each
    row is written as a list of its cells.

    Args:
        rows: the rows. Their first column names them, and is complete.
        as_json: write a JSON array.
        empty: what is empty and how to fill it, for a person who gets an empty list.
        optional: the columns that may be left out, least important first.
        wrapped: a column whose cells are wrapped, because they must be complete.
    """
    output = StandardOutput()
    if as_json:
        output.write(json.dumps([dict(row) for row in rows], ensure_ascii=False, indent=2) + "\n")
        return
    if not rows:
        console = StderrConsole(os.environ, quiet=not empty, plain=False)
        if console.is_terminal:
            console.print_notice(empty)
        return
    cells = [[format_cell(value) for value in row.values()] for row in rows]
    if not output.is_terminal:
        output.write("".join("\t".join(row) + "\n" for row in cells))
        return
    from shutil import get_terminal_size  # slow to load, and only needed for a terminal

    names = list(rows[0])
    columns = {
        name: [name.upper().replace("_", " "), *map(format_one_line, column)]
        for name, column in zip(names, zip(*cells, strict=True), strict=True)
    }
    with lend_standard_output():
        width = get_terminal_size().columns
    output.write("".join(f"{line}\n" for line in _fit_columns(columns, width, optional, wrapped)))


def _fit_columns(columns: dict[str, list[str]], max_width: int, optional: Sequence[str], wrapped: str) -> list[str]:
    """Format columns by name, leaving out as few optional ones as possible."""
    leave_out = [name for name in optional if name in columns]
    while True:
        cells, wrapped_index = list(zip(*columns.values(), strict=True)), [*columns, wrapped].index(wrapped)
        for min_width in (MIN_TEXT_WIDTH,) if leave_out else (MIN_TEXT_WIDTH, MIN_COLUMN_WIDTH):
            min_widths = [max_width, *[min_width] * (len(columns) - 1)]
            if wrapped in columns:
                min_widths[wrapped_index] = MIN_WRAPPED_WIDTH
            if lines := format_columns(cells, max_width, min_widths, wrapped_index):
                return lines
        if not leave_out:
            return format_records(cells, max_width)
        del columns[leave_out.pop(0)]


def format_columns(
    cells: Sequence[Sequence[str]], max_width: int, min_widths: Sequence[int], wrapped: int | None = None
) -> list[str]:
    """Format rows with aligned columns; return [] if they do not fit.

    Columns that are wider than their width in `min_widths` can be reduced to it, the widest first. Their cells are
    truncated, or wrapped in the column with the index `wrapped`.
    """
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    excess = sum(widths) + len(COLUMN_GAP) * (len(widths) - 1) - max_width
    if excess > sum(max(0, width - least) for width, least in zip(widths, min_widths, strict=True)):
        return []
    for _ in range(excess):
        reducible = [index for index, width in enumerate(widths) if width > min_widths[index]]
        widths[max(reducible, key=widths.__getitem__)] -= 1
    lines = []
    for row in cells:
        parts = [
            wrap_text(cell, width) if index == wrapped else [truncate_text(cell, width)]
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
