"""Walk folders, and read and copy files, without following symbolic links or crossing file systems.

Other processes may be changing the folders. Each step goes from an open folder to a name in it, so replacing a folder
by a link cannot lead anywhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from ask.records import NamedTuple
from ask.tools.file_access import open_existing_folder, open_folders
from ask.undo.journal import ABSENT_STATE, FOLDER_MARKER, LINK_PREFIX, MAX_BACKUP_SIZE, SPECIAL_FILE, PathState

MAX_DEPTH = 100
"""The limit for nested folders; each of them is kept open during a walk."""
TOO_DEEP = "it is nested too deeply"
MOUNTED, MOUNTED_READ_ONLY = MOUNT_REASONS = (
    "another file system is mounted there",
    "another file system is mounted there, read-only",
)
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CHUNK_SIZE = 1 << 20


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


def walk_tree(root: Path, excluded_paths: Collection[str] = ()) -> Iterator[WalkEntry]:
    """Yield a folder and everything in it, each folder before its content.

    Only the user must be able to change the path `root`. Excluded paths are left out with everything in them.
    """
    parent_fd = os.open(root.parent, os.O_PATH | FOLDER_FLAGS)
    try:
        with suppress(FileNotFoundError):
            device = os.stat(root.name, dir_fd=parent_fd, follow_symlinks=False).st_dev
            yield from _walk(parent_fd, str(root), excluded_paths, device, MAX_DEPTH)
    finally:
        os.close(parent_fd)


def _walk(
    parent_fd: int, path: str, excluded_paths: Collection[str], device: int, remaining_depth: int
) -> Iterator[WalkEntry]:
    name = os.path.basename(path)
    try:
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    except OSError:  # gone since its folder was read
        return
    entry = WalkEntry(path, status, parent_fd, name)
    if path in excluded_paths:
        return
    if not stat.S_ISDIR(status.st_mode):
        yield entry
        return
    if not remaining_depth:
        yield entry._replace(skip_reason=TOO_DEEP)
        return
    try:
        folder_fd = os.open(name, FOLDER_FLAGS, dir_fd=parent_fd)
    except OSError as error:
        yield entry._replace(skip_reason=MOUNTED if status.st_dev != device else os.strerror(error.errno or 0))
        return
    try:
        if status.st_dev != device:
            is_read_only = os.statvfs(folder_fd).f_flag & os.ST_RDONLY
            yield entry._replace(skip_reason=MOUNTED_READ_ONLY if is_read_only else MOUNTED)
            return
        yield entry
        for child in sorted(os.listdir(folder_fd)):
            yield from _walk(folder_fd, os.path.join(path, child), excluded_paths, device, remaining_depth - 1)
    finally:
        os.close(folder_fd)


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
            return PathState(compute_digest(file), mode)
    return PathState(make_stat_digest(status.st_size, status.st_mtime_ns), mode)


def compute_digest(file: BufferedReader) -> str:
    """Compute the SHA-256 digest of the rest of an open file, in hexadecimal."""
    return file_digest(file, "sha256").hexdigest()


def make_stat_digest(size: int, modified_ns: int) -> str:
    """Make the replacement for the digest of a file whose content is not read."""
    return f"{size} {modified_ns}"


def create_private_file(path: Path, mode: str) -> Any:
    """Create a file that only the user can read; an existing file is an error. `mode` is that of `open`."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: os.open(name, flags, 0o600))


def copy_content(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copy the first `size` bytes of a file, sharing its data blocks if the file system supports that.

    The size is fixed because the source may be growing.
    """
    try:
        while size > 0 and (copied := os.copy_file_range(source.fileno(), target.fileno(), size)):
            size -= copied
    except (AttributeError, OSError):  # macOS, or not supported between these file systems
        while size > 0 and (chunk := source.read(min(size, CHUNK_SIZE))):
            size -= target.write(chunk)


@contextmanager
def open_parent(path: Path, root: Path, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Open the parent folder of a path; yield its descriptor and the last part of the path.

    `path` is `root` or inside it; below `root` no symbolic link is followed. With `create`, missing folders are made;
    otherwise a missing folder is an OSError.
    """
    names = path.relative_to(root.parent).parts[:-1]
    if create:
        root.parent.mkdir(parents=True, exist_ok=True)
        os.close(open_folders(root.parent, names, create_missing=True)[0])
    with open_existing_folder(root.parent, names) as parent_fd:
        yield parent_fd, path.name


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
