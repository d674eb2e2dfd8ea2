"""Writes the output of a job as a table of an SQLite database. Other tables of the database stay as they are."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ask.errors import FileError, UsageError
from ask.map.json_values import INT64_RANGE, list_types, to_valid_text
from ask.map.output import ColumnNames
from ask.map.sqlite_table import LOCK_SECONDS, SqliteTable, quote_identifier, suggest_unlocking

MAX_BUFFERED_ROWS = 500
COMMIT_SECONDS = 0.5
"""Rows that arrive faster are committed together."""
TYPES = {"integer": "INTEGER", "boolean": "INTEGER", "number": "REAL"}
NUMBER_TYPES = frozenset(TYPES.values())
PENDING = "temp.pending"
EXACT_RANGE = range(-(1 << 53), (1 << 53) + 1)
"""The integers that all are the same as numbers of a column of type REAL."""


class SqliteWriter:
    """Writes a table, which replaces that of the previous run only when it is at least as complete.

    Until then, the rows are in a temporary table, which ends with the process. From then on they are appended to the
    table in transactions: after a kill, it contains the rows so far, and the next run restores the others.

    A column of numbers that gets a value which SQLite would change, such as the text "01067", loses its type.

    Args:
        table: the table. It may already exist.
        names: the columns, which do not differ only in case.
        first_row: a row of the input, by whose values its columns get their types.
        notify: called with a line for the user while another program locks the database.

    Raises:
        FileError: the database cannot be written.
        UsageError: the table cannot have these columns.
    """

    def __init__(
        self,
        table: SqliteTable,
        names: ColumnNames,
        first_row: Mapping[str, Any],
        *,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.names = names
        self._notify = notify
        self._table = table
        self._name = f"main.{quote_identifier(table.name)}"
        self._target = PENDING
        self._rows: list[list[Any]] = []
        self._last_commit = 0.0
        self._columns = [(name, _choose_type(name, names, first_row)) for name in names.all]
        with self._convert_errors():
            self._connection = sqlite3.connect(table.file, timeout=LOCK_SECONDS, isolation_level=None)
            try:
                self._connection.execute(f"CREATE TABLE {PENDING} {self._definition}")
            except (sqlite3.OperationalError, sqlite3.ProgrammingError, ValueError) as error:
                raise UsageError(f"{table} cannot have these columns ({error})", "select some with --columns") from None

    @property
    def _definition(self) -> str:
        return f"({', '.join(f'{quote_identifier(name)} {each}' for name, each in self._columns)})"

    @property
    def _begin(self) -> str:
        """The statement that begins a transaction: IMMEDIATE would lock the database for the temporary table, too."""
        return "BEGIN" if self._target == PENDING else "BEGIN IMMEDIATE"

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._rows += ([_to_sqlite_value(record.get(name)) for name in self.names.all] for record in records)
        if len(self._rows) >= MAX_BUFFERED_ROWS or time.monotonic() - self._last_commit > COMMIT_SECONDS:
            self._commit()

    def publish(self) -> None:
        """Replace the rows of the previous run, once everything that it had finished is written again."""
        if self._target == self._name:
            return
        self._commit()
        with self._transaction("BEGIN IMMEDIATE"):
            query = "SELECT name, type FROM pragma_table_info(?, 'main')"
            if self._connection.execute(query, (self._table.name,)).fetchall() == self._columns:
                # This keeps the user's indexes.
                self._connection.execute(f"DELETE FROM {self._name}")  # noqa: S608
            else:
                self._connection.execute(f"DROP TABLE IF EXISTS {self._name}")
                self._connection.execute(f"CREATE TABLE {self._name} {self._definition}")
            self._connection.execute(f"INSERT INTO {self._name} SELECT * FROM {PENDING}")  # noqa: S608
        with self._convert_errors():
            self._connection.execute(f"DROP TABLE {PENDING}")
        self._target = self._name

    def close(self) -> None:
        """Write the last rows. Those of an unpublished table are lost with it."""
        if self._target == self._name:
            self._commit()
        self._connection.close()

    def _commit(self) -> None:
        rows, self._rows = self._rows, []  # first, so that a signal does not have them written twice
        if rows:
            self._remove_types(rows)
            placeholders = ", ".join("?" * len(self._columns))
            with self._transaction(self._begin):
                self._connection.executemany(f"INSERT INTO {self._target} VALUES ({placeholders})", rows)  # noqa: S608
        self._last_commit = time.monotonic()

    def _remove_types(self, rows: Sequence[Sequence[Any]]) -> None:
        """Remove the types with which SQLite would change the values of rows; those that are written stay the same."""
        columns = [
            (name, each if each not in NUMBER_TYPES or all(_is_kept(row[index], each) for row in rows) else "")
            for index, (name, each) in enumerate(self._columns)
        ]
        if columns == self._columns:
            return
        self._columns = columns
        with self._transaction(self._begin):
            self._connection.execute(f"CREATE TABLE temp.copied {self._definition}")
            self._connection.execute(f"INSERT INTO temp.copied SELECT * FROM {self._target}")  # noqa: S608
            self._connection.execute(f"DROP TABLE {self._target}")
            self._connection.execute(f"CREATE TABLE {self._target} {self._definition}")
            self._connection.execute(f"INSERT INTO {self._target} SELECT * FROM temp.copied")  # noqa: S608
            self._connection.execute("DROP TABLE temp.copied")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._convert_errors():
            self._table.await_lock(self._connection, self._notify, begin)
            with self._connection:  # commits, or rolls back after an exception
                yield

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise FileError(f"cannot write {self._table} ({error})", suggest_unlocking(error)) from error


def _choose_type(name: str, names: ColumnNames, first_row: Mapping[str, Any]) -> str:
    """Return the type of a column; "" if it gets values of any type."""
    if name in names.schemas:
        types = list_types(names.schemas[name])
        return TYPES.get(types[0], "TEXT") if len(types) == 1 else ""
    value = first_row.get(name)
    if isinstance(value, int | float):
        return "REAL" if isinstance(value, float) else "INTEGER"
    return "" if value is None else "TEXT"


def _is_kept(value: Any, column_type: str) -> bool:
    """Check that a column of numbers keeps a value: it converts text that looks like one."""
    if isinstance(value, int):
        return column_type != "REAL" or value in EXACT_RANGE
    if isinstance(value, str):
        with suppress(ValueError):
            float(value)
            return False
    return True


def _to_sqlite_value(value: Any) -> Any:
    """Return a value of JSON for SQLite: lists, objects and integers of more than 64 bits as JSON text."""
    if value is None or isinstance(value, float) or (isinstance(value, int) and value in INT64_RANGE):
        return value
    return to_valid_text(value)
