"""Plan what an undo does to each path, check that all of it is possible, and do it without following symbolic links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path

from ask.atomic_files import (
    CHUNK_BYTES,
    OWNER_ERRORS,
    Ownership,
    copy_extended_attributes,
    open_replacement,
    replace_atomically,
)
from ask.errors import FileError
from ask.records import NamedTuple
from ask.regular_files import open_regular_file
from ask.tools.file_access import escape_for_display, rewrite_file_in_place
from ask.undo.backup_scope import MAX_DEPTH
from ask.undo.backups import BackupWriter
from ask.undo.journal import RESTORE_DONE, PathChange
from ask.undo.trees import (
    ABSENT_STATE,
    LINK_PREFIX,
    OWNER_RWX,
    SPECIAL_FILE,
    PathState,
    SavedEntry,
    copy_content,
    open_entry,
    open_parent,
    read_entry_state,
    read_path_state,
    stat_entry,
    walk_tree,
)


class RestoreStatus(StrEnum):
    """What an undo does to a file, or why it does nothing."""

    RESTORE = "restore"
    REMOVE = "remove"
    UNCHANGED = "unchanged"
    CHANGED_SINCE = "changed since"
    NOT_A_FILE = "no longer a file"
    BEHIND_LINK = "in a folder that a link has replaced"
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
    RestoreStatus.BEHIND_LINK,
    RestoreStatus.NO_BACKUP,
    RestoreStatus.REPLACED_BY_FOLDER,
)


class RestoreStep(NamedTuple):
    """A changed path, and what an undo does to it."""

    change: PathChange
    status: RestoreStatus


ProgressCallback = Callable[[str, int, int], None]
"""Reports progress of a step of the work, such as "comparing", with the number of files done and in total."""


def _ignore_progress(work: str, done: int, total: int) -> None:
    """Report nothing."""


def plan_restore(
    changes: Iterable[PathChange], *, force: bool = False, progress: ProgressCallback = _ignore_progress
) -> list[RestoreStep]:
    """Plan a step for each changed path, sorted by path.

    With `force`, files that have changed since are restored as well.
    """
    steps = []
    sorted_changes = sorted(changes, key=lambda change: change.path.parts)
    for done, change in enumerate(sorted_changes):
        progress("comparing", done, len(sorted_changes))
        steps.append(RestoreStep(change, _determine_status(change, force=force)))
    occupied_folders = _find_occupied_folders(steps)
    return [step._replace(status=occupied_folders.get(step.change.path, step.status)) for step in steps]


def _determine_status(change: PathChange, *, force: bool) -> RestoreStatus:
    """Determine what an undo does to a path, from its current state."""
    is_behind_link = os.path.realpath(change.trusted_root) != str(change.trusted_root)  # perhaps of a later run's call
    if change.backup_error or is_behind_link:
        return RestoreStatus.NO_BACKUP if change.backup_error else RestoreStatus.BEHIND_LINK
    current_state = read_current_state(change)
    if change.root is None and not _is_plain_file(change.path, current_state):
        return RestoreStatus.NOT_A_FILE
    if current_state.matches(change.original_state):
        return RestoreStatus.UNCHANGED
    if change.original_state.content == SPECIAL_FILE:
        return RestoreStatus.SPECIAL_FILE
    if force or (change.can_result_in(current_state) and not change.has_outside_changes):
        return RestoreStatus.RESTORE if change.original else RestoreStatus.REMOVE
    return RestoreStatus.CHANGED_SINCE


def read_current_state(change: PathChange) -> PathState:
    """Read the current state of a path.

    Raises:
        FileError: it cannot be read.
    """
    try:
        return read_path_state(change.path)
    except OSError as error:
        raise FileError(f"cannot read {escape_for_display(change.path)} ({error.strerror})") from error


def _is_plain_file(path: Path, state: PathState) -> bool:
    """Check that a file, or nothing, is at a path, as it was when a tool wrote there."""
    return (state.is_file or state == ABSENT_STATE) and not path.parent.is_file()


def _find_occupied_folders(steps: Sequence[RestoreStep]) -> dict[Path, RestoreStatus]:
    """Find the folders to remove or to replace that contain something else, and the new status of each."""
    removed_paths = {step.change.path for step in steps if step.status is RestoreStatus.REMOVE}
    occupied_folders: dict[Path, RestoreStatus] = {}
    for change, status in steps:
        path = change.path
        is_inside_removed = status is RestoreStatus.REMOVE and path.parent in removed_paths
        if status not in ACTION_STATUSES or change.original_state.is_folder or is_inside_removed:
            continue
        if not _is_current_folder(change):
            continue
        for inner_path in (Path(entry.path) for entry in walk_tree(path)):
            if inner_path == path or inner_path in removed_paths:
                continue
            # This deep, it is unknown which entries the run made and which the user.
            is_too_deep = len(inner_path.relative_to(change.trusted_root).parts) > MAX_DEPTH
            for folder in inner_path.parents[: len(inner_path.parts) - len(path.parts)]:
                if occupied_folders.get(folder) is not RestoreStatus.TOO_DEEP:
                    occupied_folders[folder] = RestoreStatus.TOO_DEEP if is_too_deep else RestoreStatus.NOT_EMPTY
            if status is RestoreStatus.RESTORE:
                occupied_folders[path] = RestoreStatus.REPLACED_BY_FOLDER
    return occupied_folders


def _is_current_folder(change: PathChange) -> bool:
    """Check whether a folder is now at a path in a folder of a safe run."""
    with suppress(OSError), open_entry(change.path) as entry:
        return bool(change.root and entry and entry.is_folder)
    return False


def apply_restore(
    steps: Sequence[RestoreStep], backups: BackupWriter, progress: ProgressCallback = _ignore_progress
) -> list[RestoreStep]:
    """Execute the steps, after backing up what they replace.

    Nothing is changed if a check shows that a step would fail. Returns steps for the folders that the run created and
    that could not be removed because they are not empty.

    Raises:
        FileError: a step failed; the message says whether anything was changed.
    """
    pending_changes = [step.change for step in steps if step.status in ACTION_STATUSES]
    for done, change in enumerate(pending_changes):
        progress("checking", done, len(pending_changes))
        _check_restorable(change)
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
        backups.add_lines({"kind": RESTORE_DONE})
    except OSError as error:
        raise FileError(f"all files were restored, but this cannot be recorded ({error.strerror})") from error
    backups.close()
    return [
        step._replace(status=RestoreStatus.NOT_EMPTY) if step.status is RestoreStatus.REMOVE else step
        for step in steps
        if step.status in (RestoreStatus.REMOVE, RestoreStatus.TOO_DEEP)
        and step.change.is_folder_change
        and _is_current_folder(step.change)
    ]


def _check_restorable(change: PathChange) -> None:
    """Raise a FileError unless a path can be restored."""
    name = escape_for_display(change.path)
    folder = next(folder for folder in change.path.parents if folder.exists())
    is_own_folder = change.root and folder.stat().st_uid == os.geteuid()
    if not (is_own_folder or os.access(folder, os.W_OK | os.X_OK)):
        raise FileError(f"nothing was restored: cannot write {escape_for_display(folder)}")
    if change.original:
        try:
            copied_entry = change.original.hash_copy(change.backup_folder)
        except OSError as error:
            message = f"nothing was restored: cannot read the backup of {name} ({error.strerror})"
            raise FileError(message) from error
        if copied_entry != change.original:
            raise FileError(f"nothing was restored: the backup of {name} is damaged")


def _execute_changes(changes: Sequence[PathChange], progress: ProgressCallback) -> None:
    """Undo these changes in four passes; after a failure the error says how many were undone."""
    sorted_changes = sorted(changes, key=lambda change: change.path)
    folders = [change for change in sorted_changes if change.original_state.is_folder]
    # Folders are removed after what is in them, and created before it. Their permissions come last: with the original
    # ones, it may be impossible to write in them.
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
            name = escape_for_display(change.path)
            message = f"restored {done} of {len(changes)} files, but not {name} ({error.strerror})"
            raise FileError(message, "run the same command again to continue") from error
        done += operation is _restore_path


def _make_folder_writable(change: PathChange) -> None:
    """Make a folder that will be kept accessible and writable for its owner."""
    with open_entry(change.path) as entry:
        if entry and entry.is_folder:
            _set_mode(entry.parent_fd, entry.name, stat.S_IMODE(entry.status.st_mode) | OWNER_RWX)


def _clear_path(change: PathChange) -> None:
    """Remove what is at a path, unless it has the type of the original.

    A folder that is not empty stays if nothing is to replace it, and is an error otherwise.
    """
    restores_folder = change.original_state.is_folder
    with open_entry(change.path) as entry:
        if entry is None:
            return
        if entry.is_folder:
            if not restores_folder:
                with _make_writable(entry.parent_fd), suppress(*(() if change.original else (OSError,))):
                    os.rmdir(entry.name, dir_fd=entry.parent_fd)
        elif change.original is None or restores_folder:
            with _make_writable(entry.parent_fd):
                os.unlink(entry.name, dir_fd=entry.parent_fd)


def _restore_path(change: PathChange) -> None:
    """Restore the original at a path."""
    original = change.original
    if original is None:
        return
    name = change.path.name
    with open_parent(change.path, create=True) as parent_fd, _make_writable(parent_fd):
        if change.original_state.is_folder:
            with suppress(FileExistsError):
                os.mkdir(name, original.ownership.mode | OWNER_RWX, dir_fd=parent_fd)
                _set_owner(parent_fd, name, original.ownership)
        elif original.content.startswith(LINK_PREFIX):
            with replace_atomically(Path(name), parent_fd) as temporary:
                os.symlink(original.content.removeprefix(LINK_PREFIX), temporary, dir_fd=parent_fd)
                _set_owner(parent_fd, temporary, original.ownership)
        elif change.copy_path:
            _restore_file(parent_fd, change, original, change.copy_path)


def _restore_folder_mode(change: PathChange) -> None:
    with open_entry(change.path) as entry:
        if entry and change.original:
            _set_mode(entry.parent_fd, entry.name, change.original.ownership.mode)


def _restore_file(parent_fd: int, change: PathChange, original: SavedEntry, copy_path: Path) -> None:
    name, mode, status = change.path.name, original.ownership.mode, None
    with suppress(FileNotFoundError):
        entry = stat_entry(original.path, parent_fd)
        if read_entry_state(entry).content == original.content:
            _set_mode(parent_fd, name, mode)
            return
        status = entry.status
    is_same_file = status and stat.S_ISREG(status.st_mode) and status.st_ino == original.inode

    def rewrite_in_place(status: os.stat_result) -> None:
        with open_regular_file(copy_path) as copy:
            size = os.fstat(copy.fileno()).st_size
            rewrite_file_in_place(name, iter(partial(copy.read, CHUNK_BYTES), b""), size, status, parent_fd)
        if stat.S_IMODE(status.st_mode) != mode:
            _set_mode(parent_fd, name, mode)
        if change.root:
            with suppress(PermissionError):  # the file belongs to another user
                os.utime(name, ns=(original.modified_ns,) * 2, dir_fd=parent_fd, follow_symlinks=False)

    if status and is_same_file and status.st_nlink > 1 and original.link_count > 1:
        # Its other names, of which some may be outside of the folders, get the content too. If it had no other name,
        # those of today are later copies, which keep theirs.
        with suppress(PermissionError):
            rewrite_in_place(status)
            return
    if _link_to_existing(parent_fd, change):
        return
    can_rewrite = bool(is_same_file) and os.access(name, os.W_OK, dir_fd=parent_fd)
    try:
        with (
            open_replacement(Path(name), original.ownership, parent_fd, must_keep_owner=can_rewrite) as file,
            open_regular_file(copy_path) as copy,
        ):
            copy_content(copy, file, os.fstat(copy.fileno()).st_size)
            file.flush()  # before setting the time, which writing changes
            copy_extended_attributes(Path(name), file.fileno(), parent_fd)
            if change.root:  # otherwise make and other programs have to see that the file changes once more
                os.utime(file.fileno(), ns=(original.modified_ns,) * 2)
    except OSError as error:
        if not status or not can_rewrite or error.errno not in OWNER_ERRORS:
            raise
        rewrite_in_place(status)


def _link_to_existing(parent_fd: int, change: PathChange) -> bool:
    """Replace a name by a hard link to another path that already has the original state, if there is one."""
    root = change.trusted_root
    for path in change.hard_links:
        if path.is_relative_to(root) and read_path_state(path).matches(change.original_state):
            with (
                suppress(OSError),
                open_parent(path) as linked_parent_fd,
                replace_atomically(Path(change.path.name), parent_fd) as temporary,
            ):
                os.link(path.name, temporary, src_dir_fd=linked_parent_fd, dst_dir_fd=parent_fd, follow_symlinks=False)
                return True
    return False


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


def _set_owner(parent_fd: int, name: str | Path, ownership: Ownership) -> None:
    with suppress(PermissionError):
        os.chown(name, ownership.user, ownership.group, dir_fd=parent_fd, follow_symlinks=False)


def _set_mode(parent_fd: int, name: str, mode: int) -> None:
    # On Linux, chmod() follows links; through an open descriptor it cannot.
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
