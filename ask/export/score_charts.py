"""The scores of `ask map --score` as HTML: tables of right and wrong answers, and a curve of probabilities.

Everything from rows is escaped text. Labels are HTML and only the curve is SVG, as in the usage report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ask.export.distribution_charts import format_number, render_caption, render_examples
from ask.export.usage_html import PLOT_HEIGHT, UNKNOWN, escape_name, render_facts, render_table, wrap_each
from ask.map.scored_fields import describe_unlisted
from ask.map.scores import OTHER_NAME, CalibrationBin, FieldScore, JobScores
from ask.render.score_tables import format_interval, format_pair, format_share

MAX_CLASSES = 20
SHADES = 5
"""How many shades a cell of a confusion table can have, which report.css defines."""
MIN_RADIUS, MAX_RADIUS = 1.2, 4.0


def render_scores(scores: JobScores) -> Iterator[str]:
    """Render the section with the scores of a job."""
    all_scores = scores.list_scores()
    yield '<section class="quality">\n<h2>Quality</h2>\n'
    if len(all_scores) > 1:
        yield from _render_overview(all_scores)
        yield from (f"<p>{escape_name(format_pair(pair))}</p>\n" for pair in scores.compare_models())
    for score in all_scores:
        if score.labeled:
            yield from _render_field(score)
        else:
            yield f"<p>{escape_name(score.field.column)} has no labels.</p>\n"
    yield "</section>\n"


def _render_overview(scores: Sequence[FieldScore]) -> Iterator[str]:
    rows = []
    for score in scores:
        name = ": ".join(filter(None, (score.field.field, score.model)))
        accuracy = score.accuracy
        shares = (format_share(accuracy.share), format_interval(accuracy)) if accuracy else (UNKNOWN, UNKNOWN)
        rows.append((name, f"{score.labeled:,}", f"{score.answered:,}", *shares, _format_decimal(score.macro_f1)))
    yield from render_table(("Field", "Rows", "Answered", "Accuracy", "95% interval", "Macro F1"), rows)


def _format_decimal(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:.2f}"


def _render_field(score: FieldScore) -> Iterator[str]:
    """Render the figures for one field of one model."""
    yield '<div class="charts">\n'
    yield f"<figure>{render_caption(score.field.field, score.model, f'compared with {score.field.column}')}"
    yield render_facts(_list_facts(score).items(), "numbers")
    if unlisted := describe_unlisted(score.field, score.unlisted):
        yield f"<p>{score.unlisted_count:,} with a label that the schema does not allow: "
        yield f"<bdi>{escape_name(unlisted)}</bdi></p>\n"
    yield from _render_classes(score)
    yield "</figure>\n"
    yield from _render_confusion(score)
    if score.probabilities.count:
        yield from _render_calibration(score)
        yield from _render_thresholds(score)
    yield "</div>\n"


def _list_facts(score: FieldScore) -> dict[str, str]:
    facts = {}
    if accuracy := score.accuracy:
        facts["Accuracy"] = f"{format_share(accuracy.share)} ({format_interval(accuracy)})"
    facts["Rows"] = f"{score.labeled:,}"
    if score.unlabeled:
        facts["Without a label"] = f"{score.unlabeled:,}"
    if score.answered < score.labeled:
        facts["Without an answer"] = f"{score.labeled - score.answered:,}"
        if answered := score.answered_accuracy:
            facts["Accuracy of the others"] = f"{format_share(answered.share)} ({format_interval(answered)})"
    facts["Macro F1"] = _format_decimal(score.macro_f1)
    if score.is_scale:
        facts["Mean absolute error"] = format_number(score.mean_absolute_error)
        if near := score.within_one:
            facts["At most 1 away"] = f"{format_share(near.share)} ({format_interval(near)})"
    return facts


def _render_classes(score: FieldScore) -> Iterator[str]:
    classes = score.list_classes(MAX_CLASSES)
    rows = [
        (
            each.label,
            f"{each.rows:,}",
            format_share(each.precision),
            format_share(each.recall),
            f"{each.f1:.2f}",
        )
        for each in classes
    ]
    yield from render_table(("Value", "Rows", "Precision", "Recall", "F1"), rows)
    if len(classes) < score.class_count:
        more_than = "more than " if score.has_other_classes else ""
        yield f"<p>The {len(classes)} most frequent of {more_than}{score.class_count:,} values.</p>\n"


def _render_confusion(score: FieldScore) -> Iterator[str]:
    table = score.make_confusion_table(MAX_CLASSES)
    yield f"<figure>{render_caption('Confusion table', score.model)}"
    yield '<div class="table confusion" role="region" tabindex="0" aria-label="Confusion table"><table>\n'
    headings = "".join(f'<th scope="col"><bdi>{escape_name(name)}</bdi></th>' for name in table.columns)
    yield f'<thead><tr><th scope="col">Label</th>{headings}</tr></thead>\n<tbody>\n'
    for name, counts in table.rows:
        total = sum(counts)
        yield f'<tr><th scope="row"><bdi>{escape_name(name)}</bdi></th>'
        for column, count in zip(table.columns, counts, strict=True):
            shade = -(-SHADES * count // total) if count else 0
            css_class = f"{'right' if column == name else 'wrong'} shade{0 if column == name == OTHER_NAME else shade}"
            yield f'<td class="{css_class}">{count:,}</td>'
        yield "</tr>\n"
    yield "</tbody></table></div>\n<p>A row for each label, a column for each answer.</p>\n"
    yield from render_examples("Rows with a wrong answer", score.wrong_rows.list_by_priority())
    yield "</figure>\n"


def _render_calibration(score: FieldScore) -> Iterator[str]:
    """Render the curve of how many answers with a probability are right."""
    probabilities, bins = score.probabilities, score.probabilities.list_bins()
    facts = {
        "Brier score": f"{probabilities.brier:.3f}",
        "Calibration error": f"{probabilities.calibration_error:.3f}",
        "Of perfect probabilities": f"about {probabilities.chance_error:.3f}",
    }
    yield f"<figure>{render_caption('Calibration', score.field.probability, score.model)}"
    yield render_facts(facts.items(), "numbers")
    yield from _render_curve(bins, probabilities.count)
    yield "<p>Each point is the answers with similar probabilities, with the 95% interval of their accuracy. "
    yield "On the diagonal, as many are right as the probability says; below it, fewer.</p>\n"
    yield '<details><summary class="bar">Table</summary>\n<table><thead><tr>'
    yield "".join(f'<th scope="col">{name}</th>' for name in ("Probability", "Rows", "Mean", "Accuracy"))
    yield "</tr></thead>\n<tbody>\n"
    for each in bins:
        cells = (f"{each.rows:,}", f"{each.mean:.3f}", format_share(each.accuracy.share))
        yield f'<tr><th scope="row">{each.low:g} to {each.high:g}</th>{wrap_each("td", cells)}</tr>\n'
    yield "</tbody></table></details>\n</figure>\n"


def _render_curve(bins: Sequence[CalibrationBin], count: int) -> Iterator[str]:
    ticks = wrap_each("span", ("100%", "50%", "0%"))
    yield f'<div class="plot calibration"><div class="ticks" aria-hidden="true">{ticks}</div>'
    yield f'<svg viewBox="0 0 {PLOT_HEIGHT} {PLOT_HEIGHT}" role="img" aria-label="Calibration curve, as in the table">'
    for height in (0, PLOT_HEIGHT // 2, PLOT_HEIGHT):
        yield f'<line x1="0" x2="{PLOT_HEIGHT}" y1="{height}" y2="{height}" vector-effect="non-scaling-stroke"/>'
    yield f'<line class="ideal" x1="0" y1="{PLOT_HEIGHT}" x2="{PLOT_HEIGHT}" y2="0" '
    yield 'vector-effect="non-scaling-stroke"/>'
    points = [(PLOT_HEIGHT * each.mean, PLOT_HEIGHT * (1 - each.accuracy.share)) for each in bins]
    path = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    yield f'<polyline class="curve" points="{path}" vector-effect="non-scaling-stroke"/>'
    for each, (x, y) in zip(bins, points, strict=True):
        radius = MIN_RADIUS + (MAX_RADIUS - MIN_RADIUS) * (each.rows / count) ** 0.5
        top, bottom = (PLOT_HEIGHT * (1 - end) for end in (each.accuracy.high, each.accuracy.low))
        yield f"<g><title>{each.low:g} to {each.high:g}: {format_share(each.accuracy.share)} of {each.rows:,} right"
        yield f'</title><line class="interval" x1="{x:.2f}" x2="{x:.2f}" y1="{top:.2f}" y2="{bottom:.2f}" '
        yield f'vector-effect="non-scaling-stroke"/><circle class="front" cx="{x:.2f}" cy="{y:.2f}" r="{radius:.2f}"/>'
        yield "</g>"
    yield f'</svg><div class="dates">{wrap_each("span", ("0", "probability", "1"))}</div></div>\n'


def _render_thresholds(score: FieldScore) -> Iterator[str]:
    rows = [
        (
            f"{each.threshold:g}",
            f"{each.rows:,}",
            format_share(each.share),
            format_share(each.accuracy.share),
            format_interval(each.accuracy),
        )
        for each in score.probabilities.list_thresholds()
    ]
    yield f"<figure>{render_caption('Thresholds', score.field.probability, score.model)}"
    yield from render_table(("Probability from", "Rows", "Share", "Accuracy", "95% interval"), rows)
    yield "<p>The answers with at least this probability, and their accuracy. A person can check the "
    yield "rows below a threshold.</p>\n</figure>\n"
