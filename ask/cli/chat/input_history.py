"""The input history of chats: a private file of limited size, with API keys redacted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory

from ask.atomic_files import PRIVATE_FILE_MODE, lock_file, write_private_file
from ask.errors import FileError

MAX_HISTORY_BYTES = 1_000_000
"""A larger file is truncated to the newest half of this size."""


class PromptHistory(FileHistory):
    """A history file shared by all chats.

    If the file cannot be read or written, the history lasts only for this chat.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._path = path
        self._redact = redact

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError, FileError):
            with lock_file(self._path):
                truncate_history(self._path)
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        with suppress(OSError, FileError), lock_file(self._path):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE_MODE))
            super().store_string(self._redact(string))


def truncate_history(path: Path) -> None:
    """Keep the newest half of a file that is too large, starting at a complete entry."""
    if not path.exists() or path.stat().st_size <= MAX_HISTORY_BYTES:
        return
    newest = path.read_bytes()[-MAX_HISTORY_BYTES // 2 :]
    _, separator, entries = newest.partition(b"\n# ")
    write_private_file(path, separator + entries)
