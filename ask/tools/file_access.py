"""Files for the tools: opened without ever blocking, written at once or not at all, errors told to the model.

What is done with the content is left to `files` and `edits`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ask.atomic_files import Ownership, replace_file
from ask.tools.base import ApprovedFile, ToolContext, ToolError

FILE_LIMIT = 10 * 1024 * 1024
"""Bytes of the largest file that is read or written."""

_LONGEST_PATH = 4_096
"""Bytes of a path that no system takes any more of, Linux's PATH_MAX."""
_PATH_TOLD = 200
_FOLDERS_MADE = 100
"""How many missing folders are made for a file at most: what lies deeper, most programs cannot walk or remove."""
_NAMES_SEEN = 1_000
_NAMES_TOLD = 20
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""macOS has no O_PATH."""
NOT_AS_SHOWN = "{name} was not written: it is no longer as it was when the user was asked; read it and try again"
_KINDS = {
    stat.S_IFDIR: "a directory; list_dir shows what is in it",
    stat.S_IFIFO: "a pipe (FIFO), not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


def resolve(name: str, context: ToolContext) -> Path:
    """The path that the model means by `name`: from the run's directory on, or from a home directory with `~`."""
    try:
        if len(os.fsencode(name)) > _LONGEST_PATH:
            raise ToolError(f"the path is too long, {len(name):,} characters: {name[:_PATH_TOLD]}...")
        if not name or "\0" in name:
            raise ToolError("the path is empty or holds a NUL")
        return context.directory / Path(name).expanduser()
    except UnicodeEncodeError:
        raise ToolError("the path holds half a character") from None
    except RuntimeError:
        raise ToolError(f"{name}: no such user") from None


