"""Writes, outside, the long outputs that the worker hands out; how much and under what name is not for it to say."""

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
    """The worker asks for what it has no use for."""


class OverflowFiles:
    """The spilled files of one call.

    Args:
        folder: where they go.
        limit: bytes that each may have.
        redactor: replaces secrets in them.
    """

    def __init__(self, folder: Path, max_size: int, redactor: Redactor = NO_SECRETS) -> None:
        self._folder = folder
        self._max_size = max_size
        self._redactor = redactor
        self._files: dict[bytes, RawIOBase | None] = {}
        self._sizes: dict[bytes, int] = {}

    def open(self, name: bytes) -> None:
        """Begin a file.

        Raises:
            BadSpill: not such a name, or too many.
        """
        if not _NAME_PATTERN.fullmatch(name) or name in self._files or len(self._files) >= _MAX_FILES:
            raise OverflowFileError
        self._files[name] = None
        self._sizes[name] = 0
        with suppress(OSError):
            self._files[name] = open_private_file(self._folder / name.decode())

    def write(self, payload: bytes) -> None:
        """Add to a file: its name, a newline, and the bytes.

        Raises:
            BadSpill: no such file, or too much.
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
        """End them all; without `keep`, no result names them and they are removed."""
        for name, file in self._files.items():
            if file is not None:
                file.close()
                path = self._folder / name.decode()
                if keep:
                    self._redact_file(path)
                else:
                    path.unlink(missing_ok=True)

    def _redact_file(self, path: Path) -> None:
        """Take the keys out of a file, which were never told to the worker."""
        with suppress(OSError):
            text = path.read_text("utf-8", "surrogateescape")
            redacted = self._redactor.redact(text)
            if redacted != text:
                path.write_text(redacted, "utf-8", "surrogateescape")
