"""An output file that replaces standard output: written completely or left unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ask.atomic_files import Ownership, replace_file
from ask.errors import BrokenOutputError, FileError


def write_file(path: Path, chunks: Iterable[str]) -> None:
    """Write text to a file, which is replaced only after everything is written.

    A symbolic link is followed. A path that is not a regular file, such as /dev/stdout or a pipe, is written directly.

    Raises:
        FileError: the file cannot be written.
        BrokenOutputError: it is a pipe whose reader has closed it.
    """
    target = Path(os.path.realpath(path))
    content = (chunk.encode(errors="replace") for chunk in chunks)
    try:
        if target.exists() and not target.is_file():
            with path.open("wb") as file:
                file.writelines(content)
        else:
            replace_file(target, content, Ownership.from_status(target.stat()) if target.exists() else None)
    except BrokenPipeError:
        raise BrokenOutputError("standard output was closed by its reader") from None
    except OSError as error:
        raise FileError(f"cannot write {path} ({error.strerror})") from error
