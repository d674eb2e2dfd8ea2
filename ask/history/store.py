"""The SQLite file that contains the history: opening, migrating, reading, and writing in transactions."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ask.config.directories import DATA_FOLDER_HINT
from ask.console import StderrConsole
from ask.errors import FileError
from ask.history.search_index import supports_trigrams

if TYPE_CHECKING:
    import sqlite3


APPLICATION_ID = 0x41534B31
"""Marks a SQLite file as ours: "ASK1" in ASCII."""
SCHEMA_SCRIPT = "schema.sql"
"""The script that creates the tables of the current version in an empty file."""
TRIGRAMS_SCRIPT = "trigrams.sql"
EARLY_COLUMNS_SCRIPT = "early_columns.sql"
"""The script that upgrades a file of the first days, which is also marked as of the first version."""
MIGRATIONS = (
    "answer_models.sql",
    "replaced_runs.sql",
    "unanswered_questions.sql",
    TRIGRAMS_SCRIPT,
    "renamed_columns.sql",
    "cache_writes.sql",
    "service_tiers.sql",
    "citations.sql",
    "costs.sql",
    "attachment_index.sql",
    "refused_files.sql",
)
"""The scripts that upgrade each version to the next, starting from the first. A released script never changes."""
SCHEMA_VERSION = 1 + len(MIGRATIONS)
DEFAULT_LOCK_SECONDS = 10.0
"""Seconds to wait for other processes to release the lock."""
RETRY_SECONDS = 0.01
SHARED_MEMORY_ERROR = "SQLITE_IOERR_SHM"
"""Begins the errors of a file system that cannot share memory between processes."""
LOCKED_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
NOT_WRITABLE_ERRORS = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_FULL")
"""Errors when SQLite cannot create the index of the write-ahead log, which it needs even for reading."""
MOUNTS_FILE = Path("/proc/self/mountinfo")
NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs"),
        *("lustre", "gpfs", "beegfs", "ceph", "glusterfs", "orangefs", "pvfs2", "panfs", "wekafs", "gfs2", "ocfs2"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.juicefs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"),
        *("9p", "virtiofs", "vboxsf", "drvfs", "fakeowner", "fuse.grpcfuse", "fuse.osxfs"),
    )
)
"""The types of file systems that several machines may use; those of the last line are of a virtual machine's host."""
MIN_FREE_BYTES = 32_768
"""The size of the smallest index of a write-ahead log."""
NOTICE_SECONDS = 1.0
"""Seconds after which a migration, or the wait for another process, is announced on a terminal."""
PROGRESS_STEPS = 10_000
"""Instructions of SQLite's virtual machine between two checks for signals during a migration."""
TERMINATION_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

EMPTY_VALUES_NOTE = "damaged values are left empty"
MOVE_AWAY_HINT = "move it away; ask then creates a new one"
DAMAGED_HINT = f"ask history export --all --format json saves what can be read; then {MOVE_AWAY_HINT}"
OTHER_FOLDER_HINT = f"{DATA_FOLDER_HINT}; ask --no-save needs none"

