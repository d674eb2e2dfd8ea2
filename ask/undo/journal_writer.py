"""Writes a record: begins it where there is something to keep, adds lines and copies, and lets it go."""

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
    """Writes one record. Makes nothing before there is something to keep.

    Args:
        data: the data folder.
        about: whose it is.

    Attributes:
        line_count: how many lines were added to its journal.
    """

    def __init__(self, data_dir: Path, header: JournalHeader) -> None:
        self._data_dir = data_dir
        self._header = header
        self._folder = Path()
        self._descriptor: int | None = None
        self._copy_count = 0
        self.line_count = 0

    def ensure_folder(self) -> Path:
        """The folder of the record, which is begun where it is not yet. It is locked before there is anything in it.

        Raises:
            OSError: it cannot be made.
        """
        self._ensure_open()
        return self._folder

    def add_line(self, line: dict[str, Any]) -> None:
        """Add a line to the journal, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        append_line(self._ensure_open(), line)
        self.line_count += 1

    def copy_file(self, source: BinaryIO) -> tuple[int, str, Ownership]:
        """Copy a file into the record: the number of the copy, the digest of its content, and whose it is.

        Raises:
            OSError: it cannot be copied, or is too large.
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
        """Keep a file that is about to be removed by a further name for it in the record, which costs no copying.

        Args:
            source: the file.
            name: its only name.
            parent_fd: a descriptor of the folder that it is in.

        Returns the number of the copy and the digest of its content; None if it must be copied instead.
        """
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > MAX_BACKUP_SIZE:
            return None
        copy = self.ensure_folder() / str(self._copy_count + 1)
        try:
            os.link(name, copy, src_dir_fd=parent_fd, follow_symlinks=False)
        except OSError:  # on another disk, or on one without hard links
            return None
        if copy.lstat().st_ino != status.st_ino:  # swapped meanwhile
            copy.unlink()
            return None
        self._copy_count += 1
        return self._copy_count, compute_digest(read_chunks(source))

    def mark_complete(self) -> None:
        """All that was noted is done. A run need not say so, since what its files hold tells.

        Raises:
            OSError: that cannot be noted.
        """
        self.add_line({"kind": RESTORE_DONE})
        self.close()

    def close(self) -> None:
        """Let the record go: from now on it may be put back, or removed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def discard(self) -> None:
        """Remove the record, if there is one: there is nothing in it that is worth keeping."""
        if self._descriptor is not None:
            from ask.undo.pruning import remove_backup_set

            self.close()
            remove_backup_set(self._folder)

    def _ensure_open(self) -> int:
        if self._descriptor is not None:
            return self._descriptor
        root = self._data_dir / BACKUPS_FOLDER
        create_private_folder(root)
        self._folder = root / f"{time.time_ns():020d}-{os.urandom(4).hex()}"
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
    """Append a line to a journal, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    data = json.dumps(line).encode() + b"\n"
    before = os.fstat(descriptor).st_size
    written = 0
    try:
        written = os.write(descriptor, data)
    finally:
        if written < len(data):
            os.ftruncate(descriptor, before)
    if written < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _copy_chunks(target: BinaryIO, source: BinaryIO) -> Iterator[bytes]:
    """The pieces of a file, each written to its copy."""
    if os.fstat(source.fileno()).st_size > MAX_BACKUP_SIZE:
        raise OSError(errno.EFBIG, f"it is over {MAX_BACKUP_SIZE:,} bytes")
    size = 0
    for piece in read_chunks(source):
        size += len(piece)
        if size > MAX_BACKUP_SIZE:  # it is growing
            raise OSError(errno.EFBIG, f"it is over {MAX_BACKUP_SIZE:,} bytes")
        target.write(piece)
        yield piece
