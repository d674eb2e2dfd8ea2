"""Symbolic links on the way to a file, and output files that follow none that a tool call may have left."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ask.atomic_files import FOLDER_FLAGS, read_decisions
from ask.config.directories import AppDirs, get_logical_path, get_working_directory
from ask.errors import FileError

_MAX_LINKS = 40


def resolve_links(path: Path) -> tuple[Path, list[Path]]:
    """Resolve a path like os.path.realpath, and also return the links on the way."""
    links: list[Path] = []
    path = _drop_second_slash(path)
    while link := next((step for step in (*reversed(path.parents), path) if os.path.islink(step)), None):
        rest = path.relative_to(link)
        links.append(Path(os.path.normpath(link)))
        if len(links) > _MAX_LINKS:  # a loop
            return links[-1], links[:1]
        path = _drop_second_slash(link.parent / os.readlink(link) / rest)
    return Path(os.path.normpath(path)), links


def expand_folder(name: str, setting: str) -> Path:
    """Return the path of a folder that a setting names, which may begin with "~".

    Raises:
        FileError: it is in the home folder of a user that does not exist, or contains a zero byte.
    """
    if "\0" in name:
        raise FileError(f"{setting} contains a zero byte")
    path = os.path.expanduser(name)
    if path.startswith("~"):
        raise FileError(f"{setting} ({name}) is in the home folder of an unknown user", "~/ is your own")
    return Path(path)


def resolve_output(name: str | Path, app_dirs: AppDirs) -> Path:
    """Return the path without links of an output file that the user names.

    Raises:
        FileError: a link on the way is in a folder where a run in safe mode could write, and may be from a tool call.
    """
    return _resolve(name, _read_begins(app_dirs.scan_record))


def open_for_appending(name: str, app_dirs: AppDirs) -> int:
    """Open an output file that the user names to append to it; create it if it is missing.

    Raises:
        FileError: as in `resolve_output`.
        OSError: it cannot be opened, or is a named pipe that no program reads.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    folders = _read_begins(app_dirs.scan_record)
    path = _resolve(name, folders)
    root = next((folder for folder in folders if path.is_relative_to(folder)), None)
    if root is None:
        descriptor = os.open(name, flags, 0o666)
    else:  # a call of this run may replace a folder with a link at any time
        with ExitStack() as stack:
            parent: int | None = None
            for part in (str(root), *path.parent.relative_to(root).parts):
                parent = os.open(part, FOLDER_FLAGS, dir_fd=parent)
                stack.callback(os.close, parent)
            descriptor = os.open(path.name, flags | os.O_NOFOLLOW, 0o666, dir_fd=parent)
    os.set_blocking(descriptor, True)
    return descriptor


def read_changeable_folders(scan_record: Path) -> Sequence[Path]:
    """Return the folders in which calls of this run or of earlier ones in safe mode could write.

    Raises:
        FileError: the record of the scans of these folders cannot be read.
    """
    return [*read_safe_runs(scan_record)]


def _read_begins(scan_record: Path) -> Mapping[Path, float]:
    return {folder: begin for folder, (begin, _) in read_safe_runs(scan_record).items()}


def find_writers(link: Path, changeable_folders: Mapping[Path, float]) -> list[Path]:
    """Return the folders around a link in which calls could write, if the link has been created or renamed since.

    No program without privileges can set the time of the last change of its inode.
    """
    folders = [folder for folder in changeable_folders if folder in link.parents]
    changed = os.lstat(link).st_ctime if folders else 0.0
    return [folder for folder in folders if changed >= changeable_folders[folder]]


def read_safe_runs(scan_record: Path) -> Mapping[Path, tuple[float, Sequence[Path]]]:
    """Return the folders in which calls could write, with the time of the first run, and what was hidden in each."""
    return read_decisions(scan_record, _parse_safe_runs) or {}


def _parse_safe_runs(content: Any) -> Mapping[Path, tuple[float, Sequence[Path]]]:
    try:
        return {
            Path(folder): (float(record.get("begin", 0)), [*map(Path, record["hidden"])])
            for folder, record in content.items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("the record has another structure") from error


def _drop_second_slash(path: Path) -> Path:
    """Return a path with one slash at its beginning: for Path, //tmp is not in /tmp, but for Linux it is."""
    return Path("/", *path.parts[1:]) if path.root == "//" else path


def _resolve(name: str | Path, changeable_folders: Mapping[Path, float]) -> Path:
    path, links = resolve_links(get_logical_path(get_working_directory(), os.environ) / name)
    for link in links:
        if find_writers(link, changeable_folders):
            raise FileError(
                f"cannot write {name}: {link} is a symbolic link, which a run in safe mode may have created",
                f"name the file that it leads to ({path}), or replace the link",
            )
    return path