ERROR_MESSAGES = {
    "NOTADB": ("{path} is damaged", MOVE_AWAY_HINT),
    "CORRUPT": ("{path} is damaged", DAMAGED_HINT),
    "FULL": ("cannot write {path} (no space left)", "free some space"),
    "READONLY": ("cannot write {path} (read-only)", OTHER_FOLDER_HINT),
    "IOERR": ("cannot read or write {path} (disk error)", "check whether the disk is full or damaged"),
    "CANTOPEN": ("cannot open {path}", "check the owner and permissions of it and its folder"),
    "SQLITE_CONSTRAINT_FOREIGNKEY": ("it was deleted by another program", ""),
}
"""Message and hint by SQLite's error name, or by the second part of that name."""
COLUMN_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("id", "title", "version", "provider", "model", "system", "directory", "terminal", "error"), str),
    **dict.fromkeys(
        ("status", "role", "content", "tool_call_id", "tool_name", "provider_state", "reasoning", "finish_reason"), str
    ),
    **dict.fromkeys(("name", "arguments", "decision", "rule", "media_type", "citations", "server_calls"), str),
    "refused_files": str,
    **dict.fromkeys(("created", "updated", "started", "ended", "time", "seconds", "cost", "dollars"), float),
    **dict.fromkeys(
        ("number", "conversation", "run", "message", "position", "first_kept_run", "replaced_by", "period"), int
    ),
    **dict.fromkeys(("exit_code", "exit_status", "rounds", "complete", "failed"), int),
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"), int),
    **dict.fromkeys(("cache_write_tokens", "cache_write_1h_tokens", "cache_write_12h_tokens"), int),
    "service_tier": str,
    "data": bytes,
}
"""The types of the columns of all tables, by name."""
NULLABLE_COLUMNS = {
    *("provider_state", "decision", "rule", "started", "ended", "seconds", "cost", "first_kept_run", "replaced_by"),
    *("exit_code", "exit_status", "failed", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"),
    *("cache_write_tokens", "cache_write_1h_tokens", "cache_write_12h_tokens", "service_tier"),
    *("citations", "server_calls"),
}

T = TypeVar("T")


class HistoryLockedError(FileError):
    """Another process has locked the history; nothing was read or written."""


class Store:
    """An open history file.

    A missing file is created, readable only by its owner. With `create=False` a missing file is an empty history
    instead, and a history on a full or read-only disk can still be read.

    Every SQLite error becomes a FileError. A file that is damaged, not ours, or from a newer version is not changed.

    A single damaged value does not make the other rows unreadable: text that is not UTF-8 is decoded as far as
    possible, and a value of another type than its column's is replaced by an empty one. `notes` then says so.
    """

    def __init__(
        self, path: Path, *, create: bool = True, lock_timeout: float = DEFAULT_LOCK_SECONDS, quiet: bool = False
    ) -> None:
        self.path = path
        self.lock_timeout = lock_timeout
        self._is_quiet = quiet
        self._notes: dict[str, None] = {}
        with self._convert_errors():
            missing = not create and _is_missing(path)
            if not missing:
                _create_database_file(path)
        self._write_error: FileError | None = None
        """The error to raise on a write, if the history could only be opened read-only."""
        self.has_trigrams = False
        """True if the trigram index exists and is complete."""
        self._has_shared_memory = missing or not is_on_network(path)
        """False if processes cannot share the memory that a write-ahead log needs."""
        try:
            self._connect(":memory:" if missing else path)
        except FileError as error:
            if create or not _can_read_unlocked(path, error):
                raise
            self._write_error = error
            self._connect(f"{Path(os.path.realpath(path)).as_uri()}?immutable=1")

    def _connect(self, database: Path | str, *, needs_journal: bool = False) -> None:
        import sqlite3

        try:
            with self._convert_errors():
                # SQLite's own busy timeout would delay signal handlers.
                self._connection = sqlite3.connect(
                    database, timeout=0, isolation_level=None, uri=isinstance(database, str)
                )
                self._connection.row_factory = sqlite3.Row
                try:
                    self._prepare_journal(is_needed=needs_journal)
                    self._prepare_schema()
                except BaseException:
                    self._connection.close()
                    raise
        except FileError as error:
            name = _get_sqlite_error_name(error.__cause__)
            if needs_journal or not name.startswith(SHARED_MEMORY_ERROR):
                raise
            self._has_shared_memory = False
            self._connect(database, needs_journal=True)

    def _prepare_journal(self, *, is_needed: bool) -> None:
        """Use a rollback journal where processes cannot share memory.

        It stays where they can, because the same folder may be on a network for another container or machine. Where
        they might, as the processes of one machine do on a network, those that use the log are not waited for.
        """
        if not self._has_shared_memory:
            # A process that is alone needs no shared memory.
            self._fetch("PRAGMA locking_mode = EXCLUSIVE")
            lock_timeout, self.lock_timeout = self.lock_timeout, self.lock_timeout if is_needed else 0.0
            with suppress(FileError), self._convert_errors():  # another process uses the log
                self._find_scripts()  # refuses the file of another program
                self._fetch("PRAGMA journal_mode = DELETE")
            self.lock_timeout = lock_timeout
            self._fetch("PRAGMA locking_mode = NORMAL")

    @property
    def notes(self) -> Sequence[str]:
        """Notices about damaged parts that were repaired or left out."""
        return list(self._notes)

    def add_note(self, text: str) -> None:
        """Add a notice about a damaged part of the file."""
        self._notes[f"{self.path}: {text}"] = None

    def fetch_rows(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """Execute a query and return its rows, waiting while the file is locked; damaged values are repaired."""
        import sqlite3

        with self._convert_errors():
            try:
                cursor, rows = self._fetch(query, parameters)
            except sqlite3.OperationalError as error:
                if _get_sqlite_error_name(error):
                    raise
                # Python's error for text that is not UTF-8. Decoding it in Python from the start would be slow.
                self._connection.text_factory = self._decode_damaged_text
                cursor, rows = self._fetch(query, parameters)
            return self._repair_rows(cursor, rows)

    def check_integrity(self) -> None:
        """Check the complete file, of which queries read only a part.

        Raises:
            FileError: it is damaged.
        """
        # SQLite 3.44.0 to 3.45.0 writes to a search index to check it: it is not damaged if that is impossible.
        # https://sqlite.org/releaselog/3_45_1.html
        results = [result for (result,) in self.fetch_rows("PRAGMA quick_check")]
        if any(result != "ok" and not result.startswith("unable to validate") for result in results):
            raise self.make_damaged_error()

    def _fetch(
        self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> tuple[sqlite3.Cursor, list[sqlite3.Row]]:
        cursor = self._connection.cursor()
        try:
            return cursor, self._retry_while_locked(lambda: cursor.execute(query, parameters).fetchall())
        except BaseException:
            cursor.close()  # the traceback keeps it, and an open statement would keep the log of the database
            raise

    def _decode_damaged_text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.add_note("damaged characters are shown as \ufffd")
            return data.decode(errors="replace")

    def _repair_rows(self, cursor: sqlite3.Cursor, rows: list[sqlite3.Row]) -> list[sqlite3.Row]:
        """Replace the values that cannot have been written to their column."""
        import sqlite3

        names = [column[0] for column in cursor.description or ()]
        damaged = {
            types: places
            for types in {(*map(type, row),) for row in rows}
            if (places := [place for place, name in enumerate(names) if not _is_sound_type(name, types[place])])
        }
        if not damaged:
            return rows
        self.add_note(EMPTY_VALUES_NOTE)
        repaired = []
        for row in rows:
            values = list(row)
            for place in damaged.get((*map(type, row),), ()):
                values[place] = _repair_value(names[place], values[place])
            repaired.append(sqlite3.Row(cursor, tuple(values)))
        return repaired

    def create_function(self, name: str, function: Callable[..., Any]) -> None:
        """Make a function of Python available in queries."""
        self._connection.create_function(name, -1, function, deterministic=True)

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Read from one consistent snapshot, regardless of what other processes write."""
        with self._convert_errors():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit everything written in the block, or nothing.

        Termination signals are blocked until the transaction ends. A HistoryLockedError means that the block was not
        entered, or that its writes were rolled back.
        """
        if self._write_error is not None:
            raise self._write_error
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            with self._convert_errors():
                signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATION_SIGNALS)
                # A transaction that begins with a read cannot wait for the write lock: SQLite reports busy at once.
                # Without a write-ahead log, a commit can fail because of a reader, unless the lock is exclusive.
                begin = partial(self._connection.execute, "BEGIN EXCLUSIVE")
                self._retry_while_locked(begin, partial(_sleep_with_signals, previous_mask))
                try:
                    if not supports_trigrams():
                        self._connection.execute("DROP VIEW IF EXISTS trigram_texts")
                    yield self._connection
                    self._retry_while_locked(partial(self._connection.execute, "COMMIT"))
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare_schema(self) -> None:
        self._fetch("PRAGMA foreign_keys = ON")
        scripts = self._find_scripts()
        write_error = self._write_error
        if write_error is not None:
            self._fetch("PRAGMA temp_store = MEMORY")
            if SCHEMA_SCRIPT in scripts:  # the file is empty
                raise write_error
            if scripts:
                self._copy_to_memory()
        if scripts:
            self._write_error = None
            if self._has_shared_memory:
                # Lets other processes read during a write.
                self._fetch("PRAGMA journal_mode = WAL")
            with self.write_transaction() as connection:
                notice = Timer(NOTICE_SECONDS, self._print_notice)  # a thread started here gets no signals
                notice.start()
                try:
                    for name in self._find_scripts():
                        _run_script(connection, Path(__file__).with_name(name).read_text(encoding="utf-8"))
                finally:
                    notice.cancel()
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._write_error = write_error
        [(journal_mode,)] = self._fetch("PRAGMA journal_mode")[1]
        if journal_mode == "wal":  # a file that was on a network keeps its rollback journal
            self._fetch("PRAGMA synchronous = NORMAL")  # cannot corrupt a database in WAL mode
        self.has_trigrams = supports_trigrams()

    def _print_notice(self) -> None:
        self._announce(f"updating {self.path} for this version of ask; this takes a while")

    def _announce(self, text: str) -> None:
        if not self._is_quiet:
            _announce(text)

    def _find_scripts(self) -> list[str]:
        """Return the scripts that the file needs; refuse a file that is not ours or newer than this program."""
        query = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master), "
        query += "(SELECT count(*) FROM sqlite_master WHERE name = 'trigram_texts') "
        query += "FROM pragma_application_id, pragma_user_version"
        _, [(application, version, tables, has_trigrams)] = self._fetch(query)
        if application != APPLICATION_ID and (application or version or tables):
            raise FileError(f"{self.path} is not a database of ask", MOVE_AWAY_HINT)
        if version > SCHEMA_VERSION:
            raise FileError(f"{self.path} was written by a newer version of ask", "upgrade ask")
        scripts = dict.fromkeys(MIGRATIONS[version - 1 :] if version else [SCHEMA_SCRIPT])
        if version == 1 and self._fetch("SELECT 1 FROM pragma_table_info('messages') WHERE name = 'native'")[1]:
            scripts = {EARLY_COLUMNS_SCRIPT: None, **scripts}
        scripts.pop(TRIGRAMS_SCRIPT, None)
        if supports_trigrams() and not has_trigrams:
            scripts[TRIGRAMS_SCRIPT] = None
        return [*scripts]

    def _copy_to_memory(self) -> None:
        """Continue with a copy in memory, which can be migrated when the file cannot."""
        import sqlite3

        copy = sqlite3.connect(":memory:", isolation_level=None)
        copy.row_factory = sqlite3.Row
        self._connection.backup(copy)
        self._connection.close()
        self._connection = copy

    def _retry_while_locked(
        self, action: Callable[[], T], wait: Callable[[], None] = lambda: time.sleep(RETRY_SECONDS)
    ) -> T:
        """Retry `action` until the file is not locked or `lock_timeout` has passed."""
        import sqlite3

        start, has_waited = time.monotonic(), False
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if (
                    not _get_sqlite_error_name(error).startswith(LOCKED_ERRORS)
                    or time.monotonic() - start >= self.lock_timeout
                ):
                    raise
                if time.monotonic() - start >= NOTICE_SECONDS:
                    self._announce(f"waiting for another process, which is writing {self.path}")
                if not has_waited and not _has_file_locks(self.path.parent):
                    hint = "set XDG_DATA_HOME to a folder on another one"
                    raise FileError(f"the file system of {self.path} has no file locks", hint) from None
            has_waited = True
            wait()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            raise _convert_sqlite_error(self.path, self.lock_timeout, error) from error
        except UnicodeDecodeError as error:  # SQLite's message quotes damaged text
            raise self.make_damaged_error() from error
        except OSError as error:
            raise FileError(f"cannot open {self.path} ({error.strerror})", OTHER_FOLDER_HINT) from error

    def make_damaged_error(self) -> FileError:
        """Make the error for a file with invalid content."""
        return FileError(f"{self.path} is damaged", DAMAGED_HINT)


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run a script in the open transaction.

    It may take half a minute for each gigabyte of texts, so a termination signal ends it. The next process starts over.
    """
    connection.set_progress_handler(has_pending_signal, PROGRESS_STEPS)
    try:
        for statement in script.split(";"):  # `executescript` would commit the transaction
            connection.execute(statement)
    except Exception as error:
        if _get_sqlite_error_name(error) == "SQLITE_INTERRUPT":
            raise KeyboardInterrupt from error  # unless the signal's own handler raises another exception
        raise
    finally:
        connection.set_progress_handler(None, 0)


def has_pending_signal() -> bool:
    return bool(signal.sigpending() & TERMINATION_SIGNALS)


def _is_sound_type(column: str, value_type: type) -> bool:
    """Check that SQLite can return a value of this type from an undamaged column."""
    expected = COLUMN_TYPES.get(column)
    is_number = expected is float and value_type is int
    is_null = value_type is type(None) and column in NULLABLE_COLUMNS
    return expected is None or value_type is expected or is_number or is_null


def _repair_value(column: str, value: Any) -> Any:
    """Return a value that the column may have in place of a damaged one: the same text, or an empty value."""
    expected = COLUMN_TYPES[column]
    if expected is str and isinstance(value, bytes):
        return value.decode(errors="replace")
    if expected is str and isinstance(value, int | float):
        return str(value)
    return None if column in NULLABLE_COLUMNS else expected()


@cache
def is_on_network(path: Path, mounts_file: Path = MOUNTS_FILE) -> bool:
    """Check whether a file is on a file system that several machines may use at the same time."""
    try:
        mounts = mounts_file.read_text(errors="surrogateescape")
    except OSError:  # macOS
        return False
    return _find_file_system(os.path.realpath(path), mounts) in NETWORK_FILE_SYSTEMS


def _find_file_system(path: str, mounts: str) -> str:
    """Return the type of the file system that contains a path, from the text of /proc/self/mountinfo."""
    found, length = "", -1
    for line in mounts.splitlines():
        fields, _, source = line.partition(" - ")
        mount_point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields.split(" ")[4])
        prefix = mount_point.rstrip("/")
        if len(prefix) >= length and (path + "/").startswith(prefix + "/"):
            found, length = source.partition(" ")[0], len(prefix)
    return found


def _is_missing(path: Path) -> bool:
    """Check that nothing exists at `path`, not even a dangling link."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    return False


def _create_database_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists.

    An existing file is not opened: closing it would release the POSIX locks that this process may have on it.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        from ask.atomic_files import create_private_folder, open_private_file

        create_private_folder(path.parent)
        with suppress(FileExistsError):
            os.close(open_private_file(Path(os.path.realpath(path)), os.O_RDONLY | os.O_EXCL))
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path} is not a file", MOVE_AWAY_HINT)


