"""A file that takes what would otherwise go to standard output: whole once it is written, or as it was before."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ask.atomic_files import Ownership, open_replacement
from ask.errors import AskError, BrokenOutputError, FileError


class FileOutput:
    """A file that is written as a context; what it held stays until all is written. A link is written through.

    Args:
        path: the file. One that is no regular file, such as /dev/stdout or a pipe, is written to as it is.

    Raises:
        FileError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._exit_stack = ExitStack()
        try:
            target = path.resolve()
            if target.exists() and not target.is_file():
                opening: AbstractContextManager[BinaryIO] = path.open("wb")
            else:
                opening = open_replacement(target, Ownership.from_status(target.stat()) if target.exists() else None)
            self._file = self._exit_stack.enter_context(opening)
        except (OSError, ValueError, RuntimeError) as fault:
            raise self._make_error(fault) from fault

    def write(self, text: str) -> None:
        """Write a piece of text.

        Raises:
            FileError: it cannot be written.
            ReaderGone: it is a pipe that nobody reads any more.
        """
        try:
            self._file.write(text.encode(errors="replace"))
        except OSError as fault:
            raise self._make_error(fault) from fault

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._exit_stack.__exit__(exc_type, exc, traceback)
        except OSError as fault:
            raise self._make_error(fault) from fault

    def _make_error(self, error: Exception) -> AskError:
        if isinstance(error, BrokenPipeError):
            return BrokenOutputError("nobody reads the output")
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return FileError(f"cannot write {self._path} ({reason})")
