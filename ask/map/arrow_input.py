"""Rows from Parquet files, and from Arrow IPC files and streams: a record batch at a time."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ask.errors import FileError, UsageError
from ask.map.arrow_types import Array, ArrowType, to_json_values
from ask.map.input_streams import STDIN
from ask.map.json_values import NOT_UTF8
from ask.records import NamedTuple

BATCH_ROWS = 1000
"""How many rows become values of Python at a time."""
BUFFER_BYTES = 1 << 18
FILE_MAGIC, FEATHER_1_MAGIC = b"ARROW1\0\0", b"FEA1"


class TypedRow(NamedTuple):
    """A row of a file with a schema: its number from 1, its columns, its error, and the types in the schema."""

    number: int
    columns: Mapping[str, Any]
    error: str
    column_types: Mapping[str, ArrowType]


def read_arrow(path: str) -> Iterator[TypedRow]:
    """Yield the rows of an Arrow IPC file or stream; "-" means stdin.

    Raises:
        FileError: it cannot be read.
        UsageError: two columns have the same name.
    """
    name = "stdin" if path == STDIN else path
    with (
        _convert_errors(name),
        _watch(path) as check,
        _open_buffer(path) as source,
        pa.ipc.open_stream(source) as reader,
    ):
        yield from _read_batches(name, reader.schema, reader, check)


def read_parquet(path: str) -> Iterator[TypedRow]:
    """Yield the rows of a Parquet file.

    Raises:
        FileError: it cannot be read.
        UsageError: two columns have the same name.
    """
    with _convert_errors(path), _watch(path) as check, _open_parquet(path) as file:
        batches = file.iter_batches(BATCH_ROWS, use_threads=False)
        yield from _read_batches(path, file.schema_arrow, batches, check)


def count_parquet_rows(path: str) -> int:
    """Return the number of rows of a Parquet file.

    Raises:
        FileError: it cannot be read.
    """
    with _convert_errors(path), _open_parquet(path) as file:
        return int(file.metadata.num_rows)


@contextmanager
def _convert_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise FileError(f"cannot read {name} ({reason})") from error


@contextmanager
def _watch(path: str) -> Iterator[Callable[[], None]]:
    """Yield a function that raises a FileError once the file is written.

    Parquet could then end early or have rows of both versions, and the memory map of a shorter Arrow file ends the
    process (SIGBUS).
    """
    if path == STDIN or not Path(path).is_file():
        yield lambda: None
        return
    with open(path, "rb") as stream:  # not the path, which another file may get
        original = os.fstat(stream.fileno())

        def check() -> None:
            status = os.fstat(stream.fileno())
            if (status.st_size, status.st_mtime_ns) != (original.st_size, original.st_mtime_ns):
                raise FileError(f"cannot read {path} (it was written while it was read)")

        yield check


def _open_parquet(path: str) -> Any:
    if not Path(path).is_file():
        raise FileError(f"cannot read {path} (Parquet cannot be read from a pipe)", "write it to a file first")
    # Row groups, which may have a million rows, are not read into memory as a whole.
    return parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False)


@contextmanager
def _open_buffer(path: str) -> Iterator[Any]:
    """Open a stream of record batches; a file contains one after its first bytes."""
    opened: Any = nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb")  # noqa: SIM115
    with opened as stream:
        start = stream.peek(len(FILE_MAGIC))
        if start.startswith(FEATHER_1_MAGIC):
            raise FileError(f"cannot read {path} (version 1 of Feather)", "write it with version 2, which is Arrow IPC")
        offset = len(FILE_MAGIC) * start.startswith(FILE_MAGIC)
        if (
            path != STDIN and Path(path).is_file()
        ):  # a record batch, which may have a million rows, is not read as a whole
            with pa.memory_map(path) as source:
                source.seek(offset)
                yield source
        else:
            stream.read(offset)
            yield stream


def _read_batches(name: str, schema: Any, batches: Iterable[Any], check: Callable[[], None]) -> Iterator[TypedRow]:
    repeated = [column for column, count in Counter(schema.names).items() if count > 1]
    if repeated:
        raise UsageError(f"{name}: two columns are named {repeated[0]!r}", "give each column its own name")
    column_types = {field.name: field.type for field in schema}
    number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            invalid: dict[int, set[str]] = {}
            columns = [_read_column(field.name, column, invalid) for field, column in zip(schema, part, strict=True)]
            check()
            for index, values in enumerate(zip(*columns, strict=True)):
                number += 1
                row = dict(zip(column_types, values, strict=True))
                if index in invalid:
                    readable = {column: value for column, value in row.items() if column not in invalid[index]}
                    yield TypedRow(number, readable, NOT_UTF8, column_types)
                else:
                    yield TypedRow(number, row, "", column_types)
            check()
    check()


def _read_column(name: str, column: Array, invalid: dict[int, set[str]]) -> list[Any]:
    """Return the values of a column, and add it to `invalid` for each row whose text is not UTF-8."""
    try:
        return to_json_values(column)
    except UnicodeDecodeError:
        values: list[Any] = []
        for index in range(len(column)):
            try:
                values += to_json_values(column.slice(index, 1))
            except UnicodeDecodeError:
                values.append(None)
                invalid.setdefault(index, set()).add(name)
        return values