def _can_read_unlocked(path: Path, error: FileError) -> bool:
    """Check whether a history that cannot be written is complete without its log or journal.

    They are left by a process that is still writing, or by one that was killed.
    """
    if not _get_sqlite_error_name(error.__cause__).startswith(NOT_WRITABLE_ERRORS):
        return False
    sizes = []
    for suffix in ("-wal", "-journal"):
        try:
            sizes.append(os.stat(f"{os.path.realpath(path)}{suffix}").st_size)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return not any(sizes)


def _sleep_with_signals(signal_mask: Iterable[int]) -> None:
    """Sleep for one retry interval with the given signal mask, so that Ctrl-C works."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    time.sleep(RETRY_SECONDS)
    signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATION_SIGNALS)


def _has_file_locks(folder: Path) -> bool:
    """Check whether files in a folder can be locked. SQLite reports it as a lock of another process if they cannot."""
    import fcntl
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno != errno.ENOLCK
    return True


def _is_disk_full(folder: Path) -> bool:
    """Check whether a disk has too little space for the index of a write-ahead log."""
    try:
        filesystem = os.statvfs(folder)
    except OSError:
        return False
    return filesystem.f_bavail * filesystem.f_frsize < MIN_FREE_BYTES


def _get_sqlite_error_name(error: BaseException | None) -> str:
    """Return SQLite's name of an error; "" if Python's sqlite3 module raised it."""
    return getattr(error, "sqlite_errorname", "")


@cache
def _announce(text: str) -> None:
    """Print on a terminal, once per process, what the user waits for."""
    console = StderrConsole(os.environ, quiet=False, plain=False)
    if console.is_terminal:
        console.print_notice(text)


def _convert_sqlite_error(path: Path, lock_timeout: float, error: sqlite3.Error) -> FileError:
    """Convert a database error to one with a message for the user."""
    import sqlite3

    name = _get_sqlite_error_name(error)
    if name.startswith(LOCKED_ERRORS):
        return HistoryLockedError(f"{path} has been locked by another process for {lock_timeout:g} s", "try again")
    kind = name.split("_")[1] if name else "CORRUPT" if isinstance(error, sqlite3.OperationalError) else ""
    if kind == "IOERR" and _is_disk_full(path.parent):  # SQLite reports a full disk as IOERR for its smaller files
        kind = "FULL"
    if kind == "CANTOPEN" and path.exists() and not os.access(path.parent, os.W_OK):
        kind = "READONLY"
    message, hint = ERROR_MESSAGES.get(name) or ERROR_MESSAGES.get(kind, ("cannot use {path} ({error})", ""))
    return FileError(message.format(path=path, error=error), hint)
