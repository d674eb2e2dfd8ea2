"""Keeps the folders of one safe run: copied before its first change, and what it left of them noted at its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ask.originals.aftermath import note_left
from ask.originals.folders import check_size, copy_folders
from ask.originals.records import COPIED, COPIES, ENDED
from ask.originals.writer import RecordWriter


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
