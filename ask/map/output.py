"""The output of a job: the input's columns and the answer of each row. Here are the writers for JSONL, CSV and TSV."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from ask.atomic_files import Ownership, convert_write_errors, replace_or_overwrite, set_ownership
from ask.console import StandardOutput, close_standard_output, protect_standard_output
from ask.errors import FileError, UsageError
from ask.map.csv_cells import escape_formula, format_cell
from ask.map.json_values import encode_json, get_properties, to_valid_text
from ask.map.ledger import RowResult
from ask.messages import EMPTY_MAPPING
from ask.text import format_suggestion, join_names

TABLE_DELIMITERS = {".csv": ",", ".tsv": "\t"}
ANSWER = "answer"
PATCH = "patch"
"""The column with what tools changed in the row's working copy."""
CITATIONS = "citations"
"""The column with the sources of the answer, a list."""
RESULT_COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "model": {"type": "string"},
    "finish_reason": {"type": "string"},
    "input_tokens": {"type": "integer"},
    "output_tokens": {"type": "integer"},
    "cached_tokens": {"type": "integer"},
    "cache_write_tokens": {"type": "integer"},
    "cost": {"type": "number"},
    "error": {"type": "string"},
}
"""The result columns with the JSON Schemas of their values."""
EXTRA_COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "latency": {"type": "number"},
    "tries": {"type": "integer"},
    "time": {"type": "string", "format": "date-time"},
}
"""The result columns that are only in the output if `--columns` says so."""
ALL = "all"


def make_unique_name(name: str, taken: Collection[str], fold: Callable[[str], str] = str) -> str:
    """Return a name for a column, with a number if it is in `taken`, the folded names of the other columns."""
    unique, number = name, 2
    while fold(unique) in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique


class ColumnNames:
    """The names of the output columns: a result column that the input already has gets a number, as in "answer_2".

    Args:
        input_columns: the columns of the first row.
        schema: the schema of the answers; None for text.
        has_patch: whether there is a column for the changes that tools made.
        has_citations: whether there is a column for the sources of the answers. Without one, rows of JSON still have
            them if the model names any.
        is_table: whether all rows of the output have the same columns.
        ignores_case: whether names that differ only in case are the same.
        chosen: the columns to write; `(ALL,)` for all, None for those that are usually written.

    Raises:
        UsageError: there is no such column.

    Attributes:
        all: the names of the columns in their order.
        schemas: the JSON Schemas of the columns that are not from the input.
        answer_columns: the names of the columns of the answers, by the fields of the schema.
    """

    def __init__(
        self,
        input_columns: Sequence[str],
        schema: Mapping[str, Any] | None,
        *,
        has_patch: bool = False,
        has_citations: bool = False,
        is_table: bool = False,
        ignores_case: bool = False,
        chosen: Sequence[str] | None = None,
    ) -> None:
        properties = get_properties(schema)
        self._answer_fields = tuple(properties) if properties else None
        answer_schemas = properties or {ANSWER: {"type": "string"} if schema is None else EMPTY_MAPPING}
        self._has_patch, self._has_citations = has_patch, has_citations
        self.all = list(input_columns)
        self._has_extra_columns = bool(chosen)
        optional = {**({PATCH: {"type": "string"}} if has_patch else {}), **({CITATIONS: {}} if has_citations else {})}
        extra_columns = EXTRA_COLUMNS if chosen else {}
        fold = str.lower if ignores_case else str
        taken = set(map(fold, self.all))
        self.schemas: dict[str, Any] = {}
        for name, each in chain.from_iterable(
            mapping.items() for mapping in (answer_schemas, optional, RESULT_COLUMNS, extra_columns)
        ):
            unique = make_unique_name(name, taken, fold)
            self.all.append(unique)
            taken.add(fold(unique))
            self.schemas[unique] = each
        self._names = self.all[len(input_columns) :]
        self.answer_columns = dict(zip(answer_schemas, self._names, strict=False))
        self._input_columns = set(input_columns)
        self._is_table = is_table
        self._chosen = None if chosen is None or tuple(chosen) == (ALL,) else tuple(chosen)
        unknown = next((name for name in self._chosen or () if name not in self.all), None)
        if unknown is not None:
            hint = format_suggestion(unknown, self.all, f"the columns are {join_names(self.all)}")
            raise UsageError(f"there is no column {unknown!r}", hint)
        self.all = list(self._chosen or self.all)
        self.left_out: set[str] = set()
        """The columns that only later rows have, and that the output does not contain."""

    def build_record(self, columns: Mapping[str, Any], model: str, result: RowResult) -> dict[str, Any]:
        """Return the output row of an input row."""
        is_answered = result.status == "answered"
        if self._answer_fields is None:
            values: list[Any] = [result.answer if is_answered else result.answer or None]
        else:
            answer = json.loads(result.answer) if is_answered and result.answer else {}
            values = [answer.get(name) for name in self._answer_fields]
        if self._has_patch:
            values.append(result.patch or None)
        citations = json.loads(result.citations) if result.citations else None
        if self._has_citations:
            values.append(citations)
        tokens = (result.input_tokens, result.output_tokens, result.cached_tokens, result.cache_write_tokens)
        values += (model, result.finish_reason or None, *tokens, result.cost, result.error or None)
        if self._has_extra_columns:
            values += (result.latency and round(result.latency, 3), result.tries, _format_time(result.time))
        record = {**columns, **dict(zip(self._names, values, strict=True))}
        if self._chosen:
            return {name: record.get(name) for name in self._chosen}
        if not columns.keys() <= self._input_columns:
            new_columns = columns.keys() - self._input_columns
            self.left_out |= new_columns if self._is_table else new_columns.intersection(self._names)
        if citations and not (self._has_citations or self._is_table):
            record.setdefault(CITATIONS, citations)
        return record


