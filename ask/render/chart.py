"""Shows what was used as small bar charts in plain characters, or as rows for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, NamedTuple

from ask.console import Output
from ask.history.statistics import Statistics, ToolUse, Used
from ask.render.amounts import counted, dollars, duration, short
from ask.render.table import GAP, shown
from ask.render.width import columns, cut, padded
from ask.text import one_line

BAR = "#"
LONGEST_BAR = 40
SHORTEST_BAR = 4
NARROWEST_NAME = 10
"""Columns to which a name may be cut: no less than a date takes."""


class Line(NamedTuple):
    """A line of a chart: a name, numbers as they are shown, and how much its bar stands for."""

    name: str
    numbers: Sequence[str]
    amount: float


def write_charts(output: Output, statistics: Statistics, first: str) -> None:
    """Write the total and the charts on a terminal; in a pipe rows, each of which begins with what it is about.

    `first` is the first day that counts.
    """
    if not output.terminal:
        output.write("".join("\t".join(map(shown, row)) + "\n" for row in rows(statistics)))
        return
    room = get_terminal_size().columns
    output.write("".join(f"{line}\n" for line in wrap(f"Since {first}: {total(statistics.total)}", room)))
    used = ("RUNS", "TOKENS", "COST")
    for heading, lines in (
        (("DAY", *used), list(map(used_line, statistics.days))),
        (("MODEL", *used), list(map(used_line, statistics.models))),
        (("TOOL", "CALLS", "FAILED", "TIME"), list(map(tool_line, statistics.tools))),
    ):
        if lines:
            output.write("\n" + "".join(f"{line}\n" for line in chart(heading, lines, room)))


def as_value(statistics: Statistics) -> dict[str, Any]:
    """The numbers for JSON."""
    return {
        "total": _used_value(statistics.total),
        "days": [{"day": used.name, **_used_value(used)} for used in statistics.days],
        "models": [{"model": used.name, **_used_value(used)} for used in statistics.models],
        "tools": [tool._asdict() for tool in statistics.tools],
    }


def _used_value(used: Used) -> dict[str, Any]:
    return {"conversations": used.conversations, "runs": used.runs, "usage": used.usage._asdict()}


def rows(statistics: Statistics) -> list[tuple[object, ...]]:
    """For a day or model: runs, tokens in and out, cost; for a tool: calls, failures, seconds."""
    return [
        *(
            (kind, used.name, used.runs, used.usage.input_tokens, used.usage.output_tokens, used.usage.cost)
            for kind, group in (("day", statistics.days), ("model", statistics.models))
            for used in group
        ),
        *(("tool", *tool) for tool in statistics.tools),
    ]


def chart(heading: Sequence[str], lines: Sequence[Line], room: int) -> list[str]:
    """A heading, and a line for each: the name, the numbers, and a bar in what room is left."""
    numbers = [[heading[1:], *(line.numbers for line in lines)][row] for row in range(len(lines) + 1)]
    widths = [max(map(len, column)) for column in zip(*numbers, strict=True)]
    names = [heading[0], *(one_line(line.name) for line in lines)]
    taken = sum(widths) + len(GAP) * len(widths)
    longest = max(map(columns, names))
    name_width = max(min(longest, room - taken - len(GAP) - LONGEST_BAR // 2), min(longest, NARROWEST_NAME))
    bar_room = min(LONGEST_BAR, room - taken - name_width - len(GAP))
    most = max(line.amount for line in lines)
    bars = ["", *(bar(line.amount, most, bar_room) for line in lines)]
    return [
        GAP.join(
            [
                padded(cut(name, name_width), name_width),
                *(cell.rjust(width) for cell, width in zip(row, widths, strict=True)),
                mark,
            ]
        ).rstrip()
        for name, row, mark in zip(names, numbers, bars, strict=True)
    ]


def bar(amount: float, most: float, room: int) -> str:
    """A bar in proportion, of which something is to be seen unless there is nothing; "" where there is no room."""
    if room < SHORTEST_BAR or amount <= 0:
        return ""
    return BAR * max(1, round(amount / most * room))


def used_line(used: Used) -> Line:
    """The line of a day or a model, its bar for the tokens."""
    return Line(used.name, (str(used.runs), short(used.tokens), dollars(used.usage.cost)), used.tokens)


def tool_line(tool: ToolUse) -> Line:
    """The line of a tool, its bar for the calls."""
    return Line(tool.name, (str(tool.calls), str(tool.failures), duration(tool.seconds)), tool.calls)


def total(used: Used) -> str:
    """What was used in all, on one line."""
    tokens_in, tokens_out = short(used.usage.input_tokens or 0), short(used.usage.output_tokens or 0)
    cost = f", {dollars(used.usage.cost)}" if used.usage.cost else ""
    runs = f"{counted(used.conversations, 'conversation')}, {counted(used.runs, 'run')}"
    return f"{runs}, {tokens_in} tokens in, {tokens_out} out{cost}"
