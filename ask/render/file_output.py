"""A file that takes what would otherwise go to standard output: whole once it is written, or as it was before."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE
from types import TracebackType
from typing import Self

from ask.errors import AskError, FileError, ReaderGone


class FileOutput:
    """A file that is written as a context; what it held stays until all is written. A link is written through.

    Args:
        path: the file. One that is no regular file, such as /dev/stdout or a pipe, is written to as it is.

    Raises:
        FileError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary: Path | None = None
        try:
            target = path.resolve()
            if target.exists() and not target.is_file():
                self._file = path.open("wb")
                return
            mode = S_IMODE(target.stat().st_mode) if target.exists() else None
            self._target = target
            temporary = target.parent / f".ask-{os.urandom(8).hex()}.tmp"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            self._file, self._temporary = os.fdopen(descriptor, "wb"), temporary
            if mode is not None:
                os.fchmod(descriptor, mode)
        except (OSError, ValueError, RuntimeError) as fault:
            raise self._failure(fault) from fault

    def write(self, text: str) -> None:
        """Write a piece of text.

        Raises:
            FileError: it cannot be written.
            ReaderGone: it is a pipe that nobody reads any more.
        """
        try:
            self._file.write(text.encode(errors="replace"))
        except OSError as fault:
            raise self._failure(fault) from fault

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._file.close()
            if self._temporary is not None and kind is None:
                self._temporary.replace(self._target)
                self._temporary = None
        except OSError as fault:
            raise self._failure(fault) from fault
        finally:
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)

    def _failure(self, fault: Exception) -> AskError:
        if isinstance(fault, BrokenPipeError):
            return ReaderGone("nobody reads the output")
        reason = fault.strerror if isinstance(fault, OSError) else str(fault)
        return FileError(f"cannot write {self._path} ({reason})")
