"""Files for long outputs, written outside the sandbox from data that the worker sends.

The worker is not trusted, so names and sizes are checked.
"""

from __future__ import annotations

import re
from contextlib import suppress
from io import RawIOBase
from pathlib import Path

from ask.redaction import NO_SECRETS, Redactor
from ask.tools.output_limits import open_private_file

_NAME_PATTERN = re.compile(rb"(?:stdout|stderr|result)-[0-9a-f]{16}\.txt")
_MAX_FILES = 4


class OverflowFileError(Exception):
    """The worker sent an invalid name or too much data."""


class OverflowFiles:
    """The overflow files of one call, each with at most `max_size` bytes."""

    def __init__(self, folder: Path, max_size: int, redactor: Redactor = NO_SECRETS) -> None:
        self._folder = folder
        self._max_size = max_size
        self._redactor = redactor
        self._files: dict[bytes, RawIOBase | None] = {}
        self._sizes: dict[bytes, int] = {}

    def open(self, name: bytes) -> None:
        """Create a file.

        Raises:
            OverflowFileError: the name is invalid, or there are too many files.
        """
        if not _NAME_PATTERN.fullmatch(name) or name in self._files or len(self._files) >= _MAX_FILES:
            raise OverflowFileError
        self._files[name] = None
        self._sizes[name] = 0
        with suppress(OSError):
            self._files[name] = open_private_file(self._folder / name.decode())

    def write(self, payload: bytes) -> None:
        """Append to a file. The payload is the name, a newline and the data.

        Raises:
            OverflowFileError: the file does not exist or gets too long.
        """
        name, _, data = payload.partition(b"\n")
        if name not in self._files or self._sizes[name] + len(data) > self._max_size:
            raise OverflowFileError
        self._sizes[name] += len(data)
        file = self._files[name]
        if file is not None:
            with suppress(OSError):
                file.write(data)

    def close(self, *, keep: bool) -> None:
        """Close all files. Delete them unless `keep` is set: without a result, nothing refers to them."""
        for name, file in self._files.items():
            if file is not None:
                file.close()
                path = self._folder / name.decode()
                if keep:
                    self._redact_file(path)
                else:
                    path.unlink(missing_ok=True)

    def _redact_file(self, path: Path) -> None:
        """Redact keys in a file; the worker does not know them."""
        with suppress(OSError):
            text = path.read_text("utf-8", "surrogateescape")
            redacted = self._redactor.redact(text)
            if redacted != text:
                path.write_text(redacted, "utf-8", "surrogateescape")
