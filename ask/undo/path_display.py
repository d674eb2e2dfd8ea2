"""Paths in messages about undo: relative to the working directory, and several on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ask.settings import get_working_directory
from ask.tools.file_access import escape_for_display

MAX_NAMES = 5


def format_folders(folders: Mapping[Path, str]) -> str:
    """Folders and what there is to say of each, on one line."""
    return _join_names([f"{format_path(path)}/ ({why})" for path, why in folders.items()])


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if names[MAX_NAMES:] else "")


def format_path(path: Path) -> str:
    """A file's name on one line, from the working directory on where it is in there."""
    name, folder = str(path), f"{_get_working_directory_prefix()}/"
    return escape_for_display(name.removeprefix(folder))


@cache
def _get_working_directory_prefix() -> str:
    return str(get_working_directory()).rstrip("/")
