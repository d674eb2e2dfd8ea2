"""Runs that change files with the real tools, and what they leave, for the tests of `ask.undo`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ask.tools.base import RunToolContext
from ask.tools.definitions import EDIT_FILE, WRITE_FILE
from ask.undo.backups import BackupWriter
from ask.undo.journal import UNDO, BackupSet, JournalHeader, PathChange, merge_changes, read_backup_sets
from ask.undo.restore import RestoreStatus, RestoreStep, apply_restore, plan_restore


class Runs:
    """Runs that change files in `work` and keep their originals in `data`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.work = self.folder / "work"
        self.data = self.folder / "data"
        self.work.mkdir()
        self.said: list[str] = []
        self.keeper = BackupWriter(self.data, JournalHeader("", "", ""), self.said.append)
        self.begin()

    def begin(self, conversation: str = "a1") -> None:
        """Begin a run; the one before has ended."""
        self.end()
        self.keeper = BackupWriter(self.data, JournalHeader(conversation, str(self.work), ""), self.said.append)
        self.context = RunToolContext(
            self.work, {}, 1, self.data / "results", self.said.append, before_write=self.keeper.before_write
        )

    def end(self) -> None:
        """The run is over."""
        self.keeper.close()

    def write(self, name: str, content: str) -> str:
        return WRITE_FILE.run({"filepath": name, "content": content}, self.context).text

    def edit(self, name: str, old: str, new: str) -> str:
        return EDIT_FILE.run({"filepath": name, "old_text": old, "new_text": new}, self.context).text

    @property
    def records(self) -> list[BackupSet]:
        return read_backup_sets(self.data)

    @property
    def changes(self) -> list[PathChange]:
        return merge_changes(record for record in self.records if record.header.kind != UNDO)

    def states(self) -> dict[str, RestoreStatus]:
        """What is to become of each file."""
        return {os.path.relpath(change.path, self.work): state for change, state in plan_restore(self.changes)}

    def undo(self, *, force: bool = False) -> BackupSet:
        """Put everything back; the record of that."""
        self.end()
        names = tuple(record.name for record in self.records)
        self.put_back(plan_restore(self.changes, force=force), names)
        return self.records[-1]

    def put_back(self, steps: list[RestoreStep], names: tuple[str, ...] = ()) -> None:
        apply_restore(steps, BackupWriter(self.data, JournalHeader("a1", "", "", UNDO, names), self.said.append))

    def tree(self) -> dict[str, tuple[object, ...]]:
        """All that there is in `work`."""
        return tree(self.work)


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that there is in a folder."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path)] = (stat.filemode(status.st_mode), status.st_uid, status.st_gid, content)
    return found
