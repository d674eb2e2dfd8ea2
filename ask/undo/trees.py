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
from ask.undo.contents import LARGEST, digest_of, pieces_of
from ask.undo.journal import FOLDER_HERE, GONE, LINK_TO, SPECIAL, Mark

DEPTH = 100
"""How many folders within each other are gone through; each is open meanwhile."""
TOO_DEEP = "it is too deep in other folders"
MOUNTED, MOUNTED_READ_ONLY = MOUNTS = "another file system is there", "another file system is there, read-only"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Seen(NamedTuple):
    """What there is at a path. It can be reached as long as the next one is not asked for.

    Attributes:
        path: the whole path.
        status: of it.
        place: a descriptor of the folder that it is in.
        name: its name there.
        closed: why a folder cannot be gone through, "" where it can.
    """

    path: str
    status: os.stat_result
    place: int
    name: str
    closed: str = ""

    @property
    def mounted(self) -> bool:
        """Whether another file system is there."""
        return self.closed in MOUNTS


def walk(root: Path, untouched: Collection[str]) -> Iterator[Seen]:
    """A folder and all that is in it, each folder before what is in it.

    Args:
        root: the folder, by a path that none but the user can change.
        untouched: paths in it that are left out, with all that is in them.
    """
    place = os.open(root.parent, os.O_PATH | FOLDER_FLAGS)
    try:
        with suppress(FileNotFoundError):
            device = os.stat(root.name, dir_fd=place, follow_symlinks=False).st_dev
            yield from _Walk(untouched, device).entry(place, root.name, str(root.parent), DEPTH)
    finally:
        os.close(place)


class _Walk(NamedTuple):
    """What stays the same on the way: the paths to leave out, and the disk to stay on."""

    untouched: Collection[str]
    device: int

    def entry(self, place: int, name: str, parent: str, depth: int) -> Iterator[Seen]:
        path = os.path.join(parent, name)
        if path in self.untouched:
            return
        try:
            status = os.stat(name, dir_fd=place, follow_symlinks=False)
        except OSError:  # gone since its folder was read
            return
        if not stat.S_ISDIR(status.st_mode):
            yield Seen(path, status, place, name)
        elif status.st_dev == self.device:
            yield from self._folder(Seen(path, status, place, name), depth)
        else:
            yield Seen(path, status, place, name, closed=_mounted(place, name))

    def _folder(self, seen: Seen, depth: int) -> Iterator[Seen]:
        if not depth:
            yield seen._replace(closed=TOO_DEEP)
            return
        try:
            folder = os.open(seen.name, FOLDER_FLAGS, dir_fd=seen.place)
        except OSError as fault:
            yield seen._replace(closed=os.strerror(fault.errno or 0))
            return
        try:
            yield seen
            for name in sorted(os.listdir(folder)):
                yield from self.entry(folder, name, seen.path, depth - 1)
        finally:
            os.close(folder)


def _mounted(place: int, name: str) -> str:
    """What there is to say of a folder in which something is mounted."""
    with suppress(OSError):
        folder = os.open(name, FOLDER_FLAGS, dir_fd=place)
        try:
            return MOUNTED_READ_ONLY if os.statvfs(folder).f_flag & os.ST_RDONLY else MOUNTED
        finally:
            os.close(folder)
    return MOUNTED


def mark_of(place: int, name: str, status: os.stat_result) -> Mark:
    """What tells what there is under a name in an open folder; of a file that cannot be read, its size and time do.

    Raises:
        OSError: it cannot be looked at, or is gone by now.
    """
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Mark(LINK_TO + os.readlink(name, dir_fd=place))
    if stat.S_ISDIR(status.st_mode):
        return Mark(FOLDER_HERE, mode)
    if not stat.S_ISREG(status.st_mode):
        return Mark(SPECIAL)
    if status.st_size <= LARGEST:
        with suppress(PermissionError), os.fdopen(os.open(name, FILE_FLAGS, dir_fd=place), "rb") as file:
            return Mark(digest_of(pieces_of(file)), mode)
    return Mark(size_and_time(status.st_size, status.st_mtime_ns), mode)


def size_and_time(size: int, modified: int) -> str:
    """What stands for the digest of a file whose content is not looked at."""
    return f"{size} {modified}"


@contextmanager
def folder_of(path: Path, root: Path, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that has the last part of a path, open, and that part's name.

    Args:
        path: the root, or in it.
        root: below it no link is followed.
        make: make what is missing of the folders.

    Raises:
        OSError: there is no such folder.
    """
    if make:
        root.parent.mkdir(parents=True, exist_ok=True)
    place = _open_parent(path, root, make=make)
    try:
        yield place, path.name
    finally:
        os.close(place)


_last_opened: dict[tuple[Path, str], int] = {}
"""The folder opened last, by its root and path: what comes next is usually in the same one."""


def _open_parent(path: Path, root: Path, *, make: bool) -> int:
    key = (root, os.path.dirname(path))
    kept = _last_opened.get(key)
    if kept is not None and not make and os.fstat(kept).st_nlink:  # 0 for a folder that was removed
        return os.dup(kept)
    place, missing = open_folders(root.parent, path.relative_to(root.parent).parts[:-1], make=make)
    if missing:
        os.close(place)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing[0])
    while _last_opened:
        os.close(_last_opened.popitem()[1])
    _last_opened[key] = os.dup(place)
    return place


def look(path: Path, root: Path) -> Mark:
    """What tells what there is now at a path in a folder; where a link is on the way, nothing is.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        with folder_of(path, root) as (place, name):
            return mark_of(place, name, os.stat(name, dir_fd=place, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            return GONE
        raise
