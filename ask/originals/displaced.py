"""Keeps what an undo takes away in the folders of a safe run, so that it can be brought back, up to a limit."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ask.originals.contents import LARGEST
from ask.originals.folders import MOST_BYTES, MOST_FILES
from ask.originals.records import ABSENT, Change
from ask.originals.trees import FILE_FLAGS, folder_of, mark_of, size_and_time
from ask.originals.writer import RecordWriter
from ask.state_files import Ownership

_TOO_MUCH = "it was too large"


def too_large(changes: Iterable[Change]) -> int:
    """How many of the files that are in the place of these are too large to be kept."""
    budget = _Budget()
    return sum(not budget.allows(size) for size in map(_size_now, changes) if size is not None)


def _size_now(change: Change) -> int | None:
    with suppress(OSError), folder_of(change.path, change.anchor) as (place, name):
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return None


class _Budget:
    """How much more is kept."""

    def __init__(self) -> None:
        self._files = MOST_FILES
        self._bytes = MOST_BYTES

    def allows(self, size: int) -> bool:
        """Whether a file of so many bytes is kept; then it counts."""
        if not self._files or size > min(self._bytes, LARGEST):
            return False
        self._files -= 1
        self._bytes -= size
        return True


class DisplacedKeeper:
    """Keeps in a record what there is until now.

    Args:
        record: of the undo.
    """

    def __init__(self, record: RecordWriter) -> None:
        self._record = record
        self._budget = _Budget()

    def note(self, change: Change) -> None:
        """Keep what there is at the path of a change, and note that it is going to be what it was before that.

        Raises:
            OSError: that cannot be done.
        """
        line: dict[str, Any] = {
            "kind": "thing",
            "path": str(change.path),
            "root": str(change.anchor),
            "copy": 0,
            "digest": ABSENT,
            "owned": None,
            "modified": None,
            "lost": "",
            "wrote": change.first,
        }
        try:
            with folder_of(change.path, change.anchor) as (place, name):
                line |= self._keep(place, name, removed=change.was is None)
        except (FileNotFoundError, NotADirectoryError):
            pass
        self._record.add(line)

    def _keep(self, place: int, name: str, *, removed: bool) -> dict[str, Any]:
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        kept: dict[str, Any] = {"owned": Ownership.from_status(status), "modified": status.st_mtime_ns}
        if not stat.S_ISREG(status.st_mode):
            return {**kept, "digest": mark_of(place, name, status).content}
        without = {**kept, "digest": size_and_time(status.st_size, status.st_mtime_ns)}
        if not self._budget.allows(status.st_size):
            return {**without, "lost": _TOO_MUCH}
        try:
            file = os.open(name, FILE_FLAGS, dir_fd=place)
        except PermissionError as fault:
            return {**without, "lost": fault.strerror}
        with os.fdopen(file, "rb") as original:
            linked = self._record.link(original, name, place) if removed else None
            copy, digest = linked or self._record.copy(original)[:2]
        return {**kept, "copy": copy, "digest": digest}
