"""Formats measurements: a text table, Markdown for the page, or JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.cases import CASES, Row, Turn
from benchmarks.measurement import Measurements

Measured = Mapping[str, Sequence[Turn]]
"""The measurements of each turn by case."""


class ResultLine(NamedTuple):
    """A row with its median and quartiles."""

    row: Row
    median: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Return whether the budget was met."""
        if self.row.budget is None:
            return ""
        is_met = self.median >= self.row.budget if self.row.is_minimum else self.median <= self.row.budget
        return "met" if is_met else "MISSED"


def compute_lines(measured: Measured) -> list[ResultLine]:
    """Compute the rows whose programs were all measured."""
    found = []
    for name, turns in measured.items():
        for row in CASES[name].rows:
            try:
                values = [row.value(turn) for turn in turns]
            except KeyError:
                continue
            low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
            found.append(ResultLine(row, statistics.median(values), low, high))
    return found


def format_number(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.2f} {unit}"


def format_table(measured: Measured) -> str:
    """Format a line per row: median, quartiles, budget and verdict."""
    rows = [("", "median", "quartiles", "budget", "")]
    for line in compute_lines(measured):
        budget = "" if line.row.budget is None else f"{'>=' if line.row.is_minimum else '<='} {line.row.budget:g}"
        quartiles = f"{line.low:.2f} to {line.high:.2f}"
        rows.append((line.row.what, format_number(line.median, line.row.unit), quartiles, budget, line.verdict))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = ("<", ">", ">", ">", "<")
    shown = (
        "  ".join(f"{cell:{to}{width}}" for cell, to, width in zip(row, aligned, widths, strict=True)) for row in rows
    )
    return "\n".join(map(str.rstrip, shown))


def format_markdown(measured: Measured) -> str:
    """Format the rows for the page, without times in milliseconds, which mean nothing on another machine."""
    rows = ["| What | Measured | Quartiles | Budget |", "|---|--:|--:|--:|"]
    for line in compute_lines(measured):
        row, budget = line.row, line.row.budget
        if row.unit == "ms":
            continue
        places = 0 if row.unit == "bytes" else 2
        median, low, high = (f"{value:.{places}f}" for value in line[1:])
        formatted = f"{median}x" if row.unit == "x" else f"{median} {row.unit}"
        prefix, space = "at least " if row.is_minimum else "", "" if row.unit == "x" else " "
        allowed = f"{prefix}{budget:g}{space}{row.unit} ({line.verdict})" if budget else ""
        rows.append(f"| {row.what} | {formatted} | {low} to {high} | {allowed} |")
    return "\n".join(rows)


def format_json(measured: Measured) -> str:
    """Format the rows and the median measurements of each program."""
    rows = [
        {
            "what": line.row.what,
            "unit": line.row.unit,
            "median": round(line.median, 3),
            "low": round(line.low, 3),
            "high": round(line.high, 3),
            "budget": line.row.budget,
            "met": None if line.row.budget is None else line.verdict == "met",
        }
        for line in compute_lines(measured)
    ]
    figures = {case: {name: compute_medians(turns, name) for name in turns[0]} for case, turns in measured.items()}
    return json.dumps({"rows": rows, "figures": figures}, indent=2) + "\n"


def compute_medians(turns: Sequence[Turn], name: str) -> dict[str, float]:
    runs: list[Measurements] = [turn[name] for turn in turns]
    kept = [figure for figure in runs[0] if all(figure in run for run in runs)]
    return {figure: round(statistics.median(run[figure] for run in runs), 2) for figure in kept}


def write_between(page: Path, mark: str, text: str, *, keep_rows: bool = False) -> None:
    """Replace the text between two markers of a page; raise ValueError if it has no such markers.

    With `keep_rows`, both texts are tables, and the rows of the old one that are not in the new one are kept.
    """
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, found, rest = page.read_text().partition(start)
    old, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"{page} has no place for {mark}")
    if keep_rows:
        rows = [line for line in [*old.splitlines(), *text.splitlines()] if line.startswith("|")]
        text = "\n".join({line.split("|")[1]: line for line in rows}.values())
    page.write_text(f"{before}{start}{text}\n{end}{after}")
