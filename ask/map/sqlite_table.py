"""SQLite as input and output: `sqlite:FILE?table=NAME`, and as input `sqlite:FILE?query=SELECT ...`.

As in SQLite's own URIs, % and ? in the name of the file are written as %25 and %3F.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ask.errors import FileError, UsageError
from ask.map.json_values import NOT_UTF8, has_invalid_bytes
from ask.records import NamedTuple
from ask.text import format_suggestion, join_names

PREFIX = "sqlite:"
LOCK_SECONDS = 30.0
"""How long to wait for another program that writes the database."""
NOTICE_SECONDS = 1.0
"""After how long the user learns that a database is locked."""
READ_STATEMENT = "SELECT 1 FROM sqlite_schema"
SQLITE_ERRORS = (sqlite3.Error, sqlite3.Warning)
"""`Warning` is raised for a query of several statements in Python 3.11."""


class SqliteTable(NamedTuple):
    """A table of a database, or a query; with neither, the only table."""

    file: Path
    name: str = ""
    query: str = ""

    @staticmethod
    def parse(text: str) -> SqliteTable | None:
        """Parse the name of an input or output; return None if it is another kind of name.

        Raises:
            UsageError: its parameter is unknown.
        """
        if not text.startswith(PREFIX):
            return None
        file, _, parameter = text.removeprefix(PREFIX).partition("?")
        key, _, value = parameter.partition("=")
        if not file or key not in ("table", "query", "") or (key and not value.strip()):
            raise UsageError(f"cannot parse {text}", "write sqlite:FILE?table=NAME or sqlite:FILE?query=SELECT ...")
        path = Path(os.path.expanduser(unquote(file)))  # no shell expands the ~ within an argument
        return SqliteTable(path, **{{"table": "name"}.get(key, key): value} if key else {})

    def __str__(self) -> str:
        file = str(self.file).replace("%", "%25").replace("?", "%3F")
        file = f"./{file}" if file.startswith("~") else file
        parameter = f"?table={self.name}" if self.name else f"?query={self.query}" if self.query else ""
        return f"{PREFIX}{file}{parameter}"

    def exists(self) -> bool:
        """Check whether the database has the table.

        Raises:
            FileError: the file is no database.
        """
        return bool(self._find_kind())

    def check_output(self, notify: Callable[[str], None] = lambda _: None) -> None:
        """Check that a table of this name can be written; `notify` is as in `read_rows`.

        Raises:
            UsageError: it cannot.
            FileError: the file is no database.
        """
        if not self.name:
            raise UsageError(f"{self} names no table", f"write -O {PREFIX}FILE?table=NAME")
        if self.name.lower().startswith("sqlite_"):
            raise UsageError(f"SQLite does not allow the table name {self.name}", "use another name")
        if self._find_kind(notify) not in ("", "table"):
            raise UsageError(f"{self} is not a table", "use another name")

    def count_rows(self) -> int | None:
        """Count the rows; return None for a query."""
        if self.query:
            return None
        with self._convert_errors(), closing(self._connect()) as connection:
            query = f"SELECT count(*) FROM {quote_identifier(self.name or self._find_only_table(connection))}"  # noqa: S608
            return int(_execute_slow(connection, query).fetchone()[0])

    def read_rows(self, notify: Callable[[str], None] = lambda _: None) -> Iterator[tuple[int, dict[str, Any], str]]:
        """Yield the number, the columns and the error of each row. A BLOB is base64.

        The rows are first copied to a temporary table, so that the database is not locked while they are answered.
        `notify` is called with a line for the user while another program locks it.

        Raises:
            FileError: the database cannot be read.
            UsageError: there is no such table, or the query is invalid.
        """
        with self._convert_errors(), closing(self._connect()) as connection:
            self.await_lock(connection, notify, READ_STATEMENT)
            query = self.query.rstrip().rstrip(";")
            if not query:
                name = self.name or self._find_only_table(connection)
                query = f"SELECT * FROM {quote_identifier(name)}"  # noqa: S608
            _execute_slow(connection, f'CREATE TEMP TABLE "rows of ask map" AS {query}')
            cursor = connection.execute('SELECT * FROM "rows of ask map"')
            names = [column[0] for column in cursor.description]
            for number, values in enumerate(cursor, start=1):
                columns = dict(zip(names, map(_to_json_value, values), strict=True))
                if all(map(_is_encodable, values)):
                    yield number, columns, ""
                else:
                    yield number, {name: value for name, value in columns.items() if _is_encodable(value)}, NOT_UTF8

    def _find_kind(self, notify: Callable[[str], None] = lambda _: None) -> str:
        """Return "table" or "view"; "" if there is none of this name."""
        if not self.file.exists() or self.file.stat().st_size == 0:
            return ""
        with self._convert_errors(), closing(self._connect()) as connection:
            self.await_lock(connection, notify, READ_STATEMENT)
            query = "SELECT type FROM sqlite_schema WHERE type IN ('table', 'view') AND lower(name) = lower(?)"
            found = connection.execute(query, (self.name,)).fetchone()
        return str(found[0]) if found else ""

    def _connect(self) -> sqlite3.Connection:
        """Open the database for reading; the rows of an input may be read in another thread."""
        uri = f"file:{quote(os.fsencode(self.file.absolute()))}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        return connection

    def await_lock(self, connection: sqlite3.Connection, notify: Callable[[str], None], statement: str) -> None:
        """Execute a statement that waits for a lock; notify the user after a second. Later statements wait longer.

        It is executed again each second, because Ctrl-C does not end the waiting within SQLite.
        """
        connection.execute(f"PRAGMA busy_timeout = {NOTICE_SECONDS * 1000:.0f}")
        start, is_notified = time.monotonic(), False
        while True:
            try:
                connection.execute(statement)
                break
            except sqlite3.Error as error:
                if not suggest_unlocking(error) or time.monotonic() - start >= LOCK_SECONDS:
                    raise
            if not is_notified:
                notify(f"{self.file} is locked by another program; waiting up to {LOCK_SECONDS:.0f} s")
                is_notified = True
        connection.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000:.0f}")

    def _find_only_table(self, connection: sqlite3.Connection) -> str:
        """Return the table of a database with a single one.

        Raises:
            UsageError: there are several, or none.
        """
        names = _list_tables(connection)
        if len(names) != 1:
            hint = f"add ?table=NAME; the tables are {join_names(names)}" if names else ""
            raise UsageError(f"{self.file} has {len(names) or 'no'} tables", hint)
        return names[0]

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            message = f"cannot read {self} ({error})"
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            if code != sqlite3.SQLITE_ERROR:  # the file, and not the SQL
                raise FileError(message, suggest_unlocking(error)) from error
            raise UsageError(message, self._suggest_table() if self.name else "") from error

    def _suggest_table(self) -> str:
        with closing(self._connect()) as connection:
            names = _list_tables(connection)
        if self.name.lower() in map(str.lower, names):  # a view of what the database no longer has
            return "correct the view, or read a table"
        return format_suggestion(self.name, names, f"the tables are {join_names(names)}") if names else ""


def _execute_slow(connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Execute a statement in another thread, so that Ctrl-C ends it: a view may have an endless number of rows."""
    with ThreadPoolExecutor(1) as executor:
        execution = executor.submit(connection.execute, statement)
        try:
            return execution.result()
        except BaseException:
            connection.interrupt()
            raise


def suggest_unlocking(error: Exception) -> str:
    """Return a hint for an error of SQLite if another program locks the database; "" for another error."""
    is_locked = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF == sqlite3.SQLITE_BUSY
    return "end or close the program that uses the database" if is_locked else ""


def quote_identifier(name: str) -> str:
    """Quote the name of a table or column for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _list_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the user's tables and views."""
    query = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return [name for (name,) in connection.execute(query)]


def _to_json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_encodable(value: Any) -> bool:
    """Check that a value is not text with bytes that were not UTF-8."""
    return not (isinstance(value, str) and has_invalid_bytes(value))
