"""The ledger: keys of rows, results, jobs."""

from __future__ import annotations

import multiprocessing
import resource
import sqlite3
import stat
import struct
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from ask.errors import FileError
from ask.map.ledger import SCHEMA, Ledger, RowKey, RowResult, read_shard_input
from ask.messages import Usage

YES = RowResult("answered", "yes", "stop", 10, 1, 0.5, time=1_800_000_000.5, latency=0.25, tries=2)._replace(
    cached_tokens=4, cache_write_tokens=3
)
FAILED = RowResult("failed", error="it failed", time=1_800_000_001)
A, B = b"a" * 16, b"b" * 16


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "map.db"


def test_identical_rows_have_keys_of_their_own(file: Path) -> None:
    with Ledger(file) as ledger:
        keys = [key for batch in ([A, B, A], [A]) for key, _ in ledger.find_results("job", batch)]
    assert keys == [(A, 0), (B, 0), (A, 1), (A, 2)]


def test_results_are_found_by_the_next_process(file: Path) -> None:
    with Ledger(file) as ledger:
        ledger.begin_job("job", "prompt", "m", "")
        keys = [key for key, _ in ledger.find_results("job", [A, B, A])]
        ledger.save_results("job", [(keys[0], YES), (keys[1], FAILED)])
    with Ledger(file) as ledger:
        assert [result for _, result in ledger.find_results("job", [A, B, A])] == [YES, FAILED, None]
        assert [result for _, result in ledger.find_results("other", [A, B])] == [None, None]
        assert ledger.compute_usage("job") == Usage(10, 1, 4, cost=0.5, cache_write_tokens=3)
        (job,) = ledger.list_jobs()
        assert (job.id, job.answered, job.failed, job.cost) == ("job", 1, 1, 0.5)


def test_a_ledger_of_an_earlier_version_is_migrated(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            """CREATE TABLE jobs (id TEXT PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL,
                prompt TEXT NOT NULL, models TEXT NOT NULL, output TEXT NOT NULL);
            CREATE TABLE results (job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, key BLOB NOT NULL,
                occurrence INTEGER NOT NULL, status TEXT NOT NULL, answer TEXT NOT NULL, finish_reason TEXT NOT NULL,
                input_tokens INTEGER, output_tokens INTEGER, cost REAL, error TEXT NOT NULL, patch TEXT NOT NULL,
                time REAL NOT NULL, PRIMARY KEY (job, key, occurrence)) WITHOUT ROWID;
            INSERT INTO jobs VALUES ('job', 1, 2, 'prompt', 'm', '');"""
        )
        old = ("job", A, 0, "answered", "old", "stop", 10, 1, 0.5, "", "", 3.0)
        connection.execute(f"INSERT INTO results VALUES ({', '.join('?' * len(old))})", old)
        connection.commit()
    for _ in range(2):
        with Ledger(file) as ledger:
            [(_, found), (key, _)] = ledger.find_results("job", [A, B])
            assert found == RowResult("answered", "old", "stop", 10, 1, 0.5, time=3.0)
            ledger.save_results("job", [(key, YES)])
    with Ledger(file) as ledger:
        assert ledger.find_results("job", [B])[0][1] == YES


def test_only_rows_that_may_be_answered_are_sent_again() -> None:
    unavailable = RowResult("unavailable")
    assert [each.is_final(retry_failed=False) for each in (YES, FAILED, unavailable)] == [True, True, False]
    assert [each.is_final(retry_failed=True) for each in (YES, FAILED, unavailable)] == [True, False, False]


def test_a_forgotten_job_takes_its_results_along(file: Path) -> None:
    with Ledger(file) as ledger:
        ledger.begin_job("job", "prompt", "m", "/out.jsonl")
        [(key, _)] = ledger.find_results("job", [A])
        ledger.save_results("job", [(key, YES)])
        assert ledger.find_job_with_output("/out.jsonl") == "job"
        ledger.forget_job("job")
        assert ledger.list_jobs() == []
        assert ledger.compute_usage("job") == Usage()


def test_the_file_shrinks_when_most_of_it_is_forgotten(file: Path) -> None:
    with Ledger(file) as ledger:
        for job, answer in (("small", "yes"), ("large", "x" * 1_000_000)):
            ledger.begin_job(job, "prompt", "m", "")
            ledger.save_results(job, [(RowKey(b"1", 0), RowResult("answered", answer))])
        ledger.forget_job("large")
    assert file.stat().st_size < 200_000
    with Ledger(file) as ledger:
        assert [job.id for job in ledger.list_jobs()] == ["small"]


