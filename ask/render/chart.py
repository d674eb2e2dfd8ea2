"""Shows what was used as small bar charts in plain characters, or as rows for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, NamedTuple

from ask.console import StandardOutput
from ask.history.statistics import ToolUsageRow, UsageRow, UsageStatistics
from ask.render.amounts import format_compact_number, format_cost, format_count, format_duration
from ask.render.table import COLUMN_GAP, format_cell
from ask.render.width import measure_width, pad_text, truncate_text
from ask.text import format_one_line

BAR_CHARACTER = "#"
MAX_BAR_WIDTH = 40
MIN_BAR_WIDTH = 4
MIN_NAME_WIDTH = 10
"""Columns to which a name may be cut: no less than a date takes."""


class ChartRow(NamedTuple):
    """A line of a chart: a name, numbers as they are shown, and how much its bar stands for."""

    name: str
    cells: Sequence[str]
    bar_amount: float


def write_charts(output: StandardOutput, statistics: UsageStatistics, first_day: str) -> None:
    """Write the total and the charts on a terminal; in a pipe rows, each of which begins with what it is about.

    `first_day` is the first day that counts.
    """
    if not output.is_terminal:
        output.write("".join("\t".join(map(format_cell, row)) + "\n" for row in to_statistics_rows(statistics)))
        return
    room = get_terminal_size().columns
    output.write("".join(f"{line}\n" for line in wrap(f"Since {first_day}: {format_total(statistics.total)}", room)))
    used = ("RUNS", "TOKENS", "COST")
    for heading, lines in (
        (("DAY", *used), list(map(make_usage_chart_row, statistics.days))),
        (("MODEL", *used), list(map(make_usage_chart_row, statistics.models))),
        (("TOOL", "CALLS", "FAILED", "TIME"), list(map(make_tool_chart_row, statistics.tools))),
    ):
        if lines:
            output.write("\n" + "".join(f"{line}\n" for line in format_chart(heading, lines, room)))


def to_statistics_dict(statistics: UsageStatistics) -> dict[str, Any]:
    """The numbers for JSON."""
    return {
        "total": _to_usage_dict(statistics.total),
        "days": [{"day": used.name, **_to_usage_dict(used)} for used in statistics.days],
        "models": [{"model": used.name, **_to_usage_dict(used)} for used in statistics.models],
        "tools": [tool._asdict() for tool in statistics.tools],
    }


def _to_usage_dict(usage_row: UsageRow) -> dict[str, Any]:
    return {"conversations": usage_row.conversations, "runs": usage_row.runs, "usage": usage_row.usage._asdict()}


def to_statistics_rows(statistics: UsageStatistics) -> list[tuple[object, ...]]:
    """For a day or model: runs, tokens in and out, cost; for a tool: calls, failures, seconds."""
    return [
        *(
            (kind, used.name, used.runs, used.usage.input_tokens, used.usage.output_tokens, used.usage.cost)
            for kind, group in (("day", statistics.days), ("model", statistics.models))
            for used in group
        ),
        *(("tool", *tool) for tool in statistics.tools),
    ]


def format_chart(heading: Sequence[str], chart_rows: Sequence[ChartRow], max_width: int) -> list[str]:
    """A heading, and a line for each: the name, the numbers, and a bar in what room is left."""
    numbers = [[heading[1:], *(line.cells for line in chart_rows)][row] for row in range(len(chart_rows) + 1)]
    widths = [max(map(len, column)) for column in zip(*numbers, strict=True)]
    names = [heading[0], *(format_one_line(line.name) for line in chart_rows)]
    taken = sum(widths) + len(COLUMN_GAP) * len(widths)
    longest = max(map(measure_width, names))
    name_width = max(
        min(longest, max_width - taken - len(COLUMN_GAP) - MAX_BAR_WIDTH // 2), min(longest, MIN_NAME_WIDTH)
    )
    bar_room = min(MAX_BAR_WIDTH, max_width - taken - name_width - len(COLUMN_GAP))
    most = max(line.bar_amount for line in chart_rows)
    bars = ["", *(format_bar(line.bar_amount, most, bar_room) for line in chart_rows)]
    return [
        COLUMN_GAP.join(
            [
                pad_text(truncate_text(name, name_width), name_width),
                *(cell.rjust(width) for cell, width in zip(row, widths, strict=True)),
                mark,
            ]
        ).rstrip()
        for name, row, mark in zip(names, numbers, bars, strict=True)
    ]


def format_bar(amount: float, max_amount: float, max_width: int) -> str:
    """A bar in proportion, of which something is to be seen unless there is nothing; "" where there is no room."""
    if max_width < MIN_BAR_WIDTH or amount <= 0:
        return ""
    return BAR_CHARACTER * max(1, round(amount / max_amount * max_width))


def make_usage_chart_row(usage_row: UsageRow) -> ChartRow:
    """The line of a day or a model, its bar for the tokens."""
    return ChartRow(
        usage_row.name,
        (str(usage_row.runs), format_compact_number(usage_row.total_tokens), format_cost(usage_row.usage.cost)),
        usage_row.total_tokens,
    )


def make_tool_chart_row(tool_usage: ToolUsageRow) -> ChartRow:
    """The line of a tool, its bar for the calls."""
    return ChartRow(
        tool_usage.name,
        (str(tool_usage.calls), str(tool_usage.failures), format_duration(tool_usage.seconds)),
        tool_usage.calls,
    )


def format_total(usage_row: UsageRow) -> str:
    """What was used in all, on one line."""
    tokens_in, tokens_out = (
        format_compact_number(usage_row.usage.input_tokens or 0),
        format_compact_number(usage_row.usage.output_tokens or 0),
    )
    cost = f", {format_cost(usage_row.usage.cost)}" if usage_row.usage.cost else ""
    runs = f"{format_count(usage_row.conversations, 'conversation')}, {format_count(usage_row.runs, 'run')}"
    return f"{runs}, {tokens_in} tokens in, {tokens_out} out{cost}"
