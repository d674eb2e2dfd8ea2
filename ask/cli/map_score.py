"""`ask map --score`: compares answers with labels, of a job while it runs, or in the output of one."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from ask.app import AppContext
from ask.console import StandardOutput, StderrConsole, get_descriptor
from ask.errors import UsageError
from ask.map.distributions import BOOLEANS, is_number
from ask.map.input_rows import Row, check_inputs, detect_encodings, find_equivalent_input, read_rows, select_inputs
from ask.map.job import Job
from ask.map.label_matching import BOOLEAN_WORDS, make_key
from ask.map.output import ANSWER
from ask.map.scored_fields import ScoredField, parse_scores
from ask.map.scores import FieldScore, JobScores, PairedResult
from ask.render.score_tables import format_scores
from ask.text import format_suggestion, join_names

STDOUT, STDERR = 1, 2
DEFAULT_WIDTH = 100
SCORING_OPTIONS = frozenset(
    {"arguments", "score", "as_json", "quiet", "plain", "input_format", "delimiter", "encoding", "sheet", "limit"}
)
"""The options that go with scoring an output, by parameter name."""
MAX_PEEKED_ROWS = 1000
MAX_MODELS = 20
OTHER_MODELS = "other models"
INDENTATION = "  "


def prepare_scores(options: Sequence[str], job: Job) -> tuple[Job, JobScores]:
    """Return a job whose prompt leaves out the columns of labels, and the scores to collect.

    Raises:
        UsageError: it is not clear what is compared, or the prompt names a column of labels.
    """
    request = job.requests[0]
    schema = request.response_schema.value if request.response_schema else None
    fields = parse_scores(options, schema)
    prompt = job.prompt.hide_labels({field.column for field in fields})
    return job._replace(prompt=prompt), JobScores(fields, job.models, schema, request.secrets.redact)


def print_scores(
    scores: Sequence[FieldScore], pairs: Sequence[PairedResult], console: StderrConsole, details_option: str
) -> None:
    """Print scores, and comparisons of models, on standard error."""
    for line in format_scores(scores, pairs, _measure_width(STDERR), details_option):
        if line.startswith(INDENTATION):
            console.print_line(line)
        else:
            console.print_notice(line)


def _measure_width(stream: int) -> int:
    try:
        return os.get_terminal_size(get_descriptor(stream)).columns or DEFAULT_WIDTH
    except OSError:
        return DEFAULT_WIDTH


def run_scoring(flags: Mapping[str, Any], app: AppContext) -> None:
    """Print the scores of the outputs that the arguments name.

    Raises:
        AskError: an option needs a prompt, or a file or column does not exist.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in SCORING_OPTIONS and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            hint = f"to ask a model, put the prompt before {flags['arguments'][0]}"
            raise UsageError(f"{parameter.opts[-1]} does not work without a prompt", hint)
    scores = _read_scores(flags["arguments"], flags, app)
    output = StandardOutput()
    if flags["as_json"]:
        output.write(json.dumps([_describe_score(score) for score in scores], ensure_ascii=False, indent=2) + "\n")
    else:
        output.write("".join(f"{line}\n" for line in format_scores(scores, (), _measure_width(STDOUT), "--json")))


def print_output_scores(path: str, flags: Mapping[str, Any], app: AppContext) -> None:
    """Print the scores of an output on standard error."""
    print_scores(_read_scores([path], flags, app), (), app.console, f"--json {path}")


def _read_scores(paths: Sequence[str], flags: Mapping[str, Any], app: AppContext) -> list[FieldScore]:
    """Score the rows of outputs, for each model and, of several outputs, for each of these.

    Raises:
        AskError: a file cannot be read, or has no such column.
    """
    paths = [find_equivalent_input(path) for path in paths]
    check_inputs(paths)
    app.needs_keys = False
    redact = app.collect_secrets().redact
    encoding, delimiter = flags["encoding"] or "", flags["delimiter"] or ""
    scores: list[FieldScore] = []
    for path in paths:
        inputs = select_inputs(
            [path], flags["input_format"], encoding, delimiter, rows_are_files=False, sheet=flags["sheet"]
        )
        inputs = detect_encodings(inputs, app.console.print_notice)
        rows = itertools.islice(read_rows(inputs, app.console.print_notice), flags["limit"])
        peeked = list(itertools.islice(rows, MAX_PEEKED_ROWS))
        fields = [_find_columns(option, path, peeked) for option in flags["score"]]
        models = _ModelScores(fields, path if len(paths) > 1 else "", redact)
        for row in itertools.chain(peeked, rows):
            models.add(row)
        scores += models.list_scores()
    return scores