def test_only_its_owner_can_read_the_ledger(file: Path) -> None:
    with Ledger(file) as ledger:
        ledger.begin_job("job", "prompt", "m", "")
        for path in file.parent.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_damaged_ledger_is_named(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(FileError, match=r"map\.db"):
        Ledger(file)
    with pytest.raises(FileError, match=r"data \(Is a directory\): .*--ledger"):
        Ledger(file.parent)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE results (a, b)", "another program"),
        ("CREATE TABLE jobs (id, name)", "another program"),
        ("PRAGMA user_version = 1", "newer version"),
    ],
)
def test_a_database_that_is_no_ledger_of_this_version_stays_unchanged(file: Path, statement: str, words: str) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()
    content = file.read_bytes()
    with pytest.raises(FileError, match=words):
        Ledger(file)
    assert file.read_bytes() == content
    assert read_shard_input(file) is None


def test_a_ledger_whose_creation_was_killed_is_completed(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(SCHEMA.split(";")[0])
    with Ledger(file) as ledger:
        assert ledger.list_jobs() == []


def test_a_ledger_whose_creation_fails_on_a_full_disk_is_empty(file: Path) -> None:
    """It can be read on a read-only disk, where no table can be added."""
    for kibibytes in range(16, 56, 8):
        process = multiprocessing.Process(target=create_with_limit, args=(file, kibibytes * 1024))
        process.start()
        process.join()
        assert process.exitcode == 0
        with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as connection:
            assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def create_with_limit(file: Path, max_bytes: int) -> None:
    """Fail to create a ledger: a limit for the size of files fails like a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    with pytest.raises(FileError, match="check whether the disk is full"):
        Ledger(file)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_journal_that_has_another_file_deleted_is_refused(tmp_path: Path, *, is_linked: bool) -> None:
    """SQLite deletes the super-journal that a rollback journal names once it has rolled back the transaction."""
    file, victim, name = tmp_path / "map.db", tmp_path / "victim", str(tmp_path / "victim").encode()
    with Ledger(file):
        pass
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    data, magic = file.read_bytes(), bytes.fromhex("d9d505f920a163d7")
    header = struct.pack(">8s5I", magic, 1, 0, len(data) // 4096, 512, 4096).ljust(512, b"\0")
    page = struct.pack(">I4096sI", 1, data, sum(data[3896:0:-200]))
    end = struct.pack(f">I{len(name)}s2I8s", (1 << 30) // 4096 + 1, name, len(name), sum(name), magic)
    (tmp_path / "map.db-journal").write_bytes(header + page + end)
    victim.write_text("text")
    ledger = tmp_path / "link.db" if is_linked else file
    if is_linked:
        ledger.symlink_to(file)
    with pytest.raises(FileError, match=r"map\.db-journal"):
        Ledger(ledger)
    assert victim.exists()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("SELECT * FROM jobs")
    assert not victim.exists(), "the attack does nothing"


def test_the_lock_file_changes_no_other_file(tmp_path: Path) -> None:
    """It is next to the ledger, which can have any name: `--ledger poetry.db`."""
    lock = tmp_path / "poetry.lock"
    lock.write_text("[[package]]")
    with Ledger(tmp_path / "poetry.db"):
        pass
    assert lock.read_text() == "[[package]]"
    (tmp_path / "link.lock").symlink_to(lock)
    with pytest.raises(FileError, match="link"):
        Ledger(tmp_path / "link.db")
    assert lock.read_text() == "[[package]]"


def test_rows_of_a_batch_are_known_until_it_has_ended(file: Path) -> None:
    with Ledger(file) as ledger:
        ledger.begin_job("job", "prompt", "m", "")
        keys = [key for key, _ in ledger.find_results("job", [A, A, B])]
        ledger.begin_batch("job", "tag", keys[1:])
    with Ledger(file) as ledger:
        assert ledger.find_batch_rows("tag") == {0: (A, 1), 1: (B, 0)}
        assert [ledger.is_in_batch("job", key) for key in keys] == [False, True, True]
        assert [(one.tag, one.batch_id, one.row_count) for one in ledger.list_batches("job")] == [("tag", "", 2)]
        ledger.set_batch_id("tag", "batch_1")
        assert ledger.is_batch_known("batch_1")
        assert ledger.list_jobs()[0].pending == 2
        ledger.end_batch("tag")
        assert (ledger.list_batches("job"), ledger.find_batch_rows("tag")) == ([], {})
        ledger.begin_batch("job", "other", keys)
        ledger.forget_job("job")
        assert ledger.find_batch_rows("other") == {}


def test_the_rows_are_counted_again_from_the_first_one(file: Path) -> None:
    with Ledger(file) as ledger:
        ledger.find_results("job", [A, A])
        ledger.restart_rows()
        assert [key for key, _ in ledger.find_results("job", [A])] == [(A, 0)]


@pytest.mark.slow
def test_processes_that_create_the_file_at_the_same_time_share_it(tmp_path: Path) -> None:
    for number in range(20):
        file, barrier = tmp_path / str(number) / "map.db", multiprocessing.Barrier(4)
        processes = [multiprocessing.Process(target=begin_job, args=(file, f"job {i}", barrier)) for i in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        with Ledger(file) as ledger:
            assert len(ledger.list_jobs()) == len(processes)


def begin_job(file: Path, job: str, barrier: Barrier) -> None:
    barrier.wait()
    with Ledger(file) as ledger:
        ledger.begin_job(job, "prompt", "m", "")


RESULT_COLUMNS = ("answer", "finish_reason", "input_tokens", "cost", "error", "patch", "citations", "time", "tries")


DAMAGED_VALUES = (b"yes", float("inf"), 1e300, 2**62, "[", "[" * 100_000, '{"a": 1}')
"""SQLite accepts values of any type in any column."""


@pytest.mark.parametrize("value", DAMAGED_VALUES, ids=range(7))
def test_a_damaged_value_is_an_error_that_names_the_ledger(file: Path, value: object) -> None:
    with Ledger(file) as ledger, closing(sqlite3.connect(file, isolation_level=None)) as connection:
        ledger.begin_job("job", "prompt", "m", "")
        ledger.begin_batch("job", "ask-1", [RowKey(A, 0)])
        damaged = [("jobs", "updated"), ("batches", "created"), ("batch_rows", "number"), ("batch_rows", "occurrence")]
        for table, column in damaged:
            [(old,)] = connection.execute(f"SELECT {column} FROM {table}")
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
            with pytest.raises(FileError, match=r"map\.db is damaged"):
                read_job(ledger)
            connection.execute(f"UPDATE {table} SET {column} = ?", (old,))
        read_job(ledger)


def read_job(ledger: Ledger) -> None:
    ledger.list_jobs()
    ledger.list_batches("job")
    ledger.find_batch_rows("ask-1")


def test_text_that_is_not_utf8_is_damaged(file: Path) -> None:
    with Ledger(file) as ledger, closing(sqlite3.connect(file, isolation_level=None)) as connection:
        ledger.begin_job("job", "prompt", "m", "")
        [(key, _)] = ledger.find_results("job", [A])
        ledger.save_results("job", [(key, YES)])
        connection.execute("UPDATE results SET answer = CAST(x'79ff73' AS TEXT)")
        assert (ledger.find_result("job", key), ledger.damaged_results) == (None, 1)
        connection.execute("UPDATE jobs SET prompt = CAST(x'ff' AS TEXT)")
        with pytest.raises(FileError, match=r"map\.db is damaged"):
            ledger.list_jobs()


@pytest.mark.parametrize("value", DAMAGED_VALUES, ids=range(7))
def test_a_damaged_result_costs_only_itself(file: Path, value: object) -> None:
    with Ledger(file) as ledger, closing(sqlite3.connect(file, isolation_level=None)) as connection:
        ledger.begin_job("job", "prompt", "m", "")
        [(key, _), (other, _)] = ledger.find_results("job", [A, B])
        damaged = [name for name in RESULT_COLUMNS if not is_stored_as_text(name, value)]
        for count, column in enumerate(damaged, 1):
            ledger.save_results("job", [(key, YES), (other, YES)])
            connection.execute(f"UPDATE results SET {column} = ? WHERE key = ?", (value, A))
            ledger.restart_rows()
            assert ledger.find_results("job", [A, B]) == [(key, None), (other, YES)]
            assert (ledger.find_result("job", key), ledger.damaged_results) == (None, 2 * count)
            assert ledger.count_answers("job") == (2, YES.time)
            cost = 0.5 if column == "cost" else 1.0
            assert (ledger.compute_usage("job").cost, ledger.list_jobs()[0].cost) == (cost, cost)


def is_stored_as_text(column: str, value: object) -> bool:
    """SQLite converts numbers in a column of text, in which any text is valid but that of citations."""
    return column in ("answer", "finish_reason", "error", "patch") and not isinstance(value, bytes)


def test_a_batch_without_one_of_its_rows_has_the_others(file: Path) -> None:
    """If they were counted by position, they would get the answers to each other."""
    with Ledger(file) as ledger:
        ledger.begin_job("job", "prompt", "m", "")
        ledger.begin_batch("job", "ask-1", [RowKey(A, 0), RowKey(B, 0)])
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("DELETE FROM batch_rows WHERE number = 0")
        assert ledger.find_batch_rows("ask-1") == {1: RowKey(B, 0)}
