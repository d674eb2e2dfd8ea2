"""Truncate long outputs: a result keeps the head and the tail, and a file gets the full text."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import FileIO, RawIOBase
from pathlib import Path

from ask.atomic_files import create_private_folder
from ask.tools.base import ToolContext

MAX_RESULT_LENGTH = 30_000
"""Maximum length of a result, in characters."""
MAX_OVERFLOW_SIZE = 100_000_000
"""Maximum size of an overflow file, in bytes."""

_HALF_LENGTH = MAX_RESULT_LENGTH // 2


def truncate_result(text: str, context: ToolContext) -> str:
    """Truncate a result to `MAX_RESULT_LENGTH` characters.

    A longer text keeps its head and tail around a note that says how much is missing and names the file in
    `context.spill_directory` with the full text.
    """
    if len(text) <= MAX_RESULT_LENGTH:
        return text
    capture = OutputCapture(context.spill_directory, "result")
    capture.feed(text)
    return capture.truncate(MAX_RESULT_LENGTH)


class OutputCapture:
    """Collects a text that arrives in pieces; keeps at most `MAX_RESULT_LENGTH` characters in memory.

    A longer text goes to a file in `directory` whose name begins with `label`, created by `open_file`.
    """

    def __init__(self, directory: Path, label: str, open_file: Callable[[Path], RawIOBase] | None = None) -> None:
        self.length = 0
        self._open_file = open_file or open_private_file
        self._directory = directory
        self._label = label
        self._head = ""
        self._tail = ""
        self._overflow_file: _OverflowFile | None = None

    def feed(self, text: str) -> None:
        """Add the next piece."""
        if self.length + len(text) > MAX_RESULT_LENGTH:
            self._open_overflow_file().write(text)
        remaining = _HALF_LENGTH - len(self._head)
        self._head += text[:remaining]
        self._tail = (self._tail + text[remaining:])[-_HALF_LENGTH:]
        self.length += len(text)

    def truncate(self, max_length: int) -> str:
        """Return the text in at most `max_length` characters.

        The limit cannot exceed `MAX_RESULT_LENGTH`. Nothing may be fed afterwards.
        """
        kept = self._head + self._tail
        if self.length <= max_length:
            return kept
        overflow_file = self._open_overflow_file()
        overflow_file.close()
        kept_length = max(0, max_length - len(_format_truncation_note(self.length, overflow_file)))
        head, tail = kept_length - kept_length // 2, kept_length // 2
        return (
            kept[:head] + _format_truncation_note(self.length - kept_length, overflow_file) + kept[len(kept) - tail :]
        )

    def discard(self) -> None:
        """Delete the overflow file, if there is one: no result refers to it."""
        if self._overflow_file is not None:
            self._overflow_file.close()
            self._overflow_file.path.unlink(missing_ok=True)

    def _open_overflow_file(self) -> _OverflowFile:
        if self._overflow_file is None:
            self._overflow_file = _OverflowFile(
                self._directory / f"{self._label}-{os.urandom(8).hex()}.txt", self._open_file
            )
            self._overflow_file.write(self._head + self._tail)
        return self._overflow_file


class _OverflowFile:
    """A file for the full text, readable only by its owner. If it cannot be written, the call continues without it."""

    def __init__(self, path: Path, open_file: Callable[[Path], RawIOBase]) -> None:
        self.path = path
        self.size = 0
        self.complete = True
        self._file: RawIOBase | None = None
        try:
            self._file = open_file(path)
        except OSError:
            self.complete = False

    def write(self, text: str) -> None:
        if self._file is None or not self.complete:
            return
        data = text.encode("utf-8", "backslashreplace")
        try:
            written = self._file.write(data[: MAX_OVERFLOW_SIZE - self.size])
        except OSError:
            written = 0
        self.size += written
        self.complete = written == len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def open_private_file(path: Path) -> RawIOBase:
    """Create a file that only its owner can read, and its folder if necessary."""
    create_private_folder(path.parent)
    return FileIO(path, "x", opener=_open_private_descriptor)


def _open_private_descriptor(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _format_truncation_note(omitted_count: int, overflow_file: _OverflowFile) -> str:
    if overflow_file.complete:
        location = f"the whole is in {overflow_file.path}"
    elif overflow_file.size:
        location = f"the first {overflow_file.size:,} bytes are in {overflow_file.path}"
    else:
        location = "no file could be written to keep them"
    return f"\n[... {omitted_count:,} characters left out; {location} ...]\n"
