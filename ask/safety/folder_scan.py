"""Looks through the writable folders before a sandbox starts: what is read-only in it, and what is hidden.

`survey` runs before each start of a sandbox, since calls change these folders; what was protected once stays so.
Files are examined with os.path: methods of Path raise where a folder on the way cannot be read, or links form a loop.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ask.errors import SafetyError
from ask.safety.confinement import Confinement, View
from ask.safety.git_paths import GitReader, find_git
from ask.safety.path_policy import SYSTEM
from ask.safety.protected_names import PROTECTED, find_names_to_hold
from ask.safety.protected_paths import Hold, ProtectedPaths, is_empty, is_in_any

SEARCHED_ENTRIES = 20_000
ASKED_REPOSITORIES = 50
_SEARCHED_LAST = frozenset({"node_modules", "__pycache__", "site-packages"})
_BARE_REPOSITORY = ("HEAD", "objects", "refs")
NOTHING = View((), (), (), (), (), ())


class ScanResult(NamedTuple):
    """What a search of a writable folder found.

    Attributes:
        protected: files and folders with a protected name, and bare repositories.
        links: links with a protected name, and those in protected folders.
        hidden_files: files that can hold secrets.
        hidden_folders: folders that can hold secrets.
        repositories: the folders in which git finds a repository.
        complete: whether all of the folder was searched.
    """

    protected: tuple[Path, ...]
    links: tuple[Path, ...]
    hidden_files: tuple[Path, ...]
    hidden_folders: tuple[Path, ...]
    repositories: tuple[Path, ...]
    complete: bool


def survey(confinement: Confinement, hold: Hold, before: View = NOTHING) -> tuple[View, list[str]]:
    """Find what to show, to protect and to hide right now, and warn about what is not covered.

    Args:
        confinement: what the run may do.
        hold: creates placeholders for what is missing.
        before: what was found when the run began; what a call has changed since opens nothing.

    Raises:
        SafetyError: a writable directory holds what cannot be protected.
    """
    found = ProtectedPaths(confinement.writable)
    with ExitStack() as stack:
        git = find_git(confinement.user_environment, confinement.writable)
        reader = stack.enter_context(GitReader(git, confinement.user_environment)) if git else None
        if reader:
            reader.start(confinement.writable)
        hidden_files, hidden_folders = find_private(Path("/etc"))
        for toolchain in confinement.readable:
            for entry in filter(_is_secret, _entries(toolchain)):
                _add_hidden(entry, (toolchain,), hidden_files, hidden_folders)
        results = [scan(folder, confinement.writable) for folder in confinement.outermost]
        for folder, result in zip(confinement.outermost, results, strict=True):
            found.protect_all(result.protected)
            found.protect_all(result.links, "folder")
            hidden_files += result.hidden_files
            hidden_folders += result.hidden_folders
            if not result.complete:
                found.warn(f"{folder} is large: .env files and repositories far down in it are not guarded")
        _protect_git_paths(confinement, [path for result in results for path in result.repositories], found, reader)
    _protect_search_path(confinement, found)
    for name in find_names_to_hold(confinement.user_environment):
        found.protect_all((folder / name for folder in confinement.writable), "folder")  # git status shows no folders
    protected = _once([*_still_there(before.protected), *found.finish(hold)])
    hidden = [*_still_there(before.hidden_files), *_still_there(before.hidden_folders)]
    files = _once([*hidden_files, *(path for path in hidden if not os.path.isdir(path))])
    folders = _once([*hidden_folders, *(path for path in hidden if os.path.isdir(path))])
    # What is in a hidden folder is out of reach anyway.
    protected, files, folders = (
        tuple(path for path in paths if not is_in_any(path.parent, folders)) for paths in (protected, files, folders)
    )
    pinned = above([*protected, *files, *folders, *confinement.writable], confinement.writable)
    return View(*_list_system(), pinned, protected, files, folders), found.warnings


def _list_system() -> tuple[tuple[tuple[str, Path], ...], tuple[Path, ...]]:
    """The links of the root directory with their targets, and the system's folders."""
    links: list[tuple[str, Path]] = []
    system: list[Path] = []
    for entry in sorted(_entries(Path("/")), key=lambda entry: entry.name):
        if entry.is_symlink():
            links.append((os.readlink(entry.path), Path(entry.path)))
        elif entry.path in SYSTEM or entry.name.startswith("lib"):
            system.append(Path(entry.path))
    return tuple(links), tuple(system)


def _still_there(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if os.path.lexists(path) and not os.path.islink(path)]


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


def _protect_git_paths(
    confinement: Confinement, repositories: Sequence[Path], found: ProtectedPaths, reader: GitReader | None
) -> None:
    """Protect what git would run or read in the writable folders, in the repositories in them and around them.

    Args:
        confinement: what the run may do.
        repositories: the folders in which git finds one.
        found: what to protect.
        reader: what asks git, None where there is no git.
    """
    for folder in repositories:
        if target := _read_gitfile(folder / ".git"):
            found.protect(target, "folder", used_by="git")
    if reader is None:  # nothing that git would run
        return
    folders = _once([*confinement.writable, *repositories])
    asked = folders[: len(confinement.writable) + ASKED_REPOSITORIES]
    if asked != folders:
        found.warn(f"more than {ASKED_REPOSITORIES} git repositories: files that the others use are not protected")
    for repository in reader.read(asked):
        folder = repository.folder
        if repository.git_dir and folder in confinement.writable and folder.is_relative_to(repository.git_dir):
            raise SafetyError(
                f"--safe protects nothing in {folder}: it belongs to the git repository {repository.git_dir}",
                "start in the folder of the work itself",
            )
        if repository.error:
            found.warn(
                f"git cannot report its configuration for {folder} ({repository.error}): "
                "programs that it names may be unprotected"
            )
        for path in repository.paths:
            found.protect(path.path, path.placeholder, used_by="git")


