"""Removes what has been kept for long enough: originals, and the results that were too long for a model.

At most once an hour, so that it costs a run next to nothing; the limits may be passed by what comes in between.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ask.errors import FileError
from ask.undo.journal import COPIES, FOLDER, JOURNAL, began, lock, read_record, record_folders

RESULTS = "results"
"""The folder in the data folder that has the results that were too long for a model."""
DAYS = 30
"""How long things are kept."""
BYTES = 256_000_000
"""How much is kept, of files' originals and of results each."""
BYTES_OF_FOLDERS = 1_024_000_000
"""How much is kept in records with copies of folders: a few of the largest. They push out no others."""

DAY = 86_400.0
HOUR = 3_600.0
STAMP = ".pruned"
GONE = ".gone-"


class Kept(NamedTuple):
    """A thing that may be removed: a record's folder or a file, from when it is (in seconds since 1970), its bytes."""

    path: Path
    time: float
    size: int


def prune(data: Path) -> None:
    """Remove what is too old or too much from a data folder. What cannot be removed stays, and nothing is said."""
    stamp = data / FOLDER / STAMP
    now = time.time()
    with suppress(OSError, FileError):
        if stamp.exists() and 0 <= now - stamp.stat().st_mtime < HOUR:
            return
        stamp.touch(0o600)
        finish_removals(data / FOLDER)
        remove_unfinished(data)
        for limit, with_folders in ((BYTES, False), (BYTES_OF_FOLDERS, True)):
            remove_excess(kept_records(data, with_folders=with_folders), now, remove_record, limit)
        # A result that a model was told of a short while ago may still be read.
        remove_excess((file for file in kept_results(data) if now - file.time > DAY), now, remove_file)


def forget(data: Path, conversations: Collection[str]) -> None:
    """Remove all that was kept for these conversations, by their ids. What is in use, or makes no sense, stays.

    Raises:
        FileError: what there is cannot be listed.
    """
    for folder in record_folders(data):
        with suppress(FileError):
            record = read_record(folder)
            if record and record.about.conversation in conversations:
                remove_record(folder)


def remove_unfinished(data: Path) -> None:
    """Remove the records of those who were killed while they copied folders."""
    for folder in record_folders(data):
        with suppress(FileError):
            record = read_record(folder)
            if record and not record.copied and (folder / COPIES).exists():
                remove_record(folder)


def remove_excess(kept: Iterable[Kept], now: float, remove: Callable[[Path], bool], limit: int = BYTES) -> None:
    """Remove what is older than `DAYS`, and the oldest of what is over `limit` bytes together."""
    things = sorted(kept, key=lambda thing: thing.time)
    total = sum(thing.size for thing in things)
    for thing in things:
        if (now - thing.time > DAYS * DAY or total > limit) and remove(thing.path):
            total -= thing.size


def kept_records(data: Path, *, with_folders: bool) -> Iterable[Kept]:
    """All records with copies of folders, or all without. What such a copy shares with others counts in full."""
    for folder in record_folders(data):
        if (folder / COPIES).exists() == with_folders:
            yield Kept(folder, began(folder.name), sum(file.size for file in files_in(folder)))


def kept_results(data: Path) -> Iterable[Kept]:
    """All results that went to files."""
    return files_in(data / RESULTS)


def files_in(top: Path) -> Iterable[Kept]:
    """All files in a folder and in those in it."""
    for folder, _, names in os.walk(top):
        for path in (Path(folder, name) for name in names):
            with suppress(OSError):
                status = path.lstat()
                yield Kept(path, status.st_mtime, status.st_size)


def remove_record(folder: Path) -> bool:
    """Remove a record, at once as far as others see it, unless somebody writes it or puts it back; return whether."""
    with suppress(OSError), (folder / JOURNAL).open("rb+") as journal:
        # An empty journal belongs to a run that has not come to locking it.
        if not os.fstat(journal.fileno()).st_size or not lock(journal.fileno()):
            return False
        gone = folder.with_name(GONE + folder.name)
        folder.rename(gone)
        remove_tree(gone)
        return True
    return False


def finish_removals(root: Path) -> None:
    """Remove what a process was killed over while it removed it."""
    for name in os.listdir(root):
        if name.startswith(GONE):
            remove_tree(root / name)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it."""
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def remove_file(path: Path) -> bool:
    """Remove a file; return whether that could be done."""
    with suppress(OSError):
        path.unlink()
        return True
    return False
