"""What `-O` names: a file or a table, which writer it has, and whether it replaces an input or another output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ask.config.directories import AppDirs
from ask.config.installation import require_package
from ask.config.symbolic_links import resolve_output
from ask.errors import FileError, UsageError
from ask.map.input_rows import Row, find_input_file
from ask.map.output import TABLE_DELIMITERS, ColumnNames, FileWriter, RowWriter, get_temporary_path
from ask.map.sqlite_output import SqliteWriter
from ask.map.sqlite_table import SqliteTable

ARROW_SUFFIXES = (".parquet", ".arrow", ".feather")
OUTPUT_SUFFIXES = (".jsonl", *TABLE_DELIMITERS, *ARROW_SUFFIXES)
TABLES_EXTRA = "tables"


def open_writer(
    output: Path | SqliteTable,
    names: ColumnNames,
    job: str,
    first_row: Row,
    *,
    notify: Callable[[str], None],
    escape_formulas: bool,
) -> RowWriter:
    """Open the output of a job.

    Args:
        output: a file, whose suffix decides the format, or a table of a database.
        names: the columns.
        job: the identity of the job.
        first_row: a row of the input, for the types of its columns.
        notify: called with a line for the user while another program locks the output.
        escape_formulas: whether cells of CSV and TSV that a spreadsheet would calculate become text.

    Raises:
        FileError: it cannot be written.
    """
    if isinstance(output, SqliteTable):
        return SqliteWriter(output, names, first_row.columns, notify=notify)
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


def _is_input(output: Path | SqliteTable, paths: Iterable[str]) -> bool:
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


def check_distinct(
    output: Path | SqliteTable, name: str, inputs: Iterable[str], others: Mapping[Path | SqliteTable, str], content: str
) -> None:
    """Check that an output replaces no file that the job needs.

    Args:
        output: the output.
        name: its name for the user.
        inputs: the inputs of the job.
        others: further files and tables, each with what it is, as in "the ledger".
        content: what is written to the output.

    Raises:
        UsageError: it is an input or one of the others.
    """
    kinds = ["an input"] if _is_input(output, inputs) else []
    kinds += [kind for other, kind in others.items() if _is_same_output(output, other)]
    if kinds:
        raise UsageError(f"{name} is {kinds[0]}", f"write {content} to another file")


def _is_same_output(output: Path | SqliteTable, other: Path | SqliteTable) -> bool:
    """Check whether two outputs replace each other. Two tables of a database do not."""
    files = [each.file if isinstance(each, SqliteTable) else each for each in (output, other)]
    if os.path.realpath(files[0]) != os.path.realpath(files[1]):
        return False
    is_database = isinstance(output, SqliteTable) and isinstance(other, SqliteTable)
    return not is_database or output.name.lower() == other.name.lower()


def list_output_files(output: Path | SqliteTable, job: str) -> tuple[Path, ...]:
    """Return the output file of a job, which may be a link, and the files that it writes in its place."""
    path = output.file if isinstance(output, SqliteTable) else output
    resolved = Path(os.path.realpath(path))
    if isinstance(output, SqliteTable):
        return path, resolved, *(resolved.with_name(resolved.name + end) for end in ("-journal", "-wal", "-shm"))
    return path, resolved, get_temporary_path(resolved, job)


def check_output(name: str, app_dirs: AppDirs, notify: Callable[[str], None]) -> Path | SqliteTable:
    """Check the name of an output: a file, or a table of an SQLite database.

    `notify` is called with a line for the user while another program locks the database.

    Raises:
        UsageError: it has an unknown suffix, or the table cannot be replaced.
        FileError: it cannot be written, or a tool call may have left a link on the way to it.
        MissingDependencyError: the package for its format is not installed.
    """
    table = SqliteTable.parse(name)
    output = table.file if table else Path(name)
    if table is None and output.suffix.lower() not in OUTPUT_SUFFIXES:
        hint = f"use a name that ends in {', '.join(OUTPUT_SUFFIXES)}, or sqlite:FILE?table=NAME"
        raise UsageError(f"cannot write {name} in the format that its name has", hint)
    if table is None and output.suffix.lower() in ARROW_SUFFIXES:
        require_package("pyarrow", TABLES_EXTRA, name)
    check_writable(output, app_dirs)
    if output.exists() and not output.is_file():  # a named pipe, which a new file would replace
        raise FileError(f"cannot write {name} (not a regular file)", "name a file; without -O, rows go to stdout")
    if table:
        table.check_output(notify)
        return table._replace(file=output.absolute())
    return output.absolute()


def check_writable(path: Path, app_dirs: AppDirs) -> None:
    """Check that a file can be written.

    Raises:
        FileError: it cannot, or a tool call may have left a link on the way to it.
    """
    resolve_output(path, app_dirs)
    if path.is_dir():
        raise FileError(f"cannot write {path} (Is a directory)")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise FileError(f"cannot write {path} ({'Permission denied' if path.parent.exists() else 'no such folder'})")


def has_rows(output: Path | SqliteTable) -> bool:
    """Check whether there is an output that a job would replace."""
    return output.exists() and (isinstance(output, SqliteTable) or output.stat().st_size > 0)
