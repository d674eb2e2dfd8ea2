"""Write a backup set: create its folder, append lines to the journal, and add copies of files."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ask.atomic_files import Ownership, create_private_folder
from ask.undo.contents import MAX_BACKUP_SIZE, compute_digest, read_chunks
from ask.undo.journal import BACKUPS_FOLDER, JOURNAL_NAME, RESTORE_DONE, JournalHeader, try_lock


class Journal:
    """Writes one backup set. Its folder is created, and locked, when there is something to back up."""

    def __init__(self, data_dir: Path, header: JournalHeader) -> None:
        self._data_dir = data_dir
        self._header = header
        self._folder = Path()
        self._descriptor: int | None = None
        self._copy_count = 0
        self.line_count = 0
        """The number of lines after the header."""

    def ensure_folder(self) -> Path:
        """Return the folder of the backup set, creating it if necessary."""
        self._ensure_open()
        return self._folder

    def add_line(self, line: dict[str, Any]) -> None:
        """Append a line to the journal; on an OSError the journal is unchanged."""
        append_line(self._ensure_open(), line)
        self.line_count += 1

    def copy_file(self, source: BinaryIO) -> tuple[int, str, Ownership]:
        """Copy a file into the backup set; return the copy number, digest, and ownership.

        Raises:
            OSError: The file cannot be copied, is not a regular file, or is larger than `MAX_BACKUP_SIZE`.
        """
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        copy = self.ensure_folder() / str(self._copy_count + 1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(copy, flags, 0o600), "wb") as file:
                digest = compute_digest(_copy_chunks(file, source))
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        self._copy_count += 1
        return self._copy_count, digest, Ownership.from_status(status)

    def link_file(self, source: BinaryIO, name: str, parent_fd: int) -> tuple[int, str] | None:
        """Hard-link a file that is about to be removed, which is cheaper than copying it.

        `name` in the open folder `parent_fd` must be the only name of `source`. Returns the number of the copy and the
        digest, or None if the file must be copied instead.
        """
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > MAX_BACKUP_SIZE:
            return None
        copy = self.ensure_folder() / str(self._copy_count + 1)
        try:
            os.link(name, copy, src_dir_fd=parent_fd, follow_symlinks=False)
        except OSError:  # another file system, or one without hard links
            return None
        if copy.lstat().st_ino != status.st_ino:  # replaced since it was opened
            copy.unlink()
            return None
        self._copy_count += 1
        return self._copy_count, compute_digest(read_chunks(source))

    def mark_complete(self) -> None:
        """Record that an undo has finished, and close the journal.

        A run does not record this: the content of its files shows which writes took place.
        """
        self.add_line({"kind": RESTORE_DONE})
        self.close()

    def close(self) -> None:
        """Close and unlock the journal; others can now restore or remove the backup set."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def discard(self) -> None:
        """Remove the backup set, if it was created."""
        if self._descriptor is not None:
            from ask.undo.pruning import remove_backup_set

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
        from ask.undo.pruning import prune

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


def _copy_chunks(target: BinaryIO, source: BinaryIO) -> Iterator[bytes]:
    """Yield the chunks of a file after writing them to its copy."""
    if os.fstat(source.fileno()).st_size > MAX_BACKUP_SIZE:
        raise OSError(errno.EFBIG, f"it is over {MAX_BACKUP_SIZE:,} bytes")
    size = 0
    for chunk in read_chunks(source):
        size += len(chunk)
        if size > MAX_BACKUP_SIZE:  # it is growing
            raise OSError(errno.EFBIG, f"it is over {MAX_BACKUP_SIZE:,} bytes")
        target.write(chunk)
        yield chunk
