"""Plan what an undo does to each file, check that all of it is possible, and do it.

`restore_files` does the work in the folders of a safe run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from ask.atomic_files import replace_file
from ask.errors import FileError
from ask.tools.file_access import escape_for_display, rewrite_file_in_place
from ask.undo.backups import FileBackups, RedoBackups
from ask.undo.contents import MAX_BACKUP_SIZE, compute_digest, read_chunks
from ask.undo.journal import ABSENT, FOLDER_MARKER, SPECIAL_FILE, PathChange, PathState
from ask.undo.restore_files import plan_operations, restore_path
from ask.undo.trees import MAX_DEPTH, read_path_state, walk_tree


class RestoreStatus(StrEnum):
    """What an undo does to a file, or why it does nothing."""

    RESTORE = "put back"
    REMOVE = "remove"
    UNCHANGED = "as it was"
    CHANGED_SINCE = "changed since"
    NOT_A_FILE = "not a file any more"
    NO_BACKUP = "its original was not kept"
    REPLACED_BY_FOLDER = "a folder now, with something else in it"
    SPECIAL_FILE = "was a pipe, socket or device"
    NOT_EMPTY = "something else is in it"
    TOO_DEEP = f"over {MAX_DEPTH} folders deep"


ACTION_STATUSES = (RestoreStatus.RESTORE, RestoreStatus.REMOVE)
REMAINING_FOLDER_STATUSES = (RestoreStatus.NOT_EMPTY, RestoreStatus.TOO_DEEP)
"""Statuses of folders that the run created and that cannot be removed."""
CONFLICT_STATUSES = (
    RestoreStatus.CHANGED_SINCE,
    RestoreStatus.NOT_A_FILE,
    RestoreStatus.NO_BACKUP,
    RestoreStatus.REPLACED_BY_FOLDER,
)


class RestoreStep(NamedTuple):
    """A changed path, and what an undo does to it."""

    change: PathChange
    status: RestoreStatus


class ProgressCallback(Protocol):
    """Reports progress of a step of the work, such as "comparing", with the number of files done and in total."""

    def __call__(self, work: str, done: int, total: int) -> None: ...


def ignore_progress(work: str, done: int, total: int) -> None:
    """Report nothing."""


def plan_restore(
    changes: Iterable[PathChange], *, force: bool = False, progress: ProgressCallback = ignore_progress
) -> list[RestoreStep]:
    """Plan a step for each changed path, sorted by path.

    With `force`, files that have changed since are restored as well.
    """
    steps = []
    sorted_changes = sorted(changes, key=lambda change: change.path.parts)
    for done, change in enumerate(sorted_changes):
        progress("comparing", done, len(sorted_changes))
        steps.append(RestoreStep(change, determine_status(change)))
    if force:
        steps = [
            step._replace(status=choose_action(step.change)) if step.status is RestoreStatus.CHANGED_SINCE else step
            for step in steps
        ]
    removed_paths = {str(step.change.path) for step in steps if step.status is RestoreStatus.REMOVE}
    remaining_folders = find_remaining_folders(steps, removed_paths)
    steps = [step._replace(status=remaining_folders.get(str(step.change.path), step.status)) for step in steps]
    removed_paths -= remaining_folders.keys()
    return [
        step._replace(status=RestoreStatus.REPLACED_BY_FOLDER) if is_replaced_by_folder(step, removed_paths) else step
        for step in steps
    ]


def find_remaining_folders(steps: Iterable[RestoreStep], removed_paths: Container[str]) -> dict[str, RestoreStatus]:
    """Find the folders to remove that will not be empty, and the reason for each.

    `steps` are sorted by path; `removed_paths` are all paths to remove.
    """
    remaining_folders: dict[str, RestoreStatus] = {}
    for change, status in steps:
        is_outermost = status is RestoreStatus.REMOVE and change.root and str(change.path.parent) not in removed_paths
        current_state = read_current_state(change) if is_outermost else None
        if not change.root or current_state is None or current_state.content != FOLDER_MARKER:
            continue
        for walk_entry in walk_tree(change.path, ()):
            if walk_entry.path in removed_paths:
                continue
            path = Path(walk_entry.path)
            # This deep, it is unknown which entries the run made and which the user.
            remaining_status = (
                RestoreStatus.TOO_DEEP
                if len(path.relative_to(change.root).parts) > MAX_DEPTH
                else RestoreStatus.NOT_EMPTY
            )
            for folder in path.parents[: len(path.parts) - len(change.path.parts)]:
                if remaining_folders.get(str(folder)) is not RestoreStatus.TOO_DEEP:
                    remaining_folders[str(folder)] = remaining_status
    return remaining_folders


def is_replaced_by_folder(step: RestoreStep, removed_paths: Container[str]) -> bool:
    """Check whether the place of a file to restore is taken by a non-empty folder.

    Entries that this undo removes do not count.
    """
    path, root = step.change.path, step.change.root
    if root is None or step.status is not RestoreStatus.RESTORE or step.change.is_folder_change:
        return False
    if read_path_state(path, root).content != FOLDER_MARKER:
        return False
    return any(
        walk_entry.path not in removed_paths for walk_entry in walk_tree(path, ()) if walk_entry.path != str(path)
    )


def determine_status(change: PathChange) -> RestoreStatus:
    """Determine what an undo does to a path, from its current state."""
    if change.backup_error:
        return RestoreStatus.NO_BACKUP
    current_state = read_current_state(change)
    if current_state is None:
        return RestoreStatus.NOT_A_FILE
    if current_state.matches(change.original_state):
        return RestoreStatus.UNCHANGED
    if change.original_state.content == SPECIAL_FILE:
        return RestoreStatus.SPECIAL_FILE
    return (
        choose_action(change)
        if change.can_result_in(current_state) and not change.has_outside_changes
        else RestoreStatus.CHANGED_SINCE
    )


def choose_action(change: PathChange) -> RestoreStatus:
    """Choose between restoring the original and removing a file that did not exist."""
    return RestoreStatus.RESTORE if change.original else RestoreStatus.REMOVE


def read_current_state(change: PathChange) -> PathState | None:
    """Read the current state of a path.

    None means that a tool wrote a file there that is no longer a regular file.
    """
    if change.root is None:
        digest = read_current_digest(change.path)
        return None if digest is None else PathState(digest)
    try:
        return read_path_state(change.path, change.root)
    except OSError as error:
        raise FileError(f"cannot read {escape_for_display(str(change.path))} ({error.strerror})") from error


def read_current_digest(path: Path) -> str | None:
    """Read the current digest of a file.

    None means that it is not a regular file, or that its path now contains a link.
    """
    try:
        if path.resolve() != path:
            return None
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ABSENT
    except (NotADirectoryError, RuntimeError):  # RuntimeError: a symbolic link loop
        return None
    except OSError as error:
        raise FileError(f"cannot read {escape_for_display(str(path))} ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    with os.fdopen(file, "rb") as content:
        return compute_digest(read_chunks(content))


def apply_restore(
    steps: Sequence[RestoreStep], backups: FileBackups, progress: ProgressCallback = ignore_progress
) -> list[RestoreStep]:
    """Execute the steps, after backing up what they replace.

    Nothing is changed if a check shows that a step would fail. Returns steps for the folders that the run created and
    that could not be removed because they are not empty.

    Raises:
        FileError: A step failed; the message says whether anything was changed.
    """
    pending_changes = [step.change for step in steps if step.status in ACTION_STATUSES]
    for done, change in enumerate(pending_changes):
        progress("checking", done, len(pending_changes))
        check_restorable(change)
    redo_backups = RedoBackups(backups.journal)
    try:
        for done, change in enumerate(pending_changes):
            progress("keeping what is there now", done, len(pending_changes))
            if change.root:
                redo_backups.back_up(change)
            else:
                backups.back_up(change.path, change.original_state.content)
    except OSError as error:
        raise FileError(f"nothing is put back: what is there now cannot be kept ({error.strerror})") from error
    execute_changes(pending_changes, progress)
    remove_created_folders(
        step.change for step in steps if step.status in (RestoreStatus.REMOVE, RestoreStatus.UNCHANGED)
    )
    try:
        backups.journal.mark_complete()
    except OSError as error:
        raise FileError(f"all is put back, but that cannot be noted ({error.strerror})") from error
    folders = (
        step
        for step in steps
        if step.status in (RestoreStatus.REMOVE, RestoreStatus.TOO_DEEP) and step.change.is_folder_change
    )
    remaining = [step for step in folders if has_remaining_folder(step.change)]
    return [
        step._replace(status=RestoreStatus.NOT_EMPTY) if step.status is RestoreStatus.REMOVE else step
        for step in remaining
    ]


def has_remaining_folder(change: PathChange) -> bool:
    """Check whether a folder that was to be removed still exists."""
    if change.root is None:
        return False
    current_state = read_current_state(change)
    return current_state is not None and current_state.content == FOLDER_MARKER


def execute_changes(changes: Sequence[PathChange], progress: ProgressCallback) -> None:
    """Undo these changes; after a failure the error says how many were undone."""
    tool_operations = [(change, restore_file) for change in changes if change.root is None]
    done = 0
    operations = [*tool_operations, *plan_operations([change for change in changes if change.root])]
    for count, (change, operation) in enumerate(operations):
        progress("putting back", count * len(changes) // len(operations), len(changes))
        try:
            operation(change)
        except OSError as error:
            name = escape_for_display(str(change.path))
            message = f"{done} of {len(changes)} files are put back, but not {name} ({error.strerror})"
            raise FileError(message, "the same command goes on with the rest") from error
        done += operation in (restore_file, restore_path)


def check_restorable(change: PathChange) -> None:
    """Check that a path can be restored; if not, raise a FileError."""
    name = escape_for_display(str(change.path))
    folder = next(folder for folder in change.path.parents if folder.exists())
    is_own_folder = change.root and folder.stat().st_uid == os.geteuid()
    if not (is_own_folder or os.access(folder, os.W_OK | os.X_OK)):
        raise FileError(f"nothing is put back: {escape_for_display(str(folder))} cannot be written")
    if change.original and change.original.copy_path:
        try:
            with change.original.copy_path.open("rb") as copy:
                size = os.fstat(copy.fileno()).st_size
                is_intact = size > MAX_BACKUP_SIZE or compute_digest(read_chunks(copy)) == change.original.digest
        except OSError as error:
            message = f"nothing is put back: the original of {name} cannot be read ({error.strerror})"
            raise FileError(message) from error
        if not is_intact:
            raise FileError(f"nothing is put back: the kept original of {name} is damaged")


def restore_file(change: PathChange) -> None:
    """Restore a file that a tool wrote, or remove it if it did not exist."""
    if change.original is None or change.original.copy_path is None:
        change.path.unlink()
        return
    change.path.parent.mkdir(parents=True, exist_ok=True)
    status = None
    with suppress(FileNotFoundError):
        status = change.path.lstat()
    with change.original.copy_path.open("rb") as copy:
        if status and status.st_ino == change.original.inode and status.st_nlink > 1:
            rewrite_file_in_place(change.path, read_chunks(copy), os.fstat(copy.fileno()).st_size, status)
        else:
            replace_file(change.path, read_chunks(copy), change.original.ownership)


def remove_created_folders(changes: Iterable[PathChange]) -> None:
    """Remove the empty folders that were created for files that no longer exist."""
    folders = {folder for change in changes if change.original is None for folder in change.created_folders}
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()
