"""Keeps what a file was before it changes, and notes what it is going to be."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.originals.contents import digest_of
from ask.originals.records import ABSENT, About
from ask.originals.writer import RecordWriter
from ask.tools.file_access import shown


class Keeper:
    """Keeps the originals of what one run changes. Makes nothing before there is one.

    Args:
        data: the data folder.
        about: whose they are.
        notice: takes a line for the user.

    Attributes:
        record: where it is kept.
    """

    def __init__(self, data: Path, about: About, notice: Callable[[str], None]) -> None:
        self.record = RecordWriter(data, about)
        self._notice = notice
        self._noted: set[Path] = set()
        self._lost: set[Path] = set()

    def keep(self, path: Path, data: bytes) -> None:
        """A tool is about to write `data` to the file at `path`. Where that cannot be kept, the user is told."""
        try:
            self.note(path, digest_of([data]))
        except OSError as fault:
            if path in self._lost:
                return
            self._lost.add(path)
            reason = fault.strerror or type(fault).__name__
            self._note_lost(path, digest_of([data]), reason)
            self._notice(f"the original of {shown(str(path))} cannot be kept ({reason}): ask undo will not put it back")

    def note(self, path: Path, wrote: str) -> None:
        """Keep what the file at `path` is, where that is not done yet, and note the digest of what it is going to be.

        Raises:
            OSError: that cannot be done; then nothing is noted.
        """
        self.record.begin()
        if path in self._noted:
            self.record.add({"kind": "again", "path": str(path), "wrote": wrote})
            return
        line: dict[str, Any] = {
            "kind": "file",
            "path": str(path),
            "copy": 0,
            "digest": ABSENT,
            "owned": None,
            "lost": "",
        }
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            folders = missing_folders(path)
        else:
            folders = []
            with os.fdopen(file, "rb") as original:
                copy, digest, owned = self.record.copy(original)
                status = os.fstat(original.fileno())
            line |= {"copy": copy, "digest": digest, "owned": owned}
            if status.st_nlink > 1:
                line["inode"] = status.st_ino
        self.record.add({**line, "lost": "", "folders": list(map(str, folders)), "wrote": wrote})
        self._noted.add(path)

    def _note_lost(self, path: Path, wrote: str, reason: str) -> None:
        """Note that there is no original, as far as anything can be noted."""
        if path in self._noted:
            return
        line = {"kind": "file", "path": str(path), "copy": 0, "digest": ABSENT, "owned": None, "lost": reason}
        with suppress(OSError):
            self.record.add({**line, "folders": [], "wrote": wrote})
            self._noted.add(path)


def missing_folders(path: Path) -> list[Path]:
    """The folders that must be made for a file, the outermost first."""
    return [folder for folder in reversed(path.parents) if not folder.exists()]
