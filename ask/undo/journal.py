"""Backup sets: the folder that each run fills with copies of files, and the journal of its changes.

The journal is a file of JSON lines. A line is written before the file that it describes, so a run that is killed at any
moment leaves a correct journal: the content of the file shows whether the write took place. A safe run also copies
entire folders (see `snapshots`); the differences become `PathChange` values as well. A journal is locked as long
as a process writes to it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ask.atomic_files import Ownership
from ask.errors import FileError
from ask.records import NamedTuple

BACKUPS_FOLDER = "originals"
"""The folder in the data folder that contains the backup sets."""
JOURNAL_NAME = "journal"
SNAPSHOT_NAME = "folders"
"""The folder in a backup set that contains the copies of folders."""
ABSENT, FOLDER_MARKER, LINK_PREFIX, SPECIAL_FILE = "", "folder", "link to ", "special"
"""Used in place of a digest: nothing, a folder, a link (followed by its target), or a pipe, socket or device."""
RUN, UNDO, REDO = "run", "undo", "redo"
RESTORE_DONE, SNAPSHOT_TAKEN, DIFF_WRITTEN = _STATUS_LINES = "end", "folders", "left"
"""Kinds of journal lines without further fields: see `BackupSet`."""


OWNER_RWX = 0o700
"""The permissions that the owner of a folder needs to change its entries."""
MAX_BACKUP_SIZE = 100_000_000
"""The size in bytes up to which a single file is backed up, and compared by content instead of size and time."""
MAX_FILES = 20_000
"""The limit for the files of one backup set, and also for the folders of a copy."""
MAX_TOTAL_BYTES = 256_000_000


class JournalHeader(NamedTuple):
    """The first line of a journal: the run, undo or redo that wrote it."""

    conversation: str
    """The id of the conversation."""
    directory: str
    terminal: str
    """The terminal as `identify_terminal` names it; "" for none."""
    kind: str = RUN
    """`RUN`, `UNDO` (which restores the files of runs) or `REDO` (which restores those of undos)."""
    of: tuple[str, ...] = ()
    """The names of the backup sets that an undo or redo restored."""


class PathState(NamedTuple):
    """The type and content of what is at a path, for comparison."""

    content: str
    """The SHA-256 of a file in hexadecimal, or one of the markers `ABSENT`, `FOLDER_MARKER`, ..."""
    mode: int | None = None
    """The permissions of a file or folder; None if they are unknown or do not matter."""

    @property
    def is_file(self) -> bool:
        """True for a regular file."""
        return self.content not in {ABSENT, FOLDER_MARKER, SPECIAL_FILE} and not self.content.startswith(LINK_PREFIX)

    @property
    def is_folder(self) -> bool:
        """True for a folder."""
        return self.content == FOLDER_MARKER

    def matches(self, other: PathState) -> bool:
        """Check whether both states may be the same; an unknown mode matches any."""
        return self.content == other.content and (None in (self.mode, other.mode) or self.mode == other.mode)


ABSENT_STATE = PathState(ABSENT)


class OriginalEntry(NamedTuple):
    """What was at a path before a change."""

    copy_path: Path | None
    """The copy of a file's content; None if there is none."""
    digest: str
    """The digest of the content or a marker, as in `PathState`."""
    ownership: Ownership
    modified_ns: int | None = None
    """The modification time in nanoseconds since 1970; None if it was not saved."""
    inode: int = 0
    """The inode number of a file with several hard links; 0 for others."""
    hard_links: tuple[Path, ...] = ()
    """The other known paths of that file."""


