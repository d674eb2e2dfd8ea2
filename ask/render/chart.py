"""Usage statistics as text bar charts on a terminal, or as tab-separated rows in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, NamedTuple

from ask.console import StandardOutput
from ask.history.statistics import ToolUsageRow, UsageRow, UsageStatistics
from ask.render.amounts import format_compact_number, format_cost, format_count, format_duration
from ask.render.table import COLUMN_GAP, format_cell
from ask.render.text_layout import measure_width, pad_text, truncate_text
from ask.text import format_one_line

BAR_CHARACTER = "#"
MAX_BAR_WIDTH = 40
MIN_BAR_WIDTH = 4
MIN_NAME_WIDTH = 10
"""Columns to which a name may be truncated; a date fits in them."""


class ChartRow(NamedTuple):
    """A chart row: name, formatted numbers, and the amount that its bar shows."""

    name: str
    cells: Sequence[str]
    bar_amount: float


def write_charts(output: StandardOutput, statistics: UsageStatistics, first_day: str) -> None:
    """Write the total and the charts on a terminal, or tab-separated rows in a pipe.

    `first_day` is the first day that is counted.
    """
    if not output.is_terminal:
        output.write("".join("\t".join(map(format_cell, row)) + "\n" for row in to_statistics_rows(statistics)))
        return
    width = get_terminal_size().columns
    output.write("".join(f"{line}\n" for line in wrap(f"Since {first_day}: {format_total(statistics.total)}", width)))
    usage_headings = ("RUNS", "TOKENS", "COST")
    for heading, rows in (
        (("DAY", *usage_headings), list(map(make_usage_chart_row, statistics.days))),
        (("MODEL", *usage_headings), list(map(make_usage_chart_row, statistics.models))),
        (("TOOL", "CALLS", "FAILED", "TIME"), list(map(make_tool_chart_row, statistics.tools))),
    ):
        if rows:
            output.write("\n" + "".join(f"{line}\n" for line in format_chart(heading, rows, width)))


def to_statistics_dict(statistics: UsageStatistics) -> dict[str, Any]:
    """Convert statistics to a dict for JSON output."""
    return {
        "total": _to_usage_dict(statistics.total),
        "days": [{"day": row.name, **_to_usage_dict(row)} for row in statistics.days],
        "models": [{"model": row.name, **_to_usage_dict(row)} for row in statistics.models],
        "tools": [tool._asdict() for tool in statistics.tools],
    }


def _to_usage_dict(usage_row: UsageRow) -> dict[str, Any]:
    return {"conversations": usage_row.conversations, "runs": usage_row.runs, "usage": usage_row.usage._asdict()}


def to_statistics_rows(statistics: UsageStatistics) -> list[tuple[object, ...]]:
    """Convert statistics to rows that start with their kind.

    Days and models have runs, input tokens, output tokens and cost; tools have calls, failures and seconds.
    """
    return [
        *(
            (kind, row.name, row.runs, row.usage.input_tokens, row.usage.output_tokens, row.usage.cost)
            for kind, group in (("day", statistics.days), ("model", statistics.models))
            for row in group
        ),
        *(("tool", *tool) for tool in statistics.tools),
    ]


def format_chart(heading: Sequence[str], chart_rows: Sequence[ChartRow], max_width: int) -> list[str]:
    """Format a heading and a line per row: name, numbers, and a bar."""
    numbers = [[heading[1:], *(chart_row.cells for chart_row in chart_rows)][row] for row in range(len(chart_rows) + 1)]
    widths = [max(map(len, column)) for column in zip(*numbers, strict=True)]
    names = [heading[0], *(format_one_line(chart_row.name) for chart_row in chart_rows)]
    numbers_width = sum(widths) + len(COLUMN_GAP) * len(widths)
    longest_name = max(map(measure_width, names))
    name_width = max(
        min(longest_name, max_width - numbers_width - len(COLUMN_GAP) - MAX_BAR_WIDTH // 2),
        min(longest_name, MIN_NAME_WIDTH),
    )
    bar_width = min(MAX_BAR_WIDTH, max_width - numbers_width - name_width - len(COLUMN_GAP))
    max_amount = max(chart_row.bar_amount for chart_row in chart_rows)
    bars = ["", *(format_bar(chart_row.bar_amount, max_amount, bar_width) for chart_row in chart_rows)]
    return [
        COLUMN_GAP.join(
            [
                pad_text(truncate_text(name, name_width), name_width),
                *(cell.rjust(width) for cell, width in zip(row, widths, strict=True)),
                bar,
            ]
        ).rstrip()
        for name, row, bar in zip(names, numbers, bars, strict=True)
    ]


def format_bar(amount: float, max_amount: float, max_width: int) -> str:
    """Format a bar in proportion to `max_amount`, at least one character long.

    Return "" if the amount is 0 or the width is too small for a bar.
    """
    if max_width < MIN_BAR_WIDTH or amount <= 0:
        return ""
    return BAR_CHARACTER * max(1, round(amount / max_amount * max_width))


def make_usage_chart_row(usage_row: UsageRow) -> ChartRow:
    """Make the row of a day or a model; the bar shows its tokens."""
    return ChartRow(
        usage_row.name,
        (str(usage_row.runs), format_compact_number(usage_row.total_tokens), format_cost(usage_row.usage.cost)),
        usage_row.total_tokens,
    )


def make_tool_chart_row(tool_usage: ToolUsageRow) -> ChartRow:
    """Make the row of a tool; the bar shows its calls."""
    return ChartRow(
        tool_usage.name,
        (str(tool_usage.calls), str(tool_usage.failures), format_duration(tool_usage.seconds)),
        tool_usage.calls,
    )


def format_total(usage_row: UsageRow) -> str:
    """Format the total usage on one line."""
    tokens_in, tokens_out = (
        format_compact_number(usage_row.usage.input_tokens or 0),
        format_compact_number(usage_row.usage.output_tokens or 0),
    )
    cost = f", {format_cost(usage_row.usage.cost)}" if usage_row.usage.cost else ""
    runs = f"{format_count(usage_row.conversations, 'conversation')}, {format_count(usage_row.runs, 'run')}"
    return f"{runs}, {tokens_in} tokens in, {tokens_out} out{cost}"
