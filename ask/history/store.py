"""The file that holds the history: opened, brought up to date, and written in whole transactions or not at all."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from ask.atomic_files import create_private_folder
from ask.errors import FileError
from ask.history.schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION

DEFAULT_LOCK_TIMEOUT = 10.0
"""Seconds to wait for other processes, where nothing else is said."""
RETRY_INTERVAL = 0.01
"""Seconds between two tries."""
LOCKED_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
NOT_WRITABLE_ERRORS = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_FULL")
"""What SQLite reports if it cannot create the index of the write-ahead log, without which it does not even read."""
MIN_FREE_BYTES = 32_768
"""Bytes that the index of a write-ahead log takes."""
TERMINATION_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

MOVE_AWAY_HINT = "move it away, and a new one is made"

ERROR_MESSAGES = {
    "NOTADB": ("{path} is damaged", MOVE_AWAY_HINT),
    "CORRUPT": ("{path} is damaged", MOVE_AWAY_HINT),
    "FULL": ("cannot write {path} (no space left)", "make room on the disk"),
    "READONLY": ("cannot write {path} (read-only)", ""),
    "IOERR": ("cannot read or write {path} (disk error)", "see whether the disk is full or damaged"),
    "CANTOPEN": ("cannot open {path}", "look at the permissions of its folder"),
    "SQLITE_CONSTRAINT_FOREIGNKEY": ("it was deleted meanwhile", ""),
}
"""What the names of SQLite's errors, or their middle parts, mean to a user, and what to do about it."""

T = TypeVar("T")


class HistoryLockedError(FileError):
    """Another process keeps the history to itself; nothing was read or written."""


