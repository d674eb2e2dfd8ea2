"""The record of what scans of earlier runs have found, stored where no call can write.

Calls of an earlier run may have made a folder too large to be scanned completely, or deleted the link that says that a
file contains secrets.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ask.atomic_files import lock_file, read_decisions, write_decisions
from ask.config.directories import DATA_FOLDER_HINT, SCAN_RECORD_NAME
from ask.config.type_checks import parse_value
from ask.errors import FileError, SafetyError
from ask.records import NamedTuple
from ask.safety.mounts import is_below

_MAX_FOLDERS = 1_000
_MAX_PATHS = 5_000
"""Maximum number of paths of each kind that are stored for a folder; more are an error.

If the others were forgotten, a call could create as many paths to make a run forget a secret.
"""


_MAX_CLOCK_ERROR = 86_400.0
"""Seconds by which the clock of a server may be slow."""


class ScanRecord(NamedTuple):
    """The paths in the writable folders that the last scan found, as strings.

    Attributes:
        begin: when calls could first write there, in seconds since the epoch, by the clock that sets the times of links
            there; 0 if unknown.
    """

    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    repositories: tuple[str, ...]
    begin: float = 0.0

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        return self.protected, self.hidden, self.repositories


def make_record(paths: Iterable[Iterable[str]], begin: float = 0.0) -> ScanRecord:
    protected, hidden, repositories = map(tuple, paths)
    return ScanRecord(protected, hidden, repositories, begin)


def read_scan_record(state_folder: Path, folders: Iterable[Path]) -> ScanRecord:
    """Return what was found in these folders, which scans of other folders may have found, too.

    Raises:
        SafetyError: the file cannot be read.
    """
    names = [str(folder) for folder in folders]
    all_paths = [record.paths for record in _read_records(state_folder).values()]
    found = zip(((), (), ()), *all_paths, strict=True)
    return make_record(
        dict.fromkeys(path for paths in kind for path in paths if any(is_below(path, name) for name in names))
        for kind in found
    )


def read_scanned_folders(state_folder: Path) -> Mapping[Path, float]:
    """Return the folders in which calls of earlier runs could write, and since when.

    Raises:
        SafetyError: the file cannot be read.
    """
    return {Path(folder): record.begin for folder, record in _read_records(state_folder).items()}


def write_scan_record(state_folder: Path, folders: Sequence[Path], found: ScanRecord) -> None:
    """Store what was found in each of these folders.

    Raises:
        SafetyError: the file cannot be read or written, or there is too much to store.
    """
    with _open_records(state_folder) as records:
        for folder in map(str, folders):
            # A clock that was ahead in an earlier run must not make the links of a call look old.
            begin = min(_read_clock(folder), records[folder].begin if folder in records else math.inf)
            record = make_record((_select_paths(paths, folder) for paths in found.paths), begin)
            if records.get(folder) != record:
                records.pop(folder, None)
                records[folder] = record


def read_hidden_paths(state_folder: Path) -> list[str]:
    """Return all paths that runs have hidden.

    Raises:
        SafetyError: the file cannot be read.
    """
    return list(dict.fromkeys(name for record in _read_records(state_folder).values() for name in record.hidden))


def forget_paths(state_folder: Path, path: Path) -> list[str]:
    """Forget what is stored for a path and for everything in it; return these paths.

    Raises:
        SafetyError: the file cannot be read or written.
    """
    forgotten = set[str]()
    with _open_records(state_folder) as records:
        for folder, record in records.items():
            forgotten |= {name for names in record.paths for name in names if is_below(name, str(path))}
            paths = [[name for name in names if name not in forgotten] for names in record.paths]
            records[folder] = make_record(paths, record.begin)
    return sorted(forgotten)


@contextmanager
def _open_records(state_folder: Path) -> Iterator[dict[str, ScanRecord]]:
    """Lock the records, and store them if they are changed."""
    path = state_folder / SCAN_RECORD_NAME
    try:
        with lock_file(path):
            old_records = _read_records(state_folder)
            records = dict(old_records)
            yield records
            if records != old_records:
                # A row of `ask map` has a folder of its own, which is gone after it.
                existing = [(folder, record) for folder, record in records.items() if os.path.isdir(folder)]
                newest = existing[-_MAX_FOLDERS:]
                write_decisions(path, {folder: record._asdict() for folder, record in newest})
    except FileError as error:
        raise SafetyError(f"safe mode: {error.message}", error.hint or DATA_FOLDER_HINT) from error


def _read_clock(folder: str) -> float:
    """Return the time by the clock of a folder's file system; where it creates no unnamed files, of a day ago."""
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except (AttributeError, OSError):
        return time.time() - _MAX_CLOCK_ERROR
    try:
        return os.fstat(descriptor).st_ctime
    finally:
        os.close(descriptor)


def _select_paths(paths: Iterable[str], folder: str) -> tuple[str, ...]:
    inside = tuple(path for path in paths if path.startswith(f"{folder}/"))
    if len(inside) > _MAX_PATHS:
        parent, count = Counter(path.rpartition("/")[0] for path in inside).most_common(1)[0]
        raise SafetyError(
            f"safe mode cannot remember more than {_MAX_PATHS:,} secrets, protected paths or repositories in {folder}: "
            f"{parent} has {count:,}",
            "delete what you do not need, or move it elsewhere",
        )
    return inside


def _read_records(state_folder: Path) -> Mapping[str, ScanRecord]:
    try:
        return read_decisions(state_folder / SCAN_RECORD_NAME, _parse_records) or {}
    except FileError as error:
        raise SafetyError(f"safe mode: {error.message}", "delete it, and check what safe mode protects") from error


def _parse_records(content: Any) -> dict[str, ScanRecord]:
    return parse_value(content, dict[str, ScanRecord])
