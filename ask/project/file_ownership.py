"""Reading files whose content counts as instructions, and which no other user may have written."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from ask.config.secret_files import can_contain_secrets


class UnsafeFileError(Exception):
    """A file that must not or cannot be used; the message is the reason."""


def read_owned_file(path: Path, root: Path, limit: int, folder: Path | None = None) -> tuple[bytes, int]:
    """Read at most `limit` bytes of a regular file below `root`; return also the file's size.

    Text in another encoding than UTF-8 is converted, and the size is then that of the converted text.

    Every folder from `root` down is opened through the one above it, so that a folder swapped for a symbolic link
    after the check cannot redirect the read. With a `folder`, whose path has no links, the file must be below that too.

    Raises:
        UnsafeFileError: it is outside `root` or `folder`, it is not a regular text file, its name or that of its
            folder is one for secrets, another user owns or can write it or a folder on its path, or it cannot be read.
    """
    try:
        data, size = _read_file(path, root, limit, folder)
    except OSError as error:
        raise UnsafeFileError(error.strerror) from None
    except ValueError:  # a NUL in the path
        raise UnsafeFileError("it is not a path") from None
    if len(data) == size:
        data = _convert_to_utf8(data)
        size = len(data)
    if b"\0" in data:
        raise UnsafeFileError("it is not text")
    return data, size


def _convert_to_utf8(data: bytes) -> bytes:
    """Convert a text to UTF-8, also from UTF-16, as PowerShell writes it; leave anything else unchanged."""
    with suppress(UnicodeDecodeError):
        if b"\0" not in data:
            data.decode()
            return data
    from ask.tools.text_encoding import decode_bytes

    decoded = decode_bytes(data)
    return decoded.text.encode() if decoded and decoded.encoding != "utf-8" else data


def _read_file(path: Path, root: Path, limit: int, folder: Path | None) -> tuple[bytes, int]:
    for above in path.parents:  # whoever can write a folder can replace a link in it
        if above.is_relative_to(root):
            _check_owner(above.stat(), above)
    real_root, real_path = Path(os.path.realpath(root)), Path(os.path.realpath(path, strict=True))
    for allowed in (real_root, folder or real_root):
        if real_path == allowed or not real_path.is_relative_to(allowed):
            raise UnsafeFileError(f"it is outside {allowed}")
    parts = real_path.relative_to(real_root).parts
    if any(can_contain_secrets(part.lower()) for part in parts):
        raise UnsafeFileError("it may contain secrets")
    with ExitStack() as stack:

        def open_checked(name: Path | str, flags: int, parent: int | None, shown: Path) -> int:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            stack.callback(os.close, descriptor)
            _check_owner(os.fstat(descriptor), shown)
            return descriptor

        parent = open_checked(real_root, os.O_DIRECTORY, None, real_root)
        for depth, part in enumerate(parts[:-1], start=1):
            parent = open_checked(part, os.O_DIRECTORY, parent, real_root.joinpath(*parts[:depth]))
        _check_regular(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False))  # opening a device has side effects
        descriptor = open_checked(parts[-1], os.O_NONBLOCK | os.O_NOCTTY, parent, real_path)
        status = os.fstat(descriptor)
        _check_regular(status)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit), status.st_size


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFileError("it is not a regular file")


def _check_owner(status: os.stat_result, path: Path) -> None:
    """Raise `UnsafeFileError` if a user other than this one and root owns a file or can write it."""
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafeFileError(f"another user owns {path}")
    is_shared = status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, status.st_uid)
    if status.st_mode & stat.S_IWOTH or is_shared:
        raise UnsafeFileError(f"other users can write {path}")


def _is_private_group(group_id: int, user_id: int) -> bool:
    """Check whether a group has a single member, as where each user has a group and the umask is 002."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(group_id), pwd.getpwuid(user_id)
    except KeyError:
        return False
    return group_id == user.pw_gid and group.gr_name == user.pw_name and not {*group.gr_mem} - {user.pw_name}
