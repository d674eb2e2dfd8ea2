"""Remove old backup sets, and old tool results that were too long for the model.

This happens at most once an hour to save time, so the limits may be exceeded in between.
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
"""The folder in the data folder for tool results that were too long for the model."""
MAX_AGE_DAYS = 30
STORAGE_LIMIT = 256_000_000
"""The limit in bytes for backup sets without copies of folders, and the same again for tool results."""
SNAPSHOT_STORAGE_LIMIT = 1_024_000_000
"""The limit in bytes for backup sets with copies of folders, enough for a few of the largest.

It is separate so that they do not displace the others.
"""

SECONDS_PER_DAY = 86_400.0
PRUNE_INTERVAL = 3_600.0
STAMP_NAME = ".pruned"
REMOVED_PREFIX = ".gone-"


class PrunableItem(NamedTuple):
    """The folder of a backup set, or a file, that may be removed."""

    path: Path
    time: float
    """Seconds since 1970."""
    size: int
    """In bytes; for a folder, the total of its files."""


def prune(data_dir: Path) -> None:
    """Remove backups and results that are too old or exceed a limit; ignore errors."""
    stamp = data_dir / BACKUPS_FOLDER / STAMP_NAME
    now = time.time()
    with suppress(OSError, FileError):
        if stamp.exists() and 0 <= now - stamp.stat().st_mtime < PRUNE_INTERVAL:
            return
        stamp.touch(0o600)
        finish_removals(data_dir / BACKUPS_FOLDER)
        remove_unfinished_snapshots(data_dir)
        for limit, with_snapshot in ((STORAGE_LIMIT, False), (SNAPSHOT_STORAGE_LIMIT, True)):
            prune_items(find_prunable_backups(data_dir, with_snapshot=with_snapshot), now, remove_backup_set, limit)
        # The model may still read the file of a recent result.
        prune_items(
            (file for file in find_overflow_files(data_dir) if now - file.time > SECONDS_PER_DAY), now, remove_file
        )


def delete_backups(data_dir: Path, conversation_ids: Collection[str]) -> None:
    """Remove the backup sets of these conversations.

    Those that are in use or cannot be read are left.
    """
    for folder in list_backup_folders(data_dir):
        with suppress(FileError):
            backup_set = read_backup_set(folder)
            if backup_set and backup_set.header.conversation in conversation_ids:
                remove_backup_set(folder)


def remove_unfinished_snapshots(data_dir: Path) -> None:
    """Remove the backup sets of runs that were killed while copying folders."""
    for folder in list_backup_folders(data_dir):
        with suppress(FileError):
            backup_set = read_backup_set(folder)
            if backup_set and not backup_set.has_snapshot and (folder / SNAPSHOT_NAME).exists():
                remove_backup_set(folder)


def prune_items(
    items: Iterable[PrunableItem], now: float, remove: Callable[[Path], bool], limit: int = STORAGE_LIMIT
) -> None:
    """Remove items that are too old, and then the oldest until the total fits `limit`."""
    sorted_items = sorted(items, key=lambda item: item.time)
    total = sum(item.size for item in sorted_items)
    for item in sorted_items:
        if (now - item.time > MAX_AGE_DAYS * SECONDS_PER_DAY or total > limit) and remove(item.path):
            total -= item.size


def find_prunable_backups(data_dir: Path, *, with_snapshot: bool) -> Iterable[PrunableItem]:
    """Yield all backup sets with copies of folders, or all without.

    Data blocks that a copy shares with other files count in full.
    """
    for folder in list_backup_folders(data_dir):
        if (folder / SNAPSHOT_NAME).exists() == with_snapshot:
            yield PrunableItem(folder, parse_start_time(folder.name), sum(file.size for file in walk_files(folder)))


def find_overflow_files(data_dir: Path) -> Iterable[PrunableItem]:
    """Yield the files of tool results that were too long for the model."""
    return walk_files(data_dir / OVERFLOW_FOLDER)


def walk_files(root: Path) -> Iterable[PrunableItem]:
    """Yield all files in a folder and its subfolders."""
    for folder, _, names in os.walk(root):
        for path in (Path(folder, name) for name in names):
            with suppress(OSError):
                status = path.lstat()
                yield PrunableItem(path, status.st_mtime, status.st_size)


def remove_backup_set(folder: Path) -> bool:
    """Remove a backup set unless another process is using it; return whether it was removed.

    It is renamed first, so that other processes never see part of it.
    """
    with suppress(OSError), (folder / JOURNAL_NAME).open("rb+") as journal:
        # An empty journal belongs to a run that has not locked it yet.
        if not os.fstat(journal.fileno()).st_size or not try_lock(journal.fileno()):
            return False
        removed_path = folder.with_name(REMOVED_PREFIX + folder.name)
        folder.rename(removed_path)
        remove_tree(removed_path)
        return True
    return False


def finish_removals(root: Path) -> None:
    """Finish removals during which the process was killed."""
    for name in os.listdir(root):
        if name.startswith(REMOVED_PREFIX):
            remove_tree(root / name)


def remove_tree(folder: Path) -> None:
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def remove_file(path: Path) -> bool:
    """Remove a file, and return whether that succeeded."""
    with suppress(OSError):
        path.unlink()
        return True
    return False
