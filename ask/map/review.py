"""`ask map --review`: the rows whose decisions a person should check, in a file of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ask.errors import UsageError
from ask.map.output import ColumnNames, RowWriter
from ask.messages import DecisionQuestion
from ask.schemas.decision_questions import PROBABILITY_SUFFIX
from ask.text import join_names


class ReviewWriter:
    """Writes all rows with one writer, and those to review with another.

    Args:
        writer: writes all rows.
        review_writer: writes the rows to review, with the same columns.
        threshold: rows with a probability below it are to be reviewed, and so are rows without one.
        columns: the columns with probabilities.

    Attributes:
        count: how many rows to review were written.
    """

    def __init__(self, writer: RowWriter, review_writer: RowWriter, threshold: float, columns: Sequence[str]) -> None:
        self.names = writer.names
        self.count = 0
        self._writer = writer
        self._review_writer = review_writer
        self._threshold = threshold
        self._columns = columns

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._writer.write(records)
        if uncertain := [record for record in records if self._is_uncertain(record)]:
            self._review_writer.write(uncertain)
            self.count += len(uncertain)

    def _is_uncertain(self, record: Mapping[str, Any]) -> bool:
        probabilities = [record[column] for column in self._columns]
        return any(probability is None or probability < self._threshold for probability in probabilities)

    def publish(self) -> None:
        self._writer.publish()
        self._review_writer.publish()

    def close(self) -> None:
        self._writer.close()
        self._review_writer.close()


def find_probability_columns(names: ColumnNames, questions: Iterable[DecisionQuestion]) -> list[str]:
    """Return the columns with the probabilities of the answers to questions.

    Raises:
        UsageError: the output does not contain all of them.
    """
    columns = [names.answer_columns[question.name + PROBABILITY_SUFFIX] for question in questions]
    missing = [column for column in columns if column not in names.all]
    if missing:
        raise UsageError("--review needs the columns with probabilities", f"add {join_names(missing, 3)} to --columns")
    return columns
