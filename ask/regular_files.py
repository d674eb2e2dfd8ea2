"""Reading files that must be regular: from a named pipe or a device, it may never end. Most commands load this."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from io import BufferedReader


def open_regular_file(path: Path, mode: Literal["rb", "rb+"] = "rb") -> BufferedReader:
    """Open a file that must be regular: reading a named pipe or a device may never end.

    /dev/null is an empty file, because containers mount it over files to hide them.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    return cast("BufferedReader", open(_open_regular(path, os.O_RDWR if "+" in mode else os.O_RDONLY), mode))


def _open_regular(path: Path, access: int) -> int:
    flags = access | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except BlockingIOError:  # a file server such as Samba has a lease on the file, and gives it up within seconds
        descriptor = os.open(path, flags)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) or is_null_device(status):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def is_null_device(status: os.stat_result) -> bool:
    """Check whether a file is /dev/null, or that of another container, which is another file."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev


def read_regular_file(path: Path) -> bytes:
    """Read a file that must be regular, as `open_regular_file` opens it."""
    with open_regular_file(path) as file:
        return file.read()
