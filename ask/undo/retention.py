"""Remove old backup sets, and old files with tool results that were too long for the model.

This happens at most once an hour to save time, so the limits may be exceeded in between.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from subprocess import DEVNULL, run

from ask.atomic_files import create_private_folder, try_lock
from ask.config.directories import RESULTS_FOLDER
from ask.errors import FileError
from ask.regular_files import open_regular_file
from ask.tools.output_limits import MAX_RESULT_AGE_SECONDS, MAX_STORED_RESULTS_BYTES, MIN_RESULT_AGE_SECONDS
from ask.undo.journal import (
    BACKUPS_FOLDER,
    JOURNAL_NAME,
    MANIFEST_NAME,
    UNFINISHED_MANIFEST_NAME,
    list_backup_folders,
    parse_start_time,
    read_backup_set,
)

MAX_AGE_DAYS = 30
MAX_STORAGE_BYTES = 256_000_000
"""The limit in bytes for backup sets without copies of folders."""
MAX_SNAPSHOT_STORAGE_BYTES = 1_024_000_000
"""The limit in bytes for backup sets with copies of folders, enough for a few of the largest.

It is separate so that they do not displace the others.
"""

SECONDS_PER_DAY = 86_400.0
PRUNE_INTERVAL_SECONDS = 3_600.0
STAMP_NAME = ".pruned"
REMOVED_PREFIX = ".gone-"


PrunableItem = tuple[float, int, Path]
"""The time in seconds since 1970, the total size in bytes, and the path of a file or backup set that may be removed."""


def prune(data_dir: Path) -> None:
    """Remove backups and results that are too old or exceed a limit; ignore errors."""
    stamp = data_dir / BACKUPS_FOLDER / STAMP_NAME
    now = time.time()
    with suppress(OSError, FileError):
        if stamp.exists() and 0 <= now - stamp.stat().st_mtime < PRUNE_INTERVAL_SECONDS:
            return
        create_private_folder(stamp.parent)
        stamp.touch(0o600)
        for folder in stamp.parent.glob(f"{REMOVED_PREFIX}*"):  # a removal during which the process was killed
            remove_folder(folder)
        for folder in list_backup_folders(data_dir):
            if (folder / UNFINISHED_MANIFEST_NAME).exists():  # the run is copying folders, or was killed meanwhile
                remove_backup_set(folder)
        for limit, with_snapshot in ((MAX_STORAGE_BYTES, False), (MAX_SNAPSHOT_STORAGE_BYTES, True)):
            folders = [one for one in list_backup_folders(data_dir) if (one / MANIFEST_NAME).exists() == with_snapshot]
            # Data blocks that a copy shares with other files count in full.
            sizes = [sum(size for _, size, _ in _list_files(folder)) for folder in folders]
            times = [parse_start_time(folder.name) for folder in folders]
            items = zip(times, sizes, folders, strict=True)
            _remove_oldest(items, now - MAX_AGE_DAYS * SECONDS_PER_DAY, limit, remove_backup_set)
        results = [file for file in _list_files(data_dir / RESULTS_FOLDER) if now - file[0] > MIN_RESULT_AGE_SECONDS]
        _remove_oldest(results, now - MAX_RESULT_AGE_SECONDS, MAX_STORED_RESULTS_BYTES, _remove_file)


def delete_conversation_files(data_dir: Path, conversation_ids: Collection[str]) -> None:
    """Remove the backup sets and the long results of these conversations.

    Backup sets that are in use or cannot be read are left.
    """
    with suppress(OSError):
        for entry in list((data_dir / RESULTS_FOLDER).iterdir()):
            if entry.name in conversation_ids:
                remove_folder(entry)
    for folder in list_backup_folders(data_dir):
        with suppress(FileError):
            backup_set = read_backup_set(folder)
            if backup_set and backup_set.header.conversation in conversation_ids:
                remove_backup_set(folder)


def remove_folder(path: Path) -> None:
    """Remove a folder and what it contains; ignore errors."""
    with suppress(RecursionError):
        rmtree(path, ignore_errors=True)
    if path.is_dir() and not path.is_symlink():  # until Python 3.13, rmtree has a limit on folders in folders
        run(["rm", "-rf", "--", path], stdin=DEVNULL, stderr=DEVNULL, check=False)


def _remove_oldest(items: Iterable[PrunableItem], since: float, limit: int, remove: Callable[[Path], bool]) -> None:
    """Remove items from before `since`, and then the oldest until the total size fits `limit`."""
    sorted_items = sorted(items)
    total = sum(size for _, size, _ in sorted_items)
    for item_time, size, path in sorted_items:
        if (item_time < since or total > limit) and remove(path):
            total -= size


def _list_files(root: Path) -> Iterator[PrunableItem]:
    """Yield all files in a folder and its subfolders."""
    folders = [os.fspath(root)]
    for folder in folders:  # until Python 3.12, os.walk has a limit on folders in folders
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime, status.st_size, Path(entry.path)


def remove_backup_set(folder: Path) -> bool:
    """Remove a backup set unless another process is using it; return whether it was removed.

    It is renamed first, so that other processes never see part of it.
    """
    with suppress(OSError), open_regular_file(folder / JOURNAL_NAME, "rb+") as journal:
        # An empty journal belongs to a run that has not locked it yet.
        if os.fstat(journal.fileno()).st_size and try_lock(journal.fileno()):
            remove_folder(folder.rename(folder.with_name(REMOVED_PREFIX + folder.name)))
            return True
    return False


def _remove_file(path: Path) -> bool:
    with suppress(OSError):
        path.unlink()
        with suppress(OSError):
            path.parent.rmdir()  # the folder of a conversation
        return True
    return False
