"""What a run kept: a folder with copies of files, and a journal that says what they were and what became of them.

The journal is written before a file is, so that a run that is killed at any moment leaves a record that is right:
what a file holds tells whether the write took place. Each line is a JSON object. A safe run copies whole folders
beside, of which `created_folders` knows; what differs in them ends up as `PathChange` values too. Whoever has the journal locked
still writes it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ask.atomic_files import Ownership
from ask.errors import FileError

BACKUPS_FOLDER = "originals"
"""The folder in the data folder that has a folder for each run."""
JOURNAL_NAME = "journal"
SNAPSHOT_NAME = "folders"
"""The folder in a record that has the copies of whole folders."""
ABSENT, FOLDER_MARKER, LINK_PREFIX, SPECIAL_FILE = "", "folder", "link to ", "special"
"""Stand for the digest where there is nothing, a folder, a link (its target follows), or a pipe, socket or device."""
RUN, UNDO, REDO = "run", "undo", "redo"
RESTORE_DONE, SNAPSHOT_TAKEN, DIFF_WRITTEN = _STATUS_LINES = "end", "folders", "left"
"""Kinds of lines that stand for themselves: see `BackupSet`."""


OWNER_RWX = 0o700
"""What a folder's owner must be permitted for work in it."""


class JournalHeader(NamedTuple):
    """Whose record it is.

    Attributes:
        conversation: the id of the conversation.
        directory: where the run took place.
        terminal: on which terminal, "" for none.
        kind: `RUN`, or what put files back: `UNDO` for those of a run, `REDO` for those of an undo.
        of: the names of the records whose files were put back.
    """

    conversation: str
    directory: str
    terminal: str
    kind: str = RUN
    of: tuple[str, ...] = ()


class PathState(NamedTuple):
    """What tells what there is at a path.

    Attributes:
        content: the SHA-256 of a file's content in hexadecimal, or what stands for one: `ABSENT`, `FOLDER_MARKER` ...
        mode: the permissions of a file or folder; None where they are not known, or do not count.
    """

    content: str
    mode: int | None = None

    @property
    def is_file(self) -> bool:
        """Whether there is a file."""
        return self.content not in {ABSENT, FOLDER_MARKER, SPECIAL_FILE} and not self.content.startswith(LINK_PREFIX)

    def matches(self, other: PathState) -> bool:
        """Whether both may tell the same thing."""
        return self.content == other.content and (None in (self.mode, other.mode) or self.mode == other.mode)


ABSENT_STATE = PathState(ABSENT)


class OriginalEntry(NamedTuple):
    """What was at a path.

    Attributes:
        copy_path: where the content of a file is; None for what is no file.
        digest: of that content, or what stands for it, as in a `PathState`.
        ownership: whose it was.
        modified_ns: when it was changed last, in ns since 1970; None where that is not kept.
        inode: the number of a file that had further names, 0 for any other.
        hard_links: those names, as far as they are known.
    """

    copy_path: Path | None
    digest: str
    ownership: Ownership
    modified_ns: int | None = None
    inode: int = 0
    hard_links: tuple[Path, ...] = ()


class PathChange(NamedTuple):
    """What became of one file, or in the folders of a safe run, of a folder or a link too.

    Attributes:
        path: of the file, without links in it.
        original: what it was at first; None where there was none.
        new_states: what tells all that it became, if that took place.
        created_folders: those that were made for it, the outermost first.
        backup_error: why the original could not be kept, "" where it was.
        has_outside_changes: whether something else changed it between two of the runs that did.
        root: the folder of a safe run that it is in, below which no link is followed; None for what a tool wrote.
    """

    path: Path
    original: OriginalEntry | None
    new_states: frozenset[PathState]
    created_folders: tuple[Path, ...] = ()
    backup_error: str = ""
    has_outside_changes: bool = False
    root: Path | None = None

    @property
    def original_state(self) -> PathState:
        """What tells what it was at first."""
        if self.original is None:
            return ABSENT_STATE
        has_mode = self.original.copy_path is not None or self.original.digest == FOLDER_MARKER
        return PathState(self.original.digest, self.original.ownership.mode if self.root and has_mode else None)

    @property
    def trusted_root(self) -> Path:
        """The folder below which no link is followed."""
        return self.root or self.path.parent

    @property
    def is_folder_change(self) -> bool:
        """Whether putting it back makes a folder or removes one."""
        marks = {self.original_state} if self.original else self.new_states
        return any(mark.content == FOLDER_MARKER for mark in marks)

    def can_result_in(self, state: PathState) -> bool:
        """Whether that may be what there is after this change, or after an undo of it that was killed.

        Such an undo may leave a folder that is opened up, and nothing in the place of a folder or for one.
        """
        marks = (self.original_state, *self.new_states)
        if any(state.matches(mark) for mark in self.new_states):
            return True
        if state.content == FOLDER_MARKER:
            return any(mark.content == FOLDER_MARKER and state.mode == (mark.mode or 0) | OWNER_RWX for mark in marks)
        kinds = {mark.content == FOLDER_MARKER for mark in marks}
        return state == ABSENT_STATE and len(kinds) == 2 and self.original is not None


