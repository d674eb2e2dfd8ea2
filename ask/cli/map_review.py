"""`ask map --review`: which file the rows to review are written to, and what it must not replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ask.errors import UsageError
from ask.map.input_rows import Row
from ask.map.job import Job
from ask.map.ledger import Ledger
from ask.map.output import ColumnNames, RowWriter
from ask.map.output_target import check_distinct, check_output, has_rows, open_writer
from ask.map.review import ReviewWriter, find_probability_columns
from ask.map.shards import name_file
from ask.map.sqlite_table import SqliteTable
from ask.render.amounts import format_count


class ReviewFile:
    """The file with the rows of a job that a person should review.

    Args:
        flags: the options of `ask map`.
        job: the job.
        inputs: the paths of its inputs.
        ledger: its ledger.
        report: the file of the report; None without one.

    Raises:
        UsageError: the job makes no decisions, or the file is an input, the output, the report or the ledger.
        FileError: it cannot be written.
    """

    def __init__(
        self, flags: Mapping[str, Any], job: Job, inputs: Sequence[str], ledger: Ledger, report: str | None
    ) -> None:
        self._threshold, name = flags["review"]
        if not job.requests[0].questions:
            raise UsageError("--review needs the probabilities of --decide", "add --decide")
        if job.shard and SqliteTable.parse(name):
            raise UsageError("the rows of a shard cannot be written to a database", "name a file, such as c.csv")
        self._name = name = name_file(name, job.shard)
        self._writer: ReviewWriter | None = None
        self._output = check_output(name, job.app.app_dirs, job.app.notify)
        self._job = job
        self._ledger = ledger
        others = ({job.output: "the output"} if job.output else {}) | {ledger.file: "the ledger"}
        others |= {Path(report): "the report"} if report else {}
        check_distinct(self._output, name, inputs, others, "the rows to review")
        self._escape_formulas = flags["csv_safe"]
        self._is_fresh = flags["fresh"]

    def check_owner(self) -> None:
        """Refuse to replace rows of another job, or a file that is not from `ask map`.

        Raises:
            UsageError: the file has such rows.
        """
        if not has_rows(self._output):
            return
        owner = self._ledger.find_job_with_review(str(self._output))
        may_replace = self._is_fresh and isinstance(self._output, Path)
        if owner != self._job.id and not may_replace:
            whose = "to review of another job" if owner else "that are not from --review"
            is_table = isinstance(self._output, SqliteTable)
            hint = "use another table, or drop this one" if is_table else "use another file, or --fresh to replace it"
            raise UsageError(f"{self._output} has rows {whose}", hint)

    def add_to(self, writer: RowWriter, first_row: Row) -> RowWriter:
        """Return a writer that writes all rows with `writer`, and those to review to the file.

        Raises:
            UsageError: the output lacks a column with probabilities.
            FileError: the file cannot be written.
        """
        names: ColumnNames = writer.names
        columns = find_probability_columns(names, self._job.requests[0].questions)
        review_writer = open_writer(
            *(self._output, names, self._job.id, first_row),
            notify=self._job.app.notify,
            escape_formulas=self._escape_formulas,
        )
        self._ledger.set_review(self._job.id, str(self._output))
        self._writer = ReviewWriter(writer, review_writer, self._threshold, columns)
        return self._writer

    def describe(self) -> str:
        """Return how many rows were written to which file."""
        count = self._writer.count if self._writer else 0
        return f"{format_count(count, 'row')} to review written to {self._name}"

    @property
    def ignores_case(self) -> bool:
        """Whether columns whose names differ only in case are the same."""
        return isinstance(self._output, SqliteTable)
