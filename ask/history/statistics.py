"""Usage statistics by day, model, and tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ask.client.cost import Cost
from ask.history.entries import parse_usage
from ask.history.store import Store
from ask.messages import Usage

USAGE_QUERY = """
SELECT {key} AS name, count(*) AS runs, count(DISTINCT conversation) AS conversations,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cached_tokens) AS cached_tokens,
    sum(cost) AS cost, group_concat(number) AS numbers
FROM runs WHERE started >= ? GROUP BY name ORDER BY {order}
"""
RUN_QUERY = f"SELECT number, provider, model, started, {', '.join(Usage._fields)} FROM runs WHERE started >= ?"
UNREPORTED_COST_QUERY = f"""
SELECT run, {", ".join(f"messages.{name}" for name in Usage._fields)}
FROM runs JOIN messages ON run = runs.number
WHERE started >= ? AND runs.cost IS NULL AND role = 'assistant'
"""
"""The requests of runs whose cost the provider did not report."""
TOOL_USAGE_QUERY = """
SELECT name, count(*) AS calls, coalesce(sum(calls.failed), 0) AS failures, coalesce(sum(calls.seconds), 0) AS seconds
FROM runs JOIN messages ON messages.run = runs.number JOIN calls ON calls.message = messages.number
WHERE runs.started >= ? GROUP BY name ORDER BY count(*) DESC, name
"""


RunCostCalculator = Callable[[str, str, Iterable[Usage], float], Cost]
"""Calculates the cost of a run from its provider, model, the usage of each request, and start time."""


class UsageRow(NamedTuple):
    """The usage of the runs on one day or with one model."""

    name: str
    """The day as 2026-01-31, or provider:model."""
    runs: int
    conversations: int
    usage: Usage
    cost: Cost = Cost()
    """The sum of reported and estimated costs."""

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


def compute_statistics(store: Store, since: float, make_pricing: Callable[[], RunCostCalculator]) -> UsageStatistics:
    """Compute the usage of all runs started at `since` (seconds since 1970) or later. Days are in local time.

    `make_pricing` may be slow. It is called only if the cost of a run was not reported.
    """
    costs = _calculate_costs(store, since, make_pricing)
    totals = _query_usage(store, "''", "1", since, costs) or [UsageRow("", 0, 0, Usage())]
    tokens = "coalesce(sum(input_tokens), 0) + coalesce(sum(output_tokens), 0)"
    return UsageStatistics(
        total=totals[0],
        days=tuple(_query_usage(store, "date(started, 'unixepoch', 'localtime')", "1", since, costs)),
        models=tuple(_query_usage(store, "provider || ':' || model", f"{tokens} DESC, runs DESC, 1", since, costs)),
        tools=tuple(ToolUsageRow(*row) for row in store.fetch_rows(TOOL_USAGE_QUERY, [since])),
    )


def _calculate_costs(store: Store, since: float, make_pricing: Callable[[], RunCostCalculator]) -> dict[int, Cost]:
    """Return the cost of each run by its number. Requests are priced one by one: long ones may cost more per token."""
    requests: dict[int, list[Usage]] = {}
    for row in store.fetch_rows(UNREPORTED_COST_QUERY, [since]):
        requests.setdefault(row["run"], []).append(parse_usage(row))
    costs: dict[int, Cost] = {}
    calculate_cost: RunCostCalculator | None = None
    for row in store.fetch_rows(RUN_QUERY, [since]):
        total = parse_usage(row)
        if total.cost is not None:
            costs[row["number"]] = Cost.from_report(total.cost)
            continue
        usages = requests.get(row["number"], [])
        rest = _subtract_tokens(total, sum(usages, start=Usage()))  # of requests that left no message
        usages = [*usages, rest] if rest.input_tokens or rest.output_tokens else usages
        if usages:
            calculate_cost = calculate_cost or make_pricing()
            costs[row["number"]] = calculate_cost(row["provider"], row["model"], usages, row["started"])
    return costs


def _subtract_tokens(total: Usage, part: Usage) -> Usage:
    names = ("input_tokens", "output_tokens", "cached_tokens")
    return Usage(**{name: max(0, (getattr(total, name) or 0) - (getattr(part, name) or 0)) for name in names})


def _query_usage(store: Store, group_by: str, order_by: str, since: float, costs: Mapping[int, Cost]) -> list[UsageRow]:
    rows = store.fetch_rows(USAGE_QUERY.format(key=group_by, order=order_by), [since])
    return [
        UsageRow(
            row["name"],
            row["runs"],
            row["conversations"],
            parse_usage(row),
            sum((costs.get(int(number), Cost()) for number in row["numbers"].split(",")), start=Cost()),
        )
        for row in rows
    ]
