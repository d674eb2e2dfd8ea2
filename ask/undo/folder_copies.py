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
from ask.undo.trees import FILE_FLAGS, MOUNTED, MOUNTED_READ_ONLY, TOO_DEEP, Seen, walk

MOST_FILES = 20_000
"""How many files are copied at most, and how many folders."""
MOST_BYTES = 256_000_000
"""How many bytes all of them may have together."""
START = "start"


class TooMuch(Exception):
    """The folders are too large for a copy; the text says in what."""


class Entry(NamedTuple):
    """What there was at a path.

    Attributes:
        path: the whole path.
        type_and_mode: as in a status, and so are the next seven.
        note: a link's target; why there is no copy of a file; why a folder could not be looked into.
        copy: the number of the copy; 0 for none.
    """

    path: str
    type_and_mode: int
    user: int
    group: int
    size: int
    modified: int
    changed: int
    inode: int
    names: int
    note: str
    copy: int

    @property
    def of_file(self) -> bool:
        """Whether it is a file."""
        return stat.S_ISREG(self.type_and_mode)

    @property
    def closed(self) -> bool:
        """Whether it is a folder that could not be looked into."""
        return stat.S_ISDIR(self.type_and_mode) and bool(self.note)

    @property
    def exposed(self) -> bool:
        """Whether a call may change what is in it, of which there is no copy."""
        own = self.user == os.geteuid() and self.note != MOUNTED_READ_ONLY
        return self.closed and (own or self.note in {MOUNTED, TOO_DEEP})


class Folders(NamedTuple):
    """What is copied.

    Attributes:
        roots: the folders, none of them in another.
        untouched: paths that no call can change, and that are left out.
        began: when the copying began, in ns since 1970.
    """

    roots: Sequence[str]
    untouched: Collection[str]
    began: int


def copy_folders(
    target: Path, roots: Sequence[Path], untouched: Collection[str], going_on: Callable[[], None]
) -> list[Entry]:
    """Copy folders. No call may be under way in them; what the user does there meanwhile does no harm.

    Returns the folders in them of which no copy could be made though a call may change what is in them.

    Args:
        target: where to; it is made.
        roots: the folders, none of them in another.
        untouched: paths that are left out.
        going_on: is called before each file.

    Raises:
        TooMuch: they are too large.
        OSError: it cannot be done.
    """
    target.mkdir(mode=0o700)
    about = Folders(list(map(str, roots)), sorted(untouched), time.time_ns())
    copier = _Copier(target)
    exposed: list[Entry] = []
    with new_list(target / START) as listing:
        listing.write(json.dumps(about) + "\n")
        for root in roots:
            for seen in walk(root, untouched):
                going_on()
                with suppress(FileNotFoundError):
                    entry = copier.take(seen)
                    listing.write(json.dumps(entry) + "\n")
                    exposed += [entry] if entry.exposed else []
    return exposed


def check_size(roots: Iterable[Path], untouched: Collection[str]) -> None:
    """See that folders are not too large, without reading a file.

    Raises:
        TooMuch: they are; it is said as soon as that is known.
        OSError: they cannot be gone through.
    """
    files = folders = size = 0
    for root in roots:
        for seen in walk(root, untouched):
            if stat.S_ISDIR(seen.status.st_mode):
                folders += 1
            else:
                files += 1
                size += seen.status.st_size
            _check(files, folders, size)


def _check(files: int, folders: int, size: int) -> None:
    for count, what in ((files, "files"), (folders, "folders")):
        if count > MOST_FILES:
            raise TooMuch(f"over {MOST_FILES:,} {what}")
    if size > MOST_BYTES:
        raise TooMuch(f"over {MOST_BYTES // 1_000_000} MB")


class _Copier:
    """Copies what is seen, the content of a file with several names once."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._copies = 0
        self._linked: dict[tuple[int, int], int] = {}
        self._size = 0

    def take(self, seen: Seen) -> Entry:
        """Copy a file; the entry of what is seen.

        Raises:
            TooMuch: there has come to be more than was counted.
            FileNotFoundError: it is gone.
            OSError: the copy cannot be written.
        """
        if stat.S_ISLNK(seen.status.st_mode):
            return entry_of(seen.path, seen.status, os.readlink(seen.name, dir_fd=seen.place))
        if not stat.S_ISREG(seen.status.st_mode):
            return entry_of(seen.path, seen.status, seen.closed)
        try:
            file = os.open(seen.name, FILE_FLAGS, dir_fd=seen.place)
        except FileNotFoundError:
            raise
        except OSError as fault:
            return entry_of(seen.path, seen.status, os.strerror(fault.errno or 0))
        try:
            status = os.fstat(file)
            return entry_of(seen.path, status, copy=self._copy(file, status))
        finally:
            os.close(file)

    def _copy(self, file: int, status: os.stat_result) -> int:
        known = self._linked.get((status.st_dev, status.st_ino), 0) if status.st_nlink > 1 else 0
        if known:
            return known
        self._copies += 1
        self._size += status.st_size
        _check(self._copies, 0, self._size)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        copy = os.open(self._target / str(self._copies), flags, 0o600)
        try:
            copy_content(file, copy, status.st_size)
        finally:
            os.close(copy)
        if status.st_nlink > 1:
            self._linked[status.st_dev, status.st_ino] = self._copies
        return self._copies


def entry_of(path: str, status: os.stat_result, note: str = "", copy: int = 0) -> Entry:
    """What a status says of a path."""
    return Entry(
        path=path,
        type_and_mode=status.st_mode,
        user=status.st_uid,
        group=status.st_gid,
        size=status.st_size,
        modified=status.st_mtime_ns,
        changed=status.st_ctime_ns,
        inode=status.st_ino,
        names=status.st_nlink,
        note=note,
        copy=copy,
    )


def new_list(path: Path) -> IO[str]:
    """A new file for a list, which the user alone can read.

    Raises:
        OSError: it cannot be made.
    """
    return open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))
