"""Back up what a run is about to change, and what an undo is about to replace."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from ask.atomic_files import Ownership, create_private_folder
from ask.tools.file_access import escape_for_display
from ask.undo.journal import (
    ABSENT,
    BACKUPS_FOLDER,
    JOURNAL_NAME,
    MAX_BACKUP_SIZE,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    JournalHeader,
    PathChange,
    PathState,
    try_lock,
)
from ask.undo.pruning import prune, remove_backup_set
from ask.undo.trees import (
    FILE_FLAGS,
    compute_digest,
    copy_content,
    create_private_file,
    make_stat_digest,
    open_parent,
    read_entry_state,
)

_TOO_LARGE = f"it is larger than {MAX_BACKUP_SIZE:,} bytes"
_TOO_MUCH = f"all backups together exceed {MAX_TOTAL_BYTES:,} bytes or {MAX_FILES:,} files"


class Journal:
    """Writes one backup set. Its folder is created, and locked, when there is something to back up."""

    def __init__(self, data_dir: Path, header: JournalHeader) -> None:
        self._data_dir = data_dir
        self._header = header
        self._folder = Path()
        self._descriptor: int | None = None
        self.line_count = 0
        """The number of lines after the header."""

    def ensure_folder(self) -> Path:
        """Return the folder of the backup set, creating it if necessary."""
        self._ensure_open()
        return self._folder

    def add_line(self, **fields: Any) -> None:
        """Append a line to the journal; on an OSError the journal is unchanged."""
        append_line(self._ensure_open(), fields)
        self.line_count += 1

    def close(self) -> None:
        """Close and unlock the journal; others can now restore or remove the backup set."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def discard(self) -> None:
        """Remove the backup set, if it was created."""
        if self._descriptor is not None:
            self.close()
            remove_backup_set(self._folder)

    def _ensure_open(self) -> int:
        if self._descriptor is not None:
            return self._descriptor
        backups_folder = self._data_dir / BACKUPS_FOLDER
        create_private_folder(backups_folder)
        self._folder = backups_folder / f"{time.time_ns():020d}-{os.urandom(4).hex()}"
        self._folder.mkdir(mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._folder / JOURNAL_NAME, flags, 0o600)
            try_lock(self._descriptor)
            append_line(self._descriptor, self._header._asdict())
        except BaseException:
            self.close()
            with suppress(OSError):
                (self._folder / JOURNAL_NAME).unlink(missing_ok=True)
                self._folder.rmdir()
            raise
        prune(self._data_dir)
        return self._descriptor


def append_line(descriptor: int, line: dict[str, Any]) -> None:
    """Append a line to a journal; on an OSError the journal is unchanged."""
    data = json.dumps(line).encode() + b"\n"
    original_size = os.fstat(descriptor).st_size
    written = 0
    try:
        written = os.write(descriptor, data)
    finally:
        if written < len(data):
            os.ftruncate(descriptor, original_size)
    if written < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class BackupBudget:
    """The number of files and bytes that may still be backed up."""

    def __init__(self) -> None:
        self._files_left = MAX_FILES
        self._bytes_left = MAX_TOTAL_BYTES

    def reserve(self, size: int) -> str:
        """Subtract a file of this size; return why it cannot be backed up, or ""."""
        if size > MAX_BACKUP_SIZE:
            return _TOO_LARGE
        if not self._files_left or size > self._bytes_left:
            return _TOO_MUCH
        self._files_left -= 1
        self._bytes_left -= size
        return ""


