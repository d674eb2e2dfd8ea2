"""Writes the output of a job as a Parquet or Arrow file, with typed columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ask.atomic_files import convert_write_errors
from ask.errors import FileError, UsageError
from ask.map.arrow_types import (
    Array,
    ArrowType,
    build_array,
    build_text_array,
    from_json_schema,
    select_output_type,
    to_json_values,
    widen_type,
)
from ask.map.output import ColumnNames, OutputFile

BATCH_ROWS, BATCH_CHARACTERS = 1000, 4_000_000
"""How many rows, or characters of their texts, become a record batch."""
GROUP_ROWS, GROUP_BYTES = 64_000, 8 << 20
"""How many rows, or bytes, become a row group of Parquet."""
PARQUET = ".parquet"


class ArrowWriter:
    """Writes a file, which replaces that of the previous run when it is closed, if it is at least as complete.

    A column has the type of the input's column, or of the schema of the answers, or of its first values. If later
    values are of another type, what is written is written again with a type for both, at last as text.

    Args:
        path: the file, or a link to it; its suffix decides the format.
        names: the columns.
        job: the identity of the job.
        input_types: the types of the columns in the input's file, by name.

    Raises:
        FileError: the file cannot be written.
        UsageError: the name of a column is not valid Unicode.
    """

    def __init__(self, path: Path, names: ColumnNames, job: str, input_types: Mapping[str, ArrowType]) -> None:
        self.names = names
        self._file = OutputFile(path, job)
        self._is_parquet = path.suffix.lower() == PARQUET
        self._types = {name: self._choose_type(name, input_types) for name in names.all}
        """The type of each column; null for one without a value so far, which is written as text."""
        self._records: list[Mapping[str, Any]] = []
        self._characters = 0
        self._batches: list[Any] = []
        """The record batches of the next row group."""
        self._is_complete = self._has_failed = False
        self._writer: Any = None
        try:
            pa.schema([(name, pa.string()) for name in names.all])
        except UnicodeEncodeError as error:
            raise UsageError(f"the name of a column is not valid ({error})", "select some with --columns") from None
        with self._convert_errors():
            self._stream = self._create_stream()

    def _choose_type(self, name: str, input_types: Mapping[str, ArrowType]) -> ArrowType:
        schema = self.names.schemas.get(name)
        if schema is not None:
            return from_json_schema(schema) or pa.null()
        return (name in input_types and select_output_type(input_types[name])) or pa.null()

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            self._records.append(record)
            self._characters += sum(len(value) for value in record.values() if isinstance(value, str))
            if len(self._records) >= BATCH_ROWS or self._characters >= BATCH_CHARACTERS:
                with self._convert_errors():
                    self._add_batch()

    def publish(self) -> None:
        """Have `close` replace the output of the previous run: a file without its end cannot be read."""
        self._is_complete = True

    def close(self) -> None:
        """Write the end of the file. One that is not published, or could not be written, is deleted."""
        if self._stream.closed:
            return
        try:
            if self._is_complete and not self._has_failed:
                with self._convert_errors():
                    self._add_batch()
                    self._write_group()
                    self._writer.close()
                    self._stream.close()
                self._file.publish()
        finally:
            with suppress(OSError):  # of what could not be written before
                self._stream.close()
            self._file.discard()

    def _add_batch(self) -> None:
        """Convert the records, which may change the types of columns."""
        if not self._records:
            return
        values = {name: [record.get(name) for record in self._records] for name in self.names.all}
        self._records, self._characters = [], 0
        columns = {name: build_array(column, self._types[name]) for name, column in values.items()}
        changed = {
            name: wider
            for name, column in columns.items()
            if column is None and (wider := _choose_wider_type(self._types[name], values[name])) != self._types[name]
        }
        if changed:
            if self._writer or self._batches:
                self._rewrite(changed)
            self._types |= changed
        arrays = [
            _build_column(values[name], self._types[name]) if column is None else column.cast(self._get_file_type(name))
            for name, column in columns.items()
        ]
        self._append(arrays)

    def _append(self, columns: Sequence[Array]) -> None:
        """Add a record batch to the next row group, and write that if it is large enough."""
        self._batches.append(pa.RecordBatch.from_arrays(columns, names=self.names.all))
        row_count = sum(batch.num_rows for batch in self._batches)
        if row_count >= GROUP_ROWS or sum(batch.nbytes for batch in self._batches) >= GROUP_BYTES:
            self._write_group()

    def _get_file_type(self, name: str) -> ArrowType:
        """Return the type of a column in the file: not every reader knows columns of nulls."""
        return pa.string() if pa.types.is_null(self._types[name]) else self._types[name]

    def _write_group(self) -> None:
        """Write the record batches as one row group."""
        schema = pa.schema([(name, self._get_file_type(name)) for name in self._types])
        if self._writer is None:
            self._writer = (parquet.ParquetWriter if self._is_parquet else pa.ipc.new_file)(self._stream, schema)
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, schema))
            self._batches = []

    def _rewrite(self, changed: dict[str, ArrowType]) -> None:
        """Write again what is written, with other types. Integers too large to be exact as numbers become text."""
        self._write_group()
        self._writer.close()
        with self._stream as written:
            for name, data_type in changed.items():
                if data_type == pa.float64():
                    parts = (batch.column(0) for batch in self._read_batches(written, [name]))
                    if any(build_array(to_json_values(part), data_type) is None for part in parts):
                        changed[name] = pa.string()
            self._types |= changed
            self._stream, self._writer = self._create_stream(), None
            for batch in self._read_batches(written):
                columns = zip(self.names.all, batch.columns, strict=True)
                self._append(
                    [
                        # The cast is for types that Parquet does not have, such as timestamps in seconds.
                        _build_column(to_json_values(column), changed[name])
                        if name in changed
                        else column.cast(self._get_file_type(name))
                        for name, column in columns
                    ]
                )

    def _read_batches(self, stream: Any, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the record batches of a complete file."""
        stream.seek(0)
        if self._is_parquet:
            yield from parquet.ParquetFile(stream).iter_batches(BATCH_ROWS, columns=columns, use_threads=False)
        else:
            reader = pa.ipc.open_file(stream)
            batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
            yield from (batch.select(columns) if columns else batch for batch in batches)

    def _create_stream(self) -> Any:
        return os.fdopen(self._file.create(os.O_RDWR), "w+b")

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors; what follows one would not fit what is written."""
        try:
            with convert_write_errors(self._file.path):
                yield
        except BaseException as error:
            self._has_failed = True
            if isinstance(error, pa.ArrowException):
                raise FileError(f"cannot write {self._file.path} ({error})") from error
            raise


def _choose_wider_type(data_type: ArrowType, values: Sequence[Any]) -> ArrowType:
    """Return the type for a column of this type that gets values of another one."""
    wider = widen_type(data_type, values)
    return pa.string() if build_array(values, wider) is None else wider


def _build_column(values: Sequence[Any], data_type: ArrowType) -> Array:
    """Return a column of this type, with values of other types as text."""
    column = build_array(values, data_type)
    return build_text_array(values) if column is None else column
