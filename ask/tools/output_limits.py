"""Truncate long outputs: a result keeps the head and the tail, and a file gets the full text."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from ask.atomic_files import create_private_folder, open_private_file

if TYPE_CHECKING:
    from ask.tools.base import RunToolContext

MAX_RESULT_CHARACTERS = 30_000
"""Maximum length of a tool's result; a longer one is truncated."""
MAX_OVERFLOW_BYTES = 100_000_000
"""Maximum size of an overflow file."""
MAX_STORED_RESULTS_BYTES = 256_000_000
"""Maximum size of all overflow files; the oldest are removed first, by `ask.undo.retention`."""
MAX_RESULT_AGE_SECONDS = 30 * 86_400.0
"""Seconds after which an overflow file is removed."""
MIN_RESULT_AGE_SECONDS = 86_400.0
"""Seconds until which none is removed: the model may still read it."""


def truncate_result(text: str, context: RunToolContext) -> str:
    """Truncate a result to `MAX_RESULT_CHARACTERS` characters.

    A longer text keeps its head and tail around a note that says how much is missing and names the file in
    `context.overflow_directory` with the full text.
    """
    if len(text) <= MAX_RESULT_CHARACTERS:
        return text
    capture = OutputCapture(context.overflow_directory, "result")
    capture.feed(text)
    return capture.truncate(MAX_RESULT_CHARACTERS)


class OutputCapture:
    """Collects a text that arrives in pieces; keeps at most `max_length` characters in memory.

    A longer text goes to a file in `directory` whose name begins with `label`.
    """

    def __init__(self, directory: Path, label: str, max_length: int = MAX_RESULT_CHARACTERS) -> None:
        self.length = 0
        self._path = directory / f"{label}-{os.urandom(8).hex()}.txt"
        self._max_length = max_length
        self._head = ""
        self._tail = ""
        self._file: FileIO | None = None
        self._saved_size = 0
        self._is_saved = True

    def feed(self, text: str) -> None:
        """Add the next piece."""
        if self.length + len(text) > self._max_length:
            self._save(text)
        half_length = self._max_length // 2
        remaining = half_length - len(self._head)
        self._head += text[:remaining]
        self._tail = (self._tail + text[remaining:])[-half_length:]
        self.length += len(text)

    def truncate(self, max_length: int) -> str:
        """Return the text in at most `max_length` characters.

        The limit cannot exceed that of the capture. Nothing may be fed afterwards.
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
            with suppress(OSError):
                self._path.parent.rmdir()  # the folder of a conversation, unless it has other files

    def _save(self, text: str) -> None:
        """Add a piece to the overflow file. If it cannot be written, the call continues without it."""
        if not self._is_saved:
            return
        data = (text if self._file else self._head + self._tail + text).encode("utf-8", "backslashreplace")
        written = 0
        with suppress(OSError):
            if not self._file:
                create_private_folder(self._path.parent)
                self._file = FileIO(open_private_file(self._path, os.O_WRONLY | os.O_EXCL), "w")
            written = self._file.write(data[: MAX_OVERFLOW_BYTES - self._saved_size])
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
