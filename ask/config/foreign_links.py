"""Symbolic links that a run in safe mode may have left, on the way to what the user names in a later command."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ask.config.directories import AppDirs, get_logical_path
from ask.config.secret_files import can_contain_secrets
from ask.config.symbolic_links import find_writers, read_safe_runs, resolve_links
from ask.errors import FileError


def find_foreign_link(
    target: Path, links: Iterable[Path], changeable_folders: Mapping[Path, float], hidden_paths: Sequence[Path]
) -> Path | None:
    """Return a link on the way to a target that leads out of a folder where calls could write, or to a hidden file.

    Links of the user are not returned: one in place of such a folder itself, which was moved, and those that are older
    than the first run there (`changeable_folders` has its time). What calls could not read are `hidden_paths` and files
    with the names of secrets; a link that itself has such a name, as `.env` does, may lead to them.
    """
    is_hidden = any(target.is_relative_to(path) for path in hidden_paths)
    for link in links:
        names_secrets = can_contain_secrets(link.name.lower())
        for folder in find_writers(link, changeable_folders):
            if not target.is_relative_to(folder):
                return link
            parts = target.relative_to(folder).parts
            if not names_secrets and (is_hidden or any(can_contain_secrets(part.lower()) for part in parts)):
                return link
    return None


def check_input(path: Path, app_dirs: AppDirs) -> None:
    """Refuse a file to read if a link on the way, which may be from a tool call, leads to what calls cannot read.

    Raises:
        FileError: there is such a link.
        OSError: the path is relative, and the working directory has been deleted.
    """
    target, links = resolve_links(path if path.is_absolute() else get_logical_path(Path.cwd(), os.environ) / path)
    if not links:
        return
    record = read_safe_runs(app_dirs.scan_record)
    begins = {folder: begin for folder, (begin, _) in record.items()}
    hidden_paths = [path for _, paths in record.values() for path in paths]
    if link := find_foreign_link(target, links, begins, hidden_paths):
        raise FileError(
            f"cannot read {path}: {link} is a symbolic link, which a run in safe mode may have created",
            f"name the file that it leads to ({target}), or replace the link",
        )