def _find_columns(option: str, path: str, rows: Sequence[Row]) -> ScoredField:
    """Return the columns to compare.

    Raises:
        UsageError: there is no such column.
    """
    columns = list(dict.fromkeys(itertools.chain.from_iterable(row.columns for row in rows)))
    field, separator, column = option.partition("=")
    if not separator:
        field, column = ANSWER, option
        if ANSWER not in columns and column in columns:
            hint = f"write --score COLUMN={column}; the columns are {join_names(columns)}"
            raise UsageError(f"{path} has no column {ANSWER!r} to compare with {column}", hint)
    for name in (field, column):
        if name not in columns:
            hint = format_suggestion(name, columns, f"the columns are {join_names(columns)}")
            raise UsageError(f"there is no column {name!r} in {path}", hint)
    if field == column:
        # In the output of a job, the column of the input has moved that of the answers.
        answers = f"{column}_2"
        hint = f"write --score {answers}={column}" if answers in columns else "name the column of the answers"
        raise UsageError(f"--score {option} compares {column!r} in {path} with itself", hint)
    keys, labels = ({make_key(row.columns.get(name)) for row in rows} - {""} for name in (field, column))
    # SQLite has 0 and 1 for booleans.
    is_boolean = keys <= BOOLEAN_WORDS.keys() and (keys <= {*BOOLEANS} or labels <= BOOLEAN_WORDS.keys())
    return ScoredField(field, column, is_boolean=bool(keys) and is_boolean)


class _ModelScores:
    """The scores of one output, by models.

    Args:
        fields: the fields to score.
        path: the name of the output; "" if there is only one.
        redact: removes secrets from a text.
    """

    def __init__(self, fields: Sequence[ScoredField], path: str, redact: Any) -> None:
        self._fields = fields
        self._path = path
        self._redact = redact
        self._scores: dict[str, list[FieldScore]] = {}

    def add(self, row: Row) -> None:
        """Count a row."""
        columns = row.columns
        # An input column of this name has moved that of the model to model_2.
        model = str(columns.get("model_2") or columns.get("model") or "")
        if model not in self._scores and len(self._scores) >= MAX_MODELS:
            model = OTHER_MODELS
        if model not in self._scores:
            self._scores[model] = [FieldScore(field, model, self._redact) for field in self._fields]
        cost = _parse_cell(columns.get("cost"))
        for score in self._scores[model]:
            score.add_cost(cost if is_number(cost) else None)
            field = score.field
            probability = _parse_cell(columns.get(field.probability))
            value = columns.get(field.field)
            if probability is None and columns.get("error"):
                value = None  # the part of an answer that arrived
            score.add(columns.get(field.column), value, probability)

    def list_scores(self) -> list[FieldScore]:
        """Return the scores, of one field after the other."""
        for model, scores in self._scores.items():
            for score in scores:
                name = model if len(self._scores) > 1 else ""
                score.model = " ".join(filter(None, (self._path, name)))
        return [score for scores in zip(*self._scores.values(), strict=True) for score in scores]


def _parse_cell(value: Any) -> Any:
    """Return the number of a cell of a table; anything else as it is, and None for an empty one."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _describe_score(score: FieldScore) -> dict[str, Any]:
    """Return a score as a JSON object."""
    described: dict[str, Any] = {
        "field": score.field.field,
        "label": score.field.column,
        "model": score.model or None,
        "cost": score.cost,
        "labeled": score.labeled,
        "unlabeled": score.unlabeled,
        "answered": score.answered,
        "right": score.right,
        "accuracy": _to_json(score.accuracy),
        "answered_accuracy": _to_json(score.answered_accuracy),
        "macro_f1": _to_json(score.macro_f1),
        "mean_absolute_error": _to_json(score.mean_absolute_error) if score.is_scale else None,
        "within_one": _to_json(score.within_one),
        "classes": [_to_json(each, label="value") for each in score.list_classes()],
        "confusion": [
            {"label": label, "answer": answer, "rows": count} for label, answer, count in score.list_confusions()
        ],
    }
    probabilities = score.probabilities
    if probabilities.count:
        described["probabilities"] = {
            "rows": probabilities.count,
            "brier": _to_json(probabilities.brier),
            "calibration_error": _to_json(probabilities.calibration_error),
            "chance_calibration_error": _to_json(probabilities.chance_error),
            "bins": [_to_json(each, low="from", high="to") for each in probabilities.list_bins()],
            "thresholds": [_to_json(each) for each in probabilities.list_thresholds()],
        }
    return described


def _to_json(value: Any, **names: str) -> Any:
    """Round a number, and convert a record to an object, in which some fields have other names."""
    if isinstance(value, tuple):
        fields = value._asdict()  # type: ignore[attr-defined]
        return {names.get(name, name): _to_json(part) for name, part in fields.items()}
    return round(value, 4) if isinstance(value, float) else value