class BackupSet(NamedTuple):
    """What one run kept.

    Attributes:
        folder: where.
        header: whose it is.
        changes: what a journal tells, by path.
        complete: whether an undo came to its end.
        has_snapshot: whether whole folders are copied; `created_folders` tells what became of them.
        has_diff: whether it is noted in what state the run left them.
        uncopied_folders: folders in them that could not be copied, and why.
    """

    folder: Path
    header: JournalHeader
    changes: Mapping[Path, PathChange]
    complete: bool
    has_snapshot: bool = False
    has_diff: bool = False
    uncopied_folders: Mapping[Path, str] = MappingProxyType({})

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @property
    def started(self) -> float:
        """When it began, in seconds since 1970."""
        return parse_start_time(self.name)


def parse_start_time(name: str) -> float:
    """When the record of that name began, in seconds since 1970."""
    return int(name.partition("-")[0]) / 1e9


def read_backup_sets(data_dir: Path) -> list[BackupSet]:
    """All records in a data folder, the oldest first.

    Raises:
        FileError: one cannot be read, or makes no sense.
    """
    records = (read_backup_set(folder) for folder in list_backup_folders(data_dir))
    return [record for record in records if record]


def list_backup_folders(data_dir: Path) -> list[Path]:
    """The folders of all records, the oldest first.

    Raises:
        FileError: they cannot be listed.
    """
    try:
        names = sorted(os.listdir(data_dir / BACKUPS_FOLDER))
    except FileNotFoundError:
        return []
    except OSError as fault:
        raise FileError(f"cannot read {data_dir / BACKUPS_FOLDER} ({fault.strerror})") from fault
    return [data_dir / BACKUPS_FOLDER / name for name in names if name.partition("-")[0].isdecimal()]


def read_backup_set(folder: Path) -> BackupSet | None:
    """A record; None for one that is only being begun, or has just been removed.

    Raises:
        FileError: it cannot be read, or makes no sense.
    """
    journal = folder / JOURNAL_NAME
    try:
        # What follows the last line end was never written whole, and what it announces was not done.
        lines = journal.read_bytes().split(b"\n")[:-1]
        if not lines:
            return None
        head, *rest = map(json.loads, lines)
        about = JournalHeader(**{**head, "of": tuple(head["of"])})
        changes: dict[Path, PathChange] = {}
        for line in rest:
            if line["kind"] not in _STATUS_LINES:
                _apply_line(changes, folder, line)
        said = [line["kind"] for line in rest]
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise FileError(f"cannot read {journal} ({fault.strerror})") from fault
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise FileError(f"{journal} makes no sense", f"remove {folder}, or upgrade ask") from fault
    return BackupSet(
        folder,
        about,
        changes,
        complete=RESTORE_DONE in said,
        has_snapshot=SNAPSHOT_TAKEN in said,
        has_diff=DIFF_WRITTEN in said,
    )


def _apply_line(changes: dict[Path, PathChange], folder: Path, line: Mapping[str, Any]) -> None:
    path = Path(line["path"])
    if line["kind"] == "again":
        known = changes[path]
        changes[path] = known._replace(new_states=known.new_states | {PathState(line["wrote"])})
        return
    copy = folder / str(int(line["copy"])) if line["copy"] else None
    if line["kind"] == "file":
        was = (
            OriginalEntry(copy, line["digest"], Ownership(*line["owned"]), inode=line.get("inode", 0)) if copy else None
        )
        folders = tuple(map(Path, line["folders"]))
        changes[path] = PathChange(path, was, frozenset([PathState(line["wrote"])]), folders, line["lost"])
        return
    if line["kind"] != "thing":
        raise ValueError(line["kind"])
    was = OriginalEntry(copy, line["digest"], Ownership(*line["owned"]), line["modified"]) if line["digest"] else None
    wrote = frozenset([PathState(*line["wrote"])])
    changes[path] = PathChange(path, was, wrote, backup_error=line["lost"], root=Path(line["root"]))


def merge_changes(backup_sets: Iterable[BackupSet]) -> list[PathChange]:
    """The changes of several records, the oldest first, as if they were one's."""
    merged: dict[Path, PathChange] = {}
    for record in backup_sets:
        for path, later in record.changes.items():
            change = merged.get(path)
            if change is None:
                merged[path] = later
                continue
            torn = not (
                later.original_state.matches(change.original_state) or change.can_result_in(later.original_state)
            )
            merged[path] = change._replace(
                new_states=change.new_states | later.new_states,
                created_folders=(
                    *change.created_folders,
                    *(made for made in later.created_folders if made not in change.created_folders),
                ),
                has_outside_changes=change.has_outside_changes
                or later.has_outside_changes
                or bool(torn and not later.backup_error),
                root=change.root or later.root,
            )
    return list(merged.values())


def find_undone_names(backup_sets: Sequence[BackupSet]) -> set[str]:
    """The names of the records whose files were put back, and are so still."""
    names: set[str] = set()
    for record in reversed(backup_sets):
        if record.complete and record.name not in names:
            names.update(record.header.of)
    return names


@contextmanager
def lock_backup_sets(backup_sets: Iterable[BackupSet]) -> Iterator[None]:
    """Nobody else puts these back, or removes them, while the block is run.

    Raises:
        FileError: one is still being written, or put back by somebody else.
    """
    with ExitStack() as stack:
        for record in backup_sets:
            try:
                journal = stack.enter_context((record.folder / JOURNAL_NAME).open("rb+"))
            except OSError as fault:
                raise FileError(f"cannot open {record.folder / JOURNAL_NAME} ({fault.strerror})") from fault
            if not try_lock(journal.fileno()):
                raise FileError("a run that changed these files is still under way", "try again when it has ended")
        yield


def try_lock(descriptor: int) -> bool:
    """Lock a journal until it is closed; return whether nobody else has. A file system without locks is no obstacle."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
