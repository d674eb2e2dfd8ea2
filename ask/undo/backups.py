"""Back up what a run changes: single files, the folders of a safe run, and what undo itself overwrites."""

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
    """Back up each file before a tool of this run first changes it.

    The backup folder is created on the first backup, so a run that changes no file leaves no trace.
    """

    def __init__(self, data_dir: Path, header: JournalHeader, warn: Callable[[str], None]) -> None:
        self.journal = Journal(data_dir, header)
        self._warn = warn
        self._backed_up: set[Path] = set()
        self._failed: set[Path] = set()

    def before_write(self, path: Path, new_content: bytes) -> None:
        """Back up a file that a tool is about to overwrite with `new_content`.

        If that fails, the write goes ahead, and the user is warned once that undo will not restore this file.
        """
        try:
            self.back_up(path, compute_digest([new_content]))
        except OSError as error:
            if path in self._failed:
                return
            self._failed.add(path)
            reason = error.strerror or type(error).__name__
            self._record_missing_backup(path, compute_digest([new_content]), reason)
            name = escape_for_display(str(path))
            self._warn(f"the original of {name} cannot be kept ({reason}): ask undo will not put it back")

    def back_up(self, path: Path, new_digest: str) -> None:
        """Back up a file, unless this run already has, and record its new digest.

        Raises:
            OSError: The file cannot be backed up; nothing was recorded.
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
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            folders = list_missing_folders(path)
        else:
            folders = []
            with os.fdopen(descriptor, "rb") as original:
                copy, digest, ownership = self.journal.copy_file(original)
                status = os.fstat(original.fileno())
            line |= {"copy": copy, "digest": digest, "owned": ownership}
            if status.st_nlink > 1:
                line["inode"] = status.st_ino
        self.journal.add_line({**line, "lost": "", "folders": list(map(str, folders)), "wrote": new_digest})
        self._backed_up.add(path)

    def _record_missing_backup(self, path: Path, new_digest: str, reason: str) -> None:
        """Record in the journal, if possible, that there is no backup of a file."""
        if path in self._backed_up:
            return
        line = {"kind": "file", "path": str(path), "copy": 0, "digest": ABSENT, "owned": None, "lost": reason}
        with suppress(OSError):
            self.journal.add_line({**line, "folders": [], "wrote": new_digest})
            self._backed_up.add(path)


def list_missing_folders(path: Path) -> list[Path]:
    """List the parent folders that do not exist yet, outermost first."""
    return [folder for folder in reversed(path.parents) if not folder.exists()]


class FolderBackups:
    """Back up the folders that a safe run can change, and record its changes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._snapshot_folder: Path | None = None
        self.uncopied_folders: dict[Path, str] = {}
        """Subfolders that could not be copied although the run can change their content, with the reason."""

    def back_up(self, roots: Sequence[Path], excluded_paths: Collection[str], on_progress: Callable[[], None]) -> None:
        """Copy the folders, see `copy_folders`; on an error the backup set is removed.

        Raises:
            FoldersTooLargeError: They exceed the limits of a copy.
            OSError: They cannot be copied.
        """
        check_folder_sizes(roots, excluded_paths)
        snapshot_folder = self._journal.ensure_folder() / SNAPSHOT_NAME
        try:
            unprotected = copy_folders(snapshot_folder, roots, excluded_paths, on_progress)
            self._journal.add_line({"kind": SNAPSHOT_TAKEN})
        except BaseException:
            self._journal.discard()
            raise
        self._snapshot_folder = snapshot_folder
        self.uncopied_folders = {Path(entry.path): entry.note for entry in unprotected}

    def finish(self) -> None:
        """Record how the run changed the folders; discard the backup if it did not.

        Raises OSError or ValueError if the changes cannot be recorded. Undo then compares with the state at that time.
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
    """Count the files that an undo would replace without a backup, being too large."""
    budget = _BackupBudget()
    return sum(not budget.reserve(size) for size in map(_read_current_size, changes) if size is not None)


def _read_current_size(change: PathChange) -> int | None:
    with suppress(OSError), open_parent(change.path, change.trusted_root) as (parent_fd, name):
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return None


class _BackupBudget:
    """The number of files and bytes that may still be backed up."""

    def __init__(self) -> None:
        self._files_left = MAX_FILES
        self._bytes_left = MAX_TOTAL_BYTES

    def reserve(self, size: int) -> bool:
        """Subtract a file of this size, and return whether it fits."""
        if not self._files_left or size > min(self._bytes_left, MAX_BACKUP_SIZE):
            return False
        self._files_left -= 1
        self._bytes_left -= size
        return True


class RedoBackups:
    """Back up what an undo replaces in the folders of a safe run, for redo."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._budget = _BackupBudget()

    def back_up(self, change: PathChange) -> None:
        """Back up the current state of a path, and record the state that undo restores.

        Raises:
            OSError: It cannot be backed up.
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
            with open_parent(change.path, change.trusted_root) as (parent_fd, name):
                line |= self._back_up_entry(parent_fd, name, will_be_removed=change.original is None)
        except (FileNotFoundError, NotADirectoryError):
            pass
        self._journal.add_line(line)

    def _back_up_entry(self, parent_fd: int, name: str, *, will_be_removed: bool) -> dict[str, Any]:
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        metadata: dict[str, Any] = {"owned": Ownership.from_status(status), "modified": status.st_mtime_ns}
        if not stat.S_ISREG(status.st_mode):
            return {**metadata, "digest": read_entry_state(parent_fd, name, status).content}
        unread = {**metadata, "digest": make_stat_digest(status.st_size, status.st_mtime_ns)}
        if not self._budget.reserve(status.st_size):
            return {**unread, "lost": _TOO_LARGE}
        try:
            descriptor = os.open(name, FILE_FLAGS, dir_fd=parent_fd)
        except PermissionError as error:
            return {**unread, "lost": error.strerror}
        with os.fdopen(descriptor, "rb") as original:
            linked = self._journal.link_file(original, name, parent_fd) if will_be_removed else None
            copy, digest = linked or self._journal.copy_file(original)[:2]
        return {**metadata, "copy": copy, "digest": digest}
