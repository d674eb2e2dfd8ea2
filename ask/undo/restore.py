"""Puts files back as they were: what that means for each of them, and then all of it or nothing.

Showing it and asking are left to others, and so is the work itself in the folders of a safe run, to `placing`.
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
    """What is to become of a file, or why nothing can."""

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
"""Of folders that the run made and that cannot be removed."""
CONFLICT_STATUSES = (
    RestoreStatus.CHANGED_SINCE,
    RestoreStatus.NOT_A_FILE,
    RestoreStatus.NO_BACKUP,
    RestoreStatus.REPLACED_BY_FOLDER,
)


class RestoreStep(NamedTuple):
    """A file, and what is to become of it."""

    change: PathChange
    status: RestoreStatus


class ProgressCallback(Protocol):
    """Takes how much of some work is done."""

    def __call__(self, work: str, done: int, total: int) -> None:
        """Report that `done` of `total` files are done."""


def ignore_progress(work: str, done: int, total: int) -> None:
    """Report nothing."""


def plan_restore(
    changes: Iterable[PathChange], *, force: bool = False, progress: ProgressCallback = ignore_progress
) -> list[RestoreStep]:
    """What is to be done, a step for each file, by path.

    Args:
        changes: what became of the files.
        force: put back what has changed since, too.
        progress: is told how far this is.

    Raises:
        FileError: a file cannot be read.
    """
    steps = []
    ordered = sorted(changes, key=lambda change: change.path.parts)
    for done, change in enumerate(ordered):
        progress("comparing", done, len(ordered))
        steps.append(RestoreStep(change, determine_status(change)))
    if force:
        steps = [
            step._replace(status=choose_action(step.change)) if step.status is RestoreStatus.CHANGED_SINCE else step
            for step in steps
        ]
    gone = {str(step.change.path) for step in steps if step.status is RestoreStatus.REMOVE}
    staying = find_remaining_folders(steps, gone)
    steps = [step._replace(status=staying.get(str(step.change.path), step.status)) for step in steps]
    gone -= staying.keys()
    return [
        step._replace(status=RestoreStatus.REPLACED_BY_FOLDER) if is_replaced_by_folder(step, gone) else step
        for step in steps
    ]


def find_remaining_folders(steps: Iterable[RestoreStep], removed_paths: Container[str]) -> dict[str, RestoreStatus]:
    """Which of the folders that are to be removed will still have something in them, and what that is.

    Args:
        steps: by path.
        removed_paths: the paths of all that is to be removed.
    """
    staying: dict[str, RestoreStatus] = {}
    for change, state in steps:
        outermost = state is RestoreStatus.REMOVE and change.root and str(change.path.parent) not in removed_paths
        now = read_current_state(change) if outermost else None
        if not change.root or now is None or now.content != FOLDER_MARKER:
            continue
        for seen in walk_tree(change.path, ()):
            if seen.path in removed_paths:
                continue
            path = Path(seen.path)
            # So deep, what the run made could not be told from what the user did.
            why = (
                RestoreStatus.TOO_DEEP
                if len(path.relative_to(change.root).parts) > MAX_DEPTH
                else RestoreStatus.NOT_EMPTY
            )
            for folder in path.parents[: len(path.parts) - len(change.path.parts)]:
                if staying.get(str(folder)) is not RestoreStatus.TOO_DEEP:
                    staying[str(folder)] = why
    return staying


def is_replaced_by_folder(step: RestoreStep, removed_paths: Container[str]) -> bool:
    """Whether something is to take the place of a folder in which there is more than will be gone by then."""
    path, root = step.change.path, step.change.root
    if root is None or step.status is not RestoreStatus.RESTORE or step.change.is_folder_change:
        return False
    if read_path_state(path, root).content != FOLDER_MARKER:
        return False
    return any(seen.path not in removed_paths for seen in walk_tree(path, ()) if seen.path != str(path))


def determine_status(change: PathChange) -> RestoreStatus:
    """What is to become of a file that was changed so, by what it is now.

    Raises:
        FileError: it cannot be read.
    """
    if change.backup_error:
        return RestoreStatus.NO_BACKUP
    now = read_current_state(change)
    if now is None:
        return RestoreStatus.NOT_A_FILE
    if now.matches(change.original_state):
        return RestoreStatus.UNCHANGED
    if change.original_state.content == SPECIAL_FILE:
        return RestoreStatus.SPECIAL_FILE
    return (
        choose_action(change)
        if change.can_result_in(now) and not change.has_outside_changes
        else RestoreStatus.CHANGED_SINCE
    )


def choose_action(change: PathChange) -> RestoreStatus:
    """What putting it back as it was means."""
    return RestoreStatus.RESTORE if change.original else RestoreStatus.REMOVE


def read_current_state(change: PathChange) -> PathState | None:
    """What tells what there is now; None for what is no file, where a tool wrote one.

    Raises:
        FileError: it cannot be read.
    """
    if change.root is None:
        digest = read_current_digest(change.path)
        return None if digest is None else PathState(digest)
    try:
        return read_path_state(change.path, change.root)
    except OSError as fault:
        raise FileError(f"cannot read {escape_for_display(str(change.path))} ({fault.strerror})") from fault


def read_current_digest(path: Path) -> str | None:
    """The digest of what a file is now; None where something else is in its place, or its path leads elsewhere.

    Raises:
        FileError: it cannot be read.
    """
    try:
        if path.resolve() != path:
            return None
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ABSENT
    except (NotADirectoryError, RuntimeError):  # the latter for links in a circle
        return None
    except OSError as fault:
        raise FileError(f"cannot read {escape_for_display(str(path))} ({fault.strerror})") from fault
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    with os.fdopen(file, "rb") as content:
        return compute_digest(read_chunks(content))


def apply_restore(
    steps: Sequence[RestoreStep], backups: FileBackups, progress: ProgressCallback = ignore_progress
) -> list[RestoreStep]:
    """Do what the steps say, and keep what is there until now.

    Nothing is done where it can be seen beforehand that one step would fail.

    Returns the folders that the run made and that are still there, with something in them that may be of the run.

    Raises:
        FileError: something could not be done; what it says tells whether anything was.
    """
    work = [step.change for step in steps if step.status in ACTION_STATUSES]
    for done, change in enumerate(work):
        progress("checking", done, len(work))
        check_restorable(change)
    displaced = RedoBackups(backups.journal)
    try:
        for done, change in enumerate(work):
            progress("keeping what is there now", done, len(work))
            if change.root:
                displaced.back_up(change)
            else:
                backups.back_up(change.path, change.original_state.content)
    except OSError as fault:
        raise FileError(f"nothing is put back: what is there now cannot be kept ({fault.strerror})") from fault
    execute_changes(work, progress)
    remove_created_folders(
        step.change for step in steps if step.status in (RestoreStatus.REMOVE, RestoreStatus.UNCHANGED)
    )
    try:
        backups.journal.mark_complete()
    except OSError as fault:
        raise FileError(f"all is put back, but that cannot be noted ({fault.strerror})") from fault
    folders = (
        step
        for step in steps
        if step.status in (RestoreStatus.REMOVE, RestoreStatus.TOO_DEEP) and step.change.is_folder_change
    )
    left = [step for step in folders if has_remaining_folder(step.change)]
    return [
        step._replace(status=RestoreStatus.NOT_EMPTY) if step.status is RestoreStatus.REMOVE else step for step in left
    ]


def has_remaining_folder(change: PathChange) -> bool:
    """Whether there is still a folder in the place of what is to be nothing."""
    if change.root is None:
        return False
    now = read_current_state(change)
    return now is not None and now.content == FOLDER_MARKER


def execute_changes(changes: Sequence[PathChange], progress: ProgressCallback) -> None:
    """Put all of these back.

    Raises:
        FileError: something could not be done; it says how much was.
    """
    written = [(change, restore_file) for change in changes if change.root is None]
    done = 0
    acts = [*written, *plan_operations([change for change in changes if change.root])]
    for count, (change, act) in enumerate(acts):
        progress("putting back", count * len(changes) // len(acts), len(changes))
        try:
            act(change)
        except OSError as fault:
            said = f"{done} of {len(changes)} files are put back, but not {escape_for_display(str(change.path))} ({fault.strerror})"
            raise FileError(said, "the same command goes on with the rest") from fault
        done += act in (restore_file, restore_path)


def check_restorable(change: PathChange) -> None:
    """See that a file can be put back.

    Raises:
        FileError: it cannot.
    """
    name = escape_for_display(str(change.path))
    folder = next(folder for folder in change.path.parents if folder.exists())
    own = change.root and folder.stat().st_uid == os.geteuid()
    if not (own or os.access(folder, os.W_OK | os.X_OK)):
        raise FileError(f"nothing is put back: {escape_for_display(str(folder))} cannot be written")
    if change.original and change.original.copy_path:
        try:
            with change.original.copy_path.open("rb") as copy:
                size = os.fstat(copy.fileno()).st_size
                sound = size > MAX_BACKUP_SIZE or compute_digest(read_chunks(copy)) == change.original.digest
        except OSError as fault:
            said = f"nothing is put back: the original of {name} cannot be read ({fault.strerror})"
            raise FileError(said) from fault
        if not sound:
            raise FileError(f"nothing is put back: the kept original of {name} is damaged")


def restore_file(change: PathChange) -> None:
    """Make a file what it was.

    Raises:
        OSError: that cannot be done.
    """
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
    """Remove the folders that were made for files that are not there any more, where nothing else is in them."""
    folders = {folder for change in changes if change.original is None for folder in change.created_folders}
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()
