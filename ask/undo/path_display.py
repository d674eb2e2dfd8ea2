"""Format paths for the messages of undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ask.settings import get_working_directory
from ask.tools.file_access import escape_for_display

MAX_NAMES = 5


def format_folders(folders: Mapping[Path, str]) -> str:
    """Format folders, each with a comment, on one line."""
    return join_names([f"{format_path(path)}/ ({reason})" for path, reason in folders.items()])


def join_names(names: Sequence[str]) -> str:
    """Join the first `MAX_NAMES` names; say how many more there are."""
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if names[MAX_NAMES:] else "")


def format_path(path: Path) -> str:
    """Format a path on one line, relative to the working directory if it is inside."""
    folder = str(get_working_directory()).rstrip("/") + "/"
    return escape_for_display(str(path).removeprefix(folder))
