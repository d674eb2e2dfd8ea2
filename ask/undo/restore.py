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
from ask.tools.file_access import rewrite_file, shown
from ask.undo.backups import DisplacedKeeper, Keeper
from ask.undo.contents import LARGEST, digest_of, pieces_of
from ask.undo.journal import ABSENT, FOLDER_HERE, SPECIAL, Change, Mark
from ask.undo.restore_files import place, rounds
from ask.undo.trees import DEPTH, look, walk


class State(StrEnum):
    """What is to become of a file, or why nothing can."""

    PUT_BACK = "put back"
    REMOVE = "remove"
    AS_IT_WAS = "as it was"
    CHANGED = "changed since"
    IN_THE_WAY = "not a file any more"
    LOST = "its original was not kept"
    FILLED = "a folder now, with something else in it"
    NO_FILE = "was a pipe, socket or device"
    HOLDS_MORE = "something else is in it"
    TOO_DEEP = f"over {DEPTH} folders deep"


WORK = (State.PUT_BACK, State.REMOVE)
STAYING = (State.HOLDS_MORE, State.TOO_DEEP)
"""Of folders that the run made and that cannot be removed."""
REFUSED = (State.CHANGED, State.IN_THE_WAY, State.LOST, State.FILLED)


class Step(NamedTuple):
    """A file, and what is to become of it."""

    change: Change
    state: State


class Progress(Protocol):
    """Takes how much of some work is done."""

    def __call__(self, work: str, done: int, total: int) -> None:
        """Report that `done` of `total` files are done."""


def no_progress(work: str, done: int, total: int) -> None:
    """Report nothing."""


def plan(changes: Iterable[Change], *, force: bool = False, progress: Progress = no_progress) -> list[Step]:
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
        steps.append(Step(change, state_of(change)))
    if force:
        steps = [step._replace(state=work_for(step.change)) if step.state is State.CHANGED else step for step in steps]
    gone = {str(step.change.path) for step in steps if step.state is State.REMOVE}
    staying = staying_folders(steps, gone)
    steps = [step._replace(state=staying.get(str(step.change.path), step.state)) for step in steps]
    gone -= staying.keys()
    return [step._replace(state=State.FILLED) if is_filled(step, gone) else step for step in steps]


def staying_folders(steps: Iterable[Step], gone: Container[str]) -> dict[str, State]:
    """Which of the folders that are to be removed will still have something in them, and what that is.

    Args:
        steps: by path.
        gone: the paths of all that is to be removed.
    """
    staying: dict[str, State] = {}
    for change, state in steps:
        outermost = state is State.REMOVE and change.root and str(change.path.parent) not in gone
        now = mark_now(change) if outermost else None
        if not change.root or now is None or now.content != FOLDER_HERE:
            continue
        for seen in walk(change.path, ()):
            if seen.path in gone:
                continue
            path = Path(seen.path)
            # So deep, what the run made could not be told from what the user did.
            why = State.TOO_DEEP if len(path.relative_to(change.root).parts) > DEPTH else State.HOLDS_MORE
            for folder in path.parents[: len(path.parts) - len(change.path.parts)]:
                if staying.get(str(folder)) is not State.TOO_DEEP:
                    staying[str(folder)] = why
    return staying


def is_filled(step: Step, gone: Container[str]) -> bool:
    """Whether something is to take the place of a folder in which there is more than will be gone by then."""
    path, root = step.change.path, step.change.root
    if root is None or step.state is not State.PUT_BACK or step.change.of_folder:
        return False
    if look(path, root).content != FOLDER_HERE:
        return False
    return any(seen.path not in gone for seen in walk(path, ()) if seen.path != str(path))


def state_of(change: Change) -> State:
    """What is to become of a file that was changed so, by what it is now.

    Raises:
        FileError: it cannot be read.
    """
    if change.lost:
        return State.LOST
    now = mark_now(change)
    if now is None:
        return State.IN_THE_WAY
    if now.agrees(change.first):
        return State.AS_IT_WAS
    if change.first.content == SPECIAL:
        return State.NO_FILE
    return work_for(change) if change.leaves(now) and not change.torn else State.CHANGED


def work_for(change: Change) -> State:
    """What putting it back as it was means."""
    return State.PUT_BACK if change.was else State.REMOVE


def mark_now(change: Change) -> Mark | None:
    """What tells what there is now; None for what is no file, where a tool wrote one.

    Raises:
        FileError: it cannot be read.
    """
    if change.root is None:
        digest = digest_now(change.path)
        return None if digest is None else Mark(digest)
    try:
        return look(change.path, change.root)
    except OSError as fault:
        raise FileError(f"cannot read {shown(str(change.path))} ({fault.strerror})") from fault


