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
from ask.undo.contents import MAX_BACKUP_SIZE, compute_digest, read_chunks
from ask.undo.folder_copies import MANIFEST_NAME, ManifestEntry, ManifestHeader, create_private_text_file, make_entry
from ask.undo.journal import (
    ABSENT_STATE,
    FOLDER_MARKER,
    LINK_PREFIX,
    SNAPSHOT_NAME,
    SPECIAL_FILE,
    BackupSet,
    OriginalEntry,
    PathChange,
    PathState,
)
from ask.undo.trees import MOUNT_REASONS, WalkEntry, make_stat_digest, read_entry_state, walk_tree

DIFF_NAME = "left"

_TIMESTAMP_MARGIN = 2_000_000_000
"""In ns: what was changed so short a time before it was copied may have been changed again without that showing."""


def write_folder_diff(snapshot_folder: Path) -> bool:
    """List how the folders differ now from their copy; return whether they do at all.

    Raises:
        OSError, ValueError: the copy cannot be read, or the list not be written.
    """
    left = FolderSnapshot(snapshot_folder).find_differences()
    with create_private_text_file(snapshot_folder / DIFF_NAME) as listing:
        for path, mark in left.items():
            listing.write(json.dumps([path, *mark]) + "\n")
    return bool(left)


def read_folder_changes(snapshot: FolderSnapshot, *, has_diff: bool) -> dict[Path, PathChange]:
    """What became of the folders.

    Args:
        snapshot: their copy.
        has_diff: whether it is noted what the run left; else what is there now is taken for that.

    Raises:
        OSError, ValueError: the copy cannot be read.
    """
    left = (
        dict(map(_parse_path_state, _read_lines(snapshot.folder / DIFF_NAME)))
        if has_diff
        else snapshot.find_differences()
    )
    return {Path(path): snapshot.build_change(path, mark) for path, mark in left.items()}


def add_folder_changes(backup_set: BackupSet) -> BackupSet:
    """A record, and what became of the folders that are copied in it, or why that is not known of some.

    Raises:
        FileError: the copy cannot be read, or makes no sense.
    """
    if not backup_set.has_snapshot:
        return backup_set
    copied = backup_set.folder / SNAPSHOT_NAME
    try:
        copy = FolderSnapshot(copied)
        found = read_folder_changes(copy, has_diff=backup_set.has_diff)
        return backup_set._replace(changes={**backup_set.changes, **found}, uncopied_folders=copy.uncopied_folders)
    except OSError as fault:
        raise FileError(f"cannot read {copied} ({fault.strerror})") from fault
    except (ValueError, TypeError, StopIteration) as fault:
        raise FileError(f"{copied} makes no sense", f"remove {backup_set.folder}, or upgrade ask") from fault


def _read_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


def _parse_entry(line: str) -> ManifestEntry:
    return ManifestEntry(*json.loads(line))


def _parse_path_state(line: str) -> tuple[str, PathState]:
    path, *mark = json.loads(line)
    return path, PathState(*mark)


class FolderSnapshot:
    """A copy of folders, read.

    Args:
        folder: where it is.

    Raises:
        OSError, ValueError: it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        about, *entries = _read_lines(folder / MANIFEST_NAME)
        self._header = ManifestHeader(*json.loads(about))
        self._entries: Mapping[str, ManifestEntry] = {entry.path: entry for entry in map(_parse_entry, entries)}

    @property
    def uncopied_folders(self) -> dict[Path, str]:
        """The folders that could not be copied, though calls could change what is in them, and why."""
        return {Path(entry.path): entry.note for entry in self._entries.values() if entry.is_unprotected}

    @cached_property
    def _hard_links(self) -> dict[int, list[str]]:
        """Those of the files that have several, by their copies."""
        names: dict[int, list[str]] = {}
        for entry in self._entries.values():
            if entry.copy_number and entry.link_count > 1:
                names.setdefault(entry.copy_number, []).append(entry.path)
        return names

    def find_differences(self) -> dict[str, PathState]:
        """What tells what there is now, at each path where that is something else than there was."""
        found: dict[str, PathState] = {}
        present: set[str] = set()
        closed = [entry.path for entry in self._entries.values() if entry.is_unreadable_folder]
        for root in map(Path, self._header.roots):
            for seen in walk_tree(root, set(self._header.excluded_paths)):
                present.add(seen.path)
                if seen.skip_reason:
                    closed.append(seen.path)
                entry = self._entries.get(seen.path)
                # The permissions there are those of what is mounted, not the folder's own.
                if seen.is_mount or (entry and entry.is_unreadable_folder and entry.note in MOUNT_REASONS):
                    continue
                if entry is None or not self._is_unchanged(entry, seen.status):
                    mark = _read_state_or_absent(seen)
                    if entry is None or mark != self._read_original_state(entry):
                        found[seen.path] = mark
        found.update((path, ABSENT_STATE) for path in self._entries if path not in present)
        if not closed:
            return found
        unknown = tuple(f"{path}/" for path in closed)
        return {path: mark for path, mark in found.items() if not path.startswith(unknown)}

    def _is_unchanged(self, entry: ManifestEntry, status: os.stat_result) -> bool:
        if entry.changed_ns > self._header.started_ns - _TIMESTAMP_MARGIN:
            return False
        return entry.is_file and entry[1:9] == make_entry("", status)[1:9]

    def _read_original_state(self, entry: ManifestEntry) -> PathState:
        """What tells what there was at first."""
        mode = stat.S_IMODE(entry.type_and_mode)
        if stat.S_ISLNK(entry.type_and_mode):
            return PathState(LINK_PREFIX + entry.note)
        if stat.S_ISDIR(entry.type_and_mode):
            return PathState(FOLDER_MARKER, mode)
        if not entry.is_file:
            return PathState(SPECIAL_FILE)
        if not entry.copy_number or entry.size > MAX_BACKUP_SIZE:
            return PathState(make_stat_digest(entry.size, entry.modified_ns), mode)
        with (self.folder / str(entry.copy_number)).open("rb") as file:
            return PathState(compute_digest(read_chunks(file)), mode)

    def build_change(self, path: str, state: PathState) -> PathChange:
        """The change that left what `state` tells at a path."""
        root = next(Path(root) for root in self._header.roots if Path(path).is_relative_to(root))
        entry = self._entries.get(path)
        if entry is None:
            return PathChange(Path(path), None, frozenset([state]), root=root)
        linked = entry.link_count > 1 and entry.copy_number
        was = OriginalEntry(
            copy_path=self.folder / str(entry.copy_number) if entry.copy_number else None,
            digest=self._read_original_state(entry).content,
            ownership=Ownership(stat.S_IMODE(entry.type_and_mode), entry.uid, entry.gid),
            modified_ns=entry.modified_ns,
            inode=entry.inode if linked else 0,
            hard_links=tuple(Path(name) for name in self._hard_links[entry.copy_number] if name != path)
            if linked
            else (),
        )
        lost = entry.note if entry.is_file or (entry.is_unreadable_folder and state.content != FOLDER_MARKER) else ""
        return PathChange(Path(path), was, frozenset([state]), backup_error=lost, root=root)


def _read_state_or_absent(entry: WalkEntry) -> PathState:
    try:
        return read_entry_state(entry.parent_fd, entry.name, entry.status)
    except FileNotFoundError:
        return ABSENT_STATE
