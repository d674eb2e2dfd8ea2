"""Backup sets: the folder that each run fills with copies of files, and the journal of its changes.

The journal is a file of JSON lines. A line is written before the file that it describes, so a run that is killed at any
moment leaves a correct journal: the content of the file shows whether the write took place. A safe run first copies
entire folders, and adds a line for each difference at its end; after a kill, undo itself compares the folders with the
copy. A journal is locked as long as a process writes to it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import try_lock
from ask.errors import FileError
from ask.records import NamedTuple
from ask.regular_files import open_regular_file, read_regular_file
from ask.undo.trees import (
    ABSENT_STATE,
    MOUNT_REASONS,
    OWNER_RWX,
    OpenEntry,
    PathState,
    SavedEntry,
    check_text,
    read_entry_state,
    walk_folders,
)

BACKUPS_FOLDER = "originals"
"""The folder in the data folder that contains the backup sets."""
JOURNAL_NAME = "journal"
MANIFEST_NAME, UNFINISHED_MANIFEST_NAME = "manifest", "manifest.new"
"""The file in the backup set of a safe run that lists all paths in its folders, and its name while they are copied."""
RUN, UNDO, REDO = "run", "undo", "redo"
CHANGE, FOLDERS_COPIED, FOLDERS_COMPARED, RESTORE_DONE = "file", "folders", "left", "end"
"""Kinds of journal lines: see `BackupSet`."""
TIMESTAMP_MARGIN_NS = 2_000_000_000
"""A file changed this shortly before copying may have changed again without a new timestamp."""


class JournalHeader(NamedTuple):
    """The first line of a journal: the run, undo or redo that wrote it."""

    conversation: str
    """The id of the conversation."""
    directory: str
    terminal: str
    """The terminal as `identify_terminal` names it; "" for none."""
    kind: str = RUN
    """`RUN`, `UNDO` (which restores the files of runs) or `REDO` (which restores those of undos)."""
    restored: tuple[str, ...] = ()
    """The names of the backup sets that an undo or redo restored."""


class PathChange(NamedTuple):
    """The change of one path: a file that a tool wrote, or any entry in the folders of a safe run."""

    path: Path
    """A path without symbolic links."""
    backup_folder: Path
    """The folder of the backup set."""
    original: SavedEntry | None
    """None if the path did not exist."""
    new_states: frozenset[PathState]
    """The states that the writes were to produce; a run that was killed may not have reached them."""
    root: Path | None = None
    """The folder of a safe run that contains the path; None for a file that a tool wrote."""
    created_folders: tuple[Path, ...] = ()
    """The parent folders that were created for the file, outermost first."""
    hard_links: tuple[Path, ...] = ()
    """The other known paths of the original file."""
    backup_error: str = ""
    """Why the original could not be backed up; "" if it was."""
    has_outside_changes: bool = False
    """Whether something else changed the path between two of the runs."""

    def to_line(self) -> dict[str, Any]:
        """Return the line of a journal, in which paths become text."""
        fields = {"kind": CHANGE, **self._asdict(), "new_states": list(self.new_states)}
        del fields["backup_folder"]
        return fields

    @staticmethod
    def from_line(backup_folder: Path, line: Mapping[str, Any]) -> PathChange:
        """Create the change from a line of the journal in this folder."""
        return PathChange(
            Path(check_text(line["path"])),
            backup_folder,
            SavedEntry.from_line(line["original"]) if line["original"] else None,
            frozenset(PathState(check_text(content), mode and int(mode)) for content, mode in line["new_states"]),
            Path(check_text(line["root"])) if line["root"] else None,
            tuple(Path(check_text(path)) for path in line["created_folders"]),
            tuple(Path(check_text(path)) for path in line["hard_links"]),
            check_text(line["backup_error"]),
        )

    @property
    def original_state(self) -> PathState:
        """The state before the change."""
        state = self.original.state if self.original else ABSENT_STATE
        return state if self.root else state._replace(mode=None)

    @property
    def copy_path(self) -> Path | None:
        """The copy of the original content; None if there is none."""
        return self.backup_folder / self.original.copy if self.original and self.original.copy else None

    @property
    def trusted_root(self) -> Path:
        """The folder below which no symbolic link is followed."""
        return self.root or self.path.parent

    @property
    def is_folder_change(self) -> bool:
        """True if restoring the path creates or removes a folder."""
        states = {self.original_state} if self.original else self.new_states
        return any(state.is_folder for state in states)

    def can_result_in(self, state: PathState) -> bool:
        """Check whether `state` may result from this change, or from a killed undo.

        A killed undo may leave a folder with extended permissions, or nothing where it was about to replace a folder
        by something else or the reverse.
        """
        known_states = (self.original_state, *self.new_states)
        if any(state.matches(new_state) for new_state in self.new_states):
            return True
        if state.is_folder:
            return any(known.is_folder and state.mode == (known.mode or 0) | OWNER_RWX for known in known_states)
        is_folder = {known.is_folder for known in known_states}
        return state == ABSENT_STATE and len(is_folder) == 2 and self.original is not None


class BackupSet(NamedTuple):
    """The backups of one run, undo or redo, as read from its journal."""

    folder: Path
    header: JournalHeader
    changes: Mapping[Path, PathChange]
    """The changes by path; for a safe run that was killed, `complete_changes` adds those in its folders."""
    complete: bool
    """Whether an undo or redo has finished; False for runs."""
    has_snapshot: bool
    """Whether the copy of the folders of a safe run is complete."""
    has_diff: bool
    """Whether the changes in these folders were recorded."""
    uncopied_folders: Mapping[Path, str]
    """The subfolders that were not copied although the run could change them, with the reason."""

    @property
    def name(self) -> str:
        """The name of the folder, which identifies the backup set."""
        return self.folder.name

    @property
    def started(self) -> float:
        """The start time in seconds since 1970."""
        return parse_start_time(self.name)


def parse_start_time(name: str) -> float:
    """Return the start time in the name of a backup set, in seconds since 1970."""
    return int(name.partition("-")[0]) / 1e9


def read_backup_sets(data_dir: Path, unreadable: dict[str, FileError] | None = None) -> list[BackupSet]:
    """Read all backup sets in a data folder, oldest first.

    The errors of those that cannot be read are added to `unreadable`, by name; without it, they are raised.
    """
    backup_sets = []
    for folder in list_backup_folders(data_dir):
        try:
            backup_set = read_backup_set(folder)
        except FileError as error:
            if unreadable is None:
                raise
            unreadable[folder.name] = error
            continue
        if backup_set:
            backup_sets.append(backup_set)
    return backup_sets


def list_backup_folders(data_dir: Path) -> list[Path]:
    """List the folders of all backup sets, oldest first, those from a time when the clock was ahead before others."""
    now = time.time()
    try:
        names = sorted(name for name in os.listdir(data_dir / BACKUPS_FOLDER) if name.partition("-")[0].isdecimal())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(f"cannot read {data_dir / BACKUPS_FOLDER} ({error.strerror})") from error
    return [data_dir / BACKUPS_FOLDER / name for name in sorted(names, key=lambda name: parse_start_time(name) <= now)]


def read_backup_set(folder: Path) -> BackupSet | None:
    """Read a backup set; None for one that is just being created or removed.

    Raises:
        FileError: the journal is unreadable or invalid.
    """
    journal = folder / JOURNAL_NAME
    with _convert_read_errors(journal):
        try:
            # Text after the last newline is an incomplete line, and the write that it announces never started.
            lines = read_regular_file(journal).split(b"\n")[:-1]
        except FileNotFoundError:
            return None
        if not lines:
            return None
        header, *entries = map(json.loads, lines)
        status_lines = {line["kind"]: line for line in entries if line["kind"] != CHANGE}
        if status_lines.keys() - {FOLDERS_COPIED, FOLDERS_COMPARED, RESTORE_DONE}:
            raise ValueError
        restored = tuple(map(check_text, header.pop("restored", ()) or header.pop("of", ())))
        changes: dict[Path, PathChange] = {}
        for line in entries:
            if line["kind"] == CHANGE:
                change = PathChange.from_line(folder, line)
                first = changes.get(change.path, change)  # only its original was there before the run
                changes[change.path] = first._replace(new_states=first.new_states | change.new_states)
        uncopied_folders = status_lines[FOLDERS_COPIED]["uncopied"] if FOLDERS_COPIED in status_lines else {}
        return BackupSet(
            folder,
            JournalHeader(**{key: check_text(value) for key, value in header.items()}, restored=restored),
            changes,
            complete=RESTORE_DONE in status_lines,
            has_snapshot=FOLDERS_COPIED in status_lines,
            has_diff=FOLDERS_COMPARED in status_lines,
            uncopied_folders={Path(check_text(path)): check_text(reason) for path, reason in uncopied_folders.items()},
        )


@contextmanager
def _convert_read_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file in a backup set into a FileError."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot read {path} ({error.strerror})") from error
    except (ValueError, TypeError, LookupError, AttributeError, StopIteration, OverflowError, RecursionError) as error:
        raise FileError(f"{path} is not valid", f"remove {path.parent}, or upgrade ask") from error


def complete_changes(backup_set: BackupSet) -> BackupSet:
    """Add the changes in copied folders to a backup set in which they are not recorded because the run was killed.

    The current state is taken for the state after the run.

    Raises:
        FileError: the manifest is invalid.
    """
    if not backup_set.has_snapshot or backup_set.has_diff:
        return backup_set
    with _convert_read_errors(backup_set.folder / MANIFEST_NAME):
        changes = {change.path: change for change in find_folder_changes(backup_set.folder)}
    return backup_set._replace(changes={**backup_set.changes, **changes})


def find_folder_changes(backup_folder: Path) -> list[PathChange]:
    """Compare the folders of a run with their copy.

    Raises:
        ValueError, TypeError: the manifest is invalid.
    """
    with open_regular_file(backup_folder / MANIFEST_NAME) as file:
        (root_names, excluded_paths, started_ns), *lines = map(json.loads, file)
    roots = tuple(Path(check_text(name)) for name in root_names)
    saved_entries = {entry.path: entry for entry in map(SavedEntry.from_line, lines)}
    names_by_copy: dict[str, list[Path]] = {}
    for saved in saved_entries.values():
        names_by_copy.setdefault(saved.copy, []).append(Path(saved.path))
    changes = []
    entries = walk_folders(roots, set(excluded_paths))
    for name, state in _find_possible_changes(saved_entries, entries, started_ns - TIMESTAMP_MARGIN_NS).items():
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


def merge_changes(backup_sets: Iterable[BackupSet]) -> list[PathChange]:
    """Merge the changes of several backup sets, oldest first, into one per path."""
    merged: dict[Path, PathChange] = {}
    for backup_set in backup_sets:
        for path, later in backup_set.changes.items():
            change = merged.get(path)
            if change is None:
                merged[path] = later
                continue
            changed_between = not (
                later.original_state.matches(change.original_state) or change.can_result_in(later.original_state)
            )
            merged[path] = change._replace(
                new_states=change.new_states | later.new_states,
                created_folders=tuple(dict.fromkeys((*change.created_folders, *later.created_folders))),
                has_outside_changes=change.has_outside_changes
                or later.has_outside_changes
                or bool(changed_between and not later.backup_error),
                root=change.root or later.root,
            )
    return list(merged.values())


def find_undone_names(backup_sets: Sequence[BackupSet]) -> set[str]:
    """Return the names of the backup sets that are currently undone."""
    names: set[str] = set()
    for backup_set in reversed(backup_sets):
        if backup_set.complete and backup_set.name not in names:
            names.update(backup_set.header.restored)
    return names


@contextmanager
def lock_backup_sets(backup_sets: Iterable[BackupSet]) -> Iterator[None]:
    """Keep other processes from restoring or removing these backup sets.

    Raises:
        FileError: another process is writing or restoring one.
    """
    with ExitStack() as stack:
        for backup_set in backup_sets:
            path = backup_set.folder / JOURNAL_NAME
            with _convert_read_errors(path):
                journal = stack.enter_context(open_regular_file(path, "rb+"))
            if not try_lock(journal.fileno()):
                raise FileError("a run that changed these files is still running", "try again when it has finished")
        yield
