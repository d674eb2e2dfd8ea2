"""Backups of what a run changes: single files, the folders of a safe run, and what undo itself removes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import Ownership
from ask.tools.file_access import shown
from ask.undo.contents import LARGEST, digest_of
from ask.undo.folder_copies import MOST_BYTES, MOST_FILES, check_size, copy_folders
from ask.undo.folder_diff import note_left
from ask.undo.journal import ABSENT, COPIED, COPIES, ENDED, About, Change
from ask.undo.journal_writer import RecordWriter
from ask.undo.trees import FILE_FLAGS, folder_of, mark_of, size_and_time


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


class FolderKeeper:
    """Keeps folders in a record.

    Args:
        record: of the run.

    Attributes:
        uncopied: folders in them that could not be copied, though calls may change what is in them, and why.
    """

    def __init__(self, record: RecordWriter) -> None:
        self._record = record
        self._copied: Path | None = None
        self.uncopied: dict[Path, str] = {}

    def copy(self, roots: Sequence[Path], untouched: Collection[str], going_on: Callable[[], None]) -> None:
        """Copy folders, as with `copy_folders`; where that fails, nothing is left of it.

        Raises:
            TooMuch: they are too large.
            OSError: it cannot be done.
        """
        check_size(roots, untouched)
        copied = self._record.begin() / COPIES
        try:
            exposed = copy_folders(copied, roots, untouched, going_on)
            self._record.add({"kind": COPIED})
        except BaseException:
            self._record.discard()
            raise
        self._copied = copied
        self.uncopied = {Path(entry.path): entry.note for entry in exposed}

    def end(self) -> None:
        """Note what the run left; where that is what there was, nothing needs to be kept.

        Raises:
            OSError, ValueError: it cannot be noted: then nobody knows what the run left.
        """
        if self._copied is None:
            return
        differs = note_left(self._copied)
        if not differs and self._record.lines == 1:
            self._record.discard()
        else:
            self._record.add({"kind": ENDED})


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
