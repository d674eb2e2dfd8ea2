"""Copy the folders that a safe run can change before it starts, and compare them with the copy later.

A manifest in the backup set of the run lists all paths.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.settings import get_working_directory
from ask.tools.file_access import escape_for_display
from ask.undo.backups import MAX_FILES, MAX_TOTAL_BYTES, BackupWriter
from ask.undo.journal import (
    FOLDERS_COMPARED,
    FOLDERS_COPIED,
    MANIFEST_NAME,
    UNFINISHED_MANIFEST_NAME,
    BackupSet,
    PathChange,
    convert_read_errors,
)
from ask.undo.trees import (
    ABSENT_STATE,
    MOUNT_REASONS,
    MOUNTED,
    MOUNTED_READ_ONLY,
    TOO_DEEP,
    OpenEntry,
    PathState,
    SavedEntry,
    create_private_file,
    read_entry_state,
    walk_tree,
)

MAX_NAMES = 5
"""Maximum number of names in a message."""
_TIMESTAMP_MARGIN = 2_000_000_000
"""In nanoseconds. A file changed this shortly before copying may have changed again without a new timestamp."""


class FoldersTooLargeError(Exception):
    """The folders are too large for a copy; the message names the limit that they exceed."""


def back_up_folders(
    backups: BackupWriter, roots: Sequence[Path], excluded_paths: Collection[str], on_progress: Callable[[], None]
) -> dict[Path, str]:
    """Copy folders, none of which contains another, into a backup set; on an error the set is removed.

    Excluded paths are left out because no tool call can change them. No tool call may be running; changes by the user
    while copying do no harm. `on_progress` is called before each file. Returns the subfolders that could not be copied
    although a tool call may change their content, with the reason.

    Raises:
        FoldersTooLargeError: They exceed the limits of a copy.
        OSError: They cannot be copied.
    """
    check_folder_sizes(roots, excluded_paths)
    uncopied_folders: dict[str, str] = {}
    try:
        unfinished = backups.ensure_folder() / UNFINISHED_MANIFEST_NAME
        with create_private_file(unfinished, "x") as manifest:
            manifest.write(json.dumps([list(map(str, roots)), sorted(excluded_paths), time.time_ns()]) + "\n")
            for entry in _walk_all(roots, excluded_paths):
                on_progress()
                with suppress(FileNotFoundError):
                    manifest.write(json.dumps(backups.copy_entry(entry)) + "\n")
                if _is_changeable(entry):
                    uncopied_folders[entry.path] = entry.skip_reason
        unfinished.rename(unfinished.with_name(MANIFEST_NAME))
        backups.add_lines({"kind": FOLDERS_COPIED, "uncopied": uncopied_folders})
    except BaseException:
        backups.discard()
        raise
    return {Path(path): reason for path, reason in uncopied_folders.items()}


def _is_changeable(entry: OpenEntry) -> bool:
    """Check whether an entry is a folder that cannot be read now, although a tool call may change its content."""
    reason, is_own = entry.skip_reason, entry.status.st_uid == os.geteuid()
    return reason in {MOUNTED, TOO_DEEP} or bool(reason and is_own and reason != MOUNTED_READ_ONLY)


def _walk_all(roots: Iterable[Path], excluded_paths: Collection[str]) -> Iterable[OpenEntry]:
    for root in roots:
        yield from walk_tree(root, excluded_paths)


def check_folder_sizes(roots: Iterable[Path], excluded_paths: Collection[str]) -> None:
    """Check that folders are not too large to copy, without reading any file.

    Raises FoldersTooLargeError as soon as a limit is exceeded.
    """
    counts = {"files": 0, "folders": 0}
    size = 0
    for entry in _walk_all(roots, excluded_paths):
        unit = "folders" if entry.is_folder else "files"
        counts[unit] += 1
        size += entry.status.st_size if unit == "files" else 0
        if counts[unit] > MAX_FILES:
            raise FoldersTooLargeError(f"more than {MAX_FILES:,} {unit}")
        if size > MAX_TOTAL_BYTES:
            raise FoldersTooLargeError(f"more than {MAX_TOTAL_BYTES // 1000000} MB")


def record_folder_changes(backups: BackupWriter) -> None:
    """Record how a run changed its copied folders; discard the backup set if it did not change anything.

    Raises OSError or ValueError if the changes cannot be recorded. Undo then compares with the state at that time.
    """
    changes = find_folder_changes(backups.ensure_folder())
    if changes or backups.recorded_paths:
        backups.add_lines(*(change.to_line() for change in changes), {"kind": FOLDERS_COMPARED})
    else:
        backups.discard()


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
    entries = _walk_all(roots, set(excluded_paths))
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
