"""Paths in messages about undo: relative to the working directory, and several on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ask.settings import working_directory
from ask.tools.file_access import shown

NAMES_TOLD = 5


def named_folders(folders: Mapping[Path, str]) -> str:
    """Folders and what there is to say of each, on one line."""
    return _some([f"{shown_path(path)}/ ({why})" for path, why in folders.items()])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMES_TOLD]) + (f" and {len(names) - NAMES_TOLD} more" if names[NAMES_TOLD:] else "")


def shown_path(path: Path) -> str:
    """A file's name on one line, from the working directory on where it is in there."""
    name, folder = str(path), f"{_current_folder()}/"
    return shown(name.removeprefix(folder))


@cache
def _current_folder() -> str:
    return str(working_directory()).rstrip("/")
