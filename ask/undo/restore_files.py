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
from ask.undo.journal import FOLDER_HERE, LINK_TO, OWNERS, Change, Original
from ask.undo.trees import folder_of, look, mark_of

Act = Callable[[Change], None]


def rounds(work: Sequence[Change]) -> Iterator[tuple[Change, Act]]:
    """All that is to be done to put these back, in order; each act raises OSError where it cannot be done."""
    down = sorted(work, key=lambda change: change.path)
    folders = [change for change in down if change.was and change.was.digest == FOLDER_HERE]
    yield from ((change, open_up) for change in folders)
    yield from ((change, clear) for change in reversed(down))
    yield from ((change, place) for change in down)
    yield from ((change, close_again) for change in reversed(folders))


def open_up(change: Change) -> None:
    """Let a folder be worked in that is to stay."""
    with _there(change) as (inside, name, status):
        if status and stat.S_ISDIR(status.st_mode):
            _set_mode(inside, name, stat.S_IMODE(status.st_mode) | OWNERS)


def clear(change: Change) -> None:
    """Take away what is not to be there; a folder in which there is something else stays, unless it is in the way."""
    folder_wanted = change.was is not None and change.was.digest == FOLDER_HERE
    with _there(change) as (inside, name, status):
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            if folder_wanted:
                return
            with _writable(inside), suppress(*(() if change.was else (OSError,))):
                os.rmdir(name, dir_fd=inside)
        elif change.was is None or folder_wanted:
            with _writable(inside):
                os.unlink(name, dir_fd=inside)


def place(change: Change) -> None:
    """Put there what was there."""
    was = change.was
    if was is None:
        return
    with folder_of(change.path, change.anchor, make=True) as (inside, name), _writable(inside):
        if was.digest == FOLDER_HERE:
            _make_folder(inside, name, was.owned)
        elif was.digest.startswith(LINK_TO):
            _make_link(inside, name, was)
        elif was.copy:
            _put_file(inside, name, change, was, was.copy)


def close_again(change: Change) -> None:
    """Give a folder the permissions that it had."""
    with _there(change) as (inside, name, status):
        if status and change.was:
            _set_mode(inside, name, change.was.owned.mode)


def _make_folder(inside: int, name: str, owned: Ownership) -> None:
    try:
        os.mkdir(name, owned.mode | OWNERS, dir_fd=inside)
    except FileExistsError:
        return
    with suppress(PermissionError):
        os.chown(name, owned.user, owned.group, dir_fd=inside, follow_symlinks=False)


def _make_link(inside: int, name: str, was: Original) -> None:
    with _temporary(inside, name) as temporary:
        os.symlink(was.digest.removeprefix(LINK_TO), temporary, dir_fd=inside)
        with suppress(PermissionError):
            os.chown(temporary, was.owned.user, was.owned.group, dir_fd=inside, follow_symlinks=False)


def _put_file(inside: int, name: str, change: Change, was: Original, copy: Path) -> None:
    try:
        status = os.stat(name, dir_fd=inside, follow_symlinks=False)
    except FileNotFoundError:
        pass
    else:
        if mark_of(inside, name, status).content == was.digest:
            _set_mode(inside, name, was.owned.mode)
            return
        same = stat.S_ISREG(status.st_mode) and was.inode == status.st_ino
        if same and status.st_nlink > 1 and _write_into(inside, name, was, copy):
            return
    with _temporary(inside, name) as temporary:
        if not _link_twin(inside, temporary, change, was):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            _fill(os.open(temporary, flags, 0o600, dir_fd=inside), was, copy)


def _write_into(inside: int, name: str, was: Original, copy: Path) -> bool:
    """Give a file back its content, for all its names, some of which may be elsewhere; whether that could be done."""
    try:
        file = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    except PermissionError:
        return False
    _fill(file, was, copy)
    return True


def _fill(file: int, was: Original, copy: Path) -> None:
    """Write a file, make it what it was, and close it."""
    try:
        with copy.open("rb") as content:
            status = os.fstat(content.fileno())
            copy_content(content.fileno(), file, status.st_size)
        set_ownership(file, was.owned)
        if was.modified is not None:
            os.utime(file, ns=(was.modified, was.modified))
    finally:
        os.close(file)


def _link_twin(inside: int, name: str, change: Change, was: Original) -> bool:
    """Make a name for a file that is there under another one; whether there is one."""
    for twin in was.twins:
        if twin.is_relative_to(change.anchor) and look(twin, change.anchor).agrees(change.first):
            with suppress(OSError), folder_of(twin, change.anchor) as (other, twin_name):
                os.link(twin_name, name, src_dir_fd=other, dst_dir_fd=inside, follow_symlinks=False)
                return True
    return False


@contextmanager
def _temporary(inside: int, name: str) -> Iterator[str]:
    """A name under which something is made that takes its place when it is whole."""
    temporary = f".ask-{os.urandom(8).hex()}.tmp"
    try:
        yield temporary
        os.replace(temporary, name, src_dir_fd=inside, dst_dir_fd=inside)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=inside)


@contextmanager
def _there(change: Change) -> Iterator[tuple[int, str, os.stat_result | None]]:
    """Where a change is, open, its name there, and the status of what there is; None for nothing."""
    inside, name, status = -1, "", None
    with ExitStack() as stack:
        with suppress(FileNotFoundError, NotADirectoryError):
            inside, name = stack.enter_context(folder_of(change.path, change.anchor))
            status = os.stat(name, dir_fd=inside, follow_symlinks=False)
        yield inside, name, status


@contextmanager
def _writable(folder: int) -> Iterator[None]:
    """The folder can be written meanwhile, if it is the user's own."""
    path = f"/proc/self/fd/{folder}"
    if os.access(path, os.W_OK | os.X_OK):
        yield
        return
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    os.chmod(path, mode | OWNERS)
    try:
        yield
    finally:
        os.chmod(path, mode)


def _set_mode(inside: int, name: str, mode: int) -> None:
    file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    try:
        os.chmod(f"/proc/self/fd/{file}", mode)
    finally:
        os.close(file)
