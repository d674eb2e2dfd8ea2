"""Usage statistics by day, model, and tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ask.client.cost import Cost
from ask.history.entries import SUMMED_USAGE, parse_usage
from ask.history.store import Store
from ask.messages import Usage
from ask.records import NamedTuple

DAY = "date(runs.started, 'unixepoch', 'localtime')"
USAGE_QUERY = f"""
SELECT {{key}} AS name, count(DISTINCT number) AS runs, count(DISTINCT conversation) AS conversations,
    NULL AS cost, {SUMMED_USAGE}
FROM {{table}} AS runs WHERE started >= ? GROUP BY name ORDER BY {{order}}
"""
FALLBACK_USAGE = "SELECT sum({column}) FROM messages WHERE run = runs.number AND model <> ''"
OWN_COLUMNS = ", ".join(
    f"{column} - coalesce(({FALLBACK_USAGE.format(column=column)}), 0) AS {column}"
    for column in Usage._fields
    if column != "service_tier"
)
FALLBACK_COLUMNS = ", ".join(f"messages.{column}" for column in Usage._fields)
USAGE_BY_MODEL = f"""(
SELECT number, conversation, started, provider, model, 0 AS is_fallback, {OWN_COLUMNS}, service_tier FROM runs
UNION ALL
SELECT runs.number, conversation, started, messages.provider, messages.model, 1 AS is_fallback, {FALLBACK_COLUMNS}
FROM messages JOIN runs ON run = runs.number WHERE messages.model <> ''
)"""
"""The runs, with the answers of other models than the run's own in rows of their own."""
REPORTED_COST_QUERY = f"""
SELECT {DAY} AS day, ltrim(provider || ':' || model, ':') AS model, sum(cost) AS cost
FROM {USAGE_BY_MODEL} AS runs WHERE started >= ? AND number <> ? AND cost IS NOT NULL GROUP BY day, model
"""
UNREPORTED_COST_QUERY = f"""
SELECT *, {DAY} AS day FROM {USAGE_BY_MODEL} AS runs WHERE started >= ? AND number <> ? AND cost IS NULL
"""
UNREPORTED_REQUEST_QUERY = f"""
SELECT run, {", ".join(f"messages.{name}" for name in Usage._fields)}
FROM runs CROSS JOIN messages ON run = runs.number
WHERE started >= ? AND runs.number <> ? AND runs.cost IS NULL
    AND role = 'assistant' AND finish_reason <> '' AND messages.model = ''
"""
"""The requests to a run's own model whose cost the provider did not report. The runs are found first, by their time."""
ANSWERED_BY = """CASE messages.model WHEN '' THEN ltrim(runs.provider || ':' || runs.model, ':')
    ELSE messages.provider || ':' || messages.model END"""
