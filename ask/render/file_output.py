"""An output file that replaces standard output: written completely or left unchanged."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ask.atomic_files import Ownership, open_replacement
from ask.errors import AskError, BrokenOutputError, FileError


class FileOutput:
    """A context manager for a file that is replaced only after everything is written.

    A symbolic link is followed. A path that is not a regular file, such as /dev/stdout or a pipe, is written directly.

    Raises:
        FileError: the file cannot be written.
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
        except (OSError, ValueError, RuntimeError) as error:
            raise self._make_error(error) from error

    def write(self, text: str) -> None:
        """Write some text.

        Raises:
            FileError: the file cannot be written.
            BrokenOutputError: the file is a pipe whose reader has closed it.
        """
        try:
            self._file.write(text.encode(errors="replace"))
        except OSError as error:
            raise self._make_error(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._exit_stack.__exit__(exc_type, exc, traceback)
        except OSError as error:
            raise self._make_error(error) from error

    def _make_error(self, error: Exception) -> AskError:
        if isinstance(error, BrokenPipeError):
            return BrokenOutputError("nobody reads the output")
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return FileError(f"cannot write {self._path} ({reason})")
