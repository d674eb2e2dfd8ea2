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
from ask.undo.journal import (
    BACKUPS_FOLDER,
    JOURNAL_NAME,
    SNAPSHOT_NAME,
    list_backup_folders,
    parse_start_time,
    read_backup_set,
    try_lock,
)

OVERFLOW_FOLDER = "results"
"""The folder in the data folder that has the results that were too long for a model."""
MAX_AGE_DAYS = 30
"""How long things are kept."""
STORAGE_LIMIT = 256_000_000
"""How much is kept, of files' originals and of results each."""
SNAPSHOT_STORAGE_LIMIT = 1_024_000_000
"""How much is kept in records with copies of folders: a few of the largest. They push out no others."""

SECONDS_PER_DAY = 86_400.0
PRUNE_INTERVAL = 3_600.0
STAMP_NAME = ".pruned"
REMOVED_PREFIX = ".gone-"


class PrunableItem(NamedTuple):
    """A thing that may be removed: a record's folder or a file, from when it is (in seconds since 1970), its bytes."""

    path: Path
    time: float
    size: int


def prune(data_dir: Path) -> None:
    """Remove what is too old or too much from a data folder. What cannot be removed stays, and nothing is said."""
    stamp = data_dir / BACKUPS_FOLDER / STAMP_NAME
    now = time.time()
    with suppress(OSError, FileError):
        if stamp.exists() and 0 <= now - stamp.stat().st_mtime < PRUNE_INTERVAL:
            return
        stamp.touch(0o600)
        finish_removals(data_dir / BACKUPS_FOLDER)
        remove_unfinished_snapshots(data_dir)
        for limit, with_folders in ((STORAGE_LIMIT, False), (SNAPSHOT_STORAGE_LIMIT, True)):
            prune_items(find_prunable_backups(data_dir, with_snapshot=with_folders), now, remove_backup_set, limit)
        # A result that a model was told of a short while ago may still be read.
        prune_items(
            (file for file in find_overflow_files(data_dir) if now - file.time > SECONDS_PER_DAY), now, remove_file
        )


def delete_backups(data_dir: Path, conversation_ids: Collection[str]) -> None:
    """Remove all that was kept for these conversations, by their ids. What is in use, or makes no sense, stays.

    Raises:
        FileError: what there is cannot be listed.
    """
    for folder in list_backup_folders(data_dir):
        with suppress(FileError):
            record = read_backup_set(folder)
            if record and record.header.conversation in conversation_ids:
                remove_backup_set(folder)


def remove_unfinished_snapshots(data_dir: Path) -> None:
    """Remove the records of those who were killed while they copied folders."""
    for folder in list_backup_folders(data_dir):
        with suppress(FileError):
            record = read_backup_set(folder)
            if record and not record.has_snapshot and (folder / SNAPSHOT_NAME).exists():
                remove_backup_set(folder)


def prune_items(
    items: Iterable[PrunableItem], now: float, remove: Callable[[Path], bool], limit: int = STORAGE_LIMIT
) -> None:
    """Remove what is older than `MAX_AGE_DAYS`, and the oldest of what is over `limit` bytes together."""
    things = sorted(items, key=lambda thing: thing.time)
    total = sum(thing.size for thing in things)
    for thing in things:
        if (now - thing.time > MAX_AGE_DAYS * SECONDS_PER_DAY or total > limit) and remove(thing.path):
            total -= thing.size


def find_prunable_backups(data_dir: Path, *, with_snapshot: bool) -> Iterable[PrunableItem]:
    """All records with copies of folders, or all without. What such a copy shares with others counts in full."""
    for folder in list_backup_folders(data_dir):
        if (folder / SNAPSHOT_NAME).exists() == with_snapshot:
            yield PrunableItem(folder, parse_start_time(folder.name), sum(file.size for file in walk_files(folder)))


def find_overflow_files(data_dir: Path) -> Iterable[PrunableItem]:
    """All results that went to files."""
    return walk_files(data_dir / OVERFLOW_FOLDER)


def walk_files(root: Path) -> Iterable[PrunableItem]:
    """All files in a folder and in those in it."""
    for folder, _, names in os.walk(root):
        for path in (Path(folder, name) for name in names):
            with suppress(OSError):
                status = path.lstat()
                yield PrunableItem(path, status.st_mtime, status.st_size)


def remove_backup_set(folder: Path) -> bool:
    """Remove a record, at once as far as others see it, unless somebody writes it or puts it back; return whether."""
    with suppress(OSError), (folder / JOURNAL_NAME).open("rb+") as journal:
        # An empty journal belongs to a run that has not come to locking it.
        if not os.fstat(journal.fileno()).st_size or not try_lock(journal.fileno()):
            return False
        gone = folder.with_name(REMOVED_PREFIX + folder.name)
        folder.rename(gone)
        remove_tree(gone)
        return True
    return False


def finish_removals(root: Path) -> None:
    """Remove what a process was killed over while it removed it."""
    for name in os.listdir(root):
        if name.startswith(REMOVED_PREFIX):
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
