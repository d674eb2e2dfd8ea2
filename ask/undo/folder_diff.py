"""Compare folders with the copy that was made before a safe run.

The state after the run is saved in a diff file next to the copy. It is complete only if the journal says so.
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
"""In nanoseconds. A file changed this shortly before copying may have changed again without a new timestamp."""


def write_folder_diff(snapshot_folder: Path) -> bool:
    """Save how the folders now differ from their copy, and return whether they do.

    Raises OSError or ValueError if the copy cannot be read or the diff cannot be written.
    """
    states = FolderSnapshot(snapshot_folder).find_differences()
    with create_private_text_file(snapshot_folder / DIFF_NAME) as diff_file:
        for path, state in states.items():
            diff_file.write(json.dumps([path, *state]) + "\n")
    return bool(states)


def read_folder_changes(snapshot: FolderSnapshot, *, has_diff: bool) -> dict[Path, PathChange]:
    """Return the changes of the run in the copied folders.

    Without a saved diff, because the run was killed, the current state is taken for the state after the run. Raises
    OSError or ValueError if the copy cannot be read.
    """
    states = (
        dict(map(_parse_path_state, _read_lines(snapshot.folder / DIFF_NAME)))
        if has_diff
        else snapshot.find_differences()
    )
    return {Path(path): snapshot.build_change(path, state) for path, state in states.items()}


def add_folder_changes(backup_set: BackupSet) -> BackupSet:
    """Add the changes in copied folders to a backup set.

    Also adds the subfolders that could not be copied. An invalid copy is a FileError.
    """
    if not backup_set.has_snapshot:
        return backup_set
    snapshot_folder = backup_set.folder / SNAPSHOT_NAME
    try:
        snapshot = FolderSnapshot(snapshot_folder)
        folder_changes = read_folder_changes(snapshot, has_diff=backup_set.has_diff)
        return backup_set._replace(
            changes={**backup_set.changes, **folder_changes}, uncopied_folders=snapshot.uncopied_folders
        )
    except OSError as error:
        raise FileError(f"cannot read {snapshot_folder} ({error.strerror})") from error
    except (ValueError, TypeError, StopIteration) as error:
        raise FileError(f"{snapshot_folder} makes no sense", f"remove {backup_set.folder}, or upgrade ask") from error


def _read_lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


def _parse_entry(line: str) -> ManifestEntry:
    return ManifestEntry(*json.loads(line))


def _parse_path_state(line: str) -> tuple[str, PathState]:
    path, *state = json.loads(line)
    return path, PathState(*state)


class FolderSnapshot:
    """The copy of folders that was made before a run.

    Raises OSError or ValueError if its manifest cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        header_line, *entries = _read_lines(folder / MANIFEST_NAME)
        self._header = ManifestHeader(*json.loads(header_line))
        self._entries: Mapping[str, ManifestEntry] = {entry.path: entry for entry in map(_parse_entry, entries)}

    @property
    def uncopied_folders(self) -> dict[Path, str]:
        """The subfolders that were not copied although the run could change them, with the reason."""
        return {Path(entry.path): entry.note for entry in self._entries.values() if entry.is_unprotected}

    @cached_property
    def _hard_links(self) -> dict[int, list[str]]:
        """The paths of files with several hard links, by copy number."""
        names: dict[int, list[str]] = {}
        for entry in self._entries.values():
            if entry.copy_number and entry.link_count > 1:
                names.setdefault(entry.copy_number, []).append(entry.path)
        return names

    def find_differences(self) -> dict[str, PathState]:
        """Return the current state of each path that differs from the copy."""
        differences: dict[str, PathState] = {}
        present: set[str] = set()
        unreadable = [entry.path for entry in self._entries.values() if entry.is_unreadable_folder]
        for root in map(Path, self._header.roots):
            for walk_entry in walk_tree(root, set(self._header.excluded_paths)):
                present.add(walk_entry.path)
                if walk_entry.skip_reason:
                    unreadable.append(walk_entry.path)
                entry = self._entries.get(walk_entry.path)
                # A mount point shows the permissions of the mounted file system, not those of the folder.
                if walk_entry.is_mount or (entry and entry.is_unreadable_folder and entry.note in MOUNT_REASONS):
                    continue
                if entry is None or not self._is_unchanged(entry, walk_entry.status):
                    state = _read_state_or_absent(walk_entry)
                    if entry is None or state != self._read_original_state(entry):
                        differences[walk_entry.path] = state
        differences.update((path, ABSENT_STATE) for path in self._entries if path not in present)
        if not unreadable:
            return differences
        unknown_prefixes = tuple(f"{path}/" for path in unreadable)
        return {path: state for path, state in differences.items() if not path.startswith(unknown_prefixes)}

    def _is_unchanged(self, entry: ManifestEntry, status: os.stat_result) -> bool:
        if entry.changed_ns > self._header.started_ns - _TIMESTAMP_MARGIN:
            return False
        return entry.is_file and entry[1:9] == make_entry("", status)[1:9]

    def _read_original_state(self, entry: ManifestEntry) -> PathState:
        """Return the state of a path at the time of the copy."""
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
        """Build the change from the copied original of a path to `state`."""
        root = next(Path(root) for root in self._header.roots if Path(path).is_relative_to(root))
        entry = self._entries.get(path)
        if entry is None:
            return PathChange(Path(path), None, frozenset([state]), root=root)
        is_hard_linked = entry.link_count > 1 and entry.copy_number
        original = OriginalEntry(
            copy_path=self.folder / str(entry.copy_number) if entry.copy_number else None,
            digest=self._read_original_state(entry).content,
            ownership=Ownership(stat.S_IMODE(entry.type_and_mode), entry.uid, entry.gid),
            modified_ns=entry.modified_ns,
            inode=entry.inode if is_hard_linked else 0,
            hard_links=tuple(Path(name) for name in self._hard_links[entry.copy_number] if name != path)
            if is_hard_linked
            else (),
        )
        backup_error = (
            entry.note if entry.is_file or (entry.is_unreadable_folder and state.content != FOLDER_MARKER) else ""
        )
        return PathChange(Path(path), original, frozenset([state]), backup_error=backup_error, root=root)


def _read_state_or_absent(entry: WalkEntry) -> PathState:
    try:
        return read_entry_state(entry.parent_fd, entry.name, entry.status)
    except FileNotFoundError:
        return ABSENT_STATE