class PathChange(NamedTuple):
    """The change of one path: a file that a tool wrote, or any entry in the folders of a safe run."""

    path: Path
    """A path without symbolic links."""
    original: OriginalEntry | None
    """None if the path did not exist."""
    new_states: frozenset[PathState]
    """The states that the writes were to produce; a run that was killed may not have reached them."""
    created_folders: tuple[Path, ...] = ()
    """The parent folders that were created for the file, outermost first."""
    backup_error: str = ""
    """Why the original could not be backed up; "" if it was."""
    has_outside_changes: bool = False
    """Whether something else changed the path between two of the runs."""
    root: Path | None = None
    """The folder of a safe run that contains the path; None for a file that a tool wrote."""

    @property
    def original_state(self) -> PathState:
        """The state before the change."""
        if self.original is None:
            return ABSENT_STATE
        has_mode = self.original.copy_path is not None or self.original.digest == FOLDER_MARKER
        return PathState(self.original.digest, self.original.ownership.mode if self.root and has_mode else None)

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
    """The changes by path; those in copied folders are added by `add_folder_changes`."""
    complete: bool
    """Whether an undo or redo has finished; False for runs."""
    has_snapshot: bool = False
    """Whether the copy of the folders of a safe run is complete."""
    has_diff: bool = False
    """Whether the state of these folders after the run was saved."""
    uncopied_folders: Mapping[Path, str] = MappingProxyType({})
    """The subfolders that could not be copied, with the reason."""

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


def read_backup_sets(data_dir: Path) -> list[BackupSet]:
    """Read all backup sets in a data folder, oldest first."""
    backup_sets = (read_backup_set(folder) for folder in list_backup_folders(data_dir))
    return [backup_set for backup_set in backup_sets if backup_set]


def list_backup_folders(data_dir: Path) -> list[Path]:
    """List the folders of all backup sets, oldest first."""
    try:
        names = sorted(os.listdir(data_dir / BACKUPS_FOLDER))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(f"cannot read {data_dir / BACKUPS_FOLDER} ({error.strerror})") from error
    return [data_dir / BACKUPS_FOLDER / name for name in names if name.partition("-")[0].isdecimal()]


def read_backup_set(folder: Path) -> BackupSet | None:
    """Read a backup set; None for one that is just being created or removed.

    An unreadable or invalid journal is a FileError.
    """
    journal = folder / JOURNAL_NAME
    try:
        # Text after the last newline is an incomplete line, and the write that it announces never started.
        lines = journal.read_bytes().split(b"\n")[:-1]
        if not lines:
            return None
        header_fields, *entries = map(json.loads, lines)
        header = JournalHeader(**{**header_fields, "of": tuple(header_fields["of"])})
        changes: dict[Path, PathChange] = {}
        for entry in entries:
            if entry["kind"] not in _STATUS_LINES:
                _apply_line(changes, folder, entry)
        kinds = [entry["kind"] for entry in entries]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"cannot read {journal} ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(f"{journal} is not valid", f"remove {folder}, or upgrade ask") from error
    return BackupSet(
        folder,
        header,
        changes,
        complete=RESTORE_DONE in kinds,
        has_snapshot=SNAPSHOT_TAKEN in kinds,
        has_diff=DIFF_WRITTEN in kinds,
    )


def _apply_line(changes: dict[Path, PathChange], folder: Path, line: Mapping[str, Any]) -> None:
    path, new_states = Path(line["path"]), frozenset([PathState(*line["wrote"])])
    if line["kind"] == "again":
        changes[path] = changes[path]._replace(new_states=changes[path].new_states | new_states)
        return
    if line["kind"] != "file":
        raise ValueError(line["kind"])
    original = None
    if line["digest"]:
        copy_path = folder / str(int(line["copy"])) if line["copy"] else None
        ownership = Ownership(*line["owned"])
        original = OriginalEntry(copy_path, line["digest"], ownership, line["modified"], line["inode"])
    folders, root = tuple(map(Path, line["folders"])), Path(line["root"]) if line["root"] else None
    changes[path] = PathChange(path, original, new_states, folders, line["lost"], root=root)


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
            names.update(backup_set.header.of)
    return names


@contextmanager
def lock_backup_sets(backup_sets: Iterable[BackupSet]) -> Iterator[None]:
    """Keep other processes from restoring or removing these backup sets.

    Raises a FileError if another process is writing or restoring one.
    """
    with ExitStack() as stack:
        for backup_set in backup_sets:
            try:
                journal = stack.enter_context((backup_set.folder / JOURNAL_NAME).open("rb+"))
            except OSError as error:
                raise FileError(f"cannot open {backup_set.folder / JOURNAL_NAME} ({error.strerror})") from error
            if not try_lock(journal.fileno()):
                raise FileError("a run that changed these files is still running", "try again when it has finished")
        yield


def try_lock(descriptor: int) -> bool:
    """Lock a journal until it is closed; return False if it is already locked.

    On a file system without locks this always succeeds.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
