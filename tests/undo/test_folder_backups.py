"""A copy of folders tells what became of them, whatever that was, and all of it can be put back."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ask.errors import FileError
from ask.undo.backup_scope import MAX_BACKUP_BYTES, MAX_DEPTH, MAX_FILES, MAX_TOTAL_BYTES
from ask.undo.backups import BackupWriter, FoldersTooLargeError, check_folder_sizes
from ask.undo.journal import (
    BACKUPS_FOLDER,
    FOLDERS_COPIED,
    JOURNAL_NAME,
    MANIFEST_NAME,
    JournalHeader,
    complete_changes,
)
from ask.undo.restore import RestoreStatus
from ask.undo.retention import MAX_SNAPSHOT_STORAGE_BYTES, STAMP_NAME
from tests.undo.safe_runs import ACTS, NAMES, PATHS, FolderRuns, check

ROOT = Path(__file__).parents[2]
NOBODY = 65534
CHANGES = st.lists(
    st.tuples(st.sampled_from([*ACTS]), st.sampled_from(PATHS), st.sampled_from([*PATHS, *NAMES])), max_size=40
)


@pytest.fixture
def runs(tmp_path: Path) -> FolderRuns:
    return FolderRuns(tmp_path)


def clear(folder: Path) -> None:
    """Remove the files in a folder."""
    for path in folder.iterdir():
        path.unlink()


# What comes back


@pytest.mark.slow
@settings(max_examples=12)
@given(changes=CHANGES, further=st.sampled_from([0, 5]), end=st.booleans())
@example(changes=[("remove", name, name) for name in PATHS], further=500, end=True)
def test_undo_and_redo_restore_exactly_the_same_tree(
    changes: list[tuple[str, str, str]], further: int, end: bool
) -> None:
    with TemporaryDirectory() as name:
        check(Path(name), changes, further, end=end)


@pytest.mark.slow
def test_undo_and_redo_work_for_an_ordinary_user(tmp_path: Path) -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        command = [sys.executable, "-m", "tests.undo.safe_runs", name, str(NOBODY), "1"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_names_and_times_may_be_anything(runs: FolderRuns) -> None:
    names = ["\n", "\u202e", "\udcff\udcfe", "a b", "-f", "é"]
    for number, name in enumerate(names):
        (runs.work / name).write_text(name.encode("utf-8", "surrogateescape").hex())
        os.utime(runs.work / name, ns=(number, number))
    was = runs.tree()
    runs.run(partial(clear, runs.work))
    runs.undo()
    assert runs.tree() == was
    assert [(runs.work / name).stat().st_mtime_ns for name in names] == list(range(len(names)))


def test_a_change_that_hides_is_found(runs: FolderRuns) -> None:
    """The size and the time of the last change may be set to anything."""
    file = runs.work / "f"
    file.write_text("one")
    os.utime(file, ns=(5, 5))

    def change() -> None:
        start = next(runs.data.glob(f"{BACKUPS_FOLDER}/*/{MANIFEST_NAME}"))
        about, *entries = start.read_text().splitlines()
        roots, untouched, began = json.loads(about)
        start.write_text("\n".join([json.dumps([roots, untouched, began + 10**12]), *entries, ""]))
        file.write_text("two")
        os.utime(file, ns=(5, 5))

    runs.run(change)
    assert runs.states() == {"f": RestoreStatus.RESTORE}
    runs.undo()
    assert file.read_text() == "one"


def test_a_name_elsewhere_of_a_file_gets_its_content_back_too(runs: FolderRuns) -> None:
    outside = runs.folder / "outside"
    outside.write_text("old")
    os.link(outside, runs.work / "f")
    runs.run(lambda: (runs.work / "f").write_text("new"))
    runs.undo()
    assert (outside.read_text(), (runs.work / "f").samefile(outside)) == ("old", True)


def test_a_hard_link_made_after_the_run_keeps_the_new_content(runs: FolderRuns) -> None:
    file, copy = runs.work / "f", runs.folder / "copy"
    file.write_text("old")
    runs.run(lambda: file.write_text("new"))
    os.link(file, copy)
    runs.undo()
    assert (file.read_text(), copy.read_text()) == ("old", "new")


@pytest.mark.slow
def test_what_is_large_is_told_by_size_and_time_alone(runs: FolderRuns) -> None:
    file = runs.work / "large"
    file.touch()
    os.truncate(file, MAX_BACKUP_BYTES + 1)
    runs.run(lambda: os.truncate(file, MAX_BACKUP_BYTES + 2))
    assert runs.states() == {"large": RestoreStatus.RESTORE}
    os.utime(file)
    assert runs.states() == {"large": RestoreStatus.CHANGED_SINCE}
    runs.undo(force=True)
    assert file.stat().st_size == MAX_BACKUP_BYTES + 1
    assert runs.states() == {"large": RestoreStatus.UNCHANGED}


# What is left alone


def test_pipes_and_sockets_are_noted_and_neither_opened_nor_made(runs: FolderRuns) -> None:
    os.mkfifo(runs.work / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(runs.work / "socket"))
        runs.run(partial(clear, runs.work))
    assert set(runs.states().values()) == {RestoreStatus.SPECIAL_FILE}
    runs.undo()
    assert os.listdir(runs.work) == []


def test_what_is_untouched_is_left_out(runs: FolderRuns) -> None:
    (runs.work / ".git").mkdir()
    (runs.work / ".git/config").write_text("mine")

    def change() -> None:
        (runs.work / "f").touch()
        (runs.work / ".git/config").write_text("new")

    runs.run(change)
    assert runs.states() == {"f": RestoreStatus.REMOVE}


def test_no_link_is_followed_and_no_folder_too_deep(runs: FolderRuns) -> None:
    outside = runs.folder / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (runs.work / "link").symlink_to(outside)
    deep = runs.work.joinpath(*["d"] * (MAX_DEPTH + 5))
    deep.mkdir(parents=True)
    (deep / "f").write_text("deep")

    def change() -> None:
        (outside / "f").write_text("changed")
        (deep / "f").unlink()
        (runs.work / "new").touch()

    runs.run(change)
    assert runs.states() == {"new": RestoreStatus.REMOVE}
    listed = next(runs.data.glob(f"{BACKUPS_FOLDER}/*/{MANIFEST_NAME}")).read_text()
    assert "outside/f" not in listed


def replace_file_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("original", ["file", "nothing"])
def test_a_new_folder_stays_if_a_file_of_the_user_in_it_is_restored(runs: FolderRuns, original: str) -> None:
    folder = runs.work / "d"
    if original == "file":
        folder.touch()
    runs.run(partial(replace_file_by_folder, folder) if original == "file" else folder.mkdir)
    (folder / "x").write_text("mine")
    runs.run(lambda: (folder / "x").write_text("changed"))
    status = RestoreStatus.REPLACED_BY_FOLDER if original == "file" else RestoreStatus.NOT_EMPTY
    assert runs.states() == {"d": status, "d/x": RestoreStatus.RESTORE}
    runs.undo()
    assert (folder / "x").read_text() == "mine"


UNREADABLE = """
import os, sys
from pathlib import Path
import ask.undo.retention
from tests.undo.safe_runs import FolderRuns
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
runs = FolderRuns(Path(sys.argv[1]))
(runs.work / "closed").mkdir()
(runs.work / "closed/f").touch()
(runs.work / "closed").chmod(0)
(runs.work / "secret").write_text("old")
(runs.work / "secret").chmod(0)
(runs.work / "shut").mkdir()
(runs.work / "shut/f").write_text("old")
def change():
    (runs.work / "closed").chmod(0o700)
    (runs.work / "closed/new").touch()
    (runs.work / "secret").unlink()
    (runs.work / "shut").chmod(0)
    (runs.work / "sealed").mkdir()
    (runs.work / "sealed/f").touch()
    (runs.work / "sealed").chmod(0)
    (runs.work / "sealed2").mkdir(0)
