"""Backups of what a run changes: single files, the folders of a safe run, and what undo itself removes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import Ownership
from ask.tools.file_access import escape_for_display
from ask.undo.contents import MAX_BACKUP_SIZE, compute_digest
from ask.undo.folder_copies import MAX_FILES, MAX_TOTAL_BYTES, check_folder_sizes, copy_folders
from ask.undo.folder_diff import write_folder_diff
from ask.undo.journal import ABSENT, DIFF_WRITTEN, SNAPSHOT_NAME, SNAPSHOT_TAKEN, JournalHeader, PathChange
from ask.undo.journal_writer import Journal
from ask.undo.trees import FILE_FLAGS, make_stat_digest, open_parent, read_entry_state


class FileBackups:
    """Keeps the originals of what one run changes. Makes nothing before there is one.

    Args:
        data: the data folder.
        about: whose they are.
        notice: takes a line for the user.

    Attributes:
        journal: where it is kept.
    """

    def __init__(self, data_dir: Path, header: JournalHeader, warn: Callable[[str], None]) -> None:
        self.journal = Journal(data_dir, header)
        self._warn = warn
        self._backed_up: set[Path] = set()
        self._failed: set[Path] = set()

    def before_write(self, path: Path, new_content: bytes) -> None:
        """A tool is about to write `data` to the file at `path`. Where that cannot be kept, the user is told."""
        try:
            self.back_up(path, compute_digest([new_content]))
        except OSError as fault:
            if path in self._failed:
                return
            self._failed.add(path)
            reason = fault.strerror or type(fault).__name__
            self._record_missing_backup(path, compute_digest([new_content]), reason)
            self._warn(
                f"the original of {escape_for_display(str(path))} cannot be kept ({reason}): ask undo will not put it back"
            )

    def back_up(self, path: Path, new_digest: str) -> None:
        """Keep what the file at `path` is, where that is not done yet, and note the digest of what it is going to be.

        Raises:
            OSError: that cannot be done; then nothing is noted.
        """
        self.journal.ensure_folder()
        if path in self._backed_up:
            self.journal.add_line({"kind": "again", "path": str(path), "wrote": new_digest})
            return
        line: dict[str, Any] = {
            "kind": "file",
            "path": str(path),
            "copy": 0,
            "digest": ABSENT,
            "owned": None,
            "lost": "",
        }
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            folders = list_missing_folders(path)
        else:
            folders = []
            with os.fdopen(file, "rb") as original:
                copy, digest, owned = self.journal.copy_file(original)
                status = os.fstat(original.fileno())
            line |= {"copy": copy, "digest": digest, "owned": owned}
            if status.st_nlink > 1:
                line["inode"] = status.st_ino
        self.journal.add_line({**line, "lost": "", "folders": list(map(str, folders)), "wrote": new_digest})
        self._backed_up.add(path)

    def _record_missing_backup(self, path: Path, new_digest: str, reason: str) -> None:
        """Note that there is no original, as far as anything can be noted."""
        if path in self._backed_up:
            return
        line = {"kind": "file", "path": str(path), "copy": 0, "digest": ABSENT, "owned": None, "lost": reason}
        with suppress(OSError):
            self.journal.add_line({**line, "folders": [], "wrote": new_digest})
            self._backed_up.add(path)


def list_missing_folders(path: Path) -> list[Path]:
    """The folders that must be made for a file, the outermost first."""
    return [folder for folder in reversed(path.parents) if not folder.exists()]


class FolderBackups:
    """Keeps folders in a record.

    Args:
        record: of the run.

    Attributes:
        uncopied_folders: folders in them that could not be copied, though calls may change what is in them, and why.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._snapshot_folder: Path | None = None
        self.uncopied_folders: dict[Path, str] = {}

    def back_up(self, roots: Sequence[Path], excluded_paths: Collection[str], on_progress: Callable[[], None]) -> None:
        """Copy folders, as with `copy_folders`; where that fails, nothing is left of it.

        Raises:
            TooMuch: they are too large.
            OSError: it cannot be done.
        """
        check_folder_sizes(roots, excluded_paths)
        copied = self._journal.ensure_folder() / SNAPSHOT_NAME
        try:
            exposed = copy_folders(copied, roots, excluded_paths, on_progress)
            self._journal.add_line({"kind": SNAPSHOT_TAKEN})
        except BaseException:
            self._journal.discard()
            raise
        self._snapshot_folder = copied
        self.uncopied_folders = {Path(entry.path): entry.note for entry in exposed}

    def finish(self) -> None:
        """Note what the run left; where that is what there was, nothing needs to be kept.

        Raises:
            OSError, ValueError: it cannot be noted: then nobody knows what the run left.
        """
        if self._snapshot_folder is None:
            return
        differs = write_folder_diff(self._snapshot_folder)
        if not differs and self._journal.line_count == 1:
            self._journal.discard()
        else:
            self._journal.add_line({"kind": DIFF_WRITTEN})


_TOO_LARGE = "it was too large"


def count_too_large(changes: Iterable[PathChange]) -> int:
    """How many of the files that are in the place of these are too large to be kept."""
    budget = _BackupBudget()
    return sum(not budget.reserve(size) for size in map(_read_current_size, changes) if size is not None)


def _read_current_size(change: PathChange) -> int | None:
    with suppress(OSError), open_parent(change.path, change.trusted_root) as (place, name):
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return None


class _BackupBudget:
    """How much more is kept."""

    def __init__(self) -> None:
        self._files_left = MAX_FILES
        self._bytes_left = MAX_TOTAL_BYTES

    def reserve(self, size: int) -> bool:
        """Whether a file of so many bytes is kept; then it counts."""
        if not self._files_left or size > min(self._bytes_left, MAX_BACKUP_SIZE):
            return False
        self._files_left -= 1
        self._bytes_left -= size
        return True


class RedoBackups:
    """Keeps in a record what there is until now.

    Args:
        record: of the undo.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._budget = _BackupBudget()

    def back_up(self, change: PathChange) -> None:
        """Keep what there is at the path of a change, and note that it is going to be what it was before that.

        Raises:
            OSError: that cannot be done.
        """
        line: dict[str, Any] = {
            "kind": "thing",
            "path": str(change.path),
            "root": str(change.trusted_root),
            "copy": 0,
            "digest": ABSENT,
            "owned": None,
            "modified": None,
            "lost": "",
            "wrote": change.original_state,
        }
        try:
            with open_parent(change.path, change.trusted_root) as (place, name):
                line |= self._back_up_entry(place, name, will_be_removed=change.original is None)
        except (FileNotFoundError, NotADirectoryError):
            pass
        self._journal.add_line(line)

    def _back_up_entry(self, parent_fd: int, name: str, *, will_be_removed: bool) -> dict[str, Any]:
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        kept: dict[str, Any] = {"owned": Ownership.from_status(status), "modified": status.st_mtime_ns}
        if not stat.S_ISREG(status.st_mode):
            return {**kept, "digest": read_entry_state(parent_fd, name, status).content}
        without = {**kept, "digest": make_stat_digest(status.st_size, status.st_mtime_ns)}
        if not self._budget.reserve(status.st_size):
            return {**without, "lost": _TOO_LARGE}
        try:
            file = os.open(name, FILE_FLAGS, dir_fd=parent_fd)
        except PermissionError as fault:
            return {**without, "lost": fault.strerror}
        with os.fdopen(file, "rb") as original:
            linked = self._journal.link_file(original, name, parent_fd) if will_be_removed else None
            copy, digest = linked or self._journal.copy_file(original)[:2]
        return {**kept, "copy": copy, "digest": digest}
