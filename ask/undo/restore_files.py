"""Restore files, folders and links in the folders of a safe run, without following symbolic links.

`restore` decides what is restored. This happens in four passes: make folders writable, remove what is in the way,
restore what is missing, and set the original permissions of folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ask.atomic_files import Ownership, set_ownership
from ask.undo.contents import copy_content
from ask.undo.journal import FOLDER_MARKER, LINK_PREFIX, OWNER_RWX, OriginalEntry, PathChange
from ask.undo.trees import open_parent, read_entry_state, read_path_state

RestoreOperation = Callable[[PathChange], None]


def plan_operations(changes: Sequence[PathChange]) -> Iterator[tuple[PathChange, RestoreOperation]]:
    """Yield the operations that undo these changes, in order; each may raise an OSError."""
    sorted_changes = sorted(changes, key=lambda change: change.path)
    folders = [change for change in sorted_changes if change.original and change.original.digest == FOLDER_MARKER]
    yield from ((change, make_folder_writable) for change in folders)
    yield from ((change, clear_path) for change in reversed(sorted_changes))
    yield from ((change, restore_path) for change in sorted_changes)
    yield from ((change, restore_folder_mode) for change in reversed(folders))


def make_folder_writable(change: PathChange) -> None:
    """Make a folder that will be kept accessible and writable for its owner."""
    with _open_current(change) as (parent_fd, name, status):
        if status and stat.S_ISDIR(status.st_mode):
            _set_mode(parent_fd, name, stat.S_IMODE(status.st_mode) | OWNER_RWX)


def clear_path(change: PathChange) -> None:
    """Remove what is at a path, unless it has the type of the original.

    A folder that is not empty stays if nothing is to replace it, and is an error otherwise.
    """
    restores_folder = change.original is not None and change.original.digest == FOLDER_MARKER
    with _open_current(change) as (parent_fd, name, status):
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            if restores_folder:
                return
            with _make_writable(parent_fd), suppress(*(() if change.original else (OSError,))):
                os.rmdir(name, dir_fd=parent_fd)
        elif change.original is None or restores_folder:
            with _make_writable(parent_fd):
                os.unlink(name, dir_fd=parent_fd)


def restore_path(change: PathChange) -> None:
    """Restore the original at a path."""
    original = change.original
    if original is None:
        return
    with open_parent(change.path, change.trusted_root, create=True) as (parent_fd, name), _make_writable(parent_fd):
        if original.digest == FOLDER_MARKER:
            _make_folder(parent_fd, name, original.ownership)
        elif original.digest.startswith(LINK_PREFIX):
            _make_link(parent_fd, name, original)
        elif original.copy_path:
            _restore_file(parent_fd, name, change, original, original.copy_path)


def restore_folder_mode(change: PathChange) -> None:
    """Restore the permissions of a folder."""
    with _open_current(change) as (parent_fd, name, status):
        if status and change.original:
            _set_mode(parent_fd, name, change.original.ownership.mode)


def _make_folder(parent_fd: int, name: str, ownership: Ownership) -> None:
    try:
        os.mkdir(name, ownership.mode | OWNER_RWX, dir_fd=parent_fd)
    except FileExistsError:
        return
    with suppress(PermissionError):
        os.chown(name, ownership.user, ownership.group, dir_fd=parent_fd, follow_symlinks=False)


def _make_link(parent_fd: int, name: str, original: OriginalEntry) -> None:
    with _replace_atomically(parent_fd, name) as temporary:
        os.symlink(original.digest.removeprefix(LINK_PREFIX), temporary, dir_fd=parent_fd)
        with suppress(PermissionError):
            os.chown(
                temporary, original.ownership.user, original.ownership.group, dir_fd=parent_fd, follow_symlinks=False
            )


def _restore_file(parent_fd: int, name: str, change: PathChange, original: OriginalEntry, copy_path: Path) -> None:
    try:
        status = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    except FileNotFoundError:
        pass
    else:
        if read_entry_state(parent_fd, name, status).content == original.digest:
            _set_mode(parent_fd, name, original.ownership.mode)
            return
        is_same_file = stat.S_ISREG(status.st_mode) and original.inode == status.st_ino
        if is_same_file and status.st_nlink > 1 and _rewrite_in_place(parent_fd, name, original, copy_path):
            return
    with _replace_atomically(parent_fd, name) as temporary:
        if not _link_to_existing(parent_fd, temporary, change, original):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            _write_original(os.open(temporary, flags, 0o600, dir_fd=parent_fd), original, copy_path)


def _rewrite_in_place(parent_fd: int, name: str, original: OriginalEntry, copy_path: Path) -> bool:
    """Restore the content of a file in place; return False if it cannot be opened.

    This restores all its hard links, of which some may be outside of the folders.
    """
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    except PermissionError:
        return False
    _write_original(descriptor, original, copy_path)
    return True


def _write_original(descriptor: int, original: OriginalEntry, copy_path: Path) -> None:
    """Write the original content, ownership and time to an open file, and close it."""
    try:
        with copy_path.open("rb") as content:
            status = os.fstat(content.fileno())
            copy_content(content.fileno(), descriptor, status.st_size)
        set_ownership(descriptor, original.ownership)
        if original.modified_ns is not None:
            os.utime(descriptor, ns=(original.modified_ns, original.modified_ns))
    finally:
        os.close(descriptor)


def _link_to_existing(parent_fd: int, name: str, change: PathChange, original: OriginalEntry) -> bool:
    """Hard-link another path that already has the original state, if there is one."""
    for linked_path in original.hard_links:
        if linked_path.is_relative_to(change.trusted_root) and read_path_state(
            linked_path, change.trusted_root
        ).matches(change.original_state):
            with suppress(OSError), open_parent(linked_path, change.trusted_root) as (linked_parent_fd, linked_name):
                os.link(linked_name, name, src_dir_fd=linked_parent_fd, dst_dir_fd=parent_fd, follow_symlinks=False)
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
    path = f"/proc/self/fd/{folder_fd}"
    if os.access(path, os.W_OK | os.X_OK):
        yield
        return
    mode = stat.S_IMODE(os.fstat(folder_fd).st_mode)
    os.chmod(path, mode | OWNER_RWX)
    try:
        yield
    finally:
        os.chmod(path, mode)


def _set_mode(parent_fd: int, name: str, mode: int) -> None:
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)