class Store:
    """An open history.

    Args:
        path: the file; it is made where it is missing, readable by its owner alone.
        create: False takes a missing file for an empty history, and makes none. A history on a disk that is full or
            read-only can then still be read.
        lock_timeout: seconds to wait for other processes.

    Raises:
        FileError: it cannot be opened, is damaged, or is not what this version can work with; it is left as it was.
    """

    def __init__(self, path: Path, *, create: bool = True, lock_timeout: float = DEFAULT_LOCK_TIMEOUT) -> None:
        self.path = path
        self.lock_timeout = lock_timeout
        with self._convert_errors():
            missing = not create and is_missing(path)
            if not missing:
                create_private_file(path)
        self._write_error: FileError | None = None
        """Why nothing can be written to a history that is open for reading alone."""
        try:
            self._connect(":memory:" if missing else path)
        except FileError as error:
            if create or not can_read_unlocked(path, error):
                raise
            self._write_error = error
            self._connect(f"{Path(os.path.realpath(path)).as_uri()}?immutable=1")

    def _connect(self, database: Path | str) -> None:
        with self._convert_errors():
            # SQLite's own waiting would keep a signal waiting too.
            self._connection = sqlite3.connect(database, timeout=0, isolation_level=None, uri=isinstance(database, str))
        self._connection.row_factory = sqlite3.Row
        try:
            with self._convert_errors():
                self._prepare_schema()
        except BaseException:
            self._connection.close()
            raise

    def fetch_rows(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """The rows that a query gives.

        Raises:
            FileError: the file cannot be read.
        """
        with self._convert_errors():
            return self._retry_while_locked(lambda: self._connection.execute(query, parameters).fetchall())

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """All that is read in the block is of one moment, whatever other processes write meanwhile."""
        with self._convert_errors():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all that is written in the block, or nothing. A signal that ends the run waits for its end.

        Raises:
            Locked: the block did not begin, or what it wrote is not written.
            FileError: it could not be written.
        """
        if self._write_error is not None:
            raise self._write_error
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            with self._convert_errors():
                signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATION_SIGNALS)
                # A transaction that begins with reading could not wait for its turn to write.
                self._retry_while_locked(
                    lambda: self._connection.execute("BEGIN IMMEDIATE"), partial(sleep_with_signals, heard)
                )
                try:
                    yield self._connection
                    self._retry_while_locked(lambda: self._connection.execute("COMMIT"))
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare_schema(self) -> None:
        self.fetch_rows("PRAGMA foreign_keys = ON")
        self.fetch_rows("PRAGMA synchronous = NORMAL")  # with a write-ahead log this risks no damage
        version = self._read_schema_version()
        if self._write_error is not None:
            if version < SCHEMA_VERSION:
                raise self._write_error
            self.fetch_rows("PRAGMA temp_store = MEMORY")
        elif version < SCHEMA_VERSION:
            # Readers and a writer work side by side.
            self.fetch_rows("PRAGMA journal_mode = WAL")
            with self.write_transaction() as connection:
                for script in MIGRATIONS[self._read_schema_version() :]:
                    for statement in split_statements(script):
                        connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _read_schema_version(self) -> int:
        """The version of the tables, 0 where there are none yet.

        Raises:
            FileError: they are not ours, or newer than this program.
        """
        query = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        query += "FROM pragma_application_id, pragma_user_version"
        [(application, version, tables)] = self.fetch_rows(query)
        if application != APPLICATION_ID and (application or version or tables):
            raise FileError(f"{self.path} was not made by ask", MOVE_AWAY_HINT)
        if version > SCHEMA_VERSION:
            raise FileError(f"{self.path} was written by a newer version of ask", "upgrade this one")
        return int(version)

    def _retry_while_locked(
        self, action: Callable[[], T], wait: Callable[[], None] = lambda: time.sleep(RETRY_INTERVAL)
    ) -> T:
        """Do something as soon as other processes let it be done; `wait` is for between two tries."""
        deadline = time.monotonic() + self.lock_timeout
        while True:
            try:
                return action()
            except sqlite3.OperationalError as fault:
                if not get_sqlite_error_name(fault).startswith(LOCKED_ERRORS) or time.monotonic() >= deadline:
                    raise
            wait()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as fault:
            raise convert_sqlite_error(self.path, self.lock_timeout, fault) from fault
        except UnicodeDecodeError as fault:  # in one of SQLite's messages, which quotes what it cannot read
            raise self.make_damaged_error() from fault
        except OSError as fault:
            raise FileError(f"cannot open {self.path} ({fault.strerror})") from fault

    def make_damaged_error(self) -> FileError:
        """The error for a file that does not hold what it should."""
        return FileError(f"{self.path} is damaged", MOVE_AWAY_HINT)


def split_statements(script: str) -> Iterator[str]:
    """The single statements of a script: executed together they would end the transaction that they are in."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def is_missing(path: Path) -> bool:
    """Whether there is nothing at all, not even a link.

    Raises:
        OSError: that cannot be told.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    return False


def create_private_file(path: Path) -> None:
    """Make an empty file that its owner alone can read, where there is none.

    One that is there is not opened: closing it would let go of the locks that this process may have on it.

    Raises:
        FileError: what is there is no file.
        OSError: it cannot be made.
    """
    create_private_folder(path.parent)
    try:
        made = os.open(os.path.realpath(path), os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"{path} is no file", MOVE_AWAY_HINT) from None
    else:
        os.fchmod(made, 0o600)  # whatever the umask
        os.close(made)


def can_read_unlocked(path: Path, error: FileError) -> bool:
    """Check whether a history that cannot be opened for writing is complete in its one file.

    It is if no write-ahead log is left: neither by a process that is writing nor by one that was killed.
    """
    if not get_sqlite_error_name(error.__cause__).startswith(NOT_WRITABLE_ERRORS):
        return False
    try:
        return os.stat(f"{os.path.realpath(path)}-wal").st_size == 0
    except FileNotFoundError:
        return True
    except OSError:
        return False


def sleep_with_signals(signal_mask: Iterable[int]) -> None:
    """Rest a moment, in which the signals come through that came through before."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    time.sleep(RETRY_INTERVAL)
    signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATION_SIGNALS)


def is_disk_full(folder: Path) -> bool:
    """Whether a disk has no room for the smallest of SQLite's files."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < MIN_FREE_BYTES


def get_sqlite_error_name(error: BaseException | None) -> str:
    """SQLite's name for an error; "" for one that Python's module found itself."""
    return getattr(error, "sqlite_errorname", "")


def convert_sqlite_error(path: Path, lock_timeout: float, error: sqlite3.Error) -> FileError:
    """The error for one of SQLite's, or of Python's, which finds text that is none."""
    name = get_sqlite_error_name(error)
    if name.startswith(LOCKED_ERRORS):
        return HistoryLockedError(f"another process has kept {path} locked for {lock_timeout:g} s", "try again")
    kind = name.split("_")[1] if name else "CORRUPT" if isinstance(error, sqlite3.OperationalError) else ""
    if kind == "IOERR" and is_disk_full(path.parent):  # which SQLite does not tell of its smaller files
        kind = "FULL"
    if kind == "CANTOPEN" and path.exists() and not os.access(path.parent, os.W_OK):
        kind = "READONLY"
    message, advice = ERROR_MESSAGES.get(name) or ERROR_MESSAGES.get(kind, ("cannot use {path} ({fault})", ""))
    return FileError(message.format(path=path, fault=error), advice)
