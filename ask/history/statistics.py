"""Usage statistics by day, model, and tool."""

from __future__ import annotations

from typing import NamedTuple

from ask.history.entries import parse_usage
from ask.history.store import Store
from ask.messages import Usage

USAGE_QUERY = """
SELECT {key} AS name, count(*) AS runs, count(DISTINCT conversation) AS conversations,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cached_tokens) AS cached_tokens,
    sum(reasoning_tokens) AS reasoning_tokens, sum(cost) AS cost
FROM runs WHERE started >= ? GROUP BY name ORDER BY {order}
"""
TOOL_USAGE_QUERY = """
SELECT name, count(*) AS calls, coalesce(sum(calls.failed), 0) AS failures, coalesce(sum(calls.seconds), 0) AS seconds
FROM runs JOIN messages ON messages.run = runs.number JOIN calls ON calls.message = messages.number
WHERE runs.started >= ? GROUP BY name ORDER BY count(*) DESC, name
"""


class UsageRow(NamedTuple):
    """The usage of the runs on one day or with one model."""

    name: str
    """The day as 2026-01-31, or provider:model."""
    runs: int
    conversations: int
    usage: Usage

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens; unreported counts are 0."""
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)


class ToolUsageRow(NamedTuple):
    """The number of calls and failures of a tool, and its total run time in seconds."""

    name: str
    calls: int
    failures: int
    seconds: float


class UsageStatistics(NamedTuple):
    """Usage in total and grouped; models and tools are sorted by use, highest first.

    `days` contains only days with a run.
    """

    total: UsageRow
    days: tuple[UsageRow, ...]
    models: tuple[UsageRow, ...]
    tools: tuple[ToolUsageRow, ...]


def compute_statistics(store: Store, since: float) -> UsageStatistics:
    """Compute the usage of all runs started at `since` (seconds since 1970) or later. Days are in local time."""
    totals = _query_usage(store, "''", "1", since) or [UsageRow("", 0, 0, Usage())]
    tokens = "coalesce(sum(input_tokens), 0) + coalesce(sum(output_tokens), 0)"
    return UsageStatistics(
        total=totals[0],
        days=tuple(_query_usage(store, "date(started, 'unixepoch', 'localtime')", "1", since)),
        models=tuple(_query_usage(store, "provider || ':' || model", f"{tokens} DESC, runs DESC, 1", since)),
        tools=tuple(ToolUsageRow(*row) for row in store.fetch_rows(TOOL_USAGE_QUERY, [since])),
    )


def _query_usage(store: Store, group_by: str, order_by: str, since: float) -> list[UsageRow]:
    rows = store.fetch_rows(USAGE_QUERY.format(key=group_by, order=order_by), [since])
    return [UsageRow(row["name"], row["runs"], row["conversations"], parse_usage(row)) for row in rows]
