"""The data of a report on a job, collected from its rows as they finish, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ask.map.distributions import (
    ColumnDistribution,
    NumberDistribution,
    PrioritySample,
    RowExcerpt,
    SampledRow,
    to_text,
)
from ask.map.failure_reasons import FailureReason, FailureReasons
from ask.map.job import RowTask
from ask.map.json_values import get_properties, parse_json_answer
from ask.map.ledger import RowResult
from ask.map.output import ANSWER
from ask.messages import Usage
from ask.templates.placeholders import COLUMN_PATTERN, find_placeholders
from ask.text import format_one_line

MAX_EXCERPT_COLUMNS = 6
MAX_CELL_CHARACTERS = 300
MAX_ANSWER_CHARACTERS = 600
SAMPLED_ROWS = 10


class ModelReport:
    """The results of the rows that were sent to one model.

    Attributes:
        name: the name of the model.
        status_counts: how many rows were answered, failed or unavailable.
        usage: the tokens and the cost of the rows, as far as they are known.
        latencies: the seconds that the last requests of the rows took.
        tries: how often each number of requests was needed.
        finish_reasons: how often each occurs.
        columns: the columns of the answers.
    """

    def __init__(self, name: str, columns: Sequence[ColumnDistribution]) -> None:
        self.name = name
        self.columns = columns
        self.status_counts: Counter[str] = Counter()
        self.usage = Usage()
        self.latencies = NumberDistribution()
        self.tries: Counter[int] = Counter()
        self.finish_reasons: Counter[str] = Counter()

    def add(self, row: SampledRow, result: RowResult) -> None:
        """Count a row."""
        self.status_counts[result.status] += 1
        self.usage += result.usage
        if result.latency is not None:
            self.latencies.add(row, result.latency)
        if result.tries:
            self.tries[result.tries] += 1
        if result.finish_reason:
            self.finish_reasons[result.finish_reason] += 1


class JobReport:
    """The data of a report about the rows of a job.

    Args:
        models: the names of the models.
        schema: the schema of the answers; None for text.
        prompt: the prompt; the columns that it names come first in excerpts of rows.
        redact: removes secrets from a text.

    Attributes:
        models: the results for each model.
        failures: the reasons of the failed rows.
        rows: a sample of all rows.
        first_time: when the first row was finished, in seconds since 1970; None if unknown.
        last_time: when the last one was.
    """

    def __init__(
        self, models: Sequence[str], schema: Mapping[str, Any] | None, prompt: str, redact: Callable[[str], str]
    ) -> None:
        self._redact = redact
        self._has_schema = schema is not None
        properties = get_properties(schema)
        self._fields = tuple(properties)
        columns = properties or {ANSWER: schema}
        self.models = [
            ModelReport(name, [ColumnDistribution(*column, self._redact) for column in columns.items()])
            for name in models
        ]
        self._prompt_columns = [name for name, _ in find_placeholders(prompt, COLUMN_PATTERN)]
        self._reasons = FailureReasons()
        self.rows = PrioritySample(SAMPLED_ROWS * len(self.models))
        self.first_time: float | None = None
        self.last_time: float | None = None

    def add(self, task: RowTask, result: RowResult) -> None:
        """Add a finished row."""
        number = task.position // len(self.models) + 1
        row = SampledRow(task.position, number, partial(self.make_excerpt, task, result))
        model = self.models[task.model_number]
        model.add(row, result)
        if result.time:
            self.first_time = min(self.first_time or result.time, result.time)
            self.last_time = max(self.last_time or result.time, result.time)
        self.rows.add(row.priority, row)
        if result.status != "answered":
            error = self._redact(result.error.removeprefix(f"{task.location}: "))
            self._reasons.add(error, row, is_unavailable=result.status == "unavailable")
            return
        answer = parse_json_answer(result.answer) if self._has_schema else result.answer
        if self._fields:
            fields = answer if isinstance(answer, dict) else {}
            values = [fields.get(name) for name in self._fields]
        else:
            values = [answer]
        for column, value in zip(model.columns, values, strict=True):
            column.add(row, value)

    @property
    def failures(self) -> list[FailureReason]:
        """The reasons of the failed rows, the most frequent first."""
        return self._reasons.list_by_count()

    def make_excerpt(self, task: RowTask, result: RowResult, first_column: str = "") -> RowExcerpt:
        """Return the beginning of a row, with a column that comes first."""
        names = [name for name in (first_column, *self._prompt_columns) if name in task.columns]
        names = list(dict.fromkeys([*names, *task.columns]))[:MAX_EXCERPT_COLUMNS]
        return RowExcerpt(
            self._shorten(task.location),
            self.models[task.model_number].name if len(self.models) > 1 else "",
            [(self._shorten(name), self._shorten(to_text(task.columns[name]))) for name in names],
            self._shorten(result.answer, MAX_ANSWER_CHARACTERS),
            self._shorten(result.error.removeprefix(f"{task.location}: "), MAX_ANSWER_CHARACTERS),
        )

    def _shorten(self, text: str, limit: int = MAX_CELL_CHARACTERS) -> str:
        """Return the beginning of a text on one line, without secrets."""
        return format_one_line(self._redact(text), limit)
