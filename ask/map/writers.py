"""The output of a job as the user names it: which writer it has, and whether it is an input, too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ask.map.output import ARROW_SUFFIXES, TABLE_DELIMITERS, ColumnNames, FileWriter, RowWriter
from ask.map.rows import Row, find_input_file
from ask.map.sqlite_output import SqliteWriter
from ask.map.sqlite_table import SqliteTable


def open_writer(
    output: Path | SqliteTable, names: ColumnNames, job: str, first_row: Row, *, escape_formulas: bool
) -> RowWriter:
    """Open the output of a job.

    Args:
        output: a file, whose suffix decides the format, or a table of a database.
        names: the columns.
        job: the identity of the job.
        first_row: a row of the input, for the types of its columns.
        escape_formulas: whether cells of CSV and TSV that a spreadsheet would calculate become text.

    Raises:
        FileError: it cannot be written.
    """
    if isinstance(output, SqliteTable):
        return SqliteWriter(output, names, first_row.columns, first_row.column_types)
    if output.suffix.lower() in ARROW_SUFFIXES:
        from ask.map.arrow_output import ArrowWriter

        return ArrowWriter(output, names, job, first_row.column_types)
    return FileWriter(output, names, job, escape_formulas=escape_formulas)


def is_text_table(output: Path | SqliteTable | None) -> bool:
    """Check whether an output is CSV or TSV."""
    return isinstance(output, Path) and output.suffix.lower() in TABLE_DELIMITERS


def is_table(output: Path | SqliteTable | None) -> bool:
    """Check whether all rows of an output have the same columns."""
    is_arrow = isinstance(output, Path) and output.suffix.lower() in ARROW_SUFFIXES
    return is_arrow or is_text_table(output) or isinstance(output, SqliteTable)


def is_input(output: Path | SqliteTable, paths: Iterable[str]) -> bool:
    """Check whether an output is one of the inputs. Another table of an input's database is not."""
    if isinstance(output, SqliteTable):
        tables = filter(None, map(SqliteTable.parse, paths))
        return any(
            os.path.realpath(table.file) == os.path.realpath(output.file)
            and table.name.lower() in (output.name.lower(), *([] if table.query else [""]))
            for table in tables
        )
    # Path.resolve() raises an exception for a link to itself (https://github.com/python/cpython/issues/109187).
    files = filter(None, map(find_input_file, paths))
    return os.path.realpath(output) in map(os.path.realpath, files)


def is_same_output(output: Path | SqliteTable, other: Path | SqliteTable) -> bool:
    """Check whether two outputs replace each other. Two tables of a database do not."""
    files = [each.file if isinstance(each, SqliteTable) else each for each in (output, other)]
    if os.path.realpath(files[0]) != os.path.realpath(files[1]):
        return False
    is_database = isinstance(output, SqliteTable) and isinstance(other, SqliteTable)
    return not is_database or output.name.lower() == other.name.lower()
