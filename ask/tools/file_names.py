"""Names that look the same: composed and decomposed characters, and spaces of several kinds."""

from __future__ import annotations

import os
import re
from pathlib import Path

_SPACES = r"[\u00a0\u2009\u202f]"
"""macOS puts them in the names of screenshots: https://github.com/anthropics/claude-code/issues/59381"""


def find_equivalent_path(path: Path) -> Path:
    """Return a path, with names that do not exist replaced by the only existing ones that look the same.

    macOS, archives and file servers decompose an accented letter, which people and models write as one character.
    """
    if os.path.lexists(path):
        return path
    found = Path(path.anchor)
    names = path.parts[1:] if path.anchor else path.parts
    for index, name in enumerate(names):
        if not os.path.lexists(found / name):
            equivalents = _find_equivalents(found, name)
            if len(equivalents) != 1:
                return found.joinpath(*names[index:])
            (name,) = equivalents  # noqa: PLW2901
        found /= name
    return found


def _find_equivalents(folder: Path, name: str) -> list[str]:
    if name.isascii() and " " not in name:
        return []
    normalized_name = normalize_name(name)
    try:
        return [other for other in os.listdir(folder) if normalize_name(other) == normalized_name]
    except OSError:
        return []


def normalize_name(name: str) -> str:
    """Return the same text for all names that look the same."""
    if name.isascii():
        return name
    from unicodedata import normalize

    return re.sub(_SPACES, " ", normalize("NFC", name))