@contextmanager
def told_to_model(name: str, path: Path, context: ToolContext, what: str = "file") -> Iterator[None]:
    """Turns the operating system's errors into results that help; `name` is the path as the model gave it."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(_missing(name, path, context, what)) from None
    except (NotADirectoryError, FileExistsError):
        raise ToolError(f"{name}: a part of this path is a file, not a directory") from None
    except PermissionError:
        raise ToolError(f"{name}: no permission") from None
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}") from None


def list_entries(path: Path, context: ToolContext, limit: int | None = None) -> list[os.DirEntry[str]]:
    """List a folder without the placeholders of safe mode, in no particular order.

    Raises:
        OSError: it cannot be read.
    """
    with os.scandir(path) as entries:
        found = list(islice(entries, limit))
    folder = path.resolve() if context.placeholders else path
    return [entry for entry in found if folder / entry.name not in context.placeholders or not _is_empty(entry)]


def _is_empty(entry: os.DirEntry[str]) -> bool:
    try:
        if entry.is_dir(follow_symlinks=False):
            with os.scandir(entry.path) as entries:
                return next(entries, None) is None
        return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size == 0
    except OSError:
        return False


def read_regular(name: str, path: Path | str, folder: int | None = None) -> bytes:
    """Read a regular file of at most `FILE_LIMIT` bytes.

    Messages call it `name`. With an open `folder`, `path` is a name in there, and a link is not followed.

    Raises:
        ToolError: it is something else, or larger.
        OSError: it cannot be read.
    """
    follow = folder is None
    _refuse_special(name, os.stat(path, dir_fd=folder, follow_symlinks=follow))  # opening some devices has an effect
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _refuse_special(name, status)
        # A file in /proc has no size, and another may be growing.
        data = file.read(FILE_LIMIT + 1) or b"" if status.st_size <= FILE_LIMIT else b""
    size = max(status.st_size, len(data))
    if size > FILE_LIMIT:
        raise ToolError(
            f"{name}: {size:,} bytes, and files over {FILE_LIMIT:,} are not read; "
            "with bash, grep, head, tail or sed -n can take a part of it"
        )
    return data


class WriteTarget(NamedTuple):
    """A path to write to, reached through an open folder: a folder swapped for a link cannot redirect the write.

    Attributes:
        path: without links.
        folder: a descriptor of the innermost folder on the path that exists.
        missing: the names of the folders to make in it, the outermost first.
        status: of the file; None if it does not exist.
    """

    path: Path
    folder: int
    missing: Sequence[str]
    status: os.stat_result | None

    def identify(self, content: bytes | None = None) -> ApprovedFile:
        """Describe the file, and its content as far as that was read."""
        return ApprovedFile(
            str(self.path),
            _identity(os.fstat(self.folder)),
            _identity(self.status) if self.status else "",
            digest(content) if content is not None else "",
        )

    def read(self, name: str) -> bytes:
        """Read the file.

        Raises:
            ToolError, OSError: as from `read_regular`.
        """
        return read_regular(name, self.path.name, self.folder)


@contextmanager
def open_target(path: Path) -> Iterator[WriteTarget]:
    """Open the folder of a path that contains no link.

    Raises:
        OSError: a part of the path is a link or a file by now, or cannot be opened.
    """
    *folders, name = path.parts[1:] or ("",)
    folder, missing = open_folders(path.anchor, folders)
    try:
        status = None
        if not missing:
            with suppress(FileNotFoundError):
                status = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
        yield WriteTarget(path, folder, missing, status)
    finally:
        os.close(folder)


def open_folders(start: Path | str | int, names: Sequence[str], *, make: bool = False) -> tuple[int, Sequence[str]]:
    """Open a folder inside `start` step by step, following no link.

    Args:
        start: a path, or the descriptor of a folder.
        names: the name of each folder on the way.
        make: make the missing ones.

    Returns the descriptor of the innermost folder that exists, and the names that are missing in it.

    Raises:
        OSError: one is no folder, or cannot be opened or made.
    """
    place = os.open(".", _FOLDER_FLAGS, dir_fd=start) if isinstance(start, int) else os.open(start, _FOLDER_FLAGS)
    try:
        for count, name in enumerate(names):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=place)
            try:
                inner = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=place)
            except FileNotFoundError:
                return place, names[count:]
            os.close(place)
            place = inner
    except BaseException:
        os.close(place)
        raise
    return place, ()


def check_approved(name: str, approved: ApprovedFile | None, target: WriteTarget) -> None:
    """Refuse a write to anything but the file that the user approved, or after that file has changed.

    Raises:
        ToolError: it is another file or has another content by now.
        OSError: it cannot be read.
    """
    if approved is None:
        return
    if approved.folder:
        content = target.read(name) if approved.digest and target.status else None
        same = target.identify(content) == approved
    else:
        same = str(target.path) == approved.path
    if not same:
        raise ToolError(NOT_AS_SHOWN.format(name=name))


def check_approved_content(name: str, approved: ApprovedFile | None, content: bytes) -> None:
    """Refuse an edit of a content that is not the one that the user was shown.

    Raises:
        ToolError: it is another one.
    """
    if approved and approved.folder and digest(content) != approved.digest:
        raise ToolError(NOT_AS_SHOWN.format(name=name))


def write_regular(name: str, path: Path, data: bytes, context: ToolContext) -> bool:
    """Write `data` as the whole content of a file; return whether the file is new.

    The file keeps its mode and, where permitted, its owner. Up to `_FOLDERS_MADE` missing folders are made. A link is
    written through. A file with several names (hard links) is rewritten in place, unless the context says to break
    them: it then becomes a file of its own.

    Raises:
        ToolError: it is no regular file, `data` is over `FILE_LIMIT` bytes, too many folders are missing, or it is
            not the file that the user approved.
        OSError: it cannot be written; then what was there is untouched.
    """
    if len(data) > FILE_LIMIT:
        raise ToolError(f"{name}: {len(data):,} bytes, and files over {FILE_LIMIT:,} are not written")
    with suppress(FileNotFoundError):
        _refuse_special(name, path.stat())
    with open_target(path.resolve()) as target:
        if target.status:
            _refuse_special(name, target.status)
            if not os.access(target.path.name, os.W_OK, dir_fd=target.folder):
                raise PermissionError
        check_approved(name, context.approved_file, target)
        missing = len(target.missing)
        if missing > _FOLDERS_MADE:
            raise ToolError(
                f"{name}: {missing:,} folders of this path are missing, and over {_FOLDERS_MADE} are not made"
            )
        context.keep_original(target.path, data)
        folder, _ = open_folders(target.folder, target.missing, make=True)
        try:
            if target.status and target.status.st_nlink > 1 and context.keep_hard_links:
                rewrite_file(target.path.name, [data], len(data), target.status, folder)
            else:
                owned = Ownership.from_status(target.status) if target.status else None
                replace_file(Path(target.path.name), [data], owned, folder)
        finally:
            os.close(folder)
    return target.status is None


def rewrite_file(
    path: Path | str, pieces: Iterable[bytes], size: int, expected: os.stat_result, folder: int | None = None
) -> None:
    """Rewrite a file in place, for all its names. The disk space is allocated before anything is overwritten.

    With an open `folder`, `path` is a name in there. `size` is that of the new content. Another file than the one
    whose status is `expected` is not written.

    Raises:
        OSError: it cannot be written, or is another file by now.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        status = os.fstat(descriptor)
        if _identity(status) != _identity(expected):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if size > status.st_size:
            _allocate(descriptor, status.st_size, size)
        file.writelines(pieces)
        file.truncate()
        file.flush()
        with suppress(PermissionError):  # writing takes set-id bits away
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _allocate(descriptor: int, before: int, size: int) -> None:
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.ftruncate(descriptor, before)
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not every file system can do it
            raise


def digest(content: bytes) -> str:
    """Return the SHA-256 of a content in hexadecimal."""
    from hashlib import sha256

    return sha256(content).hexdigest()


def shown(name: str) -> str:
    """A file's name on one line: control characters escaped, bytes that are not UTF-8 in hexadecimal."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"


def _refuse_special(name: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{name} is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no regular file')}")


def _missing(name: str, path: Path, context: ToolContext, what: str) -> str:
    if path.is_symlink():
        return f"{name} is a link to {shown(str(path.readlink()))}, which does not exist"
    if not path.parent.is_dir():
        return f"{name}: no such {what}; its directory does not exist either"
    try:
        names = sorted(entry.name for entry in list_entries(path.parent, context, _NAMES_SEEN))
    except OSError:
        return f"{name}: no such {what}"
    if not names:
        return f"{name}: no such {what}; the directory is empty"
    from ask.suggestions import find_similar

    near = find_similar(path.name, names, 3)
    told = [*near, *(other for other in names if other not in near)][:_NAMES_TOLD]
    more = ", ..." if len(names) > len(told) else ""
    return f"{name}: no such {what}; the directory holds {', '.join(map(shown, told))}{more}"
