"""Puts back what was in the folders of a safe run: files, folders and links, without following a link to anywhere.

`restore` decides what is put back. It happens in four rounds: folders are opened up, what is in the way goes, what is
missing comes, and folders get the permissions that they had.
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
    """All that is to be done to put these back, in order; each act raises OSError where it cannot be done."""
    down = sorted(changes, key=lambda change: change.path)
    folders = [change for change in down if change.original and change.original.digest == FOLDER_MARKER]
    yield from ((change, make_folder_writable) for change in folders)
    yield from ((change, clear_path) for change in reversed(down))
    yield from ((change, restore_path) for change in down)
    yield from ((change, restore_folder_mode) for change in reversed(folders))


def make_folder_writable(change: PathChange) -> None:
    """Let a folder be worked in that is to stay."""
    with _open_current(change) as (inside, name, status):
        if status and stat.S_ISDIR(status.st_mode):
            _set_mode(inside, name, stat.S_IMODE(status.st_mode) | OWNER_RWX)


def clear_path(change: PathChange) -> None:
    """Take away what is not to be there; a folder in which there is something else stays, unless it is in the way."""
    folder_wanted = change.original is not None and change.original.digest == FOLDER_MARKER
    with _open_current(change) as (inside, name, status):
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            if folder_wanted:
                return
            with _make_writable(inside), suppress(*(() if change.original else (OSError,))):
                os.rmdir(name, dir_fd=inside)
        elif change.original is None or folder_wanted:
            with _make_writable(inside):
                os.unlink(name, dir_fd=inside)


def restore_path(change: PathChange) -> None:
    """Put there what was there."""
    was = change.original
    if was is None:
        return
    with open_parent(change.path, change.trusted_root, create=True) as (inside, name), _make_writable(inside):
        if was.digest == FOLDER_MARKER:
            _make_folder(inside, name, was.ownership)
        elif was.digest.startswith(LINK_PREFIX):
            _make_link(inside, name, was)
        elif was.copy_path:
            _restore_file(inside, name, change, was, was.copy_path)


def restore_folder_mode(change: PathChange) -> None:
    """Give a folder the permissions that it had."""
    with _open_current(change) as (inside, name, status):
        if status and change.original:
            _set_mode(inside, name, change.original.ownership.mode)


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
        same = stat.S_ISREG(status.st_mode) and original.inode == status.st_ino
        if same and status.st_nlink > 1 and _rewrite_in_place(parent_fd, name, original, copy_path):
            return
    with _replace_atomically(parent_fd, name) as temporary:
        if not _link_to_existing(parent_fd, temporary, change, original):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            _write_original(os.open(temporary, flags, 0o600, dir_fd=parent_fd), original, copy_path)


def _rewrite_in_place(parent_fd: int, name: str, original: OriginalEntry, copy_path: Path) -> bool:
    """Give a file back its content, for all its names, some of which may be elsewhere; whether that could be done."""
    try:
        file = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    except PermissionError:
        return False
    _write_original(file, original, copy_path)
    return True


def _write_original(descriptor: int, original: OriginalEntry, copy_path: Path) -> None:
    """Write a file, make it what it was, and close it."""
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
    """Make a name for a file that is there under another one; whether there is one."""
    for twin in original.hard_links:
        if twin.is_relative_to(change.trusted_root) and read_path_state(twin, change.trusted_root).matches(
            change.original_state
        ):
            with suppress(OSError), open_parent(twin, change.trusted_root) as (other, twin_name):
                os.link(twin_name, name, src_dir_fd=other, dst_dir_fd=parent_fd, follow_symlinks=False)
                return True
    return False


@contextmanager
def _replace_atomically(parent_fd: int, name: str) -> Iterator[str]:
    """A name under which something is made that takes its place when it is whole."""
    temporary = f".ask-{os.urandom(8).hex()}.tmp"
    try:
        yield temporary
        os.replace(temporary, name, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent_fd)


@contextmanager
def _open_current(change: PathChange) -> Iterator[tuple[int, str, os.stat_result | None]]:
    """Where a change is, open, its name there, and the status of what there is; None for nothing."""
    inside, name, status = -1, "", None
    with ExitStack() as stack:
        with suppress(FileNotFoundError, NotADirectoryError):
            inside, name = stack.enter_context(open_parent(change.path, change.trusted_root))
            status = os.stat(name, dir_fd=inside, follow_symlinks=False)
        yield inside, name, status


@contextmanager
def _make_writable(folder_fd: int) -> Iterator[None]:
    """The folder can be written meanwhile, if it is the user's own."""
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
    file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        os.chmod(f"/proc/self/fd/{file}", mode)
    finally:
        os.close(file)
