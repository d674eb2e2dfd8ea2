"""The report on a job of `ask map` as one self-contained HTML page, in the style of the usage report.

Everything from rows, models and services is escaped text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ask.export.conversation_html import escape_html, render_page_frame
from ask.export.distribution_charts import (
    format_share,
    render_bar,
    render_caption,
    render_column,
    render_numbers,
    render_row,
)
from ask.export.score_charts import render_scores
from ask.export.usage_html import (
    STYLESHEET_PATH,
    TOKEN_HEADINGS,
    UNKNOWN,
    escape_name,
    list_token_cells,
    render_facts,
    render_table,
)
from ask.map.distributions import MAX_SAMPLED_NUMBERS
from ask.map.engine import Progress
from ask.map.report import JobReport, ModelReport
from ask.map.scores import JobScores
from ask.records import NamedTuple
from ask.render.amounts import format_cache_use, format_compact_number, format_count, format_dollars, format_local_time
from ask.text import format_duration

REPORT_STYLESHEET_PATH = Path(__file__).with_suffix(".css")
MAX_REASONS = 20
PROMPT = "Prompt"
QUANTILES = {"Median": 0.5, "90% within": 0.9, "99% within": 0.99}
MAX_OPEN_CHARACTERS = 1_500
"""The length beyond which a text of the job is collapsed."""


class JobOverview(NamedTuple):
    """The facts of a report about the job itself.

    Attributes:
        title: the name of the output, or of the first input.
        inputs: the names of the inputs, or of the first ones.
        output: the name of the output.
        texts: the prompt and other long texts by their names.
        progress: the counts and the tokens of the job.
        cost: the cost of the job as text; "" if it is unknown.
        seconds: how long this run took.
        stop_reason: why it stopped before all rows were finished; "" if it did not.
    """

    title: str
    inputs: str
    output: str
    texts: Mapping[str, str]
    progress: Progress
    cost: str
    seconds: float
    stop_reason: str


def render_map_report(job: JobOverview, report: JobReport, scores: JobScores | None = None) -> Iterator[str]:
    """Yield the HTML of a report. Each section is left out if there is nothing to show."""
    stylesheet = STYLESHEET_PATH.read_text() + REPORT_STYLESHEET_PATH.read_text()
    head, tail = render_page_frame(f"Report on {job.title}", stylesheet, "en")
    yield f"{head}<h1>Report on <bdi>{escape_name(job.title)}</bdi></h1>\n"
    yield from _render_overview(job, report)
    yield from _render_job(job, report)
    yield from _render_models(report)
    yield from _render_failures(report)
    if scores:
        yield from render_scores(scores)
    yield from _render_answers(report)
    yield from _render_requests(report)
    yield from _render_sample(report)
    yield f"<footer><p>Written on {format_local_time(time.time())}."
    if job.progress.answered + job.progress.failed > MAX_SAMPLED_NUMBERS:
        yield " Medians, shares of response times and histograms are estimates from "
        yield f"{MAX_SAMPLED_NUMBERS:,} random rows."
    yield "</p></footer>\n"
    yield tail


def _render_overview(job: JobOverview, report: JobReport) -> Iterator[str]:
    progress, usage = job.progress, job.progress.usage
    count = progress.answered + progress.failed
    if job.stop_reason:
        yield f'<p class="notice">Stopped after {format_count(count, "row")}: {escape_name(job.stop_reason)}</p>\n'
    unavailable = f", {progress.unavailable:,} of them because of the service" if progress.unavailable else ""
    facts = {
        "Rows": f"{count:,}",
        "Answered": f"{progress.answered:,}{format_share(progress.answered, count)}",
        "Failed": f"{progress.failed:,}{format_share(progress.failed, count)}{unavailable}",
        "From earlier runs": f"{progress.resumed:,}",
        "Not sent, identical to another": f"{progress.shared:,}",
        "Cost": job.cost or UNKNOWN,
        "Tokens in": _format_tokens(usage.input_tokens) + format_cache_use(usage, format_compact_number),
        "Tokens out": _format_tokens(usage.output_tokens),
        "Duration of this run": format_duration(job.seconds),
    }
    if report.first_time is not None and report.last_time is not None:
        times = dict.fromkeys(map(format_local_time, (report.first_time, report.last_time)))
        facts["Rows finished"] = " to ".join(times)
    yield render_facts(facts.items(), "facts")


def _format_tokens(count: int | None) -> str:
    return UNKNOWN if count is None else format_compact_number(count)


def _render_models(report: JobReport) -> Iterator[str]:
    if len(report.models) > 1:
        headings = ("Model", "Answered", "Failed", *TOKEN_HEADINGS, "Cost", *QUANTILES, "Longest")
        yield "<section>\n<h2>Models</h2>\n"
        yield from render_table(headings, map(_list_cells, report.models))
        yield "</section>\n"


def _list_cells(model: ModelReport) -> Sequence[str]:
    answered = model.status_counts["answered"]
    times = map(_format_latency, _list_latencies(model).values()) if model.latencies.count else [UNKNOWN] * 4
    failed = model.status_counts.total() - answered
    tokens, cost = list_token_cells(model.usage), format_dollars(model.usage.cost) or UNKNOWN
    return (model.name, f"{answered:,}", f"{failed:,}", *tokens, cost, *times)


def _list_latencies(model: ModelReport) -> dict[str, float]:
    quantiles = {name: model.latencies.get_quantile(share) for name, share in QUANTILES.items()}
    return quantiles | {"Longest": model.latencies.maximum}


def _format_latency(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 0.9995 else format_duration(seconds)


def _render_failures(report: JobReport) -> Iterator[str]:
    reasons = report.failures
    if not reasons:
        return
    total = sum(reason.count for reason in reasons)
    yield '<section>\n<h2>Failures</h2>\n<figure class="failures">\n<ol>\n'
    for reason in reasons[:MAX_REASONS]:
        note = f", {reason.unavailable_count:,} because of the service" if reason.unavailable_count else ""
        label = f"{reason.count:,}{format_share(reason.count, total)}{note}"
        name = f"<bdi>{escape_html(reason.label)}</bdi>"
        yield from render_bar(name, label, reason.count, total, reason.rows.list_by_position())
    rest = sum(reason.count for reason in reasons[MAX_REASONS:])
    if rest:
        yield from render_bar("<i>others</i>", f"{rest:,}{format_share(rest, total)}", rest, total)
    yield "</ol>\n</figure>\n</section>\n"


def _render_answers(report: JobReport) -> Iterator[str]:
    """Render a chart of each column, for each model that answered."""
    models = [model for model in report.models if model.status_counts["answered"]]
    if not models:
        return
    yield '<section>\n<h2>Answers</h2>\n<div class="charts">\n'
    for columns in zip(*(model.columns for model in models), strict=True):
        for model, column in zip(models, columns, strict=True):
            yield from render_column(column, model.name if len(report.models) > 1 else "")
    yield "</div>\n</section>\n"


def _render_requests(report: JobReport) -> Iterator[str]:
    models = [model for model in report.models if model.latencies.count or model.tries or model.finish_reasons]
    if not models:
        return
    yield '<section>\n<h2>Requests</h2>\n<div class="charts">\n'
    for model in models:
        name = model.name if len(report.models) > 1 else ""
        if model.latencies.count:
            yield f"<figure>{render_caption('Response time', name)}"
            yield from render_numbers(model.latencies, _list_latencies(model), ("Fastest", "Slowest"), _format_latency)
            yield "</figure>\n"
        tries = {format_count(number, "request"): model.tries[number] for number in sorted(model.tries)}
        reasons = dict(model.finish_reasons.most_common())
        yield from _render_counts(render_caption("Requests for a row", name), tries)
        yield from _render_counts(render_caption("Finish reason", name), reasons)
    yield "</div>\n</section>\n"


def _render_counts(caption: str, counts: Mapping[str, int]) -> Iterator[str]:
    """Render how often each of a few names occurs."""
    if counts:
        total = sum(counts.values())
        yield f"<figure>{caption}<ol>\n"
        for name, count in counts.items():
            yield from render_bar(escape_name(name), f"{count:,}{format_share(count, total)}", count, total)
        yield "</ol>\n</figure>\n"


def _render_sample(report: JobReport) -> Iterator[str]:
    if rows := report.rows.list_by_position():
        yield "<section>\n<h2>Random rows</h2>\n"
        yield from map(render_row, rows)
        yield "</section>\n"


def _render_job(job: JobOverview, report: JobReport) -> Iterator[str]:
    yield "<section>\n<h2>Job</h2>\n"
    names = {"Model": ", ".join(model.name for model in report.models), "Input": job.inputs, "Output": job.output}
    yield render_facts(((name, f"<bdi>{escape_name(text)}</bdi>") for name, text in names.items()), "row")
    for name, text in job.texts.items():
        state = " open" if name == PROMPT and len(text) <= MAX_OPEN_CHARACTERS else ""
        yield f'<details{state}><summary class="bar">{name}</summary>\n'
        yield f'<pre dir="auto">{escape_html(text)}</pre></details>\n'
    yield "</section>\n"
