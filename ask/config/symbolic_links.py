"""Symbolic links on the way to a file, and output files that follow none that a tool call may have left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ask.atomic_files import FOLDER_FLAGS, read_decisions
from ask.config.directories import AppDirs, get_working_directory
from ask.errors import FileError

_MAX_LINKS = 40


def resolve_links(path: Path) -> tuple[Path, list[Path]]:
    """Resolve a path like os.path.realpath, and also return the links on the way."""
    links: list[Path] = []
    while link := next((step for step in (*reversed(path.parents), path) if os.path.islink(step)), None):
        rest = path.relative_to(link)
        links.append(Path(os.path.normpath(link)))
        if len(links) > _MAX_LINKS:  # a loop
            return links[-1], links[:1]
        path = link.parent / os.readlink(link) / rest
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
    return _resolve(name, read_changeable_folders(app_dirs.scan_record))


def open_for_appending(name: str, app_dirs: AppDirs) -> int:
    """Open an output file that the user names to append to it; create it if it is missing.

    Raises:
        FileError: as in `resolve_output`.
        OSError: it cannot be opened, or is a named pipe that no program reads.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    folders = read_changeable_folders(app_dirs.scan_record)
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
    return read_decisions(scan_record, lambda records: [*map(Path, records)]) or ()


def find_foreign_link(path: Path, changeable_folders: Sequence[Path]) -> Path | None:
    """Return a link on the way to an absolute path that leads out of a folder where calls could write.

    A link in place of such a folder itself is the user's, who has moved it.
    """
    target, links = resolve_links(path)
    left_folders = [folder for folder in changeable_folders if not target.is_relative_to(folder)]
    return next((link for link in links if any(folder in link.parents for folder in left_folders)), None)


def check_input(path: Path, app_dirs: AppDirs) -> None:
    """Refuse a file to read if a link on the way, which may be from a tool call, leads to the user's other files.

    Raises:
        FileError: there is such a link.
        OSError: the path is relative, and the working directory has been deleted.
    """
    target, links = resolve_links(path.absolute())
    if links and (link := find_foreign_link(path.absolute(), read_changeable_folders(app_dirs.scan_record))):
        raise FileError(
            f"cannot read {path}: {link} is a symbolic link, which a run in safe mode may have created",
            f"name the file that it leads to ({target}), or replace the link",
        )


def _resolve(name: str | Path, folders: Sequence[Path]) -> Path:
    path, links = resolve_links(get_working_directory() / name)
    for link in links:
        if any(link.is_relative_to(folder) for folder in folders):
            raise FileError(
                f"cannot write {name}: {link} is a symbolic link, which a run in safe mode may have created",
                f"name the file that it leads to ({path}), or replace the link",
            )
    return path
