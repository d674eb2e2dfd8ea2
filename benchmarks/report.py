"""Puts what was measured into words: a table for people, Markdown for the page, JSON for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.cases import CASES, Row, Turn
from benchmarks.measuring import Figures

Measured = Mapping[str, Sequence[Turn]]
"""What each turn of each case gave."""


class Line(NamedTuple):
    """A row with its value: the median, between the quartiles."""

    row: Row
    median: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether the budget is kept."""
        if self.row.budget is None:
            return ""
        return "met" if self.median <= self.row.budget else "MISSED"


def lines(measured: Measured) -> list[Line]:
    """The lines of all rows whose programs were there."""
    found = []
    for name, turns in measured.items():
        for row in CASES[name].rows:
            try:
                values = [row.value(turn) for turn in turns]
            except KeyError:
                continue
            low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
            found.append(Line(row, statistics.median(values), low, high))
    return found


def number(value: float, unit: str) -> str:
    """A value with as many places as it is worth."""
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.2f} {unit}"


def table(measured: Measured) -> str:
    """A line for each row: median, quartiles, budget, and whether it is kept."""
    rows = [("", "median", "quartiles", "budget", "")]
    for line in lines(measured):
        budget = "" if line.row.budget is None else f"<= {line.row.budget:g}"
        quartiles = f"{line.low:.2f} to {line.high:.2f}"
        rows.append((line.row.what, number(line.median, line.row.unit), quartiles, budget, line.verdict))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = ("<", ">", ">", ">", "<")
    shown = (
        "  ".join(f"{cell:{to}{width}}" for cell, to, width in zip(row, aligned, widths, strict=True)) for row in rows
    )
    return "\n".join(map(str.rstrip, shown))


def markdown(measured: Measured) -> str:
    """The same for the page. Milliseconds are this machine's alone, so they are told as a share of their budget."""
    rows = ["| What | Measured | Quartiles | Budget |", "|---|--:|--:|--:|"]
    for line in lines(measured):
        row, budget = line.row, line.row.budget
        if row.unit == "ms" and budget is None:
            continue
        share = budget if row.unit == "ms" and budget else 1.0
        places = 0 if row.unit == "bytes" else 2
        median, low, high = (f"{value / share:.{places}f}" for value in line[1:])
        told = {"x": f"{median}x", "ms": f"{median} of the budget", "bytes": f"{median} bytes"}[row.unit]
        allowed = f"{budget:g}{'' if row.unit == 'x' else ' '}{row.unit} ({line.verdict})" if budget else ""
        rows.append(f"| {row.what} | {told} | {low} to {high} | {allowed} |")
    return "\n".join(rows)


def as_json(measured: Measured) -> str:
    """The rows, and the middle value of each figure of each program."""
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
        for line in lines(measured)
    ]
    figures = {case: {name: middle(turns, name) for name in turns[0]} for case, turns in measured.items()}
    return json.dumps({"rows": rows, "figures": figures}, indent=2) + "\n"


def middle(turns: Sequence[Turn], name: str) -> dict[str, float]:
    """The middle value of each figure of a program."""
    runs: list[Figures] = [turn[name] for turn in turns]
    kept = [figure for figure in runs[0] if all(figure in run for run in runs)]
    return {figure: round(statistics.median(run[figure] for run in runs), 2) for figure in kept}


def write_between(page: Path, mark: str, text: str) -> None:
    """Replace what stands between two marks of a page.

    Raises:
        ValueError: the page has no such marks.
    """
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, found, rest = page.read_text().partition(start)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise ValueError(f"{page} has no place for {mark}")
    page.write_text(f"{before}{start}{text}\n{end}{after}")
