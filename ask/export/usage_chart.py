"""Usage statistics as text bar charts on a terminal, or as tab-separated rows in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from ask.console import StandardOutput
from ask.history.statistics import UsageRow, UsageStatistics
from ask.render.amounts import format_compact_number, format_cost, format_count, format_duration
from ask.render.table import COLUMN_GAP, format_cell, format_columns, format_records
from ask.render.text_layout import measure_width, pad_text
from ask.text import format_one_line

BAR_CHARACTER = "#"
MAX_BAR_WIDTH = 40
MIN_BAR_WIDTH = 4

Chart = Sequence[tuple[str, Sequence[str], float]]
"""Rows of a name, formatted numbers, and the amount that the row's bar shows."""


def write_charts(statistics: UsageStatistics, first_day: str) -> None:
    """Write the total and the charts on a terminal, or tab-separated rows in a pipe.

    `first_day` is the first day that is counted.
    """
    output = StandardOutput()
    if not output.is_terminal:
        output.write("".join("\t".join(map(format_cell, row)) + "\n" for row in _to_statistics_rows(statistics)))
        return
    width = get_terminal_size().columns
    lines = wrap(f"Since {first_day}: {_format_total(statistics.total)}", width)
    for name, rows in (("DAY", statistics.days), ("MODEL", statistics.models)):
        chart: Chart = [
            (
                row.name,
                (str(row.runs), format_compact_number(row.total_tokens), format_cost(row.cost)),
                row.total_tokens,
            )
            for row in rows
        ]
        lines += _format_chart((name, "RUNS", "TOKENS", "COST"), chart, width)
    chart = [
        (tool.name, (str(tool.calls), str(tool.failures), format_duration(tool.seconds)), tool.calls)
        for tool in statistics.tools
    ]
    lines += _format_chart(("TOOL", "CALLS", "FAILED", "TIME"), chart, width)
    output.write("".join(f"{line}\n" for line in lines))


def to_statistics_dict(statistics: UsageStatistics) -> dict[str, Any]:
    """Convert statistics to a dict for JSON output."""
    return {
        "total": _to_usage_dict(statistics.total),
        "days": [{"day": row.name, **_to_usage_dict(row)} for row in statistics.days],
        "models": [{"model": row.name, **_to_usage_dict(row)} for row in statistics.models],
        "tools": [tool._asdict() for tool in statistics.tools],
    }


def _to_usage_dict(usage_row: UsageRow) -> dict[str, Any]:
    usage = {**usage_row.usage._asdict(), **usage_row.cost.to_dict()}
    return {
        "conversations": usage_row.conversations,
        "runs": usage_row.runs,
        "usage": usage,
        "response_seconds": {"median": usage_row.median, "p95": usage_row.p95},
        "tool_calls": usage_row.calls,
        "tool_failures": usage_row.failures,
    }


def _to_statistics_rows(statistics: UsageStatistics) -> list[tuple[object, ...]]:
    """Convert statistics to rows that start with their kind.

    Days and models have runs, input tokens, output tokens and cost; tools have calls, failures and seconds.
    """
    return [
        *(
            (kind, row.name, row.runs, row.usage.input_tokens, row.usage.output_tokens, row.cost.dollars)
            for kind, group in (("day", statistics.days), ("model", statistics.models))
            for row in group
        ),
        *(("tool", *tool) for tool in statistics.tools),
    ]


def _format_chart(headings: Sequence[str], chart: Chart, max_width: int) -> Iterator[str]:
    """Yield a blank line, the headings and a line per row: name, numbers, and a bar; nothing for an empty chart."""
    if not chart:
        return
    yield ""
    rows = [headings, *([format_one_line(name), *cells] for name, cells, _ in chart)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [[name, *map(str.rjust, cells, widths[1:])] for name, *cells in rows]
    bar_widths = (MAX_BAR_WIDTH // 2, MIN_BAR_WIDTH + len(COLUMN_GAP), 0)
    lines = next(filter(None, (format_columns(table, max_width - width, 0) for width in bar_widths)), None)
    if lines is None:
        yield from format_records(rows, max_width)
        return
    width = max(map(measure_width, lines))
    max_amount = max(amount for _, _, amount in chart)
    yield lines[0]
    for line, (_, _, amount) in zip(lines[1:], chart, strict=True):
        bar = _format_bar(amount, max_amount, min(MAX_BAR_WIDTH, max_width - width - len(COLUMN_GAP)))
        yield f"{pad_text(line, width)}{COLUMN_GAP}{bar}".rstrip()


def _format_bar(amount: float, max_amount: float, max_width: int) -> str:
    """Format a bar in proportion to `max_amount`, at least one character long.

    Return "" if the amount is 0 or the width is too small for a bar.
    """
    if max_width < MIN_BAR_WIDTH or amount <= 0:
        return ""
    return BAR_CHARACTER * max(1, round(amount / max_amount * max_width))


def _format_total(row: UsageRow) -> str:
    """Format the total usage on one line."""
    runs = f"{format_count(row.conversations, 'conversation')}, {format_count(row.runs, 'run')}"
    tokens_in, tokens_out = (format_compact_number(count or 0) for count in row.usage[:2])
    cost = format_cost(row.cost._replace(is_complete=True)) if row.cost.dollars else ""
    at_least = "" if row.cost.is_complete else "at least "
    return f"{runs}, {tokens_in} tokens in, {tokens_out} out" + (f", {at_least}{cost}" if cost else "")
