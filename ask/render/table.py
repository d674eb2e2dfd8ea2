"""Lists for the listing subcommands: aligned for a terminal, tab-separated for a pipe, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Any

from ask.render.streams import Output
from ask.text import for_terminal

GAP = "  "
NARROWEST = 12
"""Characters to which a column may be cut so that a row fits on one line; the first is never cut."""


def write_table(output: Output, rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Write rows that all have the same columns. In a pipe there is no heading.

    Args:
        output: where they go.
        rows: the values by column; None is shown as nothing.
        as_json: write them as one JSON array.
    """
    if as_json:
        output.write(json.dumps([dict(row) for row in rows], ensure_ascii=False, indent=2) + "\n")
        return
    if not rows:
        return
    cells = [[shown(value) for value in row.values()] for row in rows]
    if not output.terminal:
        output.write("".join("\t".join(row) + "\n" for row in cells))
        return
    cells = [[for_terminal(cell) for cell in row] for row in cells]
    cells.insert(0, [column.upper().replace("_", " ") for column in rows[0]])
    widths = fitting([max(map(len, column)) for column in zip(*cells, strict=True)], get_terminal_size().columns)
    for row in cells:
        fitted = (
            f"{cell[: width - 1]}…" if len(cell) > width else cell for cell, width in zip(row, widths, strict=True)
        )
        line = GAP.join(cell.ljust(width) for cell, width in zip(fitted, widths, strict=True))
        output.write(line.rstrip() + "\n")


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """The widths of columns, the widest but the first cut until a row fits into the room, as far as that goes."""
    fitted = list(widths)
    excess = sum(fitted) + len(GAP) * (len(fitted) - 1) - room
    while excess > 0 and max(fitted[1:], default=0) > NARROWEST:
        fitted[fitted.index(max(fitted[1:]), 1)] -= 1
        excess -= 1
    return fitted


def shown(value: Any) -> str:
    """A value as a table shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else " ".join(str(value).split())