def _format_lines(records: Iterable[Mapping[str, Any]]) -> str:
    """Format rows as JSONL."""
    return "\n".join([*map(encode_json, records), ""])


def _format_time(seconds: float | None) -> str | None:
    """Format a time in seconds since 1970 in ISO 8601 (UTC)."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


class StdoutWriter:
    """Writes JSONL to standard output; `erase_status` is called before, as both may be the same terminal."""

    def __init__(self, names: ColumnNames, erase_status: Callable[[], None]) -> None:
        self.names = names
        self._erase_status = erase_status
        protect_standard_output()
        self._output = StandardOutput()

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._erase_status()
        self._output.write(to_valid_text(_format_lines(records)))

    def publish(self) -> None:
        """Do nothing: what is written cannot be replaced."""

    def close(self) -> None:
        close_standard_output()


class OutputFile:
    """A file that replaces that of the previous run once it is published.

    Args:
        path: the file, or a link to it. An existing file's permissions are kept.
        job: the identity of the job. It names the temporary file, so that the next run replaces that of a killed one.

    Attributes:
        path: the file, which is no link.
    """

    def __init__(self, path: Path, job: str) -> None:
        self.path = Path(os.path.realpath(path))
        self._temporary_path: Path | None = get_temporary_path(self.path, job)

    def create(self, flags: int) -> int:
        """Return a descriptor of the temporary file, which is new.

        Raises:
            OSError: it cannot be created.
        """
        path = self._temporary_path or self.path
        path.unlink(missing_ok=True)  # of a killed run, or a link, which must not be followed
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(FileNotFoundError):
            set_ownership(descriptor, Ownership.from_status(self.path.stat()))
        return descriptor

    def publish(self) -> bool:
        """Replace the output of the previous run; return whether it was overwritten, so that this is another file.

        Raises:
            FileError: it cannot be replaced.
        """
        is_copied = False
        if self._temporary_path:
            with convert_write_errors(self.path):
                is_copied = replace_or_overwrite(self._temporary_path, self.path)
            if is_copied:
                self.discard()
            self._temporary_path = None
        return is_copied

    def check_published(self, descriptor: int) -> None:
        """Check that the output is still the file of the descriptor, if it is published.

        Raises:
            FileError: another program has deleted, moved or replaced it.
        """
        if self._temporary_path is None:
            with suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                    return
            raise FileError(f"{self.path} was deleted or replaced while the job ran")

    def discard(self) -> None:
        """Delete the file unless it is published."""
        if self._temporary_path:
            with suppress(OSError):
                self._temporary_path.unlink()


class FileWriter:
    """Writes a file, which replaces that of the previous run only when it is at least as complete.

    Rows are appended whole, so that a kill leaves complete rows. JSON values that are not text are written to CSV and
    TSV as JSON.

    Args:
        path: the file, or a link to it; its suffix decides the format.
        names: the columns.
        job: the identity of the job.
        escape_formulas: whether cells of a table that a spreadsheet would calculate become text.
    """

    def __init__(self, path: Path, names: ColumnNames, job: str, *, escape_formulas: bool = False) -> None:
        self._format_cell = escape_formula if escape_formulas else format_cell
        self._file = OutputFile(path, job)
        self.names = names
        self._delimiter = TABLE_DELIMITERS.get(path.suffix.lower())
        with convert_write_errors(path):
            self._descriptor = self._file.create(os.O_WRONLY | os.O_APPEND)
            if self._delimiter:
                self._append(self._format_table([dict(zip(names.all, names.all, strict=True))]))

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        text = self._format_table(records) if self._delimiter else _format_lines(records)
        with convert_write_errors(self._file.path):
            self._append(text)

    def publish(self) -> None:
        """Replace the output of the previous run, once everything that it had finished is written again."""
        if self._file.publish():
            with convert_write_errors(self._file.path):
                os.close(self._descriptor)
                self._descriptor = os.open(self._file.path, os.O_WRONLY | os.O_APPEND)

    def close(self) -> None:
        """Close the file. An unpublished one is deleted."""
        if self._descriptor >= 0:
            try:
                self._file.check_published(self._descriptor)
            finally:
                os.close(self._descriptor)
                self._descriptor = -1
                self._file.discard()

    def _append(self, text: str) -> None:
        data = memoryview(to_valid_text(text).encode())
        size = os.fstat(self._descriptor).st_size
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # for example, the disk is full: do not leave a part of a row
            os.ftruncate(self._descriptor, size)
            raise

    def _format_table(self, records: Sequence[Mapping[str, Any]]) -> str:
        rows = []
        for record in records:
            buffer = io.StringIO()
            # Text with a character of this line end is quoted. For readers, a carriage return alone ends a row, too.
            writer = csv.writer(buffer, delimiter=self._delimiter or ",", lineterminator="\r\n")
            writer.writerow([self._format_cell(record.get(column)) for column in self.names.all])
            rows.append(buffer.getvalue().removesuffix("\r\n") + "\n")
        return "".join(rows)


class RowWriter(Protocol):
    """Writes the rows of a job.

    Attributes:
        names: the columns.
    """

    names: ColumnNames

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Write rows."""

    def publish(self) -> None:
        """Replace the output of the previous run, now or in `close`."""

    def close(self) -> None:
        """End the output; may be called again."""


def get_temporary_path(path: Path, job: str) -> Path:
    """Return the file that a job writes before it replaces the output file, which is no link."""
    return path.with_name(f".{path.name}.{job}.tmp")
