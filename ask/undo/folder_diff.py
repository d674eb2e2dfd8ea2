"""Tells what became of folders that were copied: how what there is differs from what there was.

What a run left is listed in `left` beside the copy; only the journal says that the list is whole. What undo makes of
it is in `restore`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from ask.atomic_files import Ownership
from ask.errors import FileError
from ask.undo.contents import LARGEST, digest_of, pieces_of
from ask.undo.folder_copies import START, Entry, Folders, entry_of, new_list
from ask.undo.journal import COPIES, FOLDER_HERE, GONE, LINK_TO, SPECIAL, Change, Mark, Original, Record
from ask.undo.trees import MOUNTS, Seen, mark_of, size_and_time, walk

LEFT = "left"

_MARGIN = 2_000_000_000
"""In ns: what was changed so short a time before it was copied may have been changed again without that showing."""


def note_left(copied: Path) -> bool:
    """List how the folders differ now from their copy; return whether they do at all.

    Raises:
        OSError, ValueError: the copy cannot be read, or the list not be written.
    """
    left = Copy(copied).differences()
    with new_list(copied / LEFT) as listing:
        for path, mark in left.items():
            listing.write(json.dumps([path, *mark]) + "\n")
    return bool(left)


def changes_in(copy: Copy, *, ended: bool) -> dict[Path, Change]:
    """What became of the folders.

    Args:
        copy: their copy.
        ended: whether it is noted what the run left; else what is there now is taken for that.

    Raises:
        OSError, ValueError: the copy cannot be read.
    """
    left = dict(map(_marked, _lines(copy.folder / LEFT))) if ended else copy.differences()
    return {Path(path): copy.change(path, mark) for path, mark in left.items()}


def with_folders(record: Record) -> Record:
    """A record, and what became of the folders that are copied in it, or why that is not known of some.

    Raises:
        FileError: the copy cannot be read, or makes no sense.
    """
    if not record.copied:
        return record
    copied = record.folder / COPIES
    try:
        copy = Copy(copied)
        found = changes_in(copy, ended=record.ended)
        return record._replace(changes={**record.changes, **found}, uncopied=copy.uncopied)
    except OSError as fault:
        raise FileError(f"cannot read {copied} ({fault.strerror})") from fault
    except (ValueError, TypeError, StopIteration) as fault:
        raise FileError(f"{copied} makes no sense", f"remove {record.folder}, or upgrade ask") from fault


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


def _read_entry(line: str) -> Entry:
    return Entry(*json.loads(line))


def _marked(line: str) -> tuple[str, Mark]:
    path, *mark = json.loads(line)
    return path, Mark(*mark)


class Copy:
    """A copy of folders, read.

    Args:
        folder: where it is.

    Raises:
        OSError, ValueError: it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        about, *entries = _lines(folder / START)
        self._about = Folders(*json.loads(about))
        self._entries: Mapping[str, Entry] = {entry.path: entry for entry in map(_read_entry, entries)}

    @property
    def uncopied(self) -> dict[Path, str]:
        """The folders that could not be copied, though calls could change what is in them, and why."""
        return {Path(entry.path): entry.note for entry in self._entries.values() if entry.exposed}

    @cached_property
    def _names(self) -> dict[int, list[str]]:
        """Those of the files that have several, by their copies."""
        names: dict[int, list[str]] = {}
        for entry in self._entries.values():
            if entry.copy and entry.names > 1:
                names.setdefault(entry.copy, []).append(entry.path)
        return names

    def differences(self) -> dict[str, Mark]:
        """What tells what there is now, at each path where that is something else than there was."""
        found: dict[str, Mark] = {}
        present: set[str] = set()
        closed = [entry.path for entry in self._entries.values() if entry.closed]
        for root in map(Path, self._about.roots):
            for seen in walk(root, set(self._about.untouched)):
                present.add(seen.path)
                if seen.closed:
                    closed.append(seen.path)
                entry = self._entries.get(seen.path)
                # The permissions there are those of what is mounted, not the folder's own.
                if seen.mounted or (entry and entry.closed and entry.note in MOUNTS):
                    continue
                if entry is None or not self._is_untouched(entry, seen.status):
                    mark = _mark_or_gone(seen)
                    if entry is None or mark != self._first(entry):
                        found[seen.path] = mark
        found.update((path, GONE) for path in self._entries if path not in present)
        if not closed:
            return found
        unknown = tuple(f"{path}/" for path in closed)
        return {path: mark for path, mark in found.items() if not path.startswith(unknown)}

    def _is_untouched(self, entry: Entry, status: os.stat_result) -> bool:
        if entry.changed > self._about.began - _MARGIN:
            return False
        return entry.of_file and entry[1:9] == entry_of("", status)[1:9]

    def _first(self, entry: Entry) -> Mark:
        """What tells what there was at first."""
        mode = stat.S_IMODE(entry.type_and_mode)
        if stat.S_ISLNK(entry.type_and_mode):
            return Mark(LINK_TO + entry.note)
        if stat.S_ISDIR(entry.type_and_mode):
            return Mark(FOLDER_HERE, mode)
        if not entry.of_file:
            return Mark(SPECIAL)
        if not entry.copy or entry.size > LARGEST:
            return Mark(size_and_time(entry.size, entry.modified), mode)
        with (self.folder / str(entry.copy)).open("rb") as file:
            return Mark(digest_of(pieces_of(file)), mode)

    def change(self, path: str, mark: Mark) -> Change:
        """The change that left what `mark` tells at a path."""
        root = next(Path(root) for root in self._about.roots if Path(path).is_relative_to(root))
        entry = self._entries.get(path)
        if entry is None:
            return Change(Path(path), None, frozenset([mark]), root=root)
        linked = entry.names > 1 and entry.copy
        was = Original(
            copy=self.folder / str(entry.copy) if entry.copy else None,
            digest=self._first(entry).content,
            owned=Ownership(stat.S_IMODE(entry.type_and_mode), entry.user, entry.group),
            modified=entry.modified,
            inode=entry.inode if linked else 0,
            twins=tuple(Path(name) for name in self._names[entry.copy] if name != path) if linked else (),
        )
        lost = entry.note if entry.of_file or (entry.closed and mark.content != FOLDER_HERE) else ""
        return Change(Path(path), was, frozenset([mark]), lost=lost, root=root)


def _mark_or_gone(seen: Seen) -> Mark:
    try:
        return mark_of(seen.place, seen.name, seen.status)
    except FileNotFoundError:
        return GONE
