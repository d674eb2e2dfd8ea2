"""The scores of `ask map --score` as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ask.map.scored_fields import describe_unlisted
from ask.map.scores import FieldScore, Interval, PairedResult
from ask.render.amounts import format_count, format_dollars
from ask.render.table import format_columns, format_records
from ask.render.text_layout import truncate_text
from ask.text import measure_width

INDENTATION = "  "
MAX_CLASSES = 12
NAME_WIDTHS = (16, 10, 6)
"""The widths to which the names of columns are truncated, if necessary."""
NAME_WIDTH = 24
MODEL_WIDTH = 40
MAX_DETAILED = 4
"""How many scores are shown with their tables."""


def format_share(share: float | None) -> str:
    """Format a share in percent; "-" for None."""
    return "-" if share is None else f"{100 * share:.1f}%"


def format_interval(interval: Interval) -> str:
    """Format the limits of an interval."""
    return f"{format_share(interval.low)} to {format_share(interval.high)}"


def format_scores(
    scores: Sequence[FieldScore], pairs: Sequence[PairedResult], width: int, details_option: str
) -> Iterator[str]:
    """Yield the lines for scores; those of tables are indented.

    Args:
        scores: the scores.
        pairs: the comparisons of models.
        width: the width of the terminal.
        details_option: the option with which the tables of many scores are written.
    """
    is_detailed = len(scores) <= MAX_DETAILED
    if len(scores) > 1:
        yield from _format_overview(scores, width)
        yield from map(format_pair, pairs)
    for score in scores:
        if is_detailed:
            yield from _format_field_score(score, width)
    if not is_detailed:
        yield f"{details_option} has the tables of each of these {len(scores)} scores"


def _format_overview(scores: Sequence[FieldScore], width: int) -> Iterator[str]:
    has_models = any(score.model for score in scores)
    has_costs = has_models and any(score.cost for score in scores)
    headings = ["field", *(["model"] if has_models else []), "rows", "accuracy", "95% interval", "macro F1"]
    rows: list[Sequence[str]] = []
    for score in scores:
        accuracy, f1 = score.accuracy, score.macro_f1
        shares = (format_share(accuracy.share), format_interval(accuracy)) if accuracy else ("-", "-")
        names = [score.field.field, *([truncate_text(score.model, MODEL_WIDTH)] if has_models else [])]
        cost = [format_dollars(score.cost) or "-"] if has_costs else []
        rows.append((*names, f"{score.labeled:,}", *shares, "-" if f1 is None else f"{f1:.2f}", *cost))
    headings += ["cost"] if has_costs else []
    yield f"{len(scores)} scores"
    yield from _format_table(headings, rows, width, text_columns=1 + has_models)


def format_pair(pair: PairedResult) -> str:
    """Describe the comparison of two models on the same rows."""
    p = "p < 0.001" if pair.p_value < 0.001 else f"p = {pair.p_value:.2g}"
    wins = format_count(pair.wins, "row")
    return f"{pair.field}: only {pair.better} is right in {wins}, only {pair.worse} in {pair.losses:,} ({p})"


def _format_field_score(score: FieldScore, width: int) -> Iterator[str]:
    """Yield the lines for one field of one model."""
    field = score.field
    name = f"{field.field} of {score.model}" if score.model else field.field
    unlabeled = f"{format_count(score.unlabeled, 'row')} without a label in {field.column}"
    accuracy = score.accuracy
    if accuracy is None:
        yield f"{name}: nothing to compare, {unlabeled}"
        return
    counts = f"{score.right:,} of {format_count(score.labeled, 'row')}, 95% interval {format_interval(accuracy)}"
    yield f"{name}: accuracy {format_share(accuracy.share)} ({counts})"
    yield from _format_left_out(score, unlabeled)
    if score.is_scale:
        near = f", {format_share(score.within_one.share)} at most 1 away" if score.within_one else ""
        yield f"{name}: mean absolute error {score.mean_absolute_error:.3g}{near}"
    yield from _format_classes(score, width)
    yield from _format_confusion(score, width)
    if score.probabilities.count:
        yield from _format_probabilities(score, name, width)


def _format_left_out(score: FieldScore, unlabeled: str) -> Iterator[str]:
    """Yield lines about rows without an answer or a label, and about labels that no answer can equal."""
    if missing := score.labeled - score.answered:
        others = ""
        if answered := score.answered_accuracy:
            others = f"; accuracy of the others: {format_share(answered.share)} ({format_interval(answered)})"
        yield f"{format_count(missing, 'row')} {'has' if missing == 1 else 'have'} no answer{others}"
    if score.unlabeled:
        yield f"{unlabeled} {'is' if score.unlabeled == 1 else 'are'} left out"
    if unlisted := describe_unlisted(score.field, score.unlisted):
        verb = "has a label" if score.unlisted_count == 1 else "have labels"
        yield f"{format_count(score.unlisted_count, 'row')} {verb} that the schema does not allow: {unlisted}"


def _format_classes(score: FieldScore, width: int) -> Iterator[str]:
    classes = score.list_classes(MAX_CLASSES)
    rows = [
        (
            truncate_text(each.label, NAME_WIDTH),
            f"{each.rows:,}",
            format_share(each.precision),
            format_share(each.recall),
            f"{each.f1:.2f}",
        )
        for each in classes
    ]
    yield from _format_table((score.field.field, "rows", "precision", "recall", "F1"), rows, width)
    if len(classes) < score.class_count:
        more_than = "more than " if score.has_other_classes else ""
        yield f"{INDENTATION}the {len(classes)} most frequent of {more_than}{score.class_count:,} values"


def _format_confusion(score: FieldScore, width: int) -> Iterator[str]:
    """Yield a table with as many values as fit."""
    if score.class_count < 2 and score.answered == score.labeled:
        return
    for limit in range(min(score.class_count, MAX_CLASSES), 0, -1):
        table = score.make_confusion_table(limit)
        for name_width in NAME_WIDTHS:
            label_width = min(2 * name_width, NAME_WIDTH)
            names = [truncate_text(name, name_width) for name in table.columns]
            rows = [(truncate_text(name, label_width), *map("{:,}".format, counts)) for name, counts in table.rows]
            if lines := _align_table(("", *names), rows, width):
                yield f"{INDENTATION}rows: labels; columns: answers"
                yield from lines
                return


def _format_probabilities(score: FieldScore, name: str, width: int) -> Iterator[str]:
    probabilities = score.probabilities
    error = f"{probabilities.calibration_error:.3f} (perfect ones: about {probabilities.chance_error:.3f})"
    yield f"{name}: probabilities have a Brier score of {probabilities.brier:.3f}, a calibration error of {error}"
    rows = [
        (
            f"{row.threshold:g}",
            f"{row.rows:,}",
            *map(format_share, (row.share, row.accuracy.share)),
            format_interval(row.accuracy),
        )
        for row in probabilities.list_thresholds()
    ]
    headings = (f"{score.field.probability} from", "rows", "share", "accuracy", "95% interval")
    yield from _format_table(headings, rows, width)


def _format_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, text_columns: int = 1
) -> list[str]:
    """Return the lines of a table; on a narrow terminal, of its rows as lists of cells."""
    if lines := _align_table(headings, rows, width, text_columns=text_columns):
        return lines
    return [INDENTATION + line for line in format_records([headings, *rows], width - len(INDENTATION))]


def _align_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, text_columns: int = 1
) -> list[str]:
    """Return the lines of a table whose columns of numbers are aligned on the right; [] if it is too wide."""
    columns = list(zip(headings, *rows, strict=True))
    aligned = [column if number < text_columns else _align_right(column) for number, column in enumerate(columns)]
    lines = format_columns(list(zip(*aligned, strict=True)), width - len(INDENTATION), [width] * len(columns))
    return [INDENTATION + line for line in lines]


def _align_right(column: Sequence[str]) -> Sequence[str]:
    width = max(map(measure_width, column))
    return [" " * (width - measure_width(cell)) + cell for cell in column]
