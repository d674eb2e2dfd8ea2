"""What of the folders that a confined run may write stays as it is, or out of sight, and what is shown beside them.

`survey` looks before each start of a sandbox, since calls change these folders; what was guarded once stays guarded.
It asks with os.path: Path's questions raise where a folder on the way cannot be read, or links go round in circles.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ask.errors import SafetyError
from ask.safety.places import SYSTEM
from ask.safety.profile import Confinement, View

PROTECTED = (".git", ".vscode", ".idea", ".envrc", ".ask", ".claude", ".codex")
"""What makes other programs run things: it stays as it is, and stays absent where it is not there."""
PLAIN_FILES = frozenset({".envrc"})
"""Those of them that are files; the others are folders."""

_SEARCHED = 3_000
_NOT_SEARCHED = frozenset({"node_modules", "__pycache__", *PROTECTED})
_HOOKS = re.compile(rb"^[ \t]*hookspath[ \t]*=[ \t]*(.+?)[ \t\r]*$", re.MULTILINE | re.IGNORECASE)
_LONGEST_CONFIG = 100_000
_REPOSITORY = ("HEAD", "objects", "refs")
NOTHING = View((), (), (), (), (), ())


class Guards(NamedTuple):
    """What is guarded in a folder; `whole` says whether all of it was searched."""

    protected: tuple[Path, ...]
    hidden: tuple[Path, ...]
    whole: bool


def survey(confinement: Confinement, before: View = NOTHING) -> tuple[View, list[str]]:
    """What there is to show and to hide right now, and warnings about what is not covered.

    Args:
        confinement: what the run may do.
        before: what was seen when the run began; what a call has changed since opens nothing.

    Raises:
        SafetyError: a writable directory holds what cannot be protected.
    """
    links: list[tuple[str, Path]] = []
    system: list[Path] = []
    for entry in sorted(_entries(Path("/")), key=lambda entry: entry.name):
        if entry.is_symlink():
            links.append((os.readlink(entry.path), Path(entry.path)))
        elif entry.path in SYSTEM or entry.name.startswith("lib"):
            system.append(Path(entry.path))
    protected = [path for path in before.protected if os.path.lexists(path) and not os.path.islink(path)]
    hidden = [path for path in before.hidden_files if os.path.isfile(path) and not os.path.islink(path)]
    warnings = []
    for folder in confinement.writable:
        guards = find_guarded(folder, confinement.writable)
        absent = [name for name in PROTECTED if not os.path.lexists(folder / name)]
        if absent and os.access(folder, os.W_OK):
            raise SafetyError(
                f"--safe cannot keep {folder / absent[0]} from being made", "see whether the disk is full"
            )
        protected += guards.protected
        hidden += guards.hidden
        if not guards.whole:
            warnings.append(f"{folder} is large: .env files and repositories far down in it are not guarded")
    files, folders = private_in(Path("/etc"))
    hidden += files
    pinned = above([*protected, *hidden, *confinement.writable], confinement.writable)
    view = View(tuple(links), tuple(system), pinned, _once(protected), _once(hidden), tuple(folders))
    return view, warnings


def _once(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))


def above(paths: Iterable[Path], writable: Sequence[Path]) -> tuple[Path, ...]:
    """The folders between writable ones and what is in them: whoever moved one would move that with it."""
    found = {
        parent
        for path in paths
        for folder in writable
        if path.is_relative_to(folder)
        for parent in path.parents
        if parent.is_relative_to(folder)
    }
    return tuple(sorted(found.difference(writable)))


def find_guarded(folder: Path, writable: Sequence[Path] = ()) -> Guards:
    """The entries of a writable folder that are protected (`PROTECTED`) or hidden (`.env*`), the topmost first.

    Args:
        folder: where to look.
        writable: all folders that can be written, where a link may lead.

    Raises:
        SafetyError: one of the folder's own is a link, which cannot be held in place.
    """
    protected: list[Path] = []
    hidden: list[Path] = []
    inside = (folder, *writable)
    waiting, left = deque([folder]), _SEARCHED
    while waiting and left > 0:
        current = waiting.popleft()
        for entry in _entries(current):
            left -= 1
            link = entry.is_symlink()
            if entry.name in PROTECTED and link and current == folder:
                raise SafetyError(f"{entry.path} is a link, which --safe cannot protect", "put the folder itself there")
            secret = _secret(entry, inside)
            if secret:
                hidden.append(secret)
            elif entry.name in PROTECTED and not link:
                protected.append(Path(entry.path))
                if entry.name == ".git":
                    protected += _beside(Path(entry.path), inside)
            if not link and entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_SEARCHED:
                waiting.append(Path(entry.path))
    return Guards(_once(protected), _once(hidden), not waiting)


def _secret(entry: os.DirEntry[str], inside: Sequence[Path]) -> Path | None:
    """The file that an entry is, or leads to, if nobody may read it; a place holder is none."""
    if not entry.name.startswith(".env"):
        return None
    target = Path(os.path.realpath(entry.path))
    if not os.path.isfile(target) or not any(target.is_relative_to(one) for one in inside):
        return None
    return None if entry.name in PLAIN_FILES and os.path.getsize(target) == 0 else target


def _beside(git: Path, inside: Sequence[Path]) -> Iterator[Path]:
    """What belongs to a repository outside its `.git`: where that, being a file, points, and a folder of hooks.

    Of a folder of hooks that is not there, the nearest one above it that is.
    """
    named = _read(git).removeprefix(b"gitdir:")
    folder = _resolved(git.parent, named) if named else git
    common = _resolved(folder, _read(folder / "commondir"))
    hooks = [
        _resolved(git.parent, name.strip(b'"'))
        for config in {folder / "config", common / "config", folder / "config.worktree"}
        for name in _HOOKS.findall(_read(config))
    ]
    for path in (folder, common, *hooks):
        there = next(one for one in (path, *path.parents) if os.path.lexists(one))
        whole = there in inside or git.is_relative_to(there)
        if not whole and any(there.is_relative_to(one) for one in inside):
            yield there


def _resolved(folder: Path, name: bytes) -> Path:
    """Where a name in a file of git's leads; a name ends at its first NUL, as it does for git."""
    text = os.fsdecode(name.partition(b"\0")[0].strip())
    return Path(os.path.realpath(folder / os.path.expanduser(text)))


def _read(path: Path) -> bytes:
    """The beginning of a file; nothing where it cannot be read, or is none: a FIFO would be waited for."""
    if os.path.isfile(path):
        with suppress(OSError), path.open("rb") as file:
            return file.read(_LONGEST_CONFIG)
    return b""


def is_repository(folder: Path) -> bool:
    """Whether git would take a folder itself for a repository, without any `.git` in it."""
    return all(os.path.lexists(folder / name) for name in _REPOSITORY)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # what the user cannot read, a call cannot either


def private_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files and folders below a folder that not everybody can read; to root, inside, they would be open."""
    files: list[Path] = []
    folders: list[Path] = []
    waiting = [folder]
    while waiting:
        for entry in _entries(waiting.pop()):
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:  # gone since the folder was read
                continue
            private = not mode & stat.S_IROTH  # a link is never so
            if stat.S_ISDIR(mode):
                (folders if private else waiting).append(Path(entry.path))
            elif private and stat.S_ISREG(mode):
                files.append(Path(entry.path))
    return files, folders
