"""Files for the tools: opened without ever blocking, written at once or not at all, errors told to the model.

What is done with the content is left to `files` and `edits`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path

from ask.state_files import Ownership, replace_file
from ask.tools import ToolContext, ToolError

FILE_LIMIT = 10 * 1024 * 1024
"""Bytes of the largest file that is read or written."""

_LONGEST_PATH = 4_096
"""Bytes of a path that no system takes any more of, Linux's PATH_MAX."""
_PATH_TOLD = 200
_FOLDERS_MADE = 100
"""How many missing folders are made for a file at most: what lies deeper, most programs cannot walk or remove."""
_NAMES_SEEN = 1_000
_NAMES_TOLD = 20
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
def told_to_model(name: str, path: Path, what: str = "file") -> Iterator[None]:
    """Turns the operating system's errors into results that help; `name` is the path as the model gave it."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(_missing(name, path, what)) from None
    except (NotADirectoryError, FileExistsError):
        raise ToolError(f"{name}: a part of this path is a file, not a directory") from None
    except PermissionError:
        raise ToolError(f"{name}: no permission") from None
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}") from None


def read_regular(name: str, path: Path) -> bytes:
    """The content of a regular file of at most `FILE_LIMIT` bytes.

    Raises:
        ToolError: it is something else, or larger.
        OSError: it cannot be read.
    """
    _refuse_special(name, path.stat())  # first, because opening some devices does something
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
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


def write_regular(name: str, path: Path, data: bytes, keep_original: Callable[[Path, bytes], None]) -> bool:
    """Puts `data` in the place of a file's content; the file keeps its mode and, where that may be, its owner.

    Up to `_FOLDERS_MADE` missing folders are made. A link is written through. Returns whether the file is new.
    `keep_original` is that of a `ToolContext`.

    Raises:
        ToolError: it is no regular file, `data` is over `FILE_LIMIT` bytes, or too many folders are missing.
        OSError: it cannot be written; then what was there is untouched.
    """
    if len(data) > FILE_LIMIT:
        raise ToolError(f"{name}: {len(data):,} bytes, and files over {FILE_LIMIT:,} are not written")
    old = _status(path)
    if old:
        _refuse_special(name, old)
        if not os.access(path, os.W_OK):
            raise PermissionError
    target = path.resolve()
    missing = sum(1 for _ in takewhile(lambda folder: not folder.exists(), target.parents))
    if missing > _FOLDERS_MADE:
        raise ToolError(f"{name}: {missing:,} folders of this path are missing, and over {_FOLDERS_MADE} are not made")
    keep_original(target, data)
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, [data], Ownership.from_status(old) if old else None)
    return old is None


def shown(name: str) -> str:
    """A file's name on one line: control characters escaped, bytes that are not UTF-8 in hexadecimal."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _refuse_special(name: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{name} is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no regular file')}")


def _missing(name: str, path: Path, what: str) -> str:
    if path.is_symlink():
        return f"{name} is a link to {shown(str(path.readlink()))}, which does not exist"
    if not path.parent.is_dir():
        return f"{name}: no such {what}; its directory does not exist either"
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in islice(entries, _NAMES_SEEN))
    except OSError:
        return f"{name}: no such {what}"
    if not names:
        return f"{name}: no such {what}; the directory is empty"
    from ask.tools.likeness import nearest

    near = nearest(path.name, names, 3)
    told = [*near, *(other for other in names if other not in near)][:_NAMES_TOLD]
    more = ", ..." if len(names) > len(told) else ""
    return f"{name}: no such {what}; the directory holds {', '.join(map(shown, told))}{more}"
