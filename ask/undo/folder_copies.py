"""Copy the folders that a safe run can change, before it starts.

A copy is a folder in the backup set of the run. It contains one numbered file for each content, and a manifest that
lists all paths. A copy is complete only if the journal says so. `folder_diff` compares it with the folders later.
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
"""The limit for files, and also for folders."""
MAX_TOTAL_BYTES = 256_000_000
MANIFEST_NAME = "start"


class FoldersTooLargeError(Exception):
    """The folders are too large for a copy; the message names the limit that they exceed."""


class ManifestEntry(NamedTuple):
    """The state of one path at the time of the copy; a line of the manifest."""

    path: str
    """The absolute path."""
    type_and_mode: int
    """`st_mode`; the next seven fields are from `os.stat_result` too."""
    uid: int
    gid: int
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    link_count: int
    note: str
    """The target of a link; why a file was not copied; or why a folder could not be read."""
    copy_number: int
    """The name of the file with the content; 0 for none."""

    @property
    def is_file(self) -> bool:
        """True for a regular file."""
        return stat.S_ISREG(self.type_and_mode)

    @property
    def is_unreadable_folder(self) -> bool:
        """True for a folder that could not be read."""
        return stat.S_ISDIR(self.type_and_mode) and bool(self.note)

    @property
    def is_unprotected(self) -> bool:
        """True for a folder that was not copied although a tool call may change its content."""
        own = self.uid == os.geteuid() and self.note != MOUNTED_READ_ONLY
        return self.is_unreadable_folder and (own or self.note in {MOUNTED, TOO_DEEP})


class ManifestHeader(NamedTuple):
    """The first line of the manifest."""

    roots: Sequence[str]
    """The copied folders; none contains another."""
    excluded_paths: Collection[str]
    """Paths that are not copied because no tool call can change them."""
    started_ns: int
    """The time when copying began, in nanoseconds since 1970."""


def copy_folders(
    target: Path, roots: Sequence[Path], excluded_paths: Collection[str], on_progress: Callable[[], None]
) -> list[ManifestEntry]:
    """Copy folders, none of which contains another, to the new folder `target`.

    Returns the subfolders that could not be copied although a tool call may change their content. No tool call may be
    running; changes by the user while copying do no harm. `on_progress` is called before each file.

    Raises:
        FoldersTooLargeError: The folders exceed the limits.
        OSError: The copy cannot be written.
    """
    target.mkdir(mode=0o700)
    header = ManifestHeader(list(map(str, roots)), sorted(excluded_paths), time.time_ns())
    copier = _FolderCopier(target)
    unprotected: list[ManifestEntry] = []
    with create_private_text_file(target / MANIFEST_NAME) as manifest:
        manifest.write(json.dumps(header) + "\n")
        for root in roots:
            for walk_entry in walk_tree(root, excluded_paths):
                on_progress()
                with suppress(FileNotFoundError):
                    entry = copier.copy_entry(walk_entry)
                    manifest.write(json.dumps(entry) + "\n")
                    unprotected += [entry] if entry.is_unprotected else []
    return unprotected


def check_folder_sizes(roots: Iterable[Path], excluded_paths: Collection[str]) -> None:
    """Check that folders are not too large to copy, without reading any file.

    Raises FoldersTooLargeError as soon as a limit is exceeded.
    """
    files = folders = size = 0
    for root in roots:
        for walk_entry in walk_tree(root, excluded_paths):
            if stat.S_ISDIR(walk_entry.status.st_mode):
                folders += 1
            else:
                files += 1
                size += walk_entry.status.st_size
            _check_limits(files, folders, size)


def _check_limits(file_count: int, folder_count: int, total_size: int) -> None:
    for count, unit in ((file_count, "files"), (folder_count, "folders")):
        if count > MAX_FILES:
            raise FoldersTooLargeError(f"over {MAX_FILES:,} {unit}")
    if total_size > MAX_TOTAL_BYTES:
        raise FoldersTooLargeError(f"over {MAX_TOTAL_BYTES // 1_000_000} MB")


class _FolderCopier:
    """Copies files into a folder; a file with several hard links is copied once."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._copy_count = 0
        self._copies_by_inode: dict[tuple[int, int], int] = {}
        self._total_size = 0

    def copy_entry(self, entry: WalkEntry) -> ManifestEntry:
        """Copy the content of an entry, if it is a file, and return its manifest entry.

        Raises:
            FoldersTooLargeError: The folders have grown since they were counted.
            FileNotFoundError: The entry no longer exists.
            OSError: The copy cannot be written.
        """
        if stat.S_ISLNK(entry.status.st_mode):
            return make_entry(entry.path, entry.status, os.readlink(entry.name, dir_fd=entry.parent_fd))
        if not stat.S_ISREG(entry.status.st_mode):
            return make_entry(entry.path, entry.status, entry.skip_reason)
        try:
            descriptor = os.open(entry.name, FILE_FLAGS, dir_fd=entry.parent_fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            return make_entry(entry.path, entry.status, os.strerror(error.errno or 0))
        try:
            status = os.fstat(descriptor)
            return make_entry(entry.path, status, copy_number=self._copy_file(descriptor, status))
        finally:
            os.close(descriptor)

    def _copy_file(self, descriptor: int, status: os.stat_result) -> int:
        copy_number = self._copies_by_inode.get((status.st_dev, status.st_ino), 0) if status.st_nlink > 1 else 0
        if copy_number:
            return copy_number
        self._copy_count += 1
        self._total_size += status.st_size
        _check_limits(self._copy_count, 0, self._total_size)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        copy = os.open(self._target / str(self._copy_count), flags, 0o600)
        try:
            copy_content(descriptor, copy, status.st_size)
        finally:
            os.close(copy)
        if status.st_nlink > 1:
            self._copies_by_inode[status.st_dev, status.st_ino] = self._copy_count
        return self._copy_count


def make_entry(path: str, status: os.stat_result, note: str = "", copy_number: int = 0) -> ManifestEntry:
    """Make a manifest entry from the status of a path."""
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
    """Create a text file that only the user can read; an existing file is an error."""
    return open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))