runs.run(change)
print(*(f"{{name}}: {{state}}" for name, state in runs.states().items()), sep="; ")
print(*runs.undo().items())
print(oct((runs.work / "closed").stat().st_mode), (runs.work / "shut/f").read_text())
(runs.work / "closed").chmod(0o700)
"""


def test_what_could_not_be_read_is_not_put_back_and_nothing_in_it_removed() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        command = [sys.executable, "-c", UNREADABLE.format(nobody=NOBODY), folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
        states = ["closed: restore", "sealed: remove", "sealed2: remove", "secret: no backup"]
        left = "('sealed', <RestoreStatus.NOT_EMPTY: 'contains something else'>)"
        told = f"{'; '.join([*states, 'shut: restore'])}\n{left}\n0o40000 old\n"
        assert (done.stdout, done.stderr) == (told, "")
        assert sorted(os.listdir(Path(folder, "work/closed"))) == ["f", "new"]


# Limits, and records


def test_folders_with_too_many_bytes_are_not_copied(runs: FolderRuns) -> None:
    (runs.work / "f").touch()
    os.truncate(runs.work / "f", MAX_TOTAL_BYTES)
    check_folder_sizes([runs.work], ())
    os.truncate(runs.work / "f", MAX_TOTAL_BYTES + 1)
    with pytest.raises(FoldersTooLargeError, match="256 MB"):
        runs.run(fail)
    assert not runs.data.exists()


@pytest.mark.slow
def test_folders_with_too_many_files_are_not_copied(runs: FolderRuns) -> None:
    (runs.work / "f").touch()
    (runs.work / "d").mkdir()
    for number in range(MAX_FILES - 1):
        os.symlink("x", runs.work / f"d/{number}")
    check_folder_sizes([runs.work], ())
    (runs.work / "g").touch()
    with pytest.raises(FoldersTooLargeError, match="20,000 files"):
        runs.run(fail)
    check_folder_sizes([runs.work], {str(runs.work / "d")})
    assert not runs.data.exists()


def fail() -> None:
    raise AssertionError("it is run")


def test_what_is_kept_can_be_read_by_the_user_alone(runs: FolderRuns) -> None:
    old = os.umask(0)
    try:
        (runs.work / "f").write_text("one")
        runs.run(lambda: (runs.work / "f").write_text("two"))
    finally:
        os.umask(old)
    kept = [path for path in runs.data.rglob("*") if path.name != STAMP_NAME]
    assert {path.stat().st_mode & 0o7777 for path in kept} == {0o700, 0o600}


def test_a_run_that_changes_nothing_leaves_no_record(runs: FolderRuns) -> None:
    (runs.work / "f").write_text("one")
    runs.run(lambda: (runs.work / "f").write_text("one"))
    assert runs.records == []


def test_what_a_run_wrote_elsewhere_is_kept_though_its_folders_are_as_they_were(runs: FolderRuns) -> None:
    record = BackupWriter(runs.data, JournalHeader("a1", "", ""), lambda text: None)
    record.back_up_folders([runs.work], (), lambda: None)
    record.before_write(Path("/x"), b"1", None)
    record.record_folder_changes()
    record.close()
    assert [list(map(str, complete_changes(one).changes)) for one in runs.records] == [["/x"]]


def test_a_file_can_be_backed_up_alone_after_its_folder_could_not_be(runs: FolderRuns) -> None:
    for name in ("f", "g"):
        (runs.work / name).write_text("old")
    names = iter((".", "f", "g"))

    def fail_at_the_last_file() -> None:
        if next(names) == "g":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    record = BackupWriter(runs.data, JournalHeader("a1", "", ""), lambda text: None)
    with pytest.raises(OSError, match="No space left"):
        record.back_up_folders([runs.work], (), fail_at_the_last_file)
    folder_fd = os.open(runs.work, os.O_RDONLY)
    record.before_write(runs.work / "f", b"new", folder_fd)
    os.close(folder_fd)
    (runs.work / "f").write_text("new")
    record.record_folder_changes()
    record.close()
    assert runs.undo() == {}
    assert (runs.work / "f").read_text() == "old"


def test_copies_of_folders_push_out_each_other_alone(runs: FolderRuns) -> None:
    def old(number: int, size: int, *, folders: bool) -> Path:
        record = runs.data / BACKUPS_FOLDER / f"{number:020d}-0"
        record.mkdir(parents=True)
        if folders:
            (record / MANIFEST_NAME).touch()
        lines = [
            JournalHeader("a1", "", "")._asdict(),
            *([{"kind": FOLDERS_COPIED, "uncopied": {}}] if folders else []),
        ]
        (record / JOURNAL_NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
        file = record / "1"
        file.touch()
        os.truncate(file, size)
        return record

    now = time.time_ns()
    small = old(now - 9 * 10**12, 1_000_000, folders=False)
    large = [old(now - age * 10**12, MAX_SNAPSHOT_STORAGE_BYTES // 3, folders=True) for age in (8, 7, 6, 5)]
    runs.run((runs.work / "f").touch)
    assert [path.exists() for path in (small, *large)] == [True, False, False, True, True]


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}\n", b"[]\n", b"garbage\n", b'["a", 1, 2, 3, 4]\n'])
def test_a_manifest_that_makes_no_sense_is_an_error(runs: FolderRuns, content: bytes) -> None:
    (runs.work / "f").touch()
    runs.run((runs.work / "f").unlink, end=False)
    manifest = runs.records[0].folder / MANIFEST_NAME
    manifest.write_bytes(content)
    with pytest.raises(FileError, match="is not valid"):
        runs.states()
    manifest.unlink()
    with pytest.raises(FileError, match="cannot read"):
        runs.states()


@pytest.mark.parametrize("content", [b"\xff", b"{}", b"[]", b"garbage", b'["a", 1, 2, 3, 4]', b'{"kind": "file"}'])
def test_recorded_changes_that_make_no_sense_are_an_error(runs: FolderRuns, content: bytes) -> None:
    (runs.work / "f").touch()
    runs.run((runs.work / "f").unlink)
    journal = runs.records[0].folder / JOURNAL_NAME
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([*lines[:2], content, *lines[3:], b""]))
    with pytest.raises(FileError, match="is not valid"):
        runs.states()
    journal.write_bytes(b"\n".join([*lines[:2], *lines[3:], b""]))
    assert runs.states() == {}
