"""Counts what runs used: by day, by model, and by tool."""

from __future__ import annotations

from typing import NamedTuple

from ask.history.entries import parse_usage
from ask.history.store import Store
from ask.messages import Usage

USAGE_QUERY = """
SELECT {key} AS name, count(*) AS runs, count(DISTINCT conversation) AS conversations,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cached_tokens) AS cached_tokens,
    sum(cost) AS cost
FROM runs WHERE started >= ? GROUP BY name ORDER BY {order}
"""
TOOL_USAGE_QUERY = """
SELECT name, count(*) AS calls, coalesce(sum(calls.failed), 0) AS failures, coalesce(sum(calls.seconds), 0) AS seconds
FROM runs JOIN messages ON messages.run = runs.number JOIN calls ON calls.message = messages.number
WHERE runs.started >= ? GROUP BY name ORDER BY count(*) DESC, name
"""


class UsageRow(NamedTuple):
    """What the runs of a day, or with a model, used. `name` is the day as 2026-01-31, or provider:model."""

    name: str
    runs: int
    conversations: int
    usage: Usage

    @property
    def total_tokens(self) -> int:
        """Input and output together, as far as they were told."""
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)


class ToolUsageRow(NamedTuple):
    """How often a tool was called and failed, and for how many seconds it ran altogether."""

    name: str
    calls: int
    failures: int
    seconds: float


class UsageStatistics(NamedTuple):
    """What was used: in all, on each day that had a run, with each model, and by each tool; the most used first."""

    total: UsageRow
    days: tuple[UsageRow, ...]
    models: tuple[UsageRow, ...]
    tools: tuple[ToolUsageRow, ...]


def compute_statistics(store: Store, since: float) -> UsageStatistics:
    """What the runs that began at this time, in seconds since 1970, or later used. Days are those of the local time.

    Raises:
        FileError: the history cannot be read.
    """
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