def _read_gitfile(path: Path) -> Path | None:
    """Where the repository is, if `.git` is a file: git may find none there, which can be made."""
    if os.path.isfile(path):
        with suppress(OSError), path.open("rb") as file:
            prefix, _, name = file.read(10_000).partition(b"\0")[0].partition(b"gitdir:")
            return path.parent / os.fsdecode(name.strip()) if name.strip() and not prefix else None
    return None


def _protect_search_path(confinement: Confinement, found: ProtectedPaths) -> None:
    """Protect the folders on the user's PATH: the next command of any terminal could come from them."""
    for entry in dict.fromkeys(confinement.user_environment.get("PATH", "").split(os.pathsep)):
        for folder in confinement.writable:
            path = folder / entry
            if is_in_any(path, [folder]) or Path(os.path.realpath(path)).is_relative_to(folder):
                found.protect(path, "folder", used_by="every shell (PATH names it)", refuse=False)


def scan(folder: Path, writable: Sequence[Path] = ()) -> ScanResult:
    """Search a writable folder for protected names, secrets and repositories, nearer ones first.

    Args:
        folder: where to search.
        writable: all folders that can be written, where a link may lead.
    """
    inside = _once((folder, *writable))
    known = {*map(str, inside)}
    protected: list[Path] = []
    links: list[Path] = []
    files: list[Path] = []
    folders: list[Path] = []
    repositories: list[Path] = []
    waiting, waiting_last = deque([(str(folder), False)]), deque[tuple[str, bool]]()
    left = SEARCHED_ENTRIES
    while (waiting or waiting_last) and left > 0:
        last = not waiting
        current, is_protected = (waiting or waiting_last).popleft()
        entries = _entries(current, left + 1)
        left -= len(entries)
        if current not in known and {entry.name for entry in entries}.issuperset(_BARE_REPOSITORY):
            protected.append(Path(current))
            repositories.append(Path(current))
            continue
        for entry in entries:
            name, is_link = entry.name, entry.is_symlink()
            if is_link and (is_protected or name in PROTECTED):
                links.append(Path(entry.path))
            if _is_secret(entry) and _add_hidden(entry, inside, files, folders):
                continue
            if name == ".git":
                repositories.append(Path(current))
            if name in PROTECTED and not is_link:
                protected.append(Path(entry.path))
            if name != ".git" and entry.is_dir(follow_symlinks=False):
                later = last or name in _SEARCHED_LAST
                (waiting_last if later else waiting).append((entry.path, is_protected or name in PROTECTED))
    complete = not waiting and not waiting_last and left >= 0
    return ScanResult(_once(protected), _once(links), _once(files), _once(folders), _once(repositories), complete)


def _is_secret(entry: os.DirEntry[str]) -> bool:
    """Whether the name is one of files with secrets: `.env`, `.env.local`, `.envrc`, `.env.d`, `prod.env` ..."""
    name = entry.name.lower()
    return name.startswith(".env") or name.endswith(".env")


def _add_hidden(entry: os.DirEntry[str], inside: Sequence[Path], files: list[Path], folders: list[Path]) -> bool:
    """Add the file or folder that an entry is, or leads to, if it has to be hidden; returns whether it has to."""
    target = Path(os.path.realpath(entry.path))
    if not is_in_any(target, inside) or any(folder.is_relative_to(target) for folder in inside):
        return False
    if not os.path.exists(target) or (entry.name in PROTECTED and is_empty(target)):  # a placeholder
        return False
    if not os.path.isdir(target):
        files.append(target)
        return True
    if os.path.lexists(target / "pyvenv.cfg"):  # a virtual environment
        return False
    folders.append(target)
    return True


def is_bare_repository(folder: Path) -> bool:
    """Whether git would take a folder itself for a repository, without any `.git` in it."""
    return all(os.path.lexists(folder / name) for name in _BARE_REPOSITORY)


def _entries(folder: Path | str, limit: int | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, limit))
    except OSError:
        return []  # what the user cannot read, a call cannot either


def find_private(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files and folders below a folder that not everybody can read; to root, inside, they would be open."""
    files: list[Path] = []
    folders: list[Path] = []
    waiting = [str(folder)]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_symlink():  # never private
                continue
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:  # gone since the folder was read
                continue
            private = not mode & stat.S_IROTH
            if stat.S_ISDIR(mode) and not private:
                waiting.append(entry.path)
            elif stat.S_ISDIR(mode):
                folders.append(Path(entry.path))
            elif private and stat.S_ISREG(mode):
                files.append(Path(entry.path))
    return files, folders
