"""Usage statistics by day, model, and tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ask.client.cost import Cost
from ask.history.entries import parse_usage
from ask.history.store import Store
from ask.messages import Usage

USAGE_QUERY = """
SELECT {key} AS name, count(DISTINCT number) AS runs, count(DISTINCT conversation) AS conversations,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cached_tokens) AS cached_tokens,
    sum(reasoning_tokens) AS reasoning_tokens, sum(cost) AS cost, group_concat(number) AS numbers
FROM {table} WHERE started >= ? GROUP BY name ORDER BY {order}
"""
FALLBACK_USAGE = "SELECT sum({column}) FROM messages WHERE run = runs.number AND model <> ''"
OWN_COLUMNS = ", ".join(
    f"{column} - coalesce(({FALLBACK_USAGE.format(column=column)}), 0) AS {column}" for column in Usage._fields
)
FALLBACK_COLUMNS = ", ".join(f"messages.{column}" for column in Usage._fields)
USAGE_BY_MODEL = f"""(
SELECT number, conversation, started, provider, model, 0 AS is_fallback, {OWN_COLUMNS} FROM runs
UNION ALL
SELECT runs.number, conversation, started, messages.provider, messages.model, 1 AS is_fallback, {FALLBACK_COLUMNS}
FROM messages JOIN runs ON run = runs.number WHERE messages.model <> ''
)"""
"""The runs, with the answers of other models than the run's own in rows of their own."""
MODEL_QUERY = f"SELECT * FROM {USAGE_BY_MODEL} WHERE started >= ?"
UNREPORTED_COST_QUERY = f"""
SELECT run, {", ".join(f"messages.{name}" for name in Usage._fields)}
FROM runs JOIN messages ON run = runs.number
WHERE started >= ? AND runs.cost IS NULL AND role = 'assistant' AND messages.model = ''
"""
"""The requests to a run's own model whose cost the provider did not report."""
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
    run_costs: dict[int, Cost] = {}
    for (number, _), cost in costs.items():
        run_costs[number] = run_costs.get(number, Cost()) + cost

    def get_run_cost(number: int, _: str) -> Cost:
        return run_costs.get(number, Cost())

    def get_model_cost(number: int, model: str) -> Cost:
        return costs.get((number, model), Cost())

    day = "date(started, 'unixepoch', 'localtime')"
    tokens = "coalesce(sum(input_tokens), 0) + coalesce(sum(output_tokens), 0)"
    by_model = USAGE_QUERY.format(
        table=USAGE_BY_MODEL, key="provider || ':' || model", order=f"{tokens} DESC, runs DESC, 1"
    )
    totals = _query_usage(store, USAGE_QUERY.format(table="runs", key="''", order="1"), since, get_run_cost)
    return UsageStatistics(
        total=(totals or [UsageRow("", 0, 0, Usage())])[0],
        days=tuple(_query_usage(store, USAGE_QUERY.format(table="runs", key=day, order="1"), since, get_run_cost)),
        models=tuple(_query_usage(store, by_model, since, get_model_cost)),
        tools=tuple(ToolUsageRow(*row) for row in store.fetch_rows(TOOL_USAGE_QUERY, [since])),
    )


def _calculate_costs(
    store: Store, since: float, make_pricing: Callable[[], RunCostCalculator]
) -> dict[tuple[int, str], Cost]:
    """Return the cost of each run by its number and "provider:model".

    Requests are priced one by one: long ones may cost more per token.
    """
    requests: dict[int, list[Usage]] = {}
    for row in store.fetch_rows(UNREPORTED_COST_QUERY, [since]):
        requests.setdefault(row["run"], []).append(parse_usage(row))
    costs: dict[tuple[int, str], Cost] = {}
    calculate_cost: RunCostCalculator | None = None
    for row in store.fetch_rows(MODEL_QUERY, [since]):
        key, total = (row["number"], f"{row['provider']}:{row['model']}"), parse_usage(row)
        if total.cost is not None:
            costs[key] = costs.get(key, Cost()) + Cost.from_report(total.cost)
            continue
        usages = [] if row["is_fallback"] else requests.get(row["number"], [])
        rest = _subtract_tokens(total, sum(usages, start=Usage()))  # of requests that left no message
        usages = [*usages, rest] if rest.input_tokens or rest.output_tokens else usages
        if usages:
            calculate_cost = calculate_cost or make_pricing()
            cost = calculate_cost(row["provider"], row["model"], usages, row["started"])
            costs[key] = costs.get(key, Cost()) + cost
    return costs


def _subtract_tokens(total: Usage, part: Usage) -> Usage:
    names = ("input_tokens", "output_tokens", "cached_tokens")
    return Usage(**{name: max(0, (getattr(total, name) or 0) - (getattr(part, name) or 0)) for name in names})


def _query_usage(store: Store, query: str, since: float, get_cost: Callable[[int, str], Cost]) -> list[UsageRow]:
    """Return the rows of a query; `get_cost` returns the cost of a run with that number in the row of that name."""
    return [
        UsageRow(
            row["name"],
            row["runs"],
            row["conversations"],
            parse_usage(row),
            sum((get_cost(int(number), row["name"]) for number in set(row["numbers"].split(","))), start=Cost()),
        )
        for row in store.fetch_rows(query, [since])
    ]
