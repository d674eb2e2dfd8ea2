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

RESULT_LIMIT = 30_000
"""Characters that one result may have."""
SPILL_LIMIT = 100_000_000
"""Bytes that one spilled file may have."""

_HALF = RESULT_LIMIT // 2


def cap(text: str, context: ToolContext) -> str:
    """The text of a result, at most `RESULT_LIMIT` characters long.

    A longer one keeps its head and tail around a line that says what was left out and names the file
    in `context.spill_directory` that has the whole.
    """
    if len(text) <= RESULT_LIMIT:
        return text
    capture = Capture(context.spill_directory, "result")
    capture.feed(text)
    return capture.shorten(RESULT_LIMIT)


class Capture:
    """A text that comes in pieces, of which never more than `RESULT_LIMIT` characters are held.

    Once it is longer, all of it goes to a file in `directory` whose name begins with `label`, made by `open_file`.
    """

    def __init__(self, directory: Path, label: str, open_file: Callable[[Path], RawIOBase] | None = None) -> None:
        self.length = 0
        self._open_file = open_file or open_new
        self._directory = directory
        self._label = label
        self._head = ""
        self._tail = ""
        self._spill: _Spill | None = None

    def feed(self, text: str) -> None:
        """Takes the next piece."""
        if self.length + len(text) > RESULT_LIMIT:
            self._spilled().write(text)
        room = _HALF - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-_HALF:]
        self.length += len(text)

    def shorten(self, limit: int) -> str:
        """The text in at most `limit` characters, `RESULT_LIMIT` at most; nothing may be fed after it."""
        kept = self._head + self._tail
        if self.length <= limit:
            return kept
        spill = self._spilled()
        spill.close()
        room = max(0, limit - len(_note(self.length, spill)))
        head, tail = room - room // 2, room // 2
        return kept[:head] + _note(self.length - room, spill) + kept[len(kept) - tail :]

    def discard(self) -> None:
        """Removes the file, where there is one: no result will name it."""
        if self._spill is not None:
            self._spill.close()
            self._spill.path.unlink(missing_ok=True)

    def _spilled(self) -> _Spill:
        if self._spill is None:
            self._spill = _Spill(self._directory / f"{self._label}-{os.urandom(8).hex()}.txt", self._open_file)
            self._spill.write(self._head + self._tail)
        return self._spill


class _Spill:
    """A file that its owner alone can read. Where it cannot be written the call goes on without it."""

    def __init__(self, path: Path, open_file: Callable[[Path], RawIOBase]) -> None:
        self.path = path
        self.size = 0
        self.whole = True
        self._file: RawIOBase | None = None
        try:
            self._file = open_file(path)
        except OSError:
            self.whole = False

    def write(self, text: str) -> None:
        if self._file is None or not self.whole:
            return
        data = text.encode("utf-8", "backslashreplace")
        try:
            written = self._file.write(data[: SPILL_LIMIT - self.size])
        except OSError:
            written = 0
        self.size += written
        self.whole = written == len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def open_new(path: Path) -> RawIOBase:
    """A new file that its owner alone can read; its folder is made where it is missing."""
    create_private_folder(path.parent)
    return FileIO(path, "x", opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _note(left_out: int, spill: _Spill) -> str:
    if spill.whole:
        where = f"the whole is in {spill.path}"
    elif spill.size:
        where = f"the first {spill.size:,} bytes are in {spill.path}"
    else:
        where = "no file could be written to keep them"
    return f"\n[... {left_out:,} characters left out; {where} ...]\n"