RESPONSE_TIME_QUERY = """
WITH steps AS (
    SELECT {key} AS name, role = 'assistant' AND complete AND finish_reason <> '' AS is_response,
        time - lag(time) OVER (PARTITION BY run ORDER BY messages.number) AS seconds
    FROM runs JOIN messages ON run = runs.number WHERE started >= ?
), ranks AS (
    SELECT name, seconds, row_number() OVER (PARTITION BY name ORDER BY seconds) AS position,
        count(*) OVER (PARTITION BY name) AS total
    FROM steps WHERE is_response AND seconds >= 0
)
SELECT name, min(seconds) FILTER (WHERE 100 * position >= 50 * total) AS median,
    min(seconds) FILTER (WHERE 100 * position >= 95 * total) AS p95
FROM ranks GROUP BY name
"""
"""Percentiles by the nearest rank. A response is measured from the message before it, which is saved as it is sent."""
CALL_QUERY = """
SELECT {key} AS name, count(*) AS calls, coalesce(sum(calls.failed), 0) AS failures,
    coalesce(sum(calls.seconds), 0) AS seconds
FROM runs JOIN messages ON messages.run = runs.number JOIN calls ON calls.message = messages.number
WHERE runs.started >= ? GROUP BY 1 ORDER BY count(*) DESC, 1
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
    median: float | None = None
    """The median time for a complete response, including retries, in seconds; None without a response."""
    p95: float | None = None
    """The time within which 95% of the responses were complete."""
    calls: int = 0
    """The number of tool calls."""
    failures: int = 0
    """The number of tool calls that failed."""

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


def compute_statistics(
    store: Store, since: float, make_pricing: Callable[[], RunCostCalculator], *, include_details: bool
) -> UsageStatistics:
    """Compute the usage of all runs started at `since` (seconds since 1970) or later. Days are in local time.

    `make_pricing` may be slow. It is called only if the cost of a run was not reported. `include_details` adds response
    times and call counts to the rows, which takes longer than the rest.
    """
    total_costs: dict[str, Cost] = {}
    day_costs: dict[str, Cost] = {}
    model_costs: dict[str, Cost] = {}
    for day, model, cost in stream_costs(store, since, make_pricing):
        for costs, name in ((total_costs, ""), (day_costs, day), (model_costs, model)):
            costs[name] = costs.get(name, Cost()) + cost
    tokens = "coalesce(sum(input_tokens), 0) + coalesce(sum(output_tokens), 0)"
    by_model = USAGE_QUERY.format(
        table=USAGE_BY_MODEL,
        key="ltrim(provider || ':' || model, ':')",
        order=f"{tokens} DESC, runs DESC, 1",
    )
    query = partial(_query_usage, store, since, include_details=include_details)
    totals = query(USAGE_QUERY.format(table="runs", key="''", order="1"), "''", total_costs)
    days = query(USAGE_QUERY.format(table="runs", key=DAY, order="1"), DAY, day_costs)
    return UsageStatistics(
        total=(totals or [UsageRow("", 0, 0, Usage())])[0],
        days=tuple(days),
        models=tuple(query(by_model, ANSWERED_BY, model_costs)),
        tools=tuple(ToolUsageRow(*row) for row in store.fetch_rows(CALL_QUERY.format(key="calls.name"), [since])),
    )


def stream_costs(
    store: Store, since: float, make_pricing: Callable[[], RunCostCalculator], *, excluded_run: int = 0
) -> Iterator[tuple[str, str, Cost]]:
    """Yield the day, the model and the cost of all runs but one.

    Requests are priced one by one: long ones may cost more per token.
    """
    parameters = [since, excluded_run]
    for day, model, dollars in store.fetch_rows(REPORTED_COST_QUERY, parameters):
        yield day, model, Cost.from_report(dollars)
    usages_by_run: dict[int, list[Usage]] = {}
    for row in store.fetch_rows(UNREPORTED_REQUEST_QUERY, parameters):
        usages_by_run.setdefault(row["run"], []).append(parse_usage(row))
    calculate_cost: RunCostCalculator | None = None
    for row in store.fetch_rows(UNREPORTED_COST_QUERY, parameters):
        usages = [] if row["is_fallback"] else usages_by_run.get(row["number"], [])
        rest = _subtract_tokens(parse_usage(row), sum(usages, start=Usage()))  # of requests that left no message
        usages = [*usages, rest] if rest.input_tokens or rest.output_tokens else usages
        if usages:
            calculate_cost = calculate_cost or make_pricing()
            cost = calculate_cost(row["provider"], row["model"], usages, row["started"])
            yield row["day"], f"{row['provider']}:{row['model']}", cost


def _subtract_tokens(total: Usage, part: Usage) -> Usage:
    """Subtract the counts of a part; the service tier stays that of the total."""
    counts = [
        max(0, (all_tokens or 0) - (tokens or 0)) for all_tokens, tokens in zip(total[:-1], part[:-1], strict=True)
    ]
    return Usage._make((*counts, total.service_tier))._replace(cost=None)


def _query_usage(
    store: Store, since: float, query: str, key: str, costs: Mapping[str, Cost], *, include_details: bool
) -> list[UsageRow]:
    """Return the rows of a query; `key` is the expression that names the row of a message."""
    details: dict[str, dict[str, Any]] = {}
    if include_details:
        for row in store.fetch_rows(RESPONSE_TIME_QUERY.format(key=key), [since]):
            details[row["name"]] = {"median": row["median"], "p95": row["p95"]}
        for row in store.fetch_rows(CALL_QUERY.format(key=key), [since]):
            details.setdefault(row["name"], {}).update(calls=row["calls"], failures=row["failures"])
    return [
        UsageRow(
            row["name"],
            row["runs"],
            row["conversations"],
            parse_usage(row),
            costs.get(row["name"], Cost()),
            **details.get(row["name"], {}),
        )
        for row in store.fetch_rows(query, [since])
    ]
