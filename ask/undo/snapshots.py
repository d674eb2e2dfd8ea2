"""Compare the folders of a safe run with the copy that was made before it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.settings import get_working_directory
from ask.tools.file_access import escape_for_display
from ask.undo.journal import MANIFEST_NAME, BackupSet, PathChange, convert_read_errors
from ask.undo.trees import (
    ABSENT_STATE,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    MOUNT_REASONS,
    OpenEntry,
    PathState,
    SavedEntry,
    read_entry_state,
    walk_folders,
)

MAX_NAMES = 5
"""Maximum number of names in a message."""
_TIMESTAMP_MARGIN = 2_000_000_000
"""In nanoseconds. A file changed this shortly before copying may have changed again without a new timestamp."""


class FoldersTooLargeError(Exception):
    """The folders are too large for a copy; the message names the limit that they exceed."""


def check_folder_sizes(roots: Iterable[Path], excluded_paths: Collection[str]) -> None:
    """Check that folders are not too large to copy, without reading any file.

    Raises FoldersTooLargeError as soon as a limit is exceeded.
    """
    counts = {"files": 0, "folders": 0}
    size = 0
    for entry in walk_folders(roots, excluded_paths):
        unit = "folders" if entry.is_folder else "files"
        counts[unit] += 1
        size += entry.status.st_size if unit == "files" else 0
        if counts[unit] > MAX_FILES:
            raise FoldersTooLargeError(f"more than {MAX_FILES:,} {unit}")
        if size > MAX_TOTAL_BYTES:
            raise FoldersTooLargeError(f"more than {MAX_TOTAL_BYTES // 1000000} MB")


def complete_changes(backup_set: BackupSet) -> BackupSet:
    """Add the changes in copied folders to a backup set in which they are not recorded because the run was killed.

    The current state is taken for the state after the run. An invalid manifest is a FileError.
    """
    if not backup_set.has_snapshot or backup_set.has_diff:
        return backup_set
    with convert_read_errors(backup_set.folder / MANIFEST_NAME):
        changes = {change.path: change for change in find_folder_changes(backup_set.folder)}
    return backup_set._replace(changes={**backup_set.changes, **changes})


def find_folder_changes(backup_folder: Path) -> list[PathChange]:
    """Compare the folders of a run with their copy. An invalid manifest is a ValueError or TypeError."""
    with (backup_folder / MANIFEST_NAME).open(encoding="utf-8") as file:
        (root_names, excluded_paths, started_ns), *lines = map(json.loads, file)
    roots = tuple(map(Path, root_names))
    saved_entries = {line[0]: SavedEntry(*line) for line in lines}
    names_by_copy: dict[str, list[Path]] = {}
    for saved in saved_entries.values():
        names_by_copy.setdefault(saved.copy, []).append(Path(saved.path))
    changes = []
    entries = walk_folders(roots, set(excluded_paths))
    for name, state in _find_possible_changes(saved_entries, entries, started_ns - _TIMESTAMP_MARGIN).items():
        path, original = Path(name), saved_entries.get(name)
        root = next(root for root in roots if path.is_relative_to(root))
        change = PathChange(path, backup_folder, None, frozenset([state]), root)
        if original is not None:
            original = original.hash_copy(backup_folder)
            if original.state == state:
                continue
            hard_links = [link for link in names_by_copy[original.copy] if link != path] if original.copy else []
            has_lost_content = not (original.is_unreadable_folder and state.is_folder)
            change = change._replace(
                original=original,
                hard_links=tuple(hard_links),
                backup_error=original.error if has_lost_content else "",
            )
        changes.append(change)
    return changes


def _find_possible_changes(
    saved_entries: Mapping[str, SavedEntry], entries: Iterable[OpenEntry], safe_time: int
) -> dict[str, PathState]:
    """Return the current state of each path, except of files that have not changed judging by their status.

    A file changed later than `safe_time` may have changed again without a new timestamp.
    """
    states = dict.fromkeys(saved_entries, ABSENT_STATE)
    unreadable = [saved.path for saved in saved_entries.values() if saved.is_unreadable_folder]
    for entry in entries:
        if entry.skip_reason:
            unreadable.append(entry.path)
        saved = saved_entries.get(entry.path)
        # A mount point shows the permissions of the mounted file system, not those of the folder.
        is_mount = entry.skip_reason in MOUNT_REASONS or (saved and saved.error in MOUNT_REASONS)
        if is_mount or (saved and saved.changed_ns <= safe_time and saved.is_unchanged_file(entry.status)):
            states.pop(entry.path, None)
            continue
        with suppress(FileNotFoundError):
            states[entry.path] = read_entry_state(entry)
    unknown_prefixes = tuple(f"{path}/" for path in unreadable)
    return {path: state for path, state in states.items() if not path.startswith(unknown_prefixes)}


def format_folders(folders: Mapping[Path, str]) -> str:
    """Format folders, each with a comment, on one line."""
    return join_names([f"{format_path(path)}/ ({reason})" for path, reason in folders.items()])


def join_names(names: Sequence[str]) -> str:
    """Join the first `MAX_NAMES` names; say how many more there are."""
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if names[MAX_NAMES:] else "")


def format_path(path: Path) -> str:
    """Format a path on one line, relative to the working directory if it is inside."""
    folder = str(get_working_directory()).rstrip("/") + "/"
    return escape_for_display(str(path).removeprefix(folder))
