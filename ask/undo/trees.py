"""Walk folders and read paths without following symbolic links or crossing file systems.

Other processes may be changing the folders. Each step goes from an open folder to a name in it, so replacing a folder
by a link cannot lead anywhere else.
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
"""The limit for nested folders; each of them is kept open during a walk."""
TOO_DEEP = "it is too deep in other folders"
MOUNTED, MOUNTED_READ_ONLY = MOUNT_REASONS = "another file system is there", "another file system is there, read-only"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class WalkEntry(NamedTuple):
    """A path found by `walk_tree`."""

    path: str
    """The absolute path."""
    status: os.stat_result
    parent_fd: int
    """An open descriptor of the parent folder, valid until the next entry is requested."""
    name: str
    """The name in the parent folder."""
    skip_reason: str = ""
    """Why the content of a folder is not walked; "" if it is."""

    @property
    def is_mount(self) -> bool:
        """True if another file system is mounted here."""
        return self.skip_reason in MOUNT_REASONS


def walk_tree(root: Path, excluded_paths: Collection[str]) -> Iterator[WalkEntry]:
    """Yield a folder and everything in it, each folder before its content.

    Only the user must be able to change the path `root`. Excluded paths are left out with everything in them.
    """
    parent_fd = os.open(root.parent, os.O_PATH | FOLDER_FLAGS)
    try:
        with suppress(FileNotFoundError):
            device = os.stat(root.name, dir_fd=parent_fd, follow_symlinks=False).st_dev
            yield from _TreeWalker(excluded_paths, device).visit(parent_fd, root.name, str(root.parent), MAX_DEPTH)
    finally:
        os.close(parent_fd)


class _TreeWalker(NamedTuple):
    """The parameters of a walk: the paths to leave out, and the file system to stay on."""

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
        except OSError as error:
            yield entry._replace(skip_reason=os.strerror(error.errno or 0))
            return
        try:
            yield entry
            for name in sorted(os.listdir(folder)):
                yield from self.visit(folder, name, entry.path, remaining_depth - 1)
        finally:
            os.close(folder)


def _describe_mount(parent_fd: int, name: str) -> str:
    with suppress(OSError):
        folder = os.open(name, FOLDER_FLAGS, dir_fd=parent_fd)
        try:
            return MOUNTED_READ_ONLY if os.statvfs(folder).f_flag & os.ST_RDONLY else MOUNTED
        finally:
            os.close(folder)
    return MOUNTED


def read_entry_state(parent_fd: int, name: str, status: os.stat_result) -> PathState:
    """Read the state of a name in an open folder.

    The digest of a file that is too large or cannot be read is made of its size and modification time.
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
    """Make the replacement for the digest of a file whose content is not read."""
    return f"{size} {modified_ns}"


@contextmanager
def open_parent(path: Path, root: Path, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Open the parent folder of a path; yield its descriptor and the last part of the path.

    `path` is `root` or inside it; below `root` no symbolic link is followed. With `create`, missing folders are made;
    otherwise a missing folder is an OSError.
    """
    if create:
        root.parent.mkdir(parents=True, exist_ok=True)
    parent_fd = _open_parent_fd(path, root, create=create)
    try:
        yield parent_fd, path.name
    finally:
        os.close(parent_fd)


_last_folder: dict[tuple[Path, str], int] = {}
"""A cache of one: the folder opened last, since the next path is usually in the same one."""


def _open_parent_fd(path: Path, root: Path, *, create: bool) -> int:
    key = (root, os.path.dirname(path))
    cached_fd = _last_folder.get(key)
    if cached_fd is not None and not create and os.fstat(cached_fd).st_nlink:  # 0 for a folder that was removed
        return os.dup(cached_fd)
    parent_fd, missing_parts = open_folders(
        root.parent, path.relative_to(root.parent).parts[:-1], create_missing=create
    )
    if missing_parts:
        os.close(parent_fd)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing_parts[0])
    while _last_folder:
        os.close(_last_folder.popitem()[1])
    _last_folder[key] = os.dup(parent_fd)
    return parent_fd


def read_path_state(path: Path, root: Path) -> PathState:
    """Read the current state of a path inside `root`; it is absent if a parent is a symbolic link."""
    try:
        with open_parent(path, root) as (parent_fd, name):
            return read_entry_state(parent_fd, name, os.stat(name, dir_fd=parent_fd, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT_STATE
    except OSError as error:
        if error.errno == errno.ELOOP:
            return ABSENT_STATE
        raise
