"""Safe runs in small, for the tests of `ask.undo`: folders that are copied, changed, and put back."""

from __future__ import annotations

import os
import shutil  # noqa: F401 - what is imported later must be there by then, for a user who cannot read it
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import ask.undo.retention  # noqa: F401
from ask.undo.backups import BackupWriter
from ask.undo.journal import (
    RUN,
    UNDO,
    BackupSet,
    JournalHeader,
    PathChange,
    complete_changes,
    merge_changes,
    read_backup_sets,
)
from ask.undo.restore import RestoreStatus, apply_restore, plan_restore
from tests.undo.runs import tree


class FolderRuns:
    """Runs that change the folder `work` and keep a copy of it in `data`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.work = self.folder / "work"
        self.data = self.folder / "data"
        self.work.mkdir()

    def run(self, change: Callable[[], object], *, end: bool = True) -> None:
        """A run that does that, and comes to its end or is killed."""
        record = BackupWriter(self.data, JournalHeader("a1", str(self.work), ""), lambda text: None)
        record.back_up_folders([self.work], {str(self.work / ".git")}, lambda: None)
        change()
        if end:
            record.record_folder_changes()
        record.close()

    @property
    def records(self) -> list[BackupSet]:
        return read_backup_sets(self.data)

    def changes(self, kind: str = RUN) -> list[PathChange]:
        """What became of the folder in all runs, or undos."""
        return merge_changes(complete_changes(record) for record in self.records if record.header.kind == kind)

    def states(self) -> dict[str, RestoreStatus]:
        """What is to become of each path."""
        return {os.path.relpath(change.path, self.work): state for change, state in plan_restore(self.changes())}

    def undo(self, kind: str = RUN, *, force: bool = False) -> dict[str, RestoreStatus]:
        """Put back what all runs, or undos, changed; the folders that should be gone and are not."""
        steps = plan_restore(self.changes(kind), force=force)
        about = JournalHeader("a1", "", "", UNDO, tuple(one.name for one in self.records if one.header.kind == kind))
        left = apply_restore(steps, BackupWriter(self.data, about, lambda text: None))
        return {os.path.relpath(change.path, self.work): state for change, state in left}

    def tree(self) -> dict[str, tuple[object, ...]]:
        """All that there is in `work`, and itself."""
        mode = self.work.stat().st_mode
        return {**tree(self.work), "": (oct(mode),)}


FOLDERS = ("a", "b", "a/c", "a/c/d", "b/e")
NAMES = tuple(f"{folder}/{number}" for folder in ("", *FOLDERS) for number in range(3))
PATHS = (*FOLDERS, *NAMES)


def grow(work: Path, further: int) -> None:
    """A tree with all kinds of things in it, and that many further files."""
    for folder in FOLDERS:
        (work / folder).mkdir()
    for number, name in enumerate(NAMES):
        (work / name.lstrip("/")).write_text(f"{number}\n" * number)
    for number in range(further):
        (work / FOLDERS[number % len(FOLDERS)] / f"more{number}").write_text(f"{number}")
    (work / "link").symlink_to("a/1")
    (work / "a/to b").symlink_to("../b")
    os.link(work / "0", work / "b/twin")
    (work / "1").chmod(0o400)
    (work / "b/e").chmod(0o500)


def write(here: Path, there: Path) -> None:
    here.write_text(there.name)


def replace(here: Path, there: Path) -> None:
    new = there.with_name("new")
    new.write_text("replaced")
    new.replace(here)


def remove(here: Path, _: Path = Path()) -> None:
    if here.is_symlink() or not here.is_dir():
        here.unlink()
        return
    for inner in here.iterdir():
        remove(inner)
    here.rmdir()


def rename(here: Path, there: Path) -> None:
    here.rename(there)


def permit(here: Path, _: Path) -> None:
    here.chmod(0o700 if here.is_dir() else 0o640)


def forbid(here: Path, _: Path) -> None:
    here.chmod(0o500 if here.is_dir() else 0o400)


def make(here: Path, _: Path) -> None:
    here.mkdir(parents=True)


def link(here: Path, there: Path) -> None:
    here.symlink_to(there)


def name_twice(here: Path, there: Path) -> None:
    os.link(here, there, follow_symlinks=False)


def swap(here: Path, there: Path) -> None:
    remove(here)
    here.symlink_to(there)


ACTS = {act.__name__: act for act in (write, replace, remove, rename, permit, forbid, make, link, name_twice, swap)}


def act_all(work: Path, changes: list[tuple[str, str, str]]) -> None:
    """Change things, as far as that can be."""
    for what, here, there in changes:
        with suppress(OSError):
            ACTS[what](work / here.lstrip("/"), work / there.lstrip("/"))


def check(folder: Path, changes: list[tuple[str, str, str]], further: int, *, end: bool = True) -> None:
    """See that undo gives back the tree that there was, and taking that back the one that there came to be."""
    runs = FolderRuns(folder)
    grow(runs.work, further)
    was = runs.tree()
    runs.run(lambda: act_all(runs.work, changes), end=end)
    became = runs.tree()
    runs.undo()
    assert runs.tree() == was
    if runs.records:
        runs.undo(UNDO)
    assert runs.tree() == became


def main(folder: Path, user: int, seed: int) -> None:
    """Check many at random as that user."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    chance = Random(seed)
    for number in range(0, 60, 5):
        inner = folder / str(number)
        inner.mkdir()
        changes = [(chance.choice([*ACTS]), chance.choice(PATHS), chance.choice(PATHS)) for _ in range(number)]
        try:
            check(inner, changes, 0, end=bool(number % 15))
        except BaseException:
            sys.stderr.write(f"{changes}\n")
            raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
