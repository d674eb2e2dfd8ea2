"""The ledger: the results of all jobs, in a SQLite file from which interrupted jobs continue."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from itertools import chain, compress
from pathlib import Path
from typing import Any, Literal, Self

from ask.atomic_files import create_private_folder, open_private_file
from ask.errors import FileError, UsageError
from ask.history.daily_cost import ADD_COST, SUM_COSTS, get_period
from ask.history.store import is_on_network
from ask.map.locks import LockFile
from ask.map.occurrences import OccurrenceCounter
from ask.map.shards import ShardInput
from ask.messages import Usage
from ask.parsing import parse_json
from ask.records import COST_DECIMALS, NamedTuple

SCHEMA = """\
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    prompt TEXT NOT NULL,
    models TEXT NOT NULL,
    output TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS results (
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    key BLOB NOT NULL,
    occurrence INTEGER NOT NULL,
    status TEXT NOT NULL,
    answer TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cost REAL,
    error TEXT NOT NULL,
    patch TEXT NOT NULL,
    cached_tokens INTEGER,
    cache_write_tokens INTEGER,
    time REAL NOT NULL,
    citations TEXT NOT NULL DEFAULT '',
    latency REAL,
    tries INTEGER,
    PRIMARY KEY (job, key, occurrence)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    tag TEXT PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    batch TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS batch_rows (
    tag TEXT NOT NULL REFERENCES batches (tag) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    key BLOB NOT NULL,
    occurrence INTEGER NOT NULL,
    PRIMARY KEY (tag, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shard_inputs (
    shard TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    job TEXT NOT NULL,
    row_count INTEGER NOT NULL,
    digest TEXT NOT NULL,
    failed_count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS costs (period INTEGER PRIMARY KEY, dollars REAL NOT NULL);
CREATE TABLE IF NOT EXISTS reviews (
    output TEXT PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS batch_rows_by_key ON batch_rows (key, occurrence);
"""
MAX_INTEGER = 2**53
MAX_NUMBER = 100_000_000_000
"""Larger numbers are damaged. As a time in seconds since 1970, this one is in the year 5138."""
UNDAMAGED = f"FILTER (WHERE {{name}} BETWEEN -{MAX_NUMBER} AND {MAX_NUMBER})"
"""Limits an aggregate to numbers. In SQLite, text and blobs are greater than any number."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and abs(value) <= MAX_INTEGER


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= MAX_NUMBER


COLUMN_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("id", "job", "prompt", "models", "output", "tag", "batch", "digest"), _is_text),
    **dict.fromkeys(("status", "answer", "finish_reason", "error", "patch"), _is_text),
    "citations": lambda value: value == "" or (_is_text(value) and isinstance(parse_json(value), list)),
    "key": lambda value: isinstance(value, bytes),
    **dict.fromkeys(("occurrence", "number", "row_count", "failed_count"), _is_integer),
    **dict.fromkeys(("created", "updated", "time"), _is_number),
    **dict.fromkeys(
        ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "tries"),
        lambda value: value is None or _is_integer(value),
    ),
    **dict.fromkeys(("cost", "latency"), lambda value: value is None or _is_number(value)),
}
"""Checks whether a value can be from an undamaged column. SQLite stores values of any type in any column."""
LOCK_SUFFIX = ".lock"
LEDGER_LOCK = "1"
"""The identity that is locked in place of the ledger file where the file system has no locks."""
JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""Begins a rollback journal of SQLite, and also ends it if that names a super-journal."""
DAMAGED_HINT = "move it away, and the jobs in it start over"
CACHE_KIBIBYTES = 4096
"""The limit for SQLite's page cache."""

Status = Literal["answered", "failed", "unavailable"]
FAILED: Status = "failed"
UNAVAILABLE: Status = "unavailable"
"""The status of a row that failed because of the service; the next run sends it again."""


class RowResult(NamedTuple):
    """The result of one row.

    Tokens and cost (in US dollars) are None if the provider does not report them. `patch` is what the tools changed in
    the row's working copy, `citations` the sources of the answer as JSON. `time` is when the row was finished, in
    seconds since 1970, `latency` the seconds that its last request took, and `tries` how many requests it took; None if
    unknown. A row that got the answer to another one has 0 tries, no latency, no tokens and no cost. A failed row may
    have a part of an answer.
    """

    status: Status
    answer: str = ""
    finish_reason: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    error: str = ""
    patch: str = ""
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    citations: str = ""
    time: float | None = None
    latency: float | None = None
    tries: int | None = None

    @property
    def usage(self) -> Usage:
        """The tokens and the cost of its requests, also of those in earlier runs."""
        return Usage(**{name: getattr(self, name) for name in USAGE_FIELDS})

    def add_usage(self, usage: Usage) -> RowResult:
        """Return the result with the tokens and the cost of further requests."""
        total = self.usage + usage
        return self._replace(**{name: getattr(total, name) for name in USAGE_FIELDS})

    def is_final(self, *, retry_failed: bool) -> bool:
        """Check whether the row is not sent again."""
        return self.status == "answered" or (self.status == "failed" and not retry_failed)


USAGE_FIELDS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cost")
"""The fields of `Usage` that a result has."""


class RowKey(NamedTuple):
    """The identity of a row in its job: a digest of what is sent, and its position among identical rows, from 0."""

    digest: bytes
    occurrence: int


NEW_COLUMNS = {
    **dict.fromkeys(("cached_tokens", "cache_write_tokens", "tries"), "INTEGER"),
    "latency": "REAL",
    "citations": "TEXT NOT NULL DEFAULT ''",
}
"""The columns of `results` that a ledger of an earlier version lacks."""
FIND_FORMAT = """SELECT user_version, (SELECT count(*) FROM sqlite_master),
    (SELECT count(*) FROM pragma_table_info('jobs')
        WHERE name IN ('id', 'created', 'updated', 'prompt', 'models', 'output'))
    FROM pragma_user_version"""
COUNT_OBJECTS = "SELECT count(*) FROM sqlite_master WHERE sql IS NOT NULL"
JOB_COLUMN_COUNT = 6
"""The number of columns by which the table of jobs, which is created first, is recognized."""
RESULT_FIELDS = ("job", "key", "occurrence", *RowResult._fields)
PLACEHOLDERS = ", ".join("?" * len(RESULT_FIELDS))
SAVE_RESULT = f"REPLACE INTO results ({', '.join(RESULT_FIELDS)}) VALUES ({PLACEHOLDERS})"  # noqa: S608


class PendingBatch(NamedTuple):
    """A batch whose results have not been collected.

    Attributes:
        tag: identifies it, also at the provider.
        batch_id: the provider's id; "" if it is not known whether the batch was created.
        created: when it was about to be created, in seconds since 1970.
        row_count: the number of its rows.
    """

    tag: str
    batch_id: str
    created: float
    row_count: int


class JobSummary(NamedTuple):
    """A job in the ledger; `updated` is in seconds since 1970. `pending` rows are in a batch."""

    id: str
    updated: float
    answered: int
    failed: int
    pending: int
    cost: float | None
    models: str
    output: str
    prompt: str


LIST_JOBS = f"""SELECT id, updated, coalesce(sum(status = 'answered'), 0), coalesce(sum(status != 'answered'), 0),
    (SELECT count(*) FROM batches JOIN batch_rows USING (tag) WHERE batches.job = jobs.id),
    round(sum(cost) {UNDAMAGED.format(name="cost")}, {COST_DECIMALS}), models, output, prompt
    FROM jobs LEFT JOIN results ON job = id GROUP BY id ORDER BY updated DESC"""  # noqa: S608


class Ledger:
    """An open ledger file. Only its owner can read it.

    Where the file system has no locks, only one process can use a ledger at a time.

    Attributes:
        file: the file.
        lock_file: locks the jobs of this ledger.
        damaged_results: how many damaged results were found.

    Raises:
        FileError: the file cannot be opened.
        UsageError: another process uses the file, and the file system has no locks.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        with self._convert_errors(), ExitStack() as stack:
            create_private_folder(file.parent)
            os.close(open_private_file(file, os.O_RDONLY))  # never replaces what another process just created
            self.lock_file = LockFile(file.with_suffix(LOCK_SUFFIX))
            stack.callback(self.lock_file.close)
            self._connection = self._connect()
            self._connection.text_factory = _decode_text
            stack.callback(self._connection.close)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute("PRAGMA secure_delete = ON")  # overwrites what is deleted; not all builds do
            self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
            if self._connection.execute(COUNT_OBJECTS).fetchone()[0] < SCHEMA.count("CREATE "):
                # All or nothing: what is missing in a part of it could not be added on a read-only disk.
                self._connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT")
            self._add_new_columns()
            # A temporary file instead of a dictionary, because there may be millions of rows.
            self._first_rows = sqlite3.connect("", isolation_level=None)
            for name, value in (("cache_size", -CACHE_KIBIBYTES), ("journal_mode", "OFF"), ("synchronous", "OFF")):
                self._first_rows.execute(f"PRAGMA {name} = {value}")
            self._first_rows.execute(
                "CREATE TABLE first_rows (digest BLOB PRIMARY KEY, key BLOB, occurrence) WITHOUT ROWID"
            )
            self._first_rows.execute("BEGIN")
            stack.pop_all()
        self._occurrences = OccurrenceCounter()
        self.damaged_results = 0

    def _connect(self) -> sqlite3.Connection:
        """Open the file with a journal that works on its file system."""
        location, options = str(self.file), {}
        if not self.lock_file.has_system_locks:
            error = UsageError(f"another process uses the ledger {self.file}", "wait for it")
            self.lock_file.lock(LEDGER_LOCK, error)
            location, options = f"{self.file.absolute().as_uri()}?vfs=unix-none", {"uri": True}
        _check_journal(self.file)
        connection = sqlite3.connect(location, timeout=30, isolation_level=None, **options)
        # A write-ahead log needs memory that all processes share, which those of several machines do not.
        has_shared_memory = not options and not is_on_network(self.file) and self.lock_file.has_shared_memory()
        with suppress(sqlite3.OperationalError):  # for this, SQLite does not wait for another process
            if not has_shared_memory:  # the file may have a write-ahead log, which a process can use alone
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            _check_format(self.file, connection)
            connection.execute(f"PRAGMA journal_mode = {'WAL' if has_shared_memory else 'TRUNCATE'}")
        if not options:
            connection.execute("PRAGMA locking_mode = NORMAL")
        return connection

    def list_files(self) -> tuple[Path, ...]:
        """Return the ledger and the files next to it."""
        companions = (self.file.with_name(self.file.name + suffix) for suffix in ("-wal", "-shm", "-journal"))
        return self.file, *companions, self.lock_file.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self.lock_file.close()

    def _add_new_columns(self) -> None:
        """Add the columns that a ledger of an earlier version lacks."""
        query = "SELECT name FROM pragma_table_info('results')"
        if {name for (name,) in self._connection.execute(query)} >= NEW_COLUMNS.keys():
            return
        with self._transaction():  # another process may be doing this
            known = {name for (name,) in self._connection.execute(query)}
            for name in NEW_COLUMNS.keys() - known:
                self._connection.execute(f"ALTER TABLE results ADD COLUMN {name} {NEW_COLUMNS[name]}")

    def begin_job(self, job: str, prompt: str, models: str, output: str) -> None:
        """Add a job, or note that it continues."""
        now = time.time()
        self._execute(
            "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET updated = excluded.updated",
            (job, now, now, prompt, models, _escape_bytes(output)),
        )

    def touch_job(self, job: str) -> None:
        """Make a job the newest one, which is the one that `find_job_with_output` returns."""
        self._execute("UPDATE jobs SET updated = ? WHERE id = ?", (time.time(), job))

    def find_job_with_output(self, output: str) -> str | None:
        """Return the newest job that writes to an output file."""
        found = self._execute("SELECT id FROM jobs WHERE output = ? ORDER BY updated DESC", (_escape_bytes(output),))
        return found[0][0] if found else None

    def set_review(self, job: str, output: str) -> None:
        """Save the file to which a job writes its rows for review."""
        self._execute("REPLACE INTO reviews VALUES (?, ?)", (_escape_bytes(output), job))

    def find_job_with_review(self, output: str) -> str | None:
        """Return the job that writes its rows for review to this file."""
        found = self._execute("SELECT job FROM reviews WHERE output = ?", (_escape_bytes(output),))
        return found[0][0] if found else None

    def find_results(
        self, job: str, digests: Sequence[bytes], is_answer: Callable[[str], bool] = _is_text
    ) -> list[tuple[RowKey, RowResult | None]]:
        """Return the keys of the next rows, which have these digests, with their results if they were finished.

        A damaged result, such as an answer that `is_answer` rejects, is left out.
        """
        keys = list(map(RowKey, digests, self._occurrences.count(digests)))
        # Joined, because IN (VALUES ...) would read all results of the job.
        marks = ",".join(["(?, ?)"] * len(keys))
        columns = ", ".join(f"results.{name}" for name in ("key", "occurrence", *RowResult._fields))
        query = f"""WITH wanted (key, occurrence) AS (VALUES {marks}) SELECT {columns} FROM wanted CROSS JOIN results
            ON job = ? AND results.key = wanted.key AND results.occurrence = wanted.occurrence"""  # noqa: S608
        parameters = (*chain.from_iterable(keys), job)
        stored = {}
        for row in self._find_undamaged_results(query, parameters):
            result = RowResult._make(row[2:])
            if result.status != "answered" or is_answer(result.answer):
                stored[row[:2]] = result
            else:
                self.damaged_results += 1
        return [(key, stored.get(key)) for key in keys]

    def _find_undamaged_results(self, query: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        rows, damaged_count = self._fetch(query, parameters)
        self.damaged_results += damaged_count
        return rows

    def find_result(self, job: str, key: RowKey) -> RowResult | None:
        """Return the result of a row; None if it has none, or a damaged one."""
        columns = ", ".join(RowResult._fields)
        query = f"SELECT {columns} FROM results WHERE job = ? AND key = ? AND occurrence = ?"  # noqa: S608
        found = self._find_undamaged_results(query, (job, *key))
        return RowResult._make(found[0]) if found else None

    def find_first_row(self, digest: bytes, key: RowKey) -> RowKey:
        """Return the key of the first call with this digest since the input began: that of the first such row."""
        with self._convert_errors():
            self._first_rows.execute("INSERT OR IGNORE INTO first_rows VALUES (?, ?, ?)", (digest, *key))
            query = "SELECT key, occurrence FROM first_rows WHERE digest = ?"
            return RowKey._make(self._first_rows.execute(query, (digest,)).fetchone())

    def save_results(self, job: str, results: Iterable[tuple[RowKey, RowResult]], dollars: float = 0.0) -> None:
        """Save the results of rows, and what the requests since the last call have cost, in one transaction.

        The sums of costs stay when results are deleted or replaced. `max_cost_per_day` limits them.
        """
        now = time.time()
        rows = [(job, *key, *(result if result.time else result._replace(time=now))) for key, result in results]
        with self._transaction():
            self._connection.executemany(SAVE_RESULT, rows)
            if dollars:
                self._connection.execute(ADD_COST.format(table="costs"), (get_period(now), dollars))

    def sum_costs(self, period: int) -> float:
        """Return the costs of all jobs from a period on, in US dollars."""
        [(dollars,)] = self._execute(SUM_COSTS.format(table="costs"), (period,))
        return float(dollars)

    def restart_rows(self) -> None:
        """Prepare for reading the input again from its first row."""
        self._occurrences = OccurrenceCounter()
        self._first_rows.execute("DELETE FROM first_rows")

    def begin_batch(self, job: str, tag: str, keys: Sequence[RowKey]) -> None:
        """Save a batch that is about to be created, with the keys of its rows in order."""
        rows = [(tag, number, *key) for number, key in enumerate(keys)]
        with self._transaction():
            self._connection.execute("INSERT INTO batches VALUES (?, ?, '', ?)", (tag, job, time.time()))
            self._connection.executemany("INSERT INTO batch_rows VALUES (?, ?, ?, ?)", rows)

    def set_batch_id(self, tag: str, batch_id: str) -> None:
        """Save the provider's id of a batch."""
        self._execute("UPDATE batches SET batch = ? WHERE tag = ?", (batch_id, tag))

    def end_batch(self, tag: str) -> None:
        """Delete a batch, whose results are saved or which was not created."""
        self._execute("DELETE FROM batches WHERE tag = ?", (tag,))

    def list_batches(self, job: str) -> list[PendingBatch]:
        """Return the batches of a job whose results have not been collected."""
        query = """SELECT tag, batch, created, count(*) FROM batches JOIN batch_rows USING (tag) WHERE job = ?
            GROUP BY tag ORDER BY batches.rowid"""
        return [PendingBatch(*row) for row in self._execute(query, (job,))]

    def is_batch_known(self, batch_id: str) -> bool:
        """Check whether a batch belongs to a job, this one or another."""
        return bool(self._execute("SELECT 1 FROM batches WHERE batch = ?", (batch_id,)))

    def find_batch_rows(self, tag: str) -> dict[int, RowKey]:
        """Return the keys of the rows of a batch, by their numbers in it, in order."""
        query = "SELECT number, key, occurrence FROM batch_rows WHERE tag = ? ORDER BY number"
        return {number: RowKey(*key) for number, *key in self._execute(query, (tag,))}

    def find_saved_batch_rows(self, tag: str) -> set[RowKey]:
        """Return the rows of a batch whose responses are saved, as some are after an interruption."""
        query = """SELECT key, occurrence FROM batches JOIN batch_rows USING (tag)
            JOIN results USING (job, key, occurrence)
            WHERE tag = ? AND results.time >= batches.created AND (status = 'answered' OR input_tokens IS NOT NULL)"""
        return {RowKey(*row) for row in self._execute(query, (tag,))}

    def is_in_batch(self, job: str, key: RowKey) -> bool:
        """Check whether a row is in a batch whose results have not been collected."""
        query = "SELECT 1 FROM batch_rows JOIN batches USING (tag) WHERE job = ? AND key = ? AND occurrence = ?"
        return bool(self._execute(query, (job, *key)))

    def compute_usage(self, job: str) -> Usage:
        """Return the tokens and the cost of all rows of a job, as far as they are known."""
        columns = ", ".join(f"sum({name}) {UNDAMAGED.format(name=name)}" for name in USAGE_FIELDS)
        [sums] = self._execute(f"SELECT {columns} FROM results WHERE job = ?", (job,))  # noqa: S608
        return Usage(**dict(zip(USAGE_FIELDS, sums, strict=True)))

    def count_answers(self, job: str) -> tuple[int, float]:
        """Return how many rows of a job are answered, and when the last one was, in seconds since 1970."""
        newest = f"coalesce(max(time) {UNDAMAGED.format(name='time')}, 0)"
        query = f"SELECT count(*), {newest} FROM results WHERE job = ? AND status = 'answered'"  # noqa: S608
        [(count, newest)] = self._execute(query, (job,))
        return int(count), float(newest)

    def save_shard_input(self, shard: str, shard_input: ShardInput) -> None:
        """Save what the output of a shard was made from; `shard` is the ID of its job."""
        self._execute("REPLACE INTO shard_inputs VALUES (?, ?, ?, ?, ?)", (shard, *shard_input))

    def forget_answers(self, job: str) -> None:
        """Delete the results of a job."""
        self._execute("DELETE FROM results WHERE job = ?", (job,))

    def forget_job(self, job: str) -> None:
        """Delete a job."""
        self._execute("DELETE FROM jobs WHERE id = ?", (job,))
        [(pages, free_pages)] = self._execute("SELECT * FROM pragma_page_count, pragma_freelist_count")
        if free_pages > pages // 2:
            with suppress(FileError):  # another job writes, or there is no space for a copy of the rest
                self._execute("VACUUM")

    def list_jobs(self) -> list[JobSummary]:
        """Return all jobs, the newest first."""
        return [JobSummary(*row) for row in self._execute(LIST_JOBS)]

    def _execute(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, of which none may be damaged."""
        rows, damaged_count = self._fetch(query, parameters)
        if damaged_count:
            raise FileError(f"the ledger {self.file} is damaged", DAMAGED_HINT)
        return rows

    def _fetch(self, query: str, parameters: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """Run a statement and return its undamaged rows, and the number of the others."""
        with self._convert_errors():
            cursor = self._connection.execute(query, parameters)
            rows = cursor.fetchall()
        undamaged = _select_undamaged(cursor, rows)
        return undamaged, len(rows) - len(undamaged)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._convert_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:  # commits, or rolls back after an exception
                yield

    def _convert_errors(self) -> AbstractContextManager[None]:
        return convert_ledger_errors(self.file)


@contextmanager
def convert_ledger_errors(file: Path) -> Iterator[None]:
    """Raise a `FileError` that names the ledger for an error of SQLite or of its file system."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        hints = {
            sqlite3.SQLITE_CORRUPT: DAMAGED_HINT,
            sqlite3.SQLITE_NOTADB: DAMAGED_HINT,
            sqlite3.SQLITE_FULL: "free some space, and run it again",
            sqlite3.SQLITE_IOERR: "check whether the disk is full or damaged",
        }
        hint = hints.get(code, "")
        if isinstance(error, OSError):
            hint = "name another one with --ledger"
        raise FileError(f"cannot use the ledger {file} ({reason})", hint) from error


def _decode_text(data: bytes) -> str | bytes:
    """Decode UTF-8; return damaged text as bytes, which no column of text contains."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _select_undamaged(cursor: sqlite3.Cursor, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows of a query in which all values are undamaged."""
    checks = [COLUMN_CHECKS.get(name, lambda _: True) for name, *_ in cursor.description or ()]
    # By column, which is faster.
    columns = [map(check, column) for check, column in zip(checks, zip(*rows, strict=True), strict=False)]
    return list(compress(rows, map(all, zip(*columns, strict=True))))


def _check_journal(file: Path) -> None:
    """Refuse a rollback journal that names another file, which SQLite would delete when it opens the database.

    Only a transaction in several databases has such a super-journal: https://sqlite.org/tempfiles.html#super_journal_files
    The ledger of a shard is next to its output, where others may have written.
    """
    journal, flags = f"{os.path.realpath(file)}-journal", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(journal, flags)
    except FileNotFoundError:
        return
    try:
        end = os.pread(descriptor, len(JOURNAL_MAGIC), max(os.fstat(descriptor).st_size - len(JOURNAL_MAGIC), 0))
    finally:
        os.close(descriptor)
    if end == JOURNAL_MAGIC:
        raise FileError(f"{journal} would make SQLite delete another file", "ask has not written it: delete it")


def _check_format(file: Path, connection: sqlite3.Connection) -> bool:
    """Refuse the database of another program, or of a newer version of this one; return False if it is empty."""
    [(version, table_count, job_column_count)] = connection.execute(FIND_FORMAT)
    if table_count and job_column_count < JOB_COLUMN_COUNT:
        raise FileError(f"{file} is a database of another program", "name another file with --ledger")
    if version:
        raise FileError(f"the ledger {file} was written by a newer version of ask", "upgrade ask")
    return bool(table_count)


def _escape_bytes(path: str) -> str:
    r"""Return a path as SQLite can store it: bytes that are not UTF-8 become escapes such as "\xff"."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read_shard_input(ledger: Path) -> ShardInput | None:
    """Return what the newest shard in a ledger was made from; None if there is no ledger, or it does not say so."""
    query = """SELECT job, row_count, digest, failed_count FROM shard_inputs JOIN jobs ON jobs.id = shard
        ORDER BY updated DESC LIMIT 1"""
    if not ledger.is_file():  # SQLite would wait for a program to open a named pipe
        return None
    try:
        found = _read_undamaged(ledger, query)
    except (sqlite3.Error, OSError, FileError):
        return None
    return ShardInput(*found[0]) if found else None


def read_jobs(file: Path) -> list[JobSummary]:
    """Return all jobs of a ledger, the newest first, also where it cannot be written.

    Raises:
        FileError: the file cannot be read.
    """
    with convert_ledger_errors(file):
        try:
            file.stat()
        except FileNotFoundError:
            return []
        if os.access(file.parent, os.W_OK) or not file.is_file():
            with Ledger(file) as ledger:
                return ledger.list_jobs()
        return [JobSummary(*row) for row in _read_undamaged(file, LIST_JOBS)]


def _read_undamaged(ledger: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the undamaged rows of a query, without locks and files beside the ledger.

    These do not work on a read-only file system.
    """
    file = Path(os.path.realpath(ledger))  # which SQLite's logs are next to
    logs = [file.with_name(file.name + suffix) for suffix in ("-wal", "-journal")]
    is_complete = not any(log.exists() and log.stat().st_size for log in logs)
    option = "immutable=1" if is_complete else "mode=ro"
    with closing(sqlite3.connect(f"{file.as_uri()}?{option}", uri=True)) as connection:
        connection.text_factory = _decode_text
        if not _check_format(ledger, connection):
            return []
        cursor = connection.execute(query)
        return _select_undamaged(cursor, cursor.fetchall())
