"""Counts what runs used: by day, by model, and by tool."""

from __future__ import annotations

from typing import NamedTuple

from ask.history.entries import usage_of
from ask.history.store import Store
from ask.messages import Usage

USED = """
SELECT {key} AS name, count(*) AS runs, count(DISTINCT conversation) AS conversations,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cached_tokens) AS cached_tokens,
    sum(cost) AS cost
FROM runs WHERE started >= ? GROUP BY name ORDER BY {order}
"""
TOOLS = """
SELECT name, count(*) AS calls, coalesce(sum(calls.failed), 0) AS failures, coalesce(sum(calls.seconds), 0) AS seconds
FROM runs JOIN messages ON messages.run = runs.number JOIN calls ON calls.message = messages.number
WHERE runs.started >= ? GROUP BY name ORDER BY count(*) DESC, name
"""


class Used(NamedTuple):
    """What the runs of a day, or with a model, used. `name` is the day as 2026-01-31, or provider:model."""

    name: str
    runs: int
    conversations: int
    usage: Usage

    @property
    def tokens(self) -> int:
        """Input and output together, as far as they were told."""
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)


class ToolUse(NamedTuple):
    """How often a tool was called and failed, and for how many seconds it ran altogether."""

    name: str
    calls: int
    failures: int
    seconds: float


class Statistics(NamedTuple):
    """What was used: in all, on each day that had a run, with each model, and by each tool; the most used first."""

    total: Used
    days: tuple[Used, ...]
    models: tuple[Used, ...]
    tools: tuple[ToolUse, ...]


def statistics(store: Store, since: float) -> Statistics:
    """What the runs that began at this time, in seconds since 1970, or later used. Days are those of the local time.

    Raises:
        FileError: the history cannot be read.
    """
    totals = _used(store, "''", "1", since) or [Used("", 0, 0, Usage())]
    tokens = "coalesce(sum(input_tokens), 0) + coalesce(sum(output_tokens), 0)"
    return Statistics(
        total=totals[0],
        days=tuple(_used(store, "date(started, 'unixepoch', 'localtime')", "1", since)),
        models=tuple(_used(store, "provider || ':' || model", f"{tokens} DESC, runs DESC, 1", since)),
        tools=tuple(ToolUse(*row) for row in store.rows(TOOLS, [since])),
    )


def _used(store: Store, key: str, order: str, since: float) -> list[Used]:
    rows = store.rows(USED.format(key=key, order=order), [since])
    return [Used(row["name"], row["runs"], row["conversations"], usage_of(row)) for row in rows]
