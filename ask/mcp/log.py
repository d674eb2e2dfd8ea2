"""Log files for the standard error of servers, which is never shown directly."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path

from ask.atomic_files import create_private_folder
from ask.text import format_one_line

LOG_LIMIT = 1_000_000
"""Maximum number of bytes that a run adds to the file. A longer file is truncated first."""
LINE_LIMIT = 10_000


class ServerLog:
    """The log of one server. If it cannot be written, only the last line is available.

    `redact` removes keys from a line.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self.path = path
        self.last_line = ""
        """The last line that was not empty."""
        self._redact = redact
        self._partial_line = b""
        self._remaining_bytes = LOG_LIMIT
        self._file: FileIO | None = None

    def feed(self, data: bytes) -> None:
        """Add data; each line is written once it is complete."""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if len(self._partial_line) > LINE_LIMIT:
            lines.append(self._partial_line)
            self._partial_line = b""
        for line in lines:
            self._write_line(line)

    def close(self) -> None:
        """Write an incomplete last line and close the file."""
        if self._partial_line:
            self.feed(b"\n")
        if self._file:
            self._file.close()
            self._file = None

    def _write_line(self, line: bytes) -> None:
        text = self._redact(line.decode(errors="backslashreplace"))
        self.last_line = format_one_line(text, 200) or self.last_line
        data = f"{text}\n".encode()[: self._remaining_bytes]
        if data:
            self._remaining_bytes -= len(data)
            with suppress(OSError):
                self._open_file().write(data)

    def _open_file(self) -> FileIO:
        if self._file is None:
            create_private_folder(self.path.parent)
            self._file = FileIO(self.path, "a", opener=lambda path, flags: os.open(path, flags, 0o600))
            if os.fstat(self._file.fileno()).st_size > LOG_LIMIT:
                self._file.truncate(0)
            self._file.write(f"-- {datetime.now().astimezone().isoformat(timespec='seconds')}\n".encode())
        return self._file
