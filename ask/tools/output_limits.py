"""What becomes of an output that is too long for a result: head and tail stay, the whole goes to a file.

Running things and redacting secrets are left to others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import FileIO, RawIOBase
from pathlib import Path

from ask.atomic_files import create_private_folder
from ask.tools.base import ToolContext

MAX_RESULT_LENGTH = 30_000
"""Characters that one result may have."""
MAX_OVERFLOW_SIZE = 100_000_000
"""Bytes that one spilled file may have."""

_HALF_LENGTH = MAX_RESULT_LENGTH // 2


def truncate_result(text: str, context: ToolContext) -> str:
    """The text of a result, at most `MAX_RESULT_LENGTH` characters long.

    A longer one keeps its head and tail around a line that says what was left out and names the file
    in `context.spill_directory` that has the whole.
    """
    if len(text) <= MAX_RESULT_LENGTH:
        return text
    capture = OutputCapture(context.spill_directory, "result")
    capture.feed(text)
    return capture.truncate(MAX_RESULT_LENGTH)


class OutputCapture:
    """A text that comes in pieces, of which never more than `MAX_RESULT_LENGTH` characters are held.

    Once it is longer, all of it goes to a file in `directory` whose name begins with `label`, made by `open_file`.
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
        """Takes the next piece."""
        if self.length + len(text) > MAX_RESULT_LENGTH:
            self._open_overflow_file().write(text)
        room = _HALF_LENGTH - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-_HALF_LENGTH:]
        self.length += len(text)

    def truncate(self, max_length: int) -> str:
        """The text in at most `max_length` characters, `MAX_RESULT_LENGTH` at most; nothing may be fed after it."""
        kept = self._head + self._tail
        if self.length <= max_length:
            return kept
        spill = self._open_overflow_file()
        spill.close()
        room = max(0, max_length - len(_format_truncation_note(self.length, spill)))
        head, tail = room - room // 2, room // 2
        return kept[:head] + _format_truncation_note(self.length - room, spill) + kept[len(kept) - tail :]

    def discard(self) -> None:
        """Removes the file, where there is one: no result will name it."""
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
    """A file that its owner alone can read. Where it cannot be written the call goes on without it."""

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
    """A new file that its owner alone can read; its folder is made where it is missing."""
    create_private_folder(path.parent)
    return FileIO(path, "x", opener=_open_private_descriptor)


def _open_private_descriptor(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _format_truncation_note(omitted_count: int, overflow_file: _OverflowFile) -> str:
    if overflow_file.complete:
        where = f"the whole is in {overflow_file.path}"
    elif overflow_file.size:
        where = f"the first {overflow_file.size:,} bytes are in {overflow_file.path}"
    else:
        where = "no file could be written to keep them"
    return f"\n[... {omitted_count:,} characters left out; {where} ...]\n"
