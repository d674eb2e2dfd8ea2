"""What runs change is kept and can be put back, whatever happens in between."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import FileError
from ask.tools.base import ToolError
from ask.undo.backup_scope import MAX_BACKUP_BYTES
from ask.undo.journal import (
    JOURNAL_NAME,
    find_undone_names,
    lock_backup_sets,
    merge_changes,
    read_backup_sets,
)
from ask.undo.restore import RestoreStatus, plan_restore
from ask.undo.retention import STAMP_NAME
from tests.program import limit_file_size
from tests.undo.runs import Runs

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    found = Runs(tmp_path)
    yield found
    found.end()


# Keeping


def test_nothing_is_made_before_a_file_changes(runs: Runs) -> None:
    runs.write("f", "one")
    runs.begin()
    with pytest.raises(ToolError):
        runs.edit("f", "two", "three")
    with pytest.raises(ToolError):
        runs.write("f/g", "x")
    assert len(runs.records) == 1


def test_what_is_kept_can_be_read_by_the_user_alone(runs: Runs) -> None:
    old = os.umask(0)
    try:
        (runs.work / "f").write_text("one")
        runs.write("f", "two")
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in runs.data.rglob("*") if path.name != STAMP_NAME}
    assert modes == {0o700, 0o600}


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o640, 0o4755])
def test_content_mode_and_owner_come_back(runs: Runs, mode: int) -> None:
    file = runs.work / "f"
    file.write_bytes(b"\0old\xff\r\n")
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    file.chmod(mode)
    before = runs.tree()
    runs.write("f", "new")
    file.chmod(0o644)
    runs.undo()
    assert runs.tree() == before


def test_a_created_file_goes_with_the_folders_that_were_made_for_it(runs: Runs) -> None:
    (runs.work / "there").mkdir()
    before = runs.tree()
    runs.write("there/a/b/f", "1")
    runs.write("there/a/g", "2")
    runs.write("h", "3")
    runs.undo()
    assert runs.tree() == before


def test_a_folder_in_which_there_is_something_else_stays(runs: Runs) -> None:
    runs.write("a/b/f", "1")
    (runs.work / "a/mine").write_text("mine")
    runs.undo()
    assert {os.path.relpath(path, runs.work) for path in runs.tree()} == {"a", "a/mine"}


def test_several_writes_go_back_to_the_first_original(runs: Runs) -> None:
    (runs.work / "f").write_text("one")
    runs.write("f", "two")
    runs.edit("f", "two", "three")
    (runs.work / "f").write_text("formatted")
    runs.write("f", "four")
    runs.undo()
    assert (runs.work / "f").read_text() == "one"
    assert len(list(runs.records[0].folder.iterdir())) == 2, "one copy, and the journal"


def test_a_link_stays_and_what_it_leads_to_is_put_back(runs: Runs) -> None:
    outside = runs.folder / "outside"
    outside.mkdir()
    (outside / "f").write_text("one")
    (runs.work / "link").symlink_to("../outside/f")
    (runs.work / "folder").symlink_to("../outside")
    before = runs.tree()
    runs.write("link", "two")
    runs.write("folder/new", "x")
    runs.undo()
    assert runs.tree() == before
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("f", "one")]


def test_names_may_hold_anything(runs: Runs) -> None:
    names = ["\n", "\u202e", "\udcff\udcfe", "a b", "-f", "é"]
    folder_fd = os.open(runs.work, os.O_RDONLY)
    for name in names:
        (runs.work / name).write_text("one")
        runs.keeper.before_write(runs.work / name, b"two", folder_fd)
        (runs.work / name).write_text("two")
    os.close(folder_fd)
    runs.undo()
    assert {(runs.work / name).read_text() for name in names} == {"one"}


NAMES = st.sampled_from(["a", "b", "x/a", "x/y/a", "x/y/b"])
WRITES = st.lists(st.tuples(NAMES, st.sampled_from(["", "1", "2", "3\n" * 50])), max_size=8)


@given(before=WRITES, runs_of_writes=st.lists(WRITES, min_size=1, max_size=3))
def test_undo_is_exact_and_so_is_taking_it_back(
    before: list[tuple[str, str]], runs_of_writes: list[list[tuple[str, str]]]
) -> None:
    with TemporaryDirectory() as name:
        runs = Runs(Path(name))
        for file, content in before:
            (runs.work / file).parent.mkdir(parents=True, exist_ok=True)
            (runs.work / file).write_text(content)
        was = runs.tree()
        for writes in runs_of_writes:
            runs.begin()
            for file, content in writes:
                runs.write(file, content)
        became = runs.tree()
        undo = runs.undo()
        assert runs.tree() == was
        assert find_undone_names(runs.records) == {record.name for record in runs.records[:-1]}
        runs.put_back(plan_restore(merge_changes([undo])), (undo.name,))
        assert runs.tree() == became
        assert find_undone_names(runs.records) == {undo.name}


# What cannot be kept


def test_a_data_folder_that_cannot_be_used_keeps_no_file_from_being_written(runs: Runs) -> None:
    runs.data.write_text("not a folder")
    (runs.work / "f").write_text("one")
    for content in ("two", "three"):
        assert runs.write("f", content).startswith("overwrote")
    assert (runs.work / "f").read_text() == "three"
    path = runs.work / "f"
    assert runs.said == [f"cannot back up {path} (Not a directory): ask undo will not restore it"]


def test_a_full_disk_keeps_no_file_from_being_written_and_is_remembered(runs: Runs) -> None:
    (runs.work / "f").write_text("x" * 5_000)
    (runs.work / "g").write_text("one")
    with limit_file_size(2_000):
        runs.write("f", "new")
        runs.write("g", "two")
    assert (runs.work / "f").read_text() == "new"
    assert len(runs.said) == 1
    assert "File too large" in runs.said[0]
    assert runs.states() == {"f": RestoreStatus.NO_BACKUP, "g": RestoreStatus.RESTORE}
    assert len(list(runs.records[0].folder.iterdir())) == 2, "no half copy"


def test_a_journal_that_cannot_be_written_on_stays_readable(runs: Runs) -> None:
    runs.write("f", "1")
    size = (runs.records[0].folder / JOURNAL_NAME).stat().st_size
    with limit_file_size(size + 20):
        runs.write("g", "2")
    runs.write("h", "3")
    assert len(runs.said) == 1
    assert runs.states() == {"f": RestoreStatus.REMOVE, "h": RestoreStatus.REMOVE}


def test_an_original_that_is_too_large_is_not_kept(runs: Runs) -> None:
    (runs.work / "f").touch()
    os.truncate(runs.work / "f", MAX_BACKUP_BYTES + 1)
    runs.write("f", "small")
    assert "it is larger than 100 MB" in runs.said[0]
    assert runs.states() == {"f": RestoreStatus.NO_BACKUP}


# What has changed since


def test_what_has_changed_since_is_told(runs: Runs) -> None:
    (runs.work / "real").mkdir()
    for name in ("same", "edited", "gone", "folder", "link", "real/f", "by hand"):
        (runs.work / name).write_text("old")
        runs.write(name, "new")
    runs.write("new", "new")
    runs.write("made/new", "new")
    (runs.work / "edited").write_text("mine")
    (runs.work / "by hand").write_text("old")
    for name in ("gone", "folder", "link", "new"):
        (runs.work / name).unlink()
    (runs.work / "folder").mkdir()
    (runs.work / "link").symlink_to("edited")
    (runs.work / "real").rename(runs.work / "moved")
    (runs.work / "real").symlink_to("moved")
    (runs.work / "made/new").unlink()
    (runs.work / "made").rmdir()
    (runs.work / "made").write_text("a file")
    assert runs.states() == {
        "same": RestoreStatus.RESTORE,
        "edited": RestoreStatus.CHANGED_SINCE,
        "gone": RestoreStatus.CHANGED_SINCE,
        "folder": RestoreStatus.NOT_A_FILE,
        "link": RestoreStatus.NOT_A_FILE,
        "real/f": RestoreStatus.BEHIND_LINK,
        "by hand": RestoreStatus.UNCHANGED,
        "new": RestoreStatus.UNCHANGED,
        "made/new": RestoreStatus.NOT_A_FILE,
    }


def test_force_puts_back_what_has_changed_and_that_can_be_taken_back(runs: Runs) -> None:
    (runs.work / "f").write_text("old")
    runs.write("f", "new")
    runs.write("g", "new")
    (runs.work / "f").write_text("mine")
    (runs.work / "g").write_text("mine too")
    undo = runs.undo(force=True)
    assert ((runs.work / "f").read_text(), (runs.work / "g").exists()) == ("old", False)
    runs.put_back(plan_restore(merge_changes([undo])), (undo.name,))
    assert ((runs.work / "f").read_text(), (runs.work / "g").read_text()) == ("mine", "mine too")


def test_what_was_changed_between_two_runs_is_not_overwritten_unasked(runs: Runs) -> None:
    (runs.work / "f").write_text("one")
    runs.write("f", "two")
    (runs.work / "f").write_text("mine")
    runs.begin()
    runs.write("f", "three")
    assert runs.states() == {"f": RestoreStatus.CHANGED_SINCE}
    steps = plan_restore(merge_changes(runs.records[1:]))
    assert [state for _, state in steps] == [RestoreStatus.RESTORE]


def test_nothing_is_put_back_where_one_file_cannot_be(runs: Runs) -> None:
    for name in ("f", "g"):
        (runs.work / name).write_text("old")
        runs.write(name, "new")
    runs.end()
    (runs.records[0].folder / "2").write_text("damaged")
    with pytest.raises(FileError, match="/g is damaged"):
        runs.undo()
    (runs.records[0].folder / "2").unlink()
    with pytest.raises(FileError, match=r"/g .*\(No such"):
        runs.undo()
    assert (runs.work / "f").read_text() == "new"
    assert not find_undone_names(runs.records)


UNPRIVILEGED = """
import difflib, os, sys
from pathlib import Path
import ask.undo.retention
from ask.errors import FileError
from tests.undo.runs import Runs
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
runs = Runs(Path(sys.argv[1]))
(runs.work / "folder").mkdir()
runs.write("f", "new")
runs.write("folder/f", "new")
(runs.work / "folder").chmod(0o555)
try:
    runs.undo()
