"""Atomic, locked and private writing of files."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ask.errors import FileError
from ask.records import NamedTuple
from ask.regular_files import read_regular_file

T = TypeVar("T")
PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE = 0o600, 0o700
CHUNK_BYTES = 1 << 20
LOCK_SECONDS = 30.0
"""Seconds to wait for another process, which may be suspended or wait until the user has unlocked a keyring."""
RETRY_SECONDS = 0.01
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags to open a folder, and a file of any type, for reading without following a link or waiting."""
OWNER_ERRORS = (errno.EPERM, errno.EINVAL)
"""The errors for an owner that may not be set, and for one that is unknown in the sandbox's user namespace."""


class Ownership(NamedTuple):
    """The permissions, user ID and group ID of a file."""

    mode: int
    user: int
    group: int

    @staticmethod
    def from_status(status: os.stat_result) -> Ownership:
        """Read the ownership from the result of a `stat` call."""
        return Ownership(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)


def set_ownership(descriptor: int, ownership: Ownership, *, must_keep_owner: bool = False) -> None:
    """Set the permissions and owner of an open file.

    Unless `must_keep_owner`, a user or group that this process may not set stays unchanged.

    Raises:
        OSError: the permissions cannot be set, or the owner that must be kept; see `OWNER_ERRORS`.
    """
    mode = ownership.mode
    try:
        os.fchown(descriptor, ownership.user, ownership.group)
    except OSError as error:
        if must_keep_owner or error.errno not in OWNER_ERRORS:
            raise
        mode &= 0o777  # a set-id bit must not work for another owner
    os.fchmod(descriptor, mode)


def copy_extended_attributes(path: Path, descriptor: int, dir_fd: int | None) -> None:
    """Copy the access control list and the user's attributes of the file at `path` to an open file.

    Others stay away, such as capabilities, which the kernel also removes from a file that is written.
    """
    if sys.platform != "linux":
        return
    # There may be no such file, or it cannot be read, or its file system has no attributes.
    with suppress(OSError), open(os.open(path, FILE_FLAGS, dir_fd=dir_fd), "rb") as file:
        for name in os.listxattr(file.fileno()):
            if name.startswith(("user.", "system.posix_acl_")):
                os.setxattr(descriptor, name, os.getxattr(file.fileno(), name))


def create_marker_file(path: Path) -> bool:
    """Create the empty file that shows that something has been done; return False if it exists or cannot be created."""
    try:
        create_private_folder(path.parent)
        path.touch(PRIVATE_FILE_MODE, exist_ok=False)
    except OSError:
        return False
    return True


def create_private_folder(path: Path) -> None:
    """Create a folder and its missing parents, private to their owner.

    The permissions do not depend on the umask.

    Raises:
        OSError: a folder cannot be created.
    """
    missing = list(takewhile(lambda folder: not folder.is_dir(), (path, *path.parents)))
    for folder in reversed(missing):
        try:
            folder.mkdir(PRIVATE_FOLDER_MODE)
        except FileExistsError:
            if not folder.is_dir():  # otherwise another process created it just now
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        else:
            folder.chmod(PRIVATE_FOLDER_MODE)


def open_private_file(path: Path, flags: int) -> int:
    """Open a file in one of ask's own folders; create it if it is missing, private to its owner.

    The permissions do not depend on the umask.

    Raises:
        OSError: it cannot be opened.
    """
    # O_NONBLOCK: a named pipe in its place is an error, and is not waited for.
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, PRIVATE_FILE_MODE)
    status = os.fstat(descriptor)
    if status.st_size == 0 and status.st_mode & PRIVATE_FILE_MODE != PRIVATE_FILE_MODE:
        os.fchmod(descriptor, PRIVATE_FILE_MODE)  # otherwise the next run could not open it
    return descriptor


@contextmanager
def replace_atomically(path: Path, dir_fd: int | None = None) -> Iterator[Path]:
    """Yield a temporary path, and rename what the block creates there to `path` unless the block raises an exception.

    A mount point at `path`, as containers have them, is overwritten instead. With an open `dir_fd`, both paths are
    relative to it.
    """
    temporary = path.parent / f".ask-{os.urandom(8).hex()}.tmp"
    try:
        yield temporary
        replace_or_overwrite(temporary, path, dir_fd)
    finally:
        with suppress(FileNotFoundError):  # it still exists if it is another hard link to the file at `path`
            os.unlink(temporary, dir_fd=dir_fd)


