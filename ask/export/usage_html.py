"""Usage statistics as one self-contained HTML page: SVG charts and tables, without scripts or external resources.

Labels are HTML and only bars are SVG, so that charts fit a narrow screen without shrinking their text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from ask.export.conversation_html import escape_html, render_page_frame
from ask.history.statistics import ToolUsageRow, UsageRow, UsageStatistics
from ask.messages import Usage
from ask.records import NamedTuple
from ask.render.amounts import format_cache_use, format_compact_number, format_cost, format_dollars
from ask.text import format_duration, format_one_line

STYLESHEET_PATH = Path(__file__).with_suffix(".css")
MAX_CHART_DAYS = 366
MIN_CHART_DAYS = 30
MAX_BARS = 10
PLOT_HEIGHT = 100
"""The height of a chart by day, in units of its SVG; each day is one unit wide."""
MIN_BAR_PERCENT = 1.0
"""The smallest bar for an amount above 0, in percent of the chart."""
AXIS_MULTIPLES = (1, 2, 4, 6, 8, 10)
"""The maximum of an axis is one of these times a power of 10, so that its half is a short number, too."""
UNKNOWN = "-"
TOKEN_HEADINGS = ("Tokens in", "From cache", "To cache", "Tokens out")


class Bar(NamedTuple):
    """The amounts of one day, model or tool: a bar in front of a longer one."""

    label: str
    """The amounts as text."""
    front: float
    back: float = 0.0


class Metric(NamedTuple):
    """One of the charts: what it shows, how it reads a row, and how it formats its axis."""

    title: str
    legend: Mapping[str, str]
    """The names of the front and the back bars."""
    make_bar: Callable[[UsageRow], Bar]
    format_tick: Callable[[float], str]
    css_class: str = "neutral"
    min_scale: float = 0.0
    """The smallest maximum of the axis: counts have no halves."""


def _make_cost_bar(row: UsageRow) -> Bar:
    """Return the cost, marked if it is estimated or incomplete."""
    return Bar(format_cost(row.cost) or UNKNOWN, row.cost.dollars or 0.0)


def _make_token_bar(row: UsageRow) -> Bar:
    """Return the input tokens, with the output tokens on top."""
    tokens_in, tokens_out = row.usage.input_tokens or 0, row.usage.output_tokens or 0
    label = f"{format_compact_number(tokens_in)} in, {format_compact_number(tokens_out)} out"
    return Bar(label, tokens_in, tokens_in + tokens_out)


def _make_response_time_bar(row: UsageRow) -> Bar:
    """Return the median in front of the 95th percentile."""
    if row.median is None or row.p95 is None:
        return Bar(UNKNOWN, 0)
    return Bar(f"{format_duration(row.median)}, 95% within {format_duration(row.p95)}", row.median, row.p95)


def _make_call_bar(row: UsageRow | ToolUsageRow) -> Bar:
    """Return the failed tool calls in front of all calls."""
    return Bar(f"{row.failures:,} of {row.calls:,} failed", row.failures, row.calls)


def _format_count_tick(amount: float) -> str:
    """Format a count on an axis."""
    return format_compact_number(round(amount))


METRICS = (
    Metric("Cost", {"front": "US dollars"}, _make_cost_bar, format_dollars),
    Metric("Tokens", {"front": "input", "back": "output"}, _make_token_bar, _format_count_tick, min_scale=2),
    Metric("Response time", {"front": "median", "back": "95th percentile"}, _make_response_time_bar, format_duration),
    Metric(
        "Tool calls", {"front": "failed", "back": "all"}, _make_call_bar, _format_count_tick, "failures", min_scale=2
    ),
)


def render_usage_html(statistics: UsageStatistics, first_day: date, today: date) -> Iterator[str]:
    """Yield the HTML of a report about the days from `first_day` to `today`."""
    title = f"Usage from {first_day} to {today}"
    head, tail = render_page_frame(title, STYLESHEET_PATH.read_text(), "en")
    yield f"{head}<h1>{title}</h1>\n"
    if statistics.total.runs:
        yield from _render_facts(statistics.total)
        yield from _render_days(statistics, first_day, today)
        yield from _render_models(statistics.models)
        yield from _render_tools(statistics.tools)
        yield from _render_tables(statistics)
        yield (
            "<footer><p>~ marks estimated costs; + marks costs that do not include runs whose cost is unknown. "
            "Response times are those of complete responses, including retries and excluding tools.</p></footer>\n"
        )
    else:
        yield "<p>No runs in this period.</p>\n"
    yield tail


def _render_facts(total: UsageRow) -> Iterator[str]:
    facts = {
        "Conversations": f"{total.conversations:,}",
        "Runs": f"{total.runs:,}",
        "Tokens": _make_token_bar(total).label + format_cache_use(total.usage, format_compact_number),
        "Cost": _make_cost_bar(total).label,
        "Median response": UNKNOWN if total.median is None else format_duration(total.median),
        "Tool calls": _make_call_bar(total).label,
    }
    yield render_facts(facts.items(), "facts")


def _render_days(statistics: UsageStatistics, first_day: date, today: date) -> Iterator[str]:
    rows = {row.name: row for row in statistics.days}
    # From the first run on, but at least a month if the period has that many days, and at most a year.
    earliest = max(first_day, today - timedelta(days=MAX_CHART_DAYS - 1))
    start = max(earliest, min(date.fromisoformat(min(rows)), today - timedelta(days=MIN_CHART_DAYS - 1)))
    days = [(start + timedelta(days=offset)).isoformat() for offset in range((today - start).days + 1)]
    yield "<section>\n<h2>By day</h2>\n"
    if rows.keys() - set(days):
        yield f"<p>The charts show {days[0]} to {days[-1]}; the table lists all days.</p>\n"
    yield '<div class="charts">\n'
    for metric in _select_metrics(statistics.days):
        yield from _render_day_chart(metric, days, rows)
    yield "</div>\n</section>\n"


def _select_metrics(rows: Sequence[UsageRow]) -> list[Metric]:
    """Return the metrics with an amount above 0 in one of the rows: a chart without bars says nothing."""
    return [metric for metric in METRICS if any(max(bar.front, bar.back) > 0 for bar in map(metric.make_bar, rows))]


def _render_day_chart(metric: Metric, days: Sequence[str], rows: Mapping[str, UsageRow]) -> Iterator[str]:
    bars = {position: metric.make_bar(rows[day]) for position, day in enumerate(days) if day in rows}
    scale = round_up_scale(max((max(bar.front, bar.back) for bar in bars.values()), default=0), metric.min_scale)
    ticks = (metric.format_tick(scale), metric.format_tick(scale / 2), "0")
    yield _render_chart_head(metric)
    yield f'<div class="plot"><div class="ticks" aria-hidden="true">{wrap_each("span", ticks)}</div>'
    yield f'<svg viewBox="0 0 {len(days)} {PLOT_HEIGHT}" preserveAspectRatio="none" role="img" '
    yield f'aria-label="{metric.title} by day, as in the table">'
    for y in (0, PLOT_HEIGHT // 2, PLOT_HEIGHT):
        yield f'<line x1="0" x2="{len(days)}" y1="{y}" y2="{y}" vector-effect="non-scaling-stroke"/>'
    for position, bar in bars.items():
        yield f"<g><title>{days[position]}: {bar.label}</title>"
        yield f'<rect class="area" x="{position}" width="1" height="{PLOT_HEIGHT}"/>'
        for layer, amount in (("back", bar.back), ("front", bar.front)):
            if height := measure_bar(amount, scale):
                # Narrower than a day, which leaves a gap between two bars.
                yield f'<rect class="{layer}" x="{position + 0.1:.1f}" width="0.8" '
                yield f'y="{PLOT_HEIGHT - height:.2f}" height="{height:.2f}"/>'
        yield "</g>"
    yield f'</svg><div class="dates">{wrap_each("span", (days[0], days[-1]))}</div></div>\n</figure>\n'


def _render_models(models: Sequence[UsageRow]) -> Iterator[str]:
    yield '<section>\n<h2>By model</h2>\n<div class="charts">\n'
    for metric in _select_metrics(models):
        yield from _render_bar_chart(metric, [(row.name, metric.make_bar(row)) for row in models])
    yield "</div>\n</section>\n"


def _render_tools(tools: Sequence[ToolUsageRow]) -> Iterator[str]:
    if tools:
        yield "<section>\n<h2>By tool</h2>\n"
        yield from _render_bar_chart(METRICS[-1], [(tool.name, _make_call_bar(tool)) for tool in tools])
        yield "</section>\n"


def _render_tables(statistics: UsageStatistics) -> Iterator[str]:
    yield "<section>\n<h2>Tables</h2>\n"
    yield from _render_usage_table("Day", statistics.days, statistics.total)
    yield from _render_usage_table("Model", statistics.models)
    if statistics.tools:
        tools = statistics.tools
        rows = ((tool.name, f"{tool.calls:,}", f"{tool.failures:,}", format_duration(tool.seconds)) for tool in tools)
        yield from render_table(("Tool", "Calls", "Failed", "Run time"), rows)
    yield "</section>\n"


def _render_bar_chart(metric: Metric, bars: Sequence[tuple[str, Bar]]) -> Iterator[str]:
    """Render the longest bars, one below the other, each with its name and amounts."""
    shown = sorted(bars, key=lambda item: -max(item[1].front, item[1].back))[:MAX_BARS]
    scale = max((max(bar.front, bar.back) for _, bar in shown), default=0)
    yield f"{_render_chart_head(metric)}<ol>\n"
    for name, bar in shown:
        yield f"<li><span><bdi>{escape_name(name)}</bdi></span><span>{bar.label}</span>"
        yield '<svg aria-hidden="true">'
        for layer, amount in (("back", bar.back), ("front", bar.front)):
            yield f'<rect class="{layer}" width="{measure_bar(amount, scale):.2f}%" height="100%"/>'
        yield "</svg></li>\n"
    yield "</ol>\n"
    if len(bars) > len(shown):
        yield f"<p>{len(shown)} of {len(bars)}; the table lists all.</p>\n"
    yield "</figure>\n"


def _render_chart_head(metric: Metric) -> str:
    legend = "".join(f'<span class="{layer}">{name}</span>' for layer, name in metric.legend.items())
    return f'<figure class="{metric.css_class}"><figcaption><b>{metric.title}</b>{legend}</figcaption>\n'


def _render_usage_table(heading: str, rows: Sequence[UsageRow], total: UsageRow | None = None) -> Iterator[str]:
    headings = (heading, "Runs", *TOKEN_HEADINGS, "Cost", "Median", "95% within", "Tool calls", "Failed")
    yield from render_table(headings, map(_list_cells, rows), _list_cells(total) if total else ())


def _list_cells(row: UsageRow) -> Sequence[str]:
    times = (UNKNOWN if seconds is None else format_duration(seconds) for seconds in (row.median, row.p95))
    cost = format_cost(row.cost) or UNKNOWN
    tokens = list_token_cells(row.usage)
    return (row.name, f"{row.runs:,}", *tokens, cost, *times, f"{row.calls:,}", f"{row.failures:,}")


def list_token_cells(usage: Usage) -> list[str]:
    """Return the cells under `TOKEN_HEADINGS`."""
    counts = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens)
    return [UNKNOWN if count is None else f"{count:,}" for count in counts]


def render_facts(facts: Iterable[tuple[str, str]], css_class: str) -> str:
    """Render names with their values; both are HTML."""
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="{css_class}">{items}</dl>\n'


def render_table(headings: Sequence[str], rows: Iterable[Sequence[str]], total: Sequence[str] = ()) -> Iterator[str]:
    """Render rows that start with a name, which is the only text from outside."""
    columns = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    yield f'<div class="table" role="region" tabindex="0" aria-label="By {headings[0].lower()}"><table>\n'
    yield f"<thead><tr>{columns}</tr></thead>\n<tbody>\n"
    for name, *cells in rows:
        yield f'<tr><th scope="row"><bdi>{escape_name(name)}</bdi></th>{wrap_each("td", cells)}</tr>\n'
    yield "</tbody>\n"
    if total:
        yield f'<tfoot><tr><th scope="row">Total</th>{wrap_each("td", total[1:])}</tr></tfoot>\n'
    yield "</table></div>\n"


def wrap_each(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


def escape_name(name: str) -> str:
    return escape_html(format_one_line(name))


def round_up_scale(amount: float, min_scale: float) -> float:
    """Round up to a round number, for the top of an axis."""
    amount = max(amount, min_scale)
    if amount <= 0:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(amount))
    return next((step * magnitude for step in AXIS_MULTIPLES if amount <= step * magnitude), 10 * magnitude)


def measure_bar(amount: float, scale: float) -> float:
    """Return the length of a bar in percent; an amount above 0 is always visible."""
    return max(MIN_BAR_PERCENT, 100 * amount / scale) if amount > 0 else 0.0
