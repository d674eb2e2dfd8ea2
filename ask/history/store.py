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
from ask.history.schema import APPLICATION_ID, MIGRATIONS, VERSION

PATIENCE = 10.0
"""Seconds to wait for other processes, where nothing else is said."""
PAUSE = 0.01
"""Seconds between two tries."""
IN_USE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
NOT_WRITABLE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_FULL")
"""What SQLite reports if it cannot create the index of the write-ahead log, without which it does not even read."""
SMALLEST = 32_768
"""Bytes that the index of a write-ahead log takes."""
ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

MOVE_AWAY = "move it away, and a new one is made"

EXPLANATIONS = {
    "NOTADB": ("{path} is damaged", MOVE_AWAY),
    "CORRUPT": ("{path} is damaged", MOVE_AWAY),
    "FULL": ("cannot write {path} (no space left)", "make room on the disk"),
    "READONLY": ("cannot write {path} (read-only)", ""),
    "IOERR": ("cannot read or write {path} (disk error)", "see whether the disk is full or damaged"),
    "CANTOPEN": ("cannot open {path}", "look at the permissions of its folder"),
    "SQLITE_CONSTRAINT_FOREIGNKEY": ("it was deleted meanwhile", ""),
}
"""What the names of SQLite's errors, or their middle parts, mean to a user, and what to do about it."""

T = TypeVar("T")


class Locked(FileError):
    """Another process keeps the history to itself; nothing was read or written."""


class Store:
    """An open history.

    Args:
        path: the file; it is made where it is missing, readable by its owner alone.
        create: False takes a missing file for an empty history, and makes none. A history on a disk that is full or
            read-only can then still be read.
        patience: seconds to wait for other processes.

    Raises:
        FileError: it cannot be opened, is damaged, or is not what this version can work with; it is left as it was.
    """

    def __init__(self, path: Path, *, create: bool = True, patience: float = PATIENCE) -> None:
        self.path = path
        self.patience = patience
        with self._explained():
            missing = not create and is_missing(path)
            if not missing:
                make_private(path)
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
        with self._explained():
            # SQLite's own waiting would keep a signal waiting too.
            self._connection = sqlite3.connect(database, timeout=0, isolation_level=None, uri=isinstance(database, str))
        self._connection.row_factory = sqlite3.Row
        try:
            with self._explained():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """The rows that a query gives.

        Raises:
            FileError: the file cannot be read.
        """
        with self._explained():
            return self._patiently(lambda: self._connection.execute(query, values).fetchall())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All that is read in the block is of one moment, whatever other processes write meanwhile."""
        with self._explained():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all that is written in the block, or nothing. A signal that ends the run waits for its end.

        Raises:
            Locked: the block did not begin, or what it wrote is not written.
            FileError: it could not be written.
        """
        if self._write_error is not None:
            raise self._write_error
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            with self._explained():
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
                # A transaction that begins with reading could not wait for its turn to write.
                self._patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"), partial(pause, heard))
                try:
                    yield self._connection
                    self._patiently(lambda: self._connection.execute("COMMIT"))
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

    def _prepare(self) -> None:
        self.rows("PRAGMA foreign_keys = ON")
        self.rows("PRAGMA synchronous = NORMAL")  # with a write-ahead log this risks no damage
        version = self._version()
        if self._write_error is not None:
            if version < VERSION:
                raise self._write_error
            self.rows("PRAGMA temp_store = MEMORY")
        elif version < VERSION:
            # Readers and a writer work side by side.
            self.rows("PRAGMA journal_mode = WAL")
            with self.writing() as connection:
                for script in MIGRATIONS[self._version() :]:
                    for statement in statements(script):
                        connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        """The version of the tables, 0 where there are none yet.

        Raises:
            FileError: they are not ours, or newer than this program.
        """
        query = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        query += "FROM pragma_application_id, pragma_user_version"
        [(application, version, tables)] = self.rows(query)
        if application != APPLICATION_ID and (application or version or tables):
            raise FileError(f"{self.path} was not made by ask", MOVE_AWAY)
        if version > VERSION:
            raise FileError(f"{self.path} was written by a newer version of ask", "upgrade this one")
        return int(version)

    def _patiently(self, act: Callable[[], T], rest: Callable[[], None] = lambda: time.sleep(PAUSE)) -> T:
        """Do something as soon as other processes let it be done; `rest` is for between two tries."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return act()
            except sqlite3.OperationalError as fault:
                if not name_of(fault).startswith(IN_USE) or time.monotonic() >= deadline:
                    raise
            rest()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as fault:
            raise explanation(self.path, self.patience, fault) from fault
        except UnicodeDecodeError as fault:  # in one of SQLite's messages, which quotes what it cannot read
            raise self.damage() from fault
        except OSError as fault:
            raise FileError(f"cannot open {self.path} ({fault.strerror})") from fault

    def damage(self) -> FileError:
        """The error for a file that does not hold what it should."""
        return FileError(f"{self.path} is damaged", MOVE_AWAY)


def statements(script: str) -> Iterator[str]:
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


def make_private(path: Path) -> None:
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
            raise FileError(f"{path} is no file", MOVE_AWAY) from None
    else:
        os.fchmod(made, 0o600)  # whatever the umask
        os.close(made)


def can_read_unlocked(path: Path, error: FileError) -> bool:
    """Check whether a history that cannot be opened for writing is complete in its one file.

    It is if no write-ahead log is left: neither by a process that is writing nor by one that was killed.
    """
    if not name_of(error.__cause__).startswith(NOT_WRITABLE):
        return False
    try:
        return os.stat(f"{os.path.realpath(path)}-wal").st_size == 0
    except FileNotFoundError:
        return True
    except OSError:
        return False


def pause(heard: Iterable[int]) -> None:
    """Rest a moment, in which the signals come through that came through before."""
    signal.pthread_sigmask(signal.SIG_SETMASK, heard)
    time.sleep(PAUSE)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)


def is_full(folder: Path) -> bool:
    """Whether a disk has no room for the smallest of SQLite's files."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < SMALLEST


def name_of(fault: BaseException | None) -> str:
    """SQLite's name for an error; "" for one that Python's module found itself."""
    return getattr(fault, "sqlite_errorname", "")


def explanation(path: Path, patience: float, fault: sqlite3.Error) -> FileError:
    """The error for one of SQLite's, or of Python's, which finds text that is none."""
    name = name_of(fault)
    if name.startswith(IN_USE):
        return Locked(f"another process has kept {path} locked for {patience:g} s", "try again")
    kind = name.split("_")[1] if name else "CORRUPT" if isinstance(fault, sqlite3.OperationalError) else ""
    if kind == "IOERR" and is_full(path.parent):  # which SQLite does not tell of its smaller files
        kind = "FULL"
    if kind == "CANTOPEN" and path.exists() and not os.access(path.parent, os.W_OK):
        kind = "READONLY"
    message, advice = EXPLANATIONS.get(name) or EXPLANATIONS.get(kind, ("cannot use {path} ({fault})", ""))
    return FileError(message.format(path=path, fault=fault), advice)
