"""Folders that others may be changing: gone through, and looked into, without following a link or leaving the disk.

Every step is taken from an open folder to a name in it, so that nothing that is swapped for a link leads elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ask.tools.file_access import open_folders
from ask.undo.contents import MAX_BACKUP_SIZE, compute_digest, read_chunks
from ask.undo.journal import ABSENT_STATE, FOLDER_MARKER, LINK_PREFIX, SPECIAL_FILE, PathState

MAX_DEPTH = 100
"""How many folders within each other are gone through; each is open meanwhile."""
TOO_DEEP = "it is too deep in other folders"
MOUNTED, MOUNTED_READ_ONLY = MOUNT_REASONS = "another file system is there", "another file system is there, read-only"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class WalkEntry(NamedTuple):
    """What there is at a path. It can be reached as long as the next one is not asked for.

    Attributes:
        path: the whole path.
        status: of it.
        parent_fd: a descriptor of the folder that it is in.
        name: its name there.
        skip_reason: why a folder cannot be gone through, "" where it can.
    """

    path: str
    status: os.stat_result
    parent_fd: int
    name: str
    skip_reason: str = ""

    @property
    def is_mount(self) -> bool:
        """Whether another file system is there."""
        return self.skip_reason in MOUNT_REASONS


def walk_tree(root: Path, excluded_paths: Collection[str]) -> Iterator[WalkEntry]:
    """A folder and all that is in it, each folder before what is in it.

    Args:
        root: the folder, by a path that none but the user can change.
        excluded_paths: paths in it that are left out, with all that is in them.
    """
    place = os.open(root.parent, os.O_PATH | FOLDER_FLAGS)
    try:
        with suppress(FileNotFoundError):
            device = os.stat(root.name, dir_fd=place, follow_symlinks=False).st_dev
            yield from _TreeWalker(excluded_paths, device).visit(place, root.name, str(root.parent), MAX_DEPTH)
    finally:
        os.close(place)


class _TreeWalker(NamedTuple):
    """What stays the same on the way: the paths to leave out, and the disk to stay on."""

    excluded_paths: Collection[str]
    device: int

    def visit(self, parent_fd: int, name: str, parent_path: str, remaining_depth: int) -> Iterator[WalkEntry]:
        path = os.path.join(parent_path, name)
        if path in self.excluded_paths:
            return
        try:
            status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        except OSError:  # gone since its folder was read
            return
        if not stat.S_ISDIR(status.st_mode):
            yield WalkEntry(path, status, parent_fd, name)
        elif status.st_dev == self.device:
            yield from self._visit_folder(WalkEntry(path, status, parent_fd, name), remaining_depth)
        else:
            yield WalkEntry(path, status, parent_fd, name, skip_reason=_describe_mount(parent_fd, name))

    def _visit_folder(self, entry: WalkEntry, remaining_depth: int) -> Iterator[WalkEntry]:
        if not remaining_depth:
            yield entry._replace(skip_reason=TOO_DEEP)
            return
        try:
            folder = os.open(entry.name, FOLDER_FLAGS, dir_fd=entry.parent_fd)
        except OSError as fault:
            yield entry._replace(skip_reason=os.strerror(fault.errno or 0))
            return
        try:
            yield entry
            for name in sorted(os.listdir(folder)):
                yield from self.visit(folder, name, entry.path, remaining_depth - 1)
        finally:
            os.close(folder)


def _describe_mount(parent_fd: int, name: str) -> str:
    """What there is to say of a folder in which something is mounted."""
    with suppress(OSError):
        folder = os.open(name, FOLDER_FLAGS, dir_fd=parent_fd)
        try:
            return MOUNTED_READ_ONLY if os.statvfs(folder).f_flag & os.ST_RDONLY else MOUNTED
        finally:
            os.close(folder)
    return MOUNTED


def read_entry_state(parent_fd: int, name: str, status: os.stat_result) -> PathState:
    """What tells what there is under a name in an open folder; of a file that cannot be read, its size and time do.

    Raises:
        OSError: it cannot be looked at, or is gone by now.
    """
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return PathState(LINK_PREFIX + os.readlink(name, dir_fd=parent_fd))
    if stat.S_ISDIR(status.st_mode):
        return PathState(FOLDER_MARKER, mode)
    if not stat.S_ISREG(status.st_mode):
        return PathState(SPECIAL_FILE)
    if status.st_size <= MAX_BACKUP_SIZE:
        with suppress(PermissionError), os.fdopen(os.open(name, FILE_FLAGS, dir_fd=parent_fd), "rb") as file:
            return PathState(compute_digest(read_chunks(file)), mode)
    return PathState(make_stat_digest(status.st_size, status.st_mtime_ns), mode)


def make_stat_digest(size: int, modified_ns: int) -> str:
    """What stands for the digest of a file whose content is not looked at."""
    return f"{size} {modified_ns}"


@contextmanager
def open_parent(path: Path, root: Path, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that has the last part of a path, open, and that part's name.

    Args:
        path: the root, or in it.
        root: below it no link is followed.
        create: make what is missing of the folders.

    Raises:
        OSError: there is no such folder.
    """
    if create:
        root.parent.mkdir(parents=True, exist_ok=True)
    place = _open_parent_fd(path, root, create=create)
    try:
        yield place, path.name
    finally:
        os.close(place)


_last_folder: dict[tuple[Path, str], int] = {}
"""The folder opened last, by its root and path: what comes next is usually in the same one."""


def _open_parent_fd(path: Path, root: Path, *, create: bool) -> int:
    key = (root, os.path.dirname(path))
    kept = _last_folder.get(key)
    if kept is not None and not create and os.fstat(kept).st_nlink:  # 0 for a folder that was removed
        return os.dup(kept)
    place, missing = open_folders(root.parent, path.relative_to(root.parent).parts[:-1], create_missing=create)
    if missing:
        os.close(place)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing[0])
    while _last_folder:
        os.close(_last_folder.popitem()[1])
    _last_folder[key] = os.dup(place)
    return place


def read_path_state(path: Path, root: Path) -> PathState:
    """What tells what there is now at a path in a folder; where a link is on the way, nothing is.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        with open_parent(path, root) as (place, name):
            return read_entry_state(place, name, os.stat(name, dir_fd=place, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT_STATE
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            return ABSENT_STATE
        raise
