"""What was kept for long enough goes, and nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.undo.journal import BACKUPS_FOLDER, JOURNAL_NAME, JournalHeader, lock_backup_sets
from ask.undo.restore import RestoreStatus
from ask.undo.retention import MAX_AGE_DAYS, MAX_STORAGE_BYTES, SECONDS_PER_DAY, STAMP_NAME, prune
from tests.program import Ask, Home
from tests.undo.runs import Runs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    found = Runs(tmp_path)
    yield found
    found.end()


def old_record(runs: Runs, days: float, size: int = 0) -> Path:
    """A record that a run left so many days ago."""
    folder = (
        runs.data / BACKUPS_FOLDER / f"{time.time_ns() - int(days * SECONDS_PER_DAY * 1e9):020d}-{os.urandom(4).hex()}"
    )
    folder.mkdir(parents=True)
    (folder / JOURNAL_NAME).write_text(json.dumps(JournalHeader("a1", "", "")._asdict()) + "\n")
    (folder / "1").touch()
    os.truncate(folder / "1", size)
    return folder


def old_result(runs: Runs, days: float, size: int = 0) -> Path:
    """A spilled result of so many days ago."""
    path = runs.data / "results" / f"bash-{os.urandom(4).hex()}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size)
    os.utime(path, (time.time() - days * SECONDS_PER_DAY,) * 2)
    return path


def test_what_is_old_is_removed_once_a_run_keeps_something(runs: Runs) -> None:
    old = [old_record(runs, MAX_AGE_DAYS + 1), old_result(runs, MAX_AGE_DAYS + 1)]
    young = [old_record(runs, MAX_AGE_DAYS - 1), old_result(runs, MAX_AGE_DAYS - 1), old_result(runs, 0)]
    foreign = runs.data / BACKUPS_FOLDER / "mine"
    foreign.mkdir()
    runs.write("f", "1")
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in [*young, foreign])
    assert len(runs.records) == 2


def test_the_oldest_go_where_there_is_too_much(runs: Runs) -> None:
    sizes = MAX_STORAGE_BYTES // 2 - 10_000
    records = [old_record(runs, days, sizes) for days in (5, 4, 3)]
    results = [old_result(runs, days, sizes) for days in (5, 4, 3, 0.5)]
    runs.write("f", "1")
    assert [path.exists() for path in records] == [False, True, True]
    assert [path.exists() for path in results] == [False, True, True, True]


def test_a_record_in_use_is_not_removed_and_neither_is_the_run_s_own(runs: Runs) -> None:
    used = old_record(runs, MAX_AGE_DAYS + 1, MAX_STORAGE_BYTES)
    beginning = old_record(runs, MAX_AGE_DAYS + 1)
    (beginning / JOURNAL_NAME).write_bytes(b"")
    with lock_backup_sets([record for record in runs.records if record.folder == used]):
        runs.write("f", "1")
    assert used.exists()
    assert beginning.exists()
    (runs.data / BACKUPS_FOLDER / STAMP_NAME).unlink()
    prune(runs.data)
    assert not used.exists()
    assert set(runs.states()) == {"f"}


def test_it_is_not_done_again_within_the_hour(runs: Runs) -> None:
    runs.write("f", "1")
    old = old_record(runs, MAX_AGE_DAYS + 1)
    runs.begin()
    runs.write("f", "2")
    assert old.exists()
    for moment in (time.time() - 4_000, time.time() + 1_000_000):
        os.utime(runs.data / BACKUPS_FOLDER / STAMP_NAME, (moment, moment))
        runs.begin()
        runs.write("f", "3")
        assert not old.exists()
        old = old_record(runs, MAX_AGE_DAYS + 1)


def test_a_removal_that_was_killed_is_finished(runs: Runs) -> None:
    gone = old_record(runs, 1)
    gone = gone.rename(gone.with_name(f".gone-{gone.name}"))
    runs.write("f", "1")
    assert not gone.exists()
    assert len(runs.records) == 1


@pytest.mark.slow
def test_many_processes_keep_and_remove_at_once(runs: Runs) -> None:
    for _ in range(20):
        old_record(runs, MAX_AGE_DAYS + 1)
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from ask.undo.backups import BackupWriter
from ask.undo.journal import JournalHeader
file = Path({str(runs.work)!r}, sys.argv[1])
keeper = BackupWriter(Path({str(runs.data)!r}), JournalHeader("a1", "", ""), print)
keeper.before_write(file, b"new", None)
file.write_bytes(b"new")
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", script, f"f{number}"], stdout=subprocess.PIPE) for number in range(8)
    ]
    assert [process.communicate(timeout=30)[0] for process in processes] == [b""] * 8
    assert {process.returncode for process in processes} == {0}
    assert len(runs.records) == 8
    assert set(runs.states().values()) == {RestoreStatus.REMOVE}
    left = [name for name in os.listdir(runs.data / BACKUPS_FOLDER) if name != STAMP_NAME]
    assert len(left) == 8


def test_long_results_go_also_if_nothing_is_ever_backed_up(ask: Ask, home: Home) -> None:
    old, young = (home.data / "results" / conversation / "bash-1.txt" for conversation in ("a1", "a2"))
    for path in (old, young):
        path.parent.mkdir(parents=True)
        path.touch()
    os.utime(old, (time.time() - (MAX_AGE_DAYS + 1) * SECONDS_PER_DAY,) * 2)
    assert ask("-p", "demo", "-y", "run date").code == 0
    assert [*young.parent.parent.rglob("*")] == [young.parent, young]