except FileError as error:
    sys.stdout.write(str(error))
(runs.work / "folder").chmod(0o755)
sys.stdout.write(" " + (runs.work / "f").read_text())
"""


def test_a_folder_that_cannot_be_written_keeps_all_from_being_put_back() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        command = [sys.executable, "-c", UNPRIVILEGED.format(nobody=NOBODY), folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
        said = f"nothing was restored: cannot write {Path(folder).resolve()}/work/folder new"
        assert (done.stdout, done.stderr) == (said, "")


# Records


def test_a_record_that_is_being_written_is_left_alone(runs: Runs) -> None:
    runs.write("f", "1")
    with pytest.raises(FileError, match="still running"), lock_backup_sets(runs.records):
        pass
    runs.end()
    with (
        lock_backup_sets(runs.records),
        pytest.raises(FileError, match="still running"),
        lock_backup_sets(runs.records),
    ):
        pass


def test_a_line_that_was_not_written_whole_does_not_count(runs: Runs) -> None:
    runs.write("f", "1")
    runs.write("g", "2")
    journal = runs.records[0].folder / JOURNAL_NAME
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-1])
    assert set(runs.states()) == {"f"}
    journal.write_bytes(whole[:20])
    assert runs.records == []


@pytest.mark.parametrize(
    "journal",
    [b"\n", b"{}\n", b"[]\n", b"[" * 100_000 + b"\n", b"\xff\n", b'{"of": 1}\n', b'{"conversation": "a"}\n']
    + [
        b'{"conversation": "a", "directory": "", "terminal": "", "kind": "run", "of": []}\n' + line + b"\n"
        for line in (b"1", b"null", b"{}", b'{"kind": "tree", "path": "/f"}', b'{"kind": "again", "path": "/f"}')
    ],
)
def test_a_journal_that_makes_no_sense_is_an_error(runs: Runs, journal: bytes) -> None:
    runs.write("f", "1")
    file = runs.records[0].folder / JOURNAL_NAME
    file.write_bytes(journal)
    with pytest.raises(FileError, match="is not valid"):
        read_backup_sets(runs.data)


@pytest.mark.parametrize("value", [None, 10**400, -(10**20), float("nan"), "\0", "\ud800", [], {}], ids=range(8))
def test_a_damaged_value_in_a_journal_is_an_error(runs: Runs, value: object) -> None:
    (runs.work / "f").write_text("0")
    runs.write("f", "1")
    file = runs.records[0].folder / JOURNAL_NAME
    header, line = map(json.loads, file.read_text().splitlines())
    lines = [
        {**line, "original": [*line["original"][:place], value, *line["original"][place + 1 :]]} for place in range(12)
    ]
    lines += [{**line, "path": value}, {**line, "new_states": [[value, None]]}]
    for damaged in lines:
        file.write_text(f"{json.dumps(header)}\n{json.dumps(damaged)}\n")
        with pytest.raises(FileError, match="is not valid"):
            read_backup_sets(runs.data)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["run", "undo", "copy", "folder-undo"])
def test_undo_restores_everything_after_a_kill_at_any_moment(what: str, step: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.undo.killed_restores", str(tmp_path), what, str(step)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15


def test_undo_and_redo_keep_the_names_of_a_file_with_several(runs: Runs) -> None:
    (runs.work / "f").write_text("old")
    os.link(runs.work / "f", runs.work / "other")
    runs.write("f", "new")
    record = runs.undo()
    assert (runs.work / "f").samefile(runs.work / "other")
    assert (runs.work / "other").read_text() == "old"
    runs.put_back(plan_restore(record.changes.values()))
    assert (runs.work / "f").samefile(runs.work / "other")
    assert (runs.work / "other").read_text() == "new"