class FileBackups:
    """Back up each path before a tool of this run, or an undo, first changes it.

    The backup folder is created on the first backup, so a run that changes no file leaves no trace.
    """

    def __init__(self, data_dir: Path, header: JournalHeader, warn: Callable[[str], None]) -> None:
        self.journal = Journal(data_dir, header)
        self._warn = warn
        self._budget = BackupBudget()
        self._copy_count = 0
        self._backed_up: set[Path] = set()
        self._failed: set[Path] = set()

    def before_write(self, path: Path, new_content: bytes, folder_fd: int | None) -> None:
        """Back up a file that a tool is about to overwrite with `new_content`.

        If that fails, the write goes ahead, and the user is warned once that undo will not restore this file.

        Args:
            path: The path of the file.
            new_content: What the tool will write.
            folder_fd: The descriptor of its folder, through which the tool writes; None if the folder does not exist.
        """
        new_state = PathState(sha256(new_content).hexdigest())
        try:
            reason = self._back_up(path, new_state, folder_fd)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            with suppress(OSError):
                self._add_line(path, new_state, lost=reason)
        if reason and path not in self._failed:
            self._failed.add(path)
            name = escape_for_display(str(path))
            self._warn(f"cannot back up {name} ({reason}): ask undo will not restore it")

    def back_up(self, path: Path, new_state: PathState, root: Path | None) -> None:
        """Back up what is at a path that an undo is about to change.

        `root` is the folder of a safe run that contains the path.

        Raises:
            OSError: The backup set cannot be written; nothing was recorded.
        """
        with ExitStack() as stack:
            folder_fd = None
            with suppress(FileNotFoundError, NotADirectoryError):
                folder_fd, _ = stack.enter_context(open_parent(path, root or path.parent))
            self._back_up(path, new_state, folder_fd, root)

    def _back_up(self, path: Path, new_state: PathState, folder_fd: int | None, root: Path | None = None) -> str:
        """Back up a path, unless this was done before, and record its new state.

        Returns why the content could not be copied, or "".
        """
        self.journal.ensure_folder()
        if path in self._backed_up:
            self.journal.add_line(kind="again", path=str(path), wrote=new_state)
            return ""
        fields: dict[str, Any] = {}
        if folder_fd is not None:
            with suppress(FileNotFoundError):
                fields = self._copy_entry(folder_fd, path.name)
        if not fields:
            missing_folders = [] if root else [folder for folder in reversed(path.parents) if not folder.exists()]
            fields = {"folders": list(map(str, missing_folders))}
        self._add_line(path, new_state, root, **fields)
        return str(fields.get("lost", ""))

    def _add_line(self, path: Path, new_state: PathState, root: Path | None = None, **fields: Any) -> None:
        defaults = {"copy": 0, "digest": ABSENT, "owned": None, "modified": None, "inode": 0, "lost": "", "folders": []}
        line = {**defaults, **fields, "path": str(path), "root": str(root) if root else None, "wrote": new_state}
        if root is None:
            line["modified"] = None  # make and other programs have to see that the file changes once more
        self.journal.add_line(kind="file", **line)
        self._backed_up.add(path)

    def _copy_entry(self, parent_fd: int, name: str) -> dict[str, Any]:
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        fields: dict[str, Any] = {"owned": Ownership.from_status(status), "modified": status.st_mtime_ns}
        if not stat.S_ISREG(status.st_mode):
            return {**fields, "digest": read_entry_state(parent_fd, name, status).content}
        lost = {**fields, "digest": make_stat_digest(status.st_size, status.st_mtime_ns)}
        if reason := self._budget.reserve(status.st_size):
            return {**lost, "lost": reason}
        try:
            descriptor = os.open(name, FILE_FLAGS, dir_fd=parent_fd)
        except PermissionError as error:
            return {**lost, "lost": error.strerror}
        with os.fdopen(descriptor, "rb") as original:
            digest = self._copy_file(original, status.st_size)
        inode = status.st_ino if status.st_nlink > 1 else 0
        return {**fields, "copy": self._copy_count, "digest": digest, "inode": inode}

    def _copy_file(self, source: BinaryIO, size: int) -> str:
        """Copy a file into the backup set, and return the digest of the copy."""
        path = self.journal.ensure_folder() / str(self._copy_count + 1)
        try:
            with create_private_file(path, "xb+") as copy:
                copy_content(source, copy, size)
                copy.seek(0)
                digest = compute_digest(copy)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._copy_count += 1
        return digest


def count_too_large(changes: Iterable[PathChange]) -> int:
    """Count the files that an undo would replace without a backup, being too large."""
    budget = BackupBudget()
    count = 0
    for change in changes:
        with suppress(OSError), open_parent(change.path, change.trusted_root) as (parent_fd, name):
            status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
            count += stat.S_ISREG(status.st_mode) and bool(budget.reserve(status.st_size))
    return count
