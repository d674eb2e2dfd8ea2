"""Copies whole folders, before a safe run changes anything in them.

A copy is a folder in the run's record: a file for each content, and `start`, which lists what there was; only the
journal says that it is whole. What became of the folders is for `aftermath` to tell.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from ask.undo.contents import copy_content
from ask.undo.trees import FILE_FLAGS, MOUNTED, MOUNTED_READ_ONLY, TOO_DEEP, WalkEntry, walk_tree

MAX_FILES = 20_000
"""How many files are copied at most, and how many folders."""
MAX_TOTAL_BYTES = 256_000_000
"""How many bytes all of them may have together."""
MANIFEST_NAME = "start"


class FoldersTooLargeError(Exception):
    """The folders are too large for a copy; the text says in what."""


class ManifestEntry(NamedTuple):
    """What there was at a path.

    Attributes:
        path: the whole path.
        type_and_mode: as in a status, and so are the next seven.
        note: a link's target; why there is no copy of a file; why a folder could not be looked into.
        copy_number: the number of the copy; 0 for none.
    """

    path: str
    type_and_mode: int
    uid: int
    gid: int
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    link_count: int
    note: str
    copy_number: int

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return stat.S_ISREG(self.type_and_mode)

    @property
    def is_unreadable_folder(self) -> bool:
        """Whether it is a folder that could not be looked into."""
        return stat.S_ISDIR(self.type_and_mode) and bool(self.note)

    @property
    def is_unprotected(self) -> bool:
        """Whether a call may change what is in it, of which there is no copy."""
        own = self.uid == os.geteuid() and self.note != MOUNTED_READ_ONLY
        return self.is_unreadable_folder and (own or self.note in {MOUNTED, TOO_DEEP})


class ManifestHeader(NamedTuple):
    """What is copied.

    Attributes:
        roots: the folders, none of them in another.
        excluded_paths: paths that no call can change, and that are left out.
        started_ns: when the copying began, in ns since 1970.
    """

    roots: Sequence[str]
    excluded_paths: Collection[str]
    started_ns: int


def copy_folders(
    target: Path, roots: Sequence[Path], excluded_paths: Collection[str], on_progress: Callable[[], None]
) -> list[ManifestEntry]:
    """Copy folders. No call may be under way in them; what the user does there meanwhile does no harm.

    Returns the folders in them of which no copy could be made though a call may change what is in them.

    Args:
        target: where to; it is made.
        roots: the folders, none of them in another.
        excluded_paths: paths that are left out.
        on_progress: is called before each file.

    Raises:
        TooMuch: they are too large.
        OSError: it cannot be done.
    """
    target.mkdir(mode=0o700)
    about = ManifestHeader(list(map(str, roots)), sorted(excluded_paths), time.time_ns())
    copier = _FolderCopier(target)
    exposed: list[ManifestEntry] = []
    with create_private_text_file(target / MANIFEST_NAME) as listing:
        listing.write(json.dumps(about) + "\n")
        for root in roots:
            for seen in walk_tree(root, excluded_paths):
                on_progress()
                with suppress(FileNotFoundError):
                    entry = copier.copy_entry(seen)
                    listing.write(json.dumps(entry) + "\n")
                    exposed += [entry] if entry.is_unprotected else []
    return exposed


def check_folder_sizes(roots: Iterable[Path], excluded_paths: Collection[str]) -> None:
    """See that folders are not too large, without reading a file.

    Raises:
        TooMuch: they are; it is said as soon as that is known.
        OSError: they cannot be gone through.
    """
    files = folders = size = 0
    for root in roots:
        for seen in walk_tree(root, excluded_paths):
            if stat.S_ISDIR(seen.status.st_mode):
                folders += 1
            else:
                files += 1
                size += seen.status.st_size
            _check_limits(files, folders, size)


def _check_limits(file_count: int, folder_count: int, total_size: int) -> None:
    for count, what in ((file_count, "files"), (folder_count, "folders")):
        if count > MAX_FILES:
            raise FoldersTooLargeError(f"over {MAX_FILES:,} {what}")
    if total_size > MAX_TOTAL_BYTES:
        raise FoldersTooLargeError(f"over {MAX_TOTAL_BYTES // 1_000_000} MB")


class _FolderCopier:
    """Copies what is seen, the content of a file with several names once."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._copy_count = 0
        self._copies_by_inode: dict[tuple[int, int], int] = {}
        self._total_size = 0

    def copy_entry(self, entry: WalkEntry) -> ManifestEntry:
        """Copy a file; the entry of what is seen.

        Raises:
            TooMuch: there has come to be more than was counted.
            FileNotFoundError: it is gone.
            OSError: the copy cannot be written.
        """
        if stat.S_ISLNK(entry.status.st_mode):
            return make_entry(entry.path, entry.status, os.readlink(entry.name, dir_fd=entry.parent_fd))
        if not stat.S_ISREG(entry.status.st_mode):
            return make_entry(entry.path, entry.status, entry.skip_reason)
        try:
            file = os.open(entry.name, FILE_FLAGS, dir_fd=entry.parent_fd)
        except FileNotFoundError:
            raise
        except OSError as fault:
            return make_entry(entry.path, entry.status, os.strerror(fault.errno or 0))
        try:
            status = os.fstat(file)
            return make_entry(entry.path, status, copy_number=self._copy_file(file, status))
        finally:
            os.close(file)

    def _copy_file(self, file: int, status: os.stat_result) -> int:
        known = self._copies_by_inode.get((status.st_dev, status.st_ino), 0) if status.st_nlink > 1 else 0
        if known:
            return known
        self._copy_count += 1
        self._total_size += status.st_size
        _check_limits(self._copy_count, 0, self._total_size)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        copy = os.open(self._target / str(self._copy_count), flags, 0o600)
        try:
            copy_content(file, copy, status.st_size)
        finally:
            os.close(copy)
        if status.st_nlink > 1:
            self._copies_by_inode[status.st_dev, status.st_ino] = self._copy_count
        return self._copy_count


def make_entry(path: str, status: os.stat_result, note: str = "", copy_number: int = 0) -> ManifestEntry:
    """What a status says of a path."""
    return ManifestEntry(
        path=path,
        type_and_mode=status.st_mode,
        uid=status.st_uid,
        gid=status.st_gid,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
        inode=status.st_ino,
        link_count=status.st_nlink,
        note=note,
        copy_number=copy_number,
    )


def create_private_text_file(path: Path) -> IO[str]:
    """A new file for a list, which the user alone can read.

    Raises:
        OSError: it cannot be made.
    """
    return open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))
