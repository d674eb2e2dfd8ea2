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
from ask.undo.contents import LARGEST, digest_of, pieces_of
from ask.undo.journal import FOLDER, JOURNAL, WHOLE, About, lock


class RecordWriter:
    """Writes one record. Makes nothing before there is something to keep.

    Args:
        data: the data folder.
        about: whose it is.

    Attributes:
        lines: how many lines were added to its journal.
    """

    def __init__(self, data: Path, about: About) -> None:
        self._data = data
        self._about = about
        self._folder = Path()
        self._journal: int | None = None
        self._copies = 0
        self.lines = 0

    def begin(self) -> Path:
        """The folder of the record, which is begun where it is not yet. It is locked before there is anything in it.

        Raises:
            OSError: it cannot be made.
        """
        self._open()
        return self._folder

    def add(self, line: dict[str, Any]) -> None:
        """Add a line to the journal, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        append(self._open(), line)
        self.lines += 1

    def copy(self, original: BinaryIO) -> tuple[int, str, Ownership]:
        """Copy a file into the record: the number of the copy, the digest of its content, and whose it is.

        Raises:
            OSError: it cannot be copied, or is too large.
        """
        status = os.fstat(original.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        copy = self.begin() / str(self._copies + 1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(copy, flags, 0o600), "wb") as file:
                digest = digest_of(_written(file, original))
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        self._copies += 1
        return self._copies, digest, Ownership.from_status(status)

    def link(self, original: BinaryIO, name: str, folder: int) -> tuple[int, str] | None:
        """Keep a file that is about to be removed by a further name for it in the record, which costs no copying.

        Args:
            original: the file.
            name: its only name.
            folder: a descriptor of the folder that it is in.

        Returns the number of the copy and the digest of its content; None if it must be copied instead.
        """
        status = os.fstat(original.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > LARGEST:
            return None
        copy = self.begin() / str(self._copies + 1)
        try:
            os.link(name, copy, src_dir_fd=folder, follow_symlinks=False)
        except OSError:  # on another disk, or on one without hard links
            return None
        if copy.lstat().st_ino != status.st_ino:  # swapped meanwhile
            copy.unlink()
            return None
        self._copies += 1
        return self._copies, digest_of(pieces_of(original))

    def end(self) -> None:
        """All that was noted is done. A run need not say so, since what its files hold tells.

        Raises:
            OSError: that cannot be noted.
        """
        self.add({"kind": WHOLE})
        self.close()

    def close(self) -> None:
        """Let the record go: from now on it may be put back, or removed."""
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None

    def discard(self) -> None:
        """Remove the record, if there is one: there is nothing in it that is worth keeping."""
        if self._journal is not None:
            from ask.undo.pruning import remove_record

            self.close()
            remove_record(self._folder)

    def _open(self) -> int:
        if self._journal is not None:
            return self._journal
        root = self._data / FOLDER
        create_private_folder(root)
        self._folder = root / f"{time.time_ns():020d}-{os.urandom(4).hex()}"
        self._folder.mkdir(mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._journal = os.open(self._folder / JOURNAL, flags, 0o600)
            lock(self._journal)
            append(self._journal, self._about._asdict())
        except BaseException:
            self.close()
            with suppress(OSError):
                (self._folder / JOURNAL).unlink(missing_ok=True)
                self._folder.rmdir()
            raise
        from ask.undo.pruning import prune

        prune(self._data)
        return self._journal


def append(journal: int, line: dict[str, Any]) -> None:
    """Append a line to a journal, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    data = json.dumps(line).encode() + b"\n"
    before = os.fstat(journal).st_size
    written = 0
    try:
        written = os.write(journal, data)
    finally:
        if written < len(data):
            os.ftruncate(journal, before)
    if written < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _written(copy: BinaryIO, original: BinaryIO) -> Iterator[bytes]:
    """The pieces of a file, each written to its copy."""
    if os.fstat(original.fileno()).st_size > LARGEST:
        raise OSError(errno.EFBIG, f"it is over {LARGEST:,} bytes")
    size = 0
    for piece in pieces_of(original):
        size += len(piece)
        if size > LARGEST:  # it is growing
            raise OSError(errno.EFBIG, f"it is over {LARGEST:,} bytes")
        copy.write(piece)
        yield piece
