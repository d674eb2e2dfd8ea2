"""A project's instructions: AGENTS.md from the root of the repository down to the current folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ask.project.file_ownership import UnsafeFileError, read_owned_file
from ask.records import NamedTuple
from ask.text import decode_argument, format_block

MAX_INSTRUCTIONS_BYTES = 32 * 1024
"""Maximum size of all instruction files of a project together."""
MAX_COMPARED_BYTES = 1_000_000
"""The number of bytes of a file that are compared with what it was before a run in safe mode; no more are sent."""
DEPENDENCY_FOLDERS = frozenset({".git", "node_modules", "__pycache__", "site-packages"})
"""Names of folders in a project whose content is not the project's own."""


class InstructionFile(NamedTuple):
    """A file with instructions.

    Attributes:
        name: its path from the project's root.
        text: its content, or the beginning of it.
        size: the size of the file, in bytes.
        omitted: how many of these bytes are not in `text`.
        problem: why the file must not be used; "" if it may.
        path: its path.
        data: the first `MAX_COMPARED_BYTES` bytes, which include what is in `text`.
    """

    name: str
    text: str = ""
    size: int = 0
    omitted: int = 0
    problem: str = ""
    path: Path = Path()
    data: bytes = b""


def find_project_root(directory: Path) -> Path:
    """Return the root of the repository that contains a folder, or the folder itself if there is none.

    A folder in `node_modules` and the like is not part of the project around it: others have written it.
    """
    folder = Path(os.path.realpath(directory))
    for parent in (folder, *folder.parents):
        if _is_repository(parent):
            return parent
        if parent.name in DEPENDENCY_FOLDERS:
            break
    return folder


def _is_repository(folder: Path) -> bool:
    """Check for `.git`; an empty folder of that name may be a placeholder of a run in safe mode."""
    git = folder / ".git"
    return os.path.isfile(git) or os.path.lexists(git / "HEAD")


def list_project_folders(directory: Path) -> list[Path]:
    """List the folders from the project's root to this one."""
    root, folder = find_project_root(directory), Path(os.path.realpath(directory))
    return [parent for parent in reversed((folder, *folder.parents)) if parent.is_relative_to(root)]


def read_instructions(directory: Path, names: Sequence[str]) -> list[InstructionFile]:
    """Read the files with these names, outermost first, up to `MAX_INSTRUCTIONS_BYTES` bytes.

    If they are larger together, the outer ones are cut. Empty files are left out, and so is a second name of the same
    file.
    """
    folders = list_project_folders(directory)
    paths: dict[str, Path] = {}
    for path in (folder / name for folder in folders for name in names):
        if os.path.lexists(path):
            paths.setdefault(os.path.realpath(path), path)
    files, available = [], MAX_INSTRUCTIONS_BYTES
    for path in reversed(paths.values()):
        file = _read_file(path, folders[0], available)
        if file.problem or file.size:
            files.append(file)
            available -= len(file.text.encode())
    return files[::-1]


def _read_file(path: Path, root: Path, limit: int) -> InstructionFile:
    name = decode_argument(os.path.relpath(path, root))
    try:
        data, size = read_owned_file(path, root, MAX_COMPARED_BYTES)
    except UnsafeFileError as error:
        return InstructionFile(name, problem=str(error))
    omitted = max(0, size - min(len(data), limit))
    text = data[:limit].decode("utf-8-sig", "ignore" if omitted else "replace")  # a character may be cut
    return InstructionFile(name, text.encode()[:limit].decode("utf-8", "ignore"), size, omitted, path=path, data=data)


def format_instructions(files: Iterable[InstructionFile]) -> str:
    """Format files as blocks for the system prompt."""
    return "\n\n".join(
        format_block("project-instructions", file.text, f" file={json.dumps(file.name, ensure_ascii=False)}")
        for file in files
        if file.text.strip()
    )
