"""Truncate long outputs: a result keeps the head and the tail, and a file gets the full text."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
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
    `context.overflow_directory` with the full text.
    """
    if len(text) <= MAX_RESULT_LENGTH:
        return text
    capture = OutputCapture(context.overflow_directory, "result")
    capture.feed(text)
    return capture.truncate(MAX_RESULT_LENGTH)


class OutputCapture:
    """Collects a text that arrives in pieces; keeps at most `MAX_RESULT_LENGTH` characters in memory.

    A longer text goes to a file in `directory` whose name begins with `label`, created by `open_file`.
    """

    def __init__(self, directory: Path, label: str, open_file: Callable[[Path], RawIOBase] | None = None) -> None:
        self.length = 0
        self._path = directory / f"{label}-{os.urandom(8).hex()}.txt"
        self._open_file = open_file or open_private_file
        self._head = ""
        self._tail = ""
        self._file: RawIOBase | None = None
        self._saved_size = 0
        self._is_saved = True

    def feed(self, text: str) -> None:
        """Add the next piece."""
        if self.length + len(text) > MAX_RESULT_LENGTH:
            self._save(text)
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
        self._save("")
        if self._file:
            self._file.close()
        kept_length = max(0, max_length - len(self._format_note(self.length)))
        head, tail = kept_length - kept_length // 2, kept_length // 2
        return kept[:head] + self._format_note(self.length - kept_length) + kept[len(kept) - tail :]

    def discard(self) -> None:
        """Delete the overflow file, if there is one: no result refers to it."""
        if self._file:
            self._file.close()
            self._path.unlink(missing_ok=True)

    def _save(self, text: str) -> None:
        """Add a piece to the overflow file. If it cannot be written, the call continues without it."""
        if not self._is_saved:
            return
        data = (text if self._file else self._head + self._tail + text).encode("utf-8", "backslashreplace")
        written = 0
        with suppress(OSError):
            self._file = self._file or self._open_file(self._path)
            written = self._file.write(data[: MAX_OVERFLOW_SIZE - self._saved_size]) or 0
        self._saved_size += written
        self._is_saved = written == len(data)

    def _format_note(self, omitted_count: int) -> str:
        if self._is_saved:
            location = f"the full output is in {self._path}"
        elif self._saved_size:
            location = f"the first {self._saved_size:,} bytes are in {self._path}"
        else:
            location = "they could not be saved to a file"
        return f"\n[... {omitted_count:,} characters omitted; {location} ...]\n"


def open_private_file(path: Path) -> RawIOBase:
    """Create a file that only its owner can read, and its folder if necessary."""
    create_private_folder(path.parent)
    return FileIO(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600))
