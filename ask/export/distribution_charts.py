"""Distributions of the values and numbers of rows as HTML: bars, histograms and example rows.

Everything from rows is escaped text. Labels are HTML and only bars are SVG, as in the usage report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ask.export.conversation_html import escape_html
from ask.export.usage_html import PLOT_HEIGHT, escape_name, measure_bar, render_facts, round_up_scale, wrap_each
from ask.map.distributions import ColumnDistribution, Histogram, NumberDistribution, RowExcerpt, ValueCount

MAX_BARS = 12
MAX_CATEGORY_CHARACTERS = 80
"""The length of a text that can name a category."""
MIN_REPEATED_SHARE = 0.01
"""The share of the rows from which a repeated text is listed."""
MAX_EXACT_INTEGER = 1e15


def format_share(count: int, total: int) -> str:
    """Format a part of a total in percent, as in " (2.5%)"; "" for nothing."""
    if not count or not total:
        return ""
    percent = 100 * count / total
    is_extreme = percent < 0.05 or (percent >= 99.95 and count < total)
    return f" ({'under 0.1' if percent < 1 else 'over 99.9'}%)" if is_extreme else f" ({percent:.1f}%)"


def format_number(number: float) -> str:
    """Format a number with four digits; all digits before the decimal point are shown."""
    is_whole = abs(number) >= 1000 or number == int(number)
    return f"{number:,.0f}" if is_whole and abs(number) < MAX_EXACT_INTEGER else f"{number:.4g}"


def render_caption(title: str, *notes: str) -> str:
    """Render the title of a figure, and notes without those that are ""."""
    spans = "".join(f"<span><bdi>{escape_name(note)}</bdi></span>" for note in notes if note)
    return f"<figcaption><h3><bdi>{escape_name(title)}</bdi></h3>{spans}</figcaption>\n"


def render_bar(name: str, label: str, count: float, top: float, rows: Sequence[RowExcerpt] = ()) -> Iterator[str]:
    """Render a bar with its name and its label, which are HTML, and examples of its rows."""
    bar = f'<svg aria-hidden="true"><rect class="front" width="{measure_bar(count, top):.2f}%" height="100%"/></svg>'
    content = f"<span>{name}</span><span>{label}</span>{bar}"
    yield "<li>"
    yield from render_examples(content, rows) if rows else [f'<div class="bar">{content}</div>']
    yield "</li>\n"


def render_examples(title: str, rows: Sequence[RowExcerpt]) -> Iterator[str]:
    """Render rows that are shown when their title, which is HTML, is selected."""
    if rows:
        yield f'<details><summary class="bar">{title}</summary>\n'
        yield from map(render_row, rows)
        yield "</details>\n"


def render_row(row: RowExcerpt) -> str:
    """Render the beginning of a row."""
    results = (("Model", row.model), ("Answer", row.answer), ("Error", row.error))
    parts = [("Row", row.location), *row.columns, *((name, text) for name, text in results if text)]
    return render_facts(
        ((f"<bdi>{escape_html(name)}</bdi>", f"<bdi>{escape_html(text)}</bdi>") for name, text in parts), "row"
    )


def render_column(column: ColumnDistribution, model: str) -> Iterator[str]:
    """Render the values of a column, by their types."""
    distinct = column.values.distinct_count
    more_than = "more than " if column.values.other_count else ""
    note = f"{more_than}{distinct:,} different values" if distinct > MAX_BARS else ""
    nulls = f"{column.null_count:,} null{format_share(column.null_count, column.count)}" if column.null_count else ""
    yield f"<figure>{render_caption(column.name, model, note, nulls)}"
    if column.values.count:
        yield from _render_values(column)
    if column.numbers.count:
        yield from render_numbers(column.numbers, _list_number_facts(column.numbers), ("Lowest", "Highest"))
    if column.array_lengths.count:
        yield from _render_arrays(column)
    if column.count == column.null_count:
        yield "<p>No values.</p>\n"
    yield "</figure>\n"


def _render_values(column: ColumnDistribution) -> Iterator[str]:
    """Render the values as bars; of texts that hardly repeat, only those that do, and the lengths."""
    values, lengths = column.values, column.text_lengths
    counted = values.list_values()
    is_short = not lengths.count or lengths.maximum <= MAX_CATEGORY_CHARACTERS
    repeats = values.count >= 2 * (values.distinct_count + values.other_count)
    if column.is_enum or repeats or (is_short and len(counted) <= MAX_BARS):
        yield from _render_value_bars(counted, values.count, column.count)
        return
    min_count = max(2.0, MIN_REPEATED_SHARE * values.count)
    if repeated := [value for value in counted if value.count >= min_count]:
        yield from _render_value_bars(repeated, values.count, column.count)
    yield from _render_lengths(lengths)


def _render_arrays(column: ColumnDistribution) -> Iterator[str]:
    items = column.items.list_values()
    if shown := items[:MAX_BARS]:
        yield from _render_value_bars(shown, sum(item.count for item in shown), column.count)
    if len(items) > len(shown):
        more_than = "more than " if column.items.other_count else ""
        yield f"<p>The {len(shown)} most frequent of {more_than}{len(items):,} different items.</p>\n"
    yield from _render_lengths(column.array_lengths)


def _render_lengths(lengths: NumberDistribution) -> Iterator[str]:
    facts = {f"{name} length": value for name, value in _list_number_facts(lengths).items()}
    yield from render_numbers(lengths, facts, ("Shortest", "Longest"))


def _render_value_bars(values: Sequence[ValueCount], count: int, total: int) -> Iterator[str]:
    """Render the first of these values, which are sorted, and the number of all others.

    Args:
        values: the values.
        count: how many values there are, with those that are not listed.
        total: the number of rows, of which shares are shown.
    """
    shown = values[:MAX_BARS]
    rest = count - sum(value.count for value in shown)
    top = max(rest, shown[0].count, total)  # several items of a list may be equal
    yield "<ol>\n"
    for value in shown:
        name = f"<bdi>{escape_html(value.label)}</bdi>" if value.label else "<i>empty</i>"
        label = f"{value.count:,}{format_share(value.count, total)}"
        yield from render_bar(name, label, value.count, top, value.rows.list_by_position())
    if rest:
        yield from render_bar("<i>others</i>", f"{rest:,}{format_share(rest, total)}", rest, top)
    yield "</ol>\n"


def _list_number_facts(numbers: NumberDistribution) -> dict[str, float]:
    facts = {"Min": numbers.minimum, "Median": numbers.get_quantile(0.5)}
    return facts | {"Mean": numbers.mean, "Max": numbers.maximum}


def render_numbers(
    numbers: NumberDistribution,
    facts: Mapping[str, float],
    ends: tuple[str, str],
    format_value: Callable[[float], str] = format_number,
) -> Iterator[str]:
    """Render quantiles and a histogram of numbers, and the rows with the lowest and the highest ones.

    Args:
        numbers: the numbers.
        facts: the quantiles by their names.
        ends: the titles of these rows.
        format_value: formats one of the numbers.
    """
    yield render_facts(((name, format_value(value)) for name, value in facts.items()), "numbers")
    if histogram := numbers.make_histogram():
        yield from _render_histogram(histogram, format_value, is_exact=numbers.is_exact)
    for title, sample in zip(ends, (numbers.lowest, numbers.highest), strict=True):
        yield from render_examples(f"{title} rows", sample.list_by_priority())


def _name_bins(histogram: Histogram, format_value: Callable[[float], str]) -> list[str]:
    """Return the ranges of the bars."""
    names = []
    for each in histogram.bins:
        last = each.high - 1 if histogram.is_integer else each.high
        ends = dict.fromkeys(map(format_value, (each.low, last)))
        names.append(" to ".join(ends))
    if histogram.is_open_below:
        names[0] = f"below {format_value(histogram.bins[0].high)}"
    if histogram.is_open_above:
        names[-1] = f"{format_value(histogram.bins[-1].low)} or more"
    return names


def _render_histogram(histogram: Histogram, format_value: Callable[[float], str], *, is_exact: bool) -> Iterator[str]:
    bins, total = histogram.bins, sum(each.frequency for each in histogram.bins)
    names = _name_bins(histogram, format_value)
    labels = [
        f"{each.frequency:,}{format_share(each.frequency, total)}" if is_exact else f"{each.frequency / total:.1%}"
        for each in bins
    ]
    scale = round_up_scale(max(each.frequency for each in bins), 2)
    ticks = [f"{scale * part:,.0f}" if is_exact else f"{100 * scale * part / total:.3g}%" for part in (1.0, 0.5)]
    yield f'<div class="plot"><div class="ticks" aria-hidden="true">{wrap_each("span", (*ticks, "0"))}</div>'
    yield f'<svg viewBox="0 0 {len(bins)} {PLOT_HEIGHT}" preserveAspectRatio="none" role="img" '
    yield 'aria-label="Histogram, as in the table">'
    for y in (0, PLOT_HEIGHT // 2, PLOT_HEIGHT):
        yield f'<line x1="0" x2="{len(bins)}" y1="{y}" y2="{y}" vector-effect="non-scaling-stroke"/>'
    for x, (each, name, label) in enumerate(zip(bins, names, labels, strict=True)):
        height = measure_bar(each.frequency, scale)
        yield f'<g><title>{name}: {label}</title><rect class="area" x="{x}" width="1" height="{PLOT_HEIGHT}"/>'
        yield f'<rect class="front" x="{x + 0.05:.2f}" width="0.9" '
        yield f'y="{PLOT_HEIGHT - height:.2f}" height="{height:.2f}"/></g>'
    yield f'</svg><div class="dates">{wrap_each("span", (names[0], names[-1]))}</div></div>\n'
    yield '<details><summary class="bar">Table</summary>\n<table><thead><tr>'
    yield '<th scope="col">From, to</th><th scope="col">Rows</th></tr></thead>\n<tbody>\n'
    for name, label in zip(names, labels, strict=True):
        yield f'<tr><th scope="row">{name}</th><td>{label}</td></tr>\n'
    yield "</tbody></table></details>\n"
