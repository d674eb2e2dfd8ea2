"""Usage statistics as text bar charts on a terminal, or as tab-separated rows in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import Any

from ask.console import StandardOutput, lend_standard_output
from ask.history.statistics import UsageRow, UsageStatistics
from ask.render.amounts import format_cache_use, format_compact_number, format_cost, format_count
from ask.render.table import COLUMN_GAP, MIN_COLUMN_WIDTH, format_cell, format_columns, format_records
from ask.render.text_layout import pad_text
from ask.text import format_duration, format_one_line, measure_width, wrap_text

BAR_CHARACTER = "█"
MAX_BAR_WIDTH = 40
MIN_BAR_WIDTH = 4
CACHE_HEADINGS = {"cached_tokens": "CACHED", "cache_write_tokens": "WRITTEN"}
"""The columns for input tokens read from caches and written to them, which are left out if there were none."""
MIN_CACHE_WIDTH = 60
"""The width of a terminal that has space for these columns."""

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
    with lend_standard_output():
        width = get_terminal_size().columns
    lines = wrap_text(f"Since {first_day}: {_format_total(statistics.total)}", width)
    for name, rows in (("DAY", statistics.days), ("MODEL", statistics.models)):
        fields = CACHE_HEADINGS if width >= MIN_CACHE_WIDTH else ()
        cache_fields = [field for field in fields if any(getattr(row.usage, field) for row in rows)]
        chart: Chart = [
            (
                row.name,
                (
                    str(row.runs),
                    format_compact_number(row.total_tokens),
                    *(format_compact_number(getattr(row.usage, field) or 0) for field in cache_fields),
                    format_cost(row.cost),
                ),
                row.total_tokens,
            )
            for row in rows
        ]
        cache_headings = [CACHE_HEADINGS[field] for field in cache_fields]
        lines += _format_chart((name, "RUNS", "TOKENS", *cache_headings, "COST"), chart, width)
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

    Days and models have runs, input tokens, output tokens, cost, and the input tokens that were read from caches and
    written to them; tools have calls, failures and seconds.
    """
    groups = (("day", statistics.days), ("model", statistics.models))
    return [
        *(
            (
                *(kind, row.name, row.runs, row.usage.input_tokens, row.usage.output_tokens, row.cost.dollars),
                *(row.usage.cached_tokens, row.usage.cache_write_tokens),
            )
            for kind, group in groups
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
    widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
    table = [[name, *map(str.rjust, cells, widths[1:])] for name, *cells in rows]
    min_widths = [MIN_COLUMN_WIDTH, *widths[1:]]
    # Space for a long bar if all columns fit beside it, else for a short one. A long name is shortened for them.
    bar_widths = (MAX_BAR_WIDTH // 2, MIN_BAR_WIDTH + len(COLUMN_GAP))
    layouts = [(widths, bar_width) for bar_width in bar_widths]
    layouts += [(min_widths, bar_width) for bar_width in (*bar_widths, 0)]
    formats = (format_columns(table, max_width - bar_width, minimum) for minimum, bar_width in layouts)
    lines = next(filter(None, formats), None)
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
    cached = format_cache_use(row.usage, format_compact_number)
    return f"{runs}, {tokens_in} tokens in{cached}, {tokens_out} out" + (f", {at_least}{cost}" if cost else "")
