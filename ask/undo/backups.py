"""Back up what a run is about to change, and what an undo is about to replace."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from ask.atomic_files import FILE_FLAGS, create_private_folder, open_private_file, try_lock
from ask.config.directories import get_working_directory
from ask.text import format_size, join_names
from ask.tools.file_access import escape_for_display
from ask.undo.backup_scope import MAX_BACKUP_BYTES, MAX_FILES, MAX_TOTAL_BYTES
from ask.undo.journal import (
    BACKUPS_FOLDER,
    FOLDERS_COMPARED,
    FOLDERS_COPIED,
    JOURNAL_NAME,
    MANIFEST_NAME,
    UNFINISHED_MANIFEST_NAME,
    JournalHeader,
    PathChange,
    find_folder_changes,
)
from ask.undo.retention import prune, remove_backup_set
from ask.undo.trees import (
    OpenEntry,
    PathState,
    SavedEntry,
    copy_content,
    create_private_file,
    open_entry,
    read_entry_state,
    stat_entry,
    walk_folders,
)

MAX_NAMES = 5
"""Maximum number of names in a message."""


class FoldersTooLargeError(Exception):
    """The folders are too large for a copy; the message names the limit that they exceed."""


class BackupWriter:
    """Writes one backup set: backs up each path before a tool of this run, or an undo, first changes it.

    Its folder is created, and its journal locked, on the first backup, so a run that changes no file leaves no trace.
    """

    def __init__(self, data_dir: Path, header: JournalHeader, warn: Callable[[str], None]) -> None:
        self._data_dir = data_dir
        self._header = header
        self._warn = warn
        self._folder = Path()
        self._journal_fd = -1
        self._copied_folders: tuple[Path, ...] = ()
        self._file_count = self._total_size = 0
        """The number and size of the single files that were copied."""
        self._copy_names: dict[tuple[int, ...], str] = {}
        """The copies by device, inode and status: a file with several hard links is copied once."""
        self._failed: set[Path] = set()
        self._recorded_paths: set[Path] = set()
        """The paths with a change in the journal."""

    def before_write(self, path: Path, new_content: bytes, folder_fd: int | None) -> None:
        """Back up a file that a tool is about to overwrite with `new_content`.

        If that fails, the write goes ahead, and the user is warned once that undo will not restore this file.

        Args:
            path: the path of the file.
            new_content: what the tool will write.
            folder_fd: the descriptor of its folder, through which the tool writes; None if the folder does not exist.
        """
        if any(map(path.is_relative_to, self._copied_folders)):
            return
        new_state = PathState(sha256(new_content).hexdigest())
        try:
            entry = None
            if folder_fd is not None:
                with suppress(FileNotFoundError):
                    entry = stat_entry(str(path), folder_fd)
            reason = self._back_up(path, new_state, entry)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            with suppress(OSError):
                self._record(PathChange(path, self._folder, None, frozenset([new_state]), backup_error=reason))
        if reason and path not in self._failed:
            self._failed.add(path)
            name = escape_for_display(path)
            self._warn(f"cannot back up {name} ({reason}): ask undo will not restore it")

    def back_up(self, path: Path, new_state: PathState, root: Path | None) -> None:
        """Back up what is at a path that an undo is about to change.

        `root` is the folder of a safe run that contains the path.

        Raises:
            OSError: the backup set cannot be written; nothing was recorded.
        """
        with open_entry(path) as entry:
            self._back_up(path, new_state, entry, root)

    def _back_up(self, path: Path, new_state: PathState, entry: OpenEntry | None, root: Path | None = None) -> str:
        """Back up a path, unless this was done before, and record its new state.

        Returns why the content could not be copied, or "".
        """
        change = PathChange(path, self._ensure_folder(), None, frozenset([new_state]), root)
        if path not in self._recorded_paths:
            if entry is not None:
                reason = _find_size_error(entry, self._file_count, self._total_size)
                if reason:
                    saved = SavedEntry.from_status(entry.path, entry.status, error=reason)
                else:
                    saved = self._copy_entry(entry).hash_copy(self._folder)
                    self._file_count += entry.is_regular_file
                    self._total_size += entry.status.st_size if entry.is_regular_file else 0
                change = change._replace(original=saved, backup_error=saved.error)
            elif root is None:
                missing_folders = (parent for parent in reversed(path.parents) if not parent.exists())
                change = change._replace(created_folders=tuple(missing_folders))
        self._record(change)
        return change.backup_error

    def back_up_folders(
        self, roots: Sequence[Path], excluded_paths: Collection[str], on_progress: Callable[[], None]
    ) -> dict[Path, str]:
        """Copy folders, none of which contains another, before a safe run; on an error the backup set is removed.

        Excluded paths are left out because no tool call can change them. No tool call may be running; changes by the
        user while copying do no harm. `on_progress` is called before each file. Returns the subfolders that could not
        be copied although a tool call may change their content, with the reason.

        Raises:
            FoldersTooLargeError: they exceed the limits of a copy.
            OSError: they cannot be copied.
        """
        check_folder_sizes(roots, excluded_paths)
        uncopied_folders: dict[str, str] = {}
        try:
            unfinished = self._ensure_folder() / UNFINISHED_MANIFEST_NAME
            with create_private_file(unfinished, "x") as manifest:
                manifest.write(json.dumps([list(map(str, roots)), sorted(excluded_paths), time.time_ns()]) + "\n")
                for entry in walk_folders(roots, excluded_paths):
                    on_progress()
                    with suppress(FileNotFoundError):
                        manifest.write(json.dumps(self._copy_entry(entry)) + "\n")
                    if entry.is_changeable_folder:
                        uncopied_folders[entry.path] = entry.skip_reason
            unfinished.rename(unfinished.with_name(MANIFEST_NAME))
            self.add_lines({"kind": FOLDERS_COPIED, "uncopied": uncopied_folders})
        except BaseException:
            self.discard()
            raise
        self._copied_folders = tuple(roots)
        return {Path(path): reason for path, reason in uncopied_folders.items()}

    def record_folder_changes(self) -> None:
        """Record how the run changed its copied folders; discard the backup set if it did not change anything.

        If that fails, undo compares with the state at that time.

        Raises:
            OSError, ValueError: the changes cannot be recorded.
        """
        if not self._copied_folders:
            return
        changes = find_folder_changes(self._folder)
        if changes or self._recorded_paths:
            self.add_lines(*(change.to_line() for change in changes), {"kind": FOLDERS_COMPARED})
        else:
            self.discard()

    def _record(self, change: PathChange) -> None:
        self.add_lines(change.to_line())
        self._recorded_paths.add(change.path)

    def _copy_entry(self, entry: OpenEntry) -> SavedEntry:
        """Describe what is at a path, and copy it if it is a file.

        Raises:
            OSError: it does not exist any more, or cannot be copied.
        """
        if not entry.is_regular_file:
            content = read_entry_state(entry).content
            return SavedEntry.from_status(entry.path, entry.status, content, error=entry.skip_reason)
        try:
            descriptor = os.open(entry.name, FILE_FLAGS, dir_fd=entry.parent_fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            return SavedEntry.from_status(entry.path, entry.status, error=os.strerror(error.errno or 0))
        with os.fdopen(descriptor, "rb") as original:
            status = os.fstat(descriptor)
            identity = status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size
            if identity not in self._copy_names:
                self._copy_names[identity] = self._copy_file(original, status.st_size)
        return SavedEntry.from_status(entry.path, status, copy=self._copy_names[identity])

    def _copy_file(self, original: BinaryIO, size: int) -> str:
        """Copy a file into the backup set, and return the name of the copy."""
        path = self._ensure_folder() / str(len(self._copy_names) + 1)
        try:
            with create_private_file(path, "xb") as copy:
                copy_content(original, copy, size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path.name

    def _ensure_folder(self) -> Path:
        """Return the folder of the backup set, creating it if necessary."""
        if self._journal_fd < 0:
            backups_folder = self._data_dir / BACKUPS_FOLDER
            create_private_folder(backups_folder)
            self._folder = backups_folder / f"{time.time_ns():020d}-{os.urandom(4).hex()}"
            create_private_folder(self._folder)
            try:
                self._journal_fd = open_private_file(self._folder / JOURNAL_NAME, os.O_WRONLY | os.O_APPEND | os.O_EXCL)
                try_lock(self._journal_fd)
                self.add_lines(self._header._asdict())
            except BaseException:
                self.close()
                with suppress(OSError):
                    (self._folder / JOURNAL_NAME).unlink(missing_ok=True)
                    self._folder.rmdir()
                raise
            prune(self._data_dir)
        return self._folder

    def add_lines(self, *lines: Mapping[str, Any]) -> None:
        """Append lines to the journal; on an OSError the journal is unchanged."""
        self._ensure_folder()
        data = b"".join(json.dumps(line, default=str).encode() + b"\n" for line in lines)
        original_size = os.fstat(self._journal_fd).st_size
        written = 0
        try:
            written = os.write(self._journal_fd, data)
        finally:
            if written < len(data):
                os.ftruncate(self._journal_fd, original_size)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close and unlock the journal; others can now restore or remove the backup set."""
        if self._journal_fd >= 0:
            os.close(self._journal_fd)
            self._journal_fd = -1

    def discard(self) -> None:
        """Remove the backup set, if it was created."""
        if self._journal_fd >= 0:
            self.close()
            self._copy_names.clear()
            self._recorded_paths.clear()
            remove_backup_set(self._folder)