def digest_now(path: Path) -> str | None:
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
        raise FileError(f"cannot read {shown(str(path))} ({fault.strerror})") from fault
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    with os.fdopen(file, "rb") as content:
        return digest_of(pieces_of(content))


def put_back(steps: Sequence[Step], keeper: Keeper, progress: Progress = no_progress) -> list[Step]:
    """Do what the steps say, and keep what is there until now.

    Nothing is done where it can be seen beforehand that one step would fail.

    Returns the folders that the run made and that are still there, with something in them that may be of the run.

    Raises:
        FileError: something could not be done; what it says tells whether anything was.
    """
    work = [step.change for step in steps if step.state in WORK]
    for done, change in enumerate(work):
        progress("checking", done, len(work))
        check(change)
    displaced = DisplacedKeeper(keeper.record)
    try:
        for done, change in enumerate(work):
            progress("keeping what is there now", done, len(work))
            if change.root:
                displaced.note(change)
            else:
                keeper.note(change.path, change.first.content)
    except OSError as fault:
        raise FileError(f"nothing is put back: what is there now cannot be kept ({fault.strerror})") from fault
    carry_out(work, progress)
    remove_folders(step.change for step in steps if step.state in (State.REMOVE, State.AS_IT_WAS))
    try:
        keeper.record.end()
    except OSError as fault:
        raise FileError(f"all is put back, but that cannot be noted ({fault.strerror})") from fault
    folders = (step for step in steps if step.state in (State.REMOVE, State.TOO_DEEP) and step.change.of_folder)
    left = [step for step in folders if is_still_there(step.change)]
    return [step._replace(state=State.HOLDS_MORE) if step.state is State.REMOVE else step for step in left]


def is_still_there(change: Change) -> bool:
    """Whether there is still a folder in the place of what is to be nothing."""
    if change.root is None:
        return False
    now = mark_now(change)
    return now is not None and now.content == FOLDER_HERE


def carry_out(work: Sequence[Change], progress: Progress) -> None:
    """Put all of these back.

    Raises:
        FileError: something could not be done; it says how much was.
    """
    written = [(change, put_one_back) for change in work if change.root is None]
    done = 0
    acts = [*written, *rounds([change for change in work if change.root])]
    for count, (change, act) in enumerate(acts):
        progress("putting back", count * len(work) // len(acts), len(work))
        try:
            act(change)
        except OSError as fault:
            said = f"{done} of {len(work)} files are put back, but not {shown(str(change.path))} ({fault.strerror})"
            raise FileError(said, "the same command goes on with the rest") from fault
        done += act in (put_one_back, place)


def check(change: Change) -> None:
    """See that a file can be put back.

    Raises:
        FileError: it cannot.
    """
    name = shown(str(change.path))
    folder = next(folder for folder in change.path.parents if folder.exists())
    own = change.root and folder.stat().st_uid == os.geteuid()
    if not (own or os.access(folder, os.W_OK | os.X_OK)):
        raise FileError(f"nothing is put back: {shown(str(folder))} cannot be written")
    if change.was and change.was.copy:
        try:
            with change.was.copy.open("rb") as copy:
                size = os.fstat(copy.fileno()).st_size
                sound = size > LARGEST or digest_of(pieces_of(copy)) == change.was.digest
        except OSError as fault:
            said = f"nothing is put back: the original of {name} cannot be read ({fault.strerror})"
            raise FileError(said) from fault
        if not sound:
            raise FileError(f"nothing is put back: the kept original of {name} is damaged")


def put_one_back(change: Change) -> None:
    """Make a file what it was.

    Raises:
        OSError: that cannot be done.
    """
    if change.was is None or change.was.copy is None:
        change.path.unlink()
        return
    change.path.parent.mkdir(parents=True, exist_ok=True)
    status = None
    with suppress(FileNotFoundError):
        status = change.path.lstat()
    with change.was.copy.open("rb") as copy:
        if status and status.st_ino == change.was.inode and status.st_nlink > 1:
            rewrite_file(change.path, pieces_of(copy), os.fstat(copy.fileno()).st_size, status)
        else:
            replace_file(change.path, pieces_of(copy), change.was.owned)


def remove_folders(changes: Iterable[Change]) -> None:
    """Remove the folders that were made for files that are not there any more, where nothing else is in them."""
    folders = {folder for change in changes if change.was is None for folder in change.folders}
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()
