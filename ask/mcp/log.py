"""What a server writes to standard error: kept in a file, never shown as it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path

from ask.atomic_files import create_private_folder
from ask.text import one_line

LOG_LIMIT = 1_000_000
"""Bytes that one run adds to the file at most; one that is longer than this is begun anew."""
LINE_LIMIT = 10_000


class Log:
    """The log of one server. Where it cannot be written, only the last line is known.

    Args:
        path: the file.
        redact: takes the keys out of a line.

    Attributes:
        last: the last line that was not empty.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self.path = path
        self.last = ""
        self._redact = redact
        self._rest = b""
        self._room = LOG_LIMIT
        self._file: FileIO | None = None

    def feed(self, data: bytes) -> None:
        """Takes the next piece; each line is kept once it is whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_LIMIT:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._keep(line)

    def close(self) -> None:
        """Keeps what is left, and closes the file."""
        if self._rest:
            self.feed(b"\n")
        if self._file:
            self._file.close()
            self._file = None

    def _keep(self, line: bytes) -> None:
        text = self._redact(line.decode(errors="backslashreplace"))
        self.last = one_line(text, 200) or self.last
        kept = f"{text}\n".encode()[: self._room]
        if kept:
            self._room -= len(kept)
            with suppress(OSError):
                self._opened().write(kept)

    def _opened(self) -> FileIO:
        if self._file is None:
            create_private_folder(self.path.parent)
            self._file = FileIO(self.path, "a", opener=lambda path, flags: os.open(path, flags, 0o600))
            if os.fstat(self._file.fileno()).st_size > LOG_LIMIT:
                self._file.truncate(0)
            self._file.write(f"-- {datetime.now().astimezone().isoformat(timespec='seconds')}\n".encode())
        return self._file