def _find_size_error(entry: OpenEntry, file_count: int, total_size: int) -> str:
    """Return why a file is too large to be backed up in addition to others; "" for anything else."""
    size = entry.status.st_size
    if not entry.is_regular_file:
        return ""
    if size > MAX_BACKUP_BYTES:
        return f"it is larger than {format_size(MAX_BACKUP_BYTES)}"
    if file_count == MAX_FILES or total_size + size > MAX_TOTAL_BYTES:
        return f"all backups together exceed {format_size(MAX_TOTAL_BYTES)} or {MAX_FILES:,} files"
    return ""


def count_too_large(changes: Iterable[PathChange]) -> int:
    """Count the files that an undo would replace without a backup, being too large."""
    too_large = file_count = total_size = 0
    for change in changes:
        with suppress(OSError), open_entry(change.path) as entry:
            if entry and _find_size_error(entry, file_count, total_size):
                too_large += 1
            elif entry and entry.is_regular_file:
                file_count += 1
                total_size += entry.status.st_size
    return too_large


def check_folder_sizes(roots: Iterable[Path], excluded_paths: Collection[str]) -> None:
    """Check that folders are not too large to copy, without reading any file.

    Raises:
        FoldersTooLargeError: a limit is exceeded.
    """
    counts = {"files": 0, "folders": 0}
    size = 0
    for entry in walk_folders(roots, excluded_paths):
        unit = "folders" if entry.is_folder else "files"
        counts[unit] += 1
        size += entry.status.st_size if unit == "files" else 0
        if counts[unit] > MAX_FILES:
            raise FoldersTooLargeError(f"more than {MAX_FILES:,} {unit}")
        if size > MAX_TOTAL_BYTES:
            raise FoldersTooLargeError(f"more than {format_size(MAX_TOTAL_BYTES)}")


def format_folders(folders: Mapping[Path, str]) -> str:
    """Format folders, each with a comment, on one line."""
    return join_names([f"{format_path(path)}/ ({reason})" for path, reason in folders.items()], MAX_NAMES)


def format_path(path: Path) -> str:
    """Format a path on one line, relative to the working directory if it is inside."""
    folder = str(get_working_directory()).rstrip("/") + "/"
    return escape_for_display(str(path).removeprefix(folder))
