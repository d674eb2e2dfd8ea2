"""Plan what an undo does to each path, check that all of it is possible, and do it without following symbolic links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path

from ask.atomic_files import Ownership, open_replacement
from ask.errors import FileError
from ask.records import NamedTuple
from ask.tools.file_access import escape_for_display, rewrite_file_in_place
from ask.undo.backups import FileBackups
from ask.undo.journal import (
    ABSENT_STATE,
    LINK_PREFIX,
    MAX_BACKUP_SIZE,
    OWNER_RWX,
    RESTORE_DONE,
    SPECIAL_FILE,
    OriginalEntry,
    PathChange,
    PathState,
)
from ask.undo.trees import (
    CHUNK_SIZE,
    MAX_DEPTH,
    compute_digest,
    copy_content,
    open_parent,
    read_entry_state,
    read_path_state,
    walk_tree,
)


class RestoreStatus(StrEnum):
    """What an undo does to a file, or why it does nothing."""

    RESTORE = "restore"
    REMOVE = "remove"
    UNCHANGED = "unchanged"
    CHANGED_SINCE = "changed since"
    NOT_A_FILE = "no longer a file"
    NO_BACKUP = "no backup"
    REPLACED_BY_FOLDER = "now a folder that contains something else"
    SPECIAL_FILE = "was a pipe, socket or device"
    NOT_EMPTY = "contains something else"
    TOO_DEEP = f"more than {MAX_DEPTH} folders deep"


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


ProgressCallback = Callable[[str, int, int], None]
"""Reports progress of a step of the work, such as "comparing", with the number of files done and in total."""


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
        status = determine_status(change)
        steps.append(
            RestoreStep(change, choose_action(change) if force and status is RestoreStatus.CHANGED_SINCE else status)
        )
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
        is_outermost = status is RestoreStatus.REMOVE and str(change.path.parent) not in removed_paths
        if not change.root or not is_outermost or not is_current_folder(change):
            continue
        for walk_entry in walk_tree(change.path):
            if walk_entry.path in removed_paths:
                continue
            path = Path(walk_entry.path)
            # This deep, it is unknown which entries the run made and which the user.
            is_too_deep = len(path.relative_to(change.root).parts) > MAX_DEPTH
            remaining_status = RestoreStatus.TOO_DEEP if is_too_deep else RestoreStatus.NOT_EMPTY
            for folder in path.parents[: len(path.parts) - len(change.path.parts)]:
                if remaining_folders.get(str(folder)) is not RestoreStatus.TOO_DEEP:
                    remaining_folders[str(folder)] = remaining_status
    return remaining_folders


def is_replaced_by_folder(step: RestoreStep, removed_paths: Container[str]) -> bool:
    """Check whether the place of a file to restore is taken by a non-empty folder.

    Entries that this undo removes do not count.
    """
    path = step.change.path
    if step.status is not RestoreStatus.RESTORE or step.change.is_folder_change or not is_current_folder(step.change):
        return False
    return any(entry.path not in removed_paths for entry in walk_tree(path) if entry.path != str(path))


def determine_status(change: PathChange) -> RestoreStatus:
    """Determine what an undo does to a path, from its current state."""
    if change.backup_error:
        return RestoreStatus.NO_BACKUP
    current_state = read_current_state(change)
    if change.root is None and not is_plain_file(change.path, current_state):
        return RestoreStatus.NOT_A_FILE
    if current_state.matches(change.original_state):
        return RestoreStatus.UNCHANGED
    if change.original_state.content == SPECIAL_FILE:
        return RestoreStatus.SPECIAL_FILE
    if change.can_result_in(current_state) and not change.has_outside_changes:
        return choose_action(change)
    return RestoreStatus.CHANGED_SINCE


def choose_action(change: PathChange) -> RestoreStatus:
    """Choose between restoring the original and removing a file that did not exist."""
    return RestoreStatus.RESTORE if change.original else RestoreStatus.REMOVE


def read_current_state(change: PathChange) -> PathState:
    """Read the current state of a path; an unreadable one is a FileError."""
    try:
        return read_path_state(change.path, change.trusted_root)
    except OSError as error:
        raise FileError(f"cannot read {escape_for_display(str(change.path))} ({error.strerror})") from error


def is_plain_file(path: Path, state: PathState) -> bool:
    """Check that a file, or nothing, is at a path that contains no link, as it was when a tool wrote there."""
    is_moved = os.path.realpath(path) != str(path) or path.parent.is_file()
    return (state.is_file or state == ABSENT_STATE) and not is_moved


def is_current_folder(change: PathChange) -> bool:
    """Check whether a folder is now at a path in a folder of a safe run."""
    return change.root is not None and read_current_state(change).is_folder


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
    try:
        for done, change in enumerate(pending_changes):
            progress("backing up the current state", done, len(pending_changes))
            backups.back_up(change.path, change.original_state, change.root)
    except OSError as error:
        raise FileError(f"nothing was restored: cannot back up the current state ({error.strerror})") from error
    _execute_changes(pending_changes, progress)
    _remove_created_folders(
        step.change for step in steps if step.status in (RestoreStatus.REMOVE, RestoreStatus.UNCHANGED)
    )
    try:
        backups.journal.add_line(kind=RESTORE_DONE)
    except OSError as error:
        raise FileError(f"all files were restored, but this cannot be recorded ({error.strerror})") from error
    backups.journal.close()
    return [
        step._replace(status=RestoreStatus.NOT_EMPTY) if step.status is RestoreStatus.REMOVE else step
        for step in steps
        if step.status in (RestoreStatus.REMOVE, RestoreStatus.TOO_DEEP)
        and step.change.is_folder_change
        and is_current_folder(step.change)
    ]


def check_restorable(change: PathChange) -> None:
    """Check that a path can be restored; if not, raise a FileError."""
    name = escape_for_display(str(change.path))
    folder = next(folder for folder in change.path.parents if folder.exists())
    is_own_folder = change.root and folder.stat().st_uid == os.geteuid()
    if not (is_own_folder or os.access(folder, os.W_OK | os.X_OK)):
        raise FileError(f"nothing was restored: cannot write {escape_for_display(str(folder))}")
    if change.original and change.original.copy_path:
        try:
            with change.original.copy_path.open("rb") as copy:
                size = os.fstat(copy.fileno()).st_size
                is_intact = size > MAX_BACKUP_SIZE or compute_digest(copy) == change.original.digest
        except OSError as error:
            message = f"nothing was restored: cannot read the backup of {name} ({error.strerror})"
            raise FileError(message) from error
        if not is_intact:
            raise FileError(f"nothing was restored: the backup of {name} is damaged")


def _execute_changes(changes: Sequence[PathChange], progress: ProgressCallback) -> None:
    """Undo these changes in four passes; after a failure the error says how many were undone."""
    sorted_changes = sorted(changes, key=lambda change: change.path)
    folders = [change for change in sorted_changes if change.original_state.is_folder]
    operations = [
        *((change, _make_folder_writable) for change in folders),
        *((change, _clear_path) for change in reversed(sorted_changes)),
        *((change, _restore_path) for change in sorted_changes),
        *((change, _restore_folder_mode) for change in reversed(folders)),
    ]
    done = 0
    for count, (change, operation) in enumerate(operations):
        progress("restoring", count * len(changes) // len(operations), len(changes))
        try:
            operation(change)
        except OSError as error:
            name = escape_for_display(str(change.path))
            message = f"restored {done} of {len(changes)} files, but not {name} ({error.strerror})"
            raise FileError(message, "run the same command again to continue") from error
        done += operation is _restore_path


def _make_folder_writable(change: PathChange) -> None:
    """Make a folder that will be kept accessible and writable for its owner."""
    with _open_current(change) as (parent_fd, name, status):
        if status and stat.S_ISDIR(status.st_mode):
            _set_mode(parent_fd, name, stat.S_IMODE(status.st_mode) | OWNER_RWX)


def _clear_path(change: PathChange) -> None:
    """Remove what is at a path, unless it has the type of the original.

    A folder that is not empty stays if nothing is to replace it, and is an error otherwise.
    """
    restores_folder = change.original_state.is_folder
    with _open_current(change) as (parent_fd, name, status):
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            if not restores_folder:
                with _make_writable(parent_fd), suppress(*(() if change.original else (OSError,))):
                    os.rmdir(name, dir_fd=parent_fd)
        elif change.original is None or restores_folder:
            with _make_writable(parent_fd):
                os.unlink(name, dir_fd=parent_fd)


def _restore_path(change: PathChange) -> None:
    """Restore the original at a path."""
    original = change.original
    if original is None:
        return
    with open_parent(change.path, change.trusted_root, create=True) as (parent_fd, name), _make_writable(parent_fd):
        if change.original_state.is_folder:
            with suppress(FileExistsError):
                os.mkdir(name, original.ownership.mode | OWNER_RWX, dir_fd=parent_fd)
                _set_owner(parent_fd, name, original.ownership)
        elif original.digest.startswith(LINK_PREFIX):
            with _replace_atomically(parent_fd, name) as temporary:
                os.symlink(original.digest.removeprefix(LINK_PREFIX), temporary, dir_fd=parent_fd)
                _set_owner(parent_fd, temporary, original.ownership)
        elif original.copy_path:
            _restore_file(parent_fd, name, change, original, original.copy_path)


def _restore_folder_mode(change: PathChange) -> None:
    """Restore the permissions of a folder."""
    with _open_current(change) as (parent_fd, name, status):
        if status and change.original:
            _set_mode(parent_fd, name, change.original.ownership.mode)


def _restore_file(parent_fd: int, name: str, change: PathChange, original: OriginalEntry, copy_path: Path) -> None:
    status = None
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    if status and read_entry_state(parent_fd, name, status).content == original.digest:
        _set_mode(parent_fd, name, original.ownership.mode)
        return
    if status and stat.S_ISREG(status.st_mode) and status.st_ino == original.inode and status.st_nlink > 1:
        # Its other names, of which some may be outside of the folders, get the content too.
        with suppress(PermissionError), copy_path.open("rb") as copy:
            size = os.fstat(copy.fileno()).st_size
            rewrite_file_in_place(name, iter(partial(copy.read, CHUNK_SIZE), b""), size, status, parent_fd)
            if stat.S_IMODE(status.st_mode) != original.ownership.mode:
                _set_mode(parent_fd, name, original.ownership.mode)
            if original.modified_ns is not None:
                os.utime(name, ns=(original.modified_ns,) * 2, dir_fd=parent_fd, follow_symlinks=False)
            return
    if _link_to_existing(parent_fd, name, change, original):
        return
    with open_replacement(Path(name), original.ownership, parent_fd) as file, copy_path.open("rb") as copy:
        copy_content(copy, file, os.fstat(copy.fileno()).st_size)
        file.flush()  # before setting the time, which writing changes
        if original.modified_ns is not None:
            os.utime(file.fileno(), ns=(original.modified_ns,) * 2)


def _link_to_existing(parent_fd: int, name: str, change: PathChange, original: OriginalEntry) -> bool:
    """Replace a name by a hard link to another path that already has the original state, if there is one."""
    root = change.trusted_root
    for path in original.hard_links:
        if path.is_relative_to(root) and read_path_state(path, root).matches(change.original_state):
            with (
                suppress(OSError),
                open_parent(path, root) as (linked_parent_fd, linked_name),
                _replace_atomically(parent_fd, name) as temporary,
            ):
                os.link(
                    linked_name, temporary, src_dir_fd=linked_parent_fd, dst_dir_fd=parent_fd, follow_symlinks=False
                )
                return True
    return False


@contextmanager
def _replace_atomically(parent_fd: int, name: str) -> Iterator[str]:
    """Yield a temporary name, and rename it to `name` after the block."""
    temporary = f".ask-{os.urandom(8).hex()}.tmp"
    try:
        yield temporary
        os.replace(temporary, name, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent_fd)


@contextmanager
def _open_current(change: PathChange) -> Iterator[tuple[int, str, os.stat_result | None]]:
    """Open the parent of a changed path; yield its descriptor, the name, and the status.

    The status is None if nothing is there.
    """
    parent_fd, name, status = -1, "", None
    with ExitStack() as stack:
        with suppress(FileNotFoundError, NotADirectoryError):
            parent_fd, name = stack.enter_context(open_parent(change.path, change.trusted_root))
            status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        yield parent_fd, name, status


@contextmanager
def _make_writable(folder_fd: int) -> Iterator[None]:
    """Make a folder of the user writable during the block."""
    if os.access(".", os.W_OK | os.X_OK, dir_fd=folder_fd):
        yield
        return
    mode = stat.S_IMODE(os.fstat(folder_fd).st_mode)
    path = f"/proc/self/fd/{folder_fd}"
    os.chmod(path, mode | OWNER_RWX)
    try:
        yield
    finally:
        os.chmod(path, mode)


def _set_owner(parent_fd: int, name: str, ownership: Ownership) -> None:
    with suppress(PermissionError):
        os.chown(name, ownership.user, ownership.group, dir_fd=parent_fd, follow_symlinks=False)


def _set_mode(parent_fd: int, name: str, mode: int) -> None:
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)


def _remove_created_folders(changes: Iterable[PathChange]) -> None:
    """Remove the empty folders that were created for files that no longer exist."""
    folders = {folder for change in changes if change.original is None for folder in change.created_folders}
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()