def replace_or_overwrite(source: Path, target: Path, dir_fd: int | None = None) -> bool:
    """Rename a file to `target`; return whether that is a mount point, which is overwritten with a copy instead.

    Raises:
        OSError: the file cannot be renamed or copied, or `target` is a device, a named pipe or a socket.
    """
    with suppress(FileNotFoundError):
        mode = os.lstat(target, dir_fd=dir_fd).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            # To discard what a program stores, users link its files to /dev/null, which root could replace.
            raise OSError(errno.EINVAL, "not a regular file", str(target))
    try:
        os.replace(source, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _overwrite_file(source, target, dir_fd)
        return True
    return False


def _overwrite_file(source: Path, target: Path, dir_fd: int | None) -> None:
    def open_in_folder(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)

    with open(source, "rb", opener=open_in_folder) as copy, open(target, "r+b", opener=open_in_folder) as file:
        status = os.fstat(copy.fileno())
        overwrite_content(file, iter(partial(copy.read, CHUNK_BYTES), b""), status.st_size)
        with suppress(PermissionError):  # the file belongs to another user
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(file.fileno())  # before the source is deleted


def overwrite_content(file: BinaryIO, chunks: Iterable[bytes], size: int) -> None:
    """Replace the content of an open file by another of this size, in place.

    Disk space is allocated before anything is overwritten.

    Raises:
        OSError: it cannot be written; the file is unchanged if there is not enough space.
    """
    old_size = os.fstat(file.fileno()).st_size
    if size > old_size:
        _allocate_space(file.fileno(), old_size, size)
    file.writelines(chunks)
    file.truncate()
    file.flush()


def _allocate_space(descriptor: int, old_size: int, new_size: int) -> None:
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    try:
        os.posix_fallocate(descriptor, 0, new_size)
    except OSError as error:
        os.ftruncate(descriptor, old_size)
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not every file system supports it
            raise


@contextmanager
def open_replacement(
    path: Path, ownership: Ownership | None, dir_fd: int | None = None, *, must_keep_owner: bool = False
) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` if the block raises no exception.

    A symbolic link at `path` is itself replaced. With an `ownership` of None, the file gets the default mode and owner
    of a new file. With an open `dir_fd`, `path` is relative to it.

    Raises:
        OSError: it cannot be written, or `must_keep_owner` and the owner cannot be set; the file at `path` is
            unchanged.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with replace_atomically(path, dir_fd) as temporary:
        descriptor = os.open(temporary, flags, PRIVATE_FILE_MODE if ownership else 0o666, dir_fd=dir_fd)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()  # before setting the mode, since writing clears set-id bits
            if ownership:
                set_ownership(descriptor, ownership, must_keep_owner=must_keep_owner)


def replace_file(
    path: Path,
    chunks: Iterable[bytes],
    ownership: Ownership | None,
    dir_fd: int | None = None,
    *,
    must_keep_owner: bool = False,
) -> None:
    """Replace a file's content, as `open_replacement` does. Its access control list and attributes are kept.

    Raises:
        OSError: it cannot be written, or `must_keep_owner` and the owner cannot be set; the file at `path` is
            unchanged.
    """
    with open_replacement(path, ownership, dir_fd, must_keep_owner=must_keep_owner) as file:
        file.writelines(chunks)
        copy_extended_attributes(path, file.fileno(), dir_fd)


def write_private_file(path: Path, content: bytes, *, keep_mode: bool = False, durable: bool = False) -> None:
    """Replace a file in one of ask's own folders, creating missing folders.

    Args:
        path: the file; if it is a symbolic link, its target is replaced.
        content: the new content.
        keep_mode: keep the permissions of an existing file.
        durable: sync the new content to disk before it replaces the old, so that a power failure loses neither.

    Raises:
        OSError: it cannot be written; the old content is unchanged.
    """
    target = Path(os.path.realpath(path))
    create_private_folder(target.parent)
    try:
        ownership = Ownership.from_status(target.stat())
    except FileNotFoundError:
        ownership = Ownership(PRIVATE_FILE_MODE, os.geteuid(), os.getegid())
    if not keep_mode:
        ownership = ownership._replace(mode=PRIVATE_FILE_MODE)
    with open_replacement(target, ownership) as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def convert_write_errors(path: Path, hint: str = "") -> Iterator[None]:
    """Turn errors of the operating system into a `FileError` that names the file."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot write {path} ({error.strerror})", hint) from error


def read_decisions(path: Path, parse: Callable[[Any], T]) -> T | None:
    """Read a private JSON file with decisions of the user; return None if it does not exist.

    Raises:
        FileError: it cannot be read, or `parse` raises a ValueError.
    """
    try:
        return parse(json.loads(read_regular_file(path)))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"cannot read {path} ({error.strerror})") from error
    except (ValueError, RecursionError):
        raise FileError(f"{path} is damaged", "delete it; you will be asked again") from None


def write_decisions(path: Path, decisions: Any) -> None:
    """Replace a private JSON file with decisions of the user.

    Raises:
        FileError: it cannot be written.
    """
    with convert_write_errors(path):
        write_private_file(path, f"{json.dumps(decisions, indent=2)}\n".encode())


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Lock a file against other processes, from reading it to replacing it.

    The lock is on the folder that contains the file (for a symbolic link, its target), which is created if it is
    missing. A file system without locks is used without one.

    Raises:
        FileError: the folder cannot be created, or another process has locked it for `LOCK_SECONDS`.
    """
    folder = Path(os.path.realpath(path)).parent
    with convert_write_errors(path):
        create_private_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not try_lock(descriptor):
            if time.monotonic() >= deadline:
                problem = f"{folder} has been locked by another process for {LOCK_SECONDS:g} s"
                raise FileError(problem, "continue or end it; it may be suspended, or wait for a keyring")
            time.sleep(RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False if it is already locked.

    On a file system without locks this always succeeds.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
