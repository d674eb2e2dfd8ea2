"""Looks through the writable folders before a sandbox starts: what is read-only in it, and what is hidden.

`inspect_filesystem` runs before each start of a sandbox, since calls change these folders; what was protected once stays so.
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
from ask.safety.git_paths import GitReader, find_git
from ask.safety.path_policy import SYSTEM_FOLDERS
from ask.safety.protected_names import PROTECTED_NAME_SET, find_placeholder_names
from ask.safety.protected_paths import PlaceholderCreator, ProtectedPaths, is_empty, is_in_any
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig

MAX_SCANNED_ENTRIES = 20_000
MAX_GIT_REPOSITORIES = 50
_LOW_PRIORITY_NAMES = frozenset({"node_modules", "__pycache__", "site-packages"})
_BARE_REPOSITORY_NAMES = ("HEAD", "objects", "refs")
EMPTY_FILESYSTEM = HostFilesystem((), (), (), (), (), ())


class ScanResult(NamedTuple):
    """What a search of a writable folder found.

    Attributes:
        protected_paths: files and folders with a protected name, and bare repositories.
        protected_links: links with a protected name, and those in protected folders.
        hidden_files: files that can hold secrets.
        hidden_folders: folders that can hold secrets.
        repositories: the folders in which git finds a repository.
        complete: whether all of the folder was searched.
    """

    protected_paths: tuple[Path, ...]
    protected_links: tuple[Path, ...]
    hidden_files: tuple[Path, ...]
    hidden_folders: tuple[Path, ...]
    repositories: tuple[Path, ...]
    complete: bool


def inspect_filesystem(
    config: SandboxConfig, create_placeholders: PlaceholderCreator, previous: HostFilesystem = EMPTY_FILESYSTEM
) -> tuple[HostFilesystem, list[str]]:
    """Find what to show, to protect and to hide right now, and warn about what is not covered.

    Args:
        config: what the run may do.
        create_placeholders: creates placeholders for what is missing.
        previous: what was found when the run began; what a call has changed since opens nothing.

    Raises:
        SafetyError: a writable directory holds what cannot be protected.
    """
    found = ProtectedPaths(config.writable_folders)
    with ExitStack() as stack:
        git = find_git(config.user_environment, config.writable_folders)
        reader = stack.enter_context(GitReader(git, config.user_environment)) if git else None
        if reader:
            reader.start_reading(config.writable_folders)
        hidden_files, hidden_folders = find_private_paths(Path("/etc"))
        for toolchain in config.readable_folders:
            for entry in filter(_has_secret_name, _list_entries(toolchain)):
                _add_hidden(entry, (toolchain,), hidden_files, hidden_folders)
        results = [scan_folder(folder, config.writable_folders) for folder in config.outermost_folders]
        for folder, result in zip(config.outermost_folders, results, strict=True):
            found.protect_all(result.protected_paths)
            found.protect_all(result.protected_links, "folder")
            hidden_files += result.hidden_files
            hidden_folders += result.hidden_folders
            if not result.complete:
                found.add_warning(f"{folder} is large: .env files and repositories far down in it are not guarded")
        _protect_git_paths(config, [path for result in results for path in result.repositories], found, reader)
    _protect_search_path(config, found)
    for name in find_placeholder_names(config.user_environment):
        found.protect_all(
            (folder / name for folder in config.writable_folders), "folder"
        )  # git status shows no folders
    protected = _deduplicate([*_filter_existing(previous.protected_paths), *found.finalize(create_placeholders)])
    hidden = [*_filter_existing(previous.hidden_files), *_filter_existing(previous.hidden_folders)]
    files = _deduplicate([*hidden_files, *(path for path in hidden if not os.path.isdir(path))])
    folders = _deduplicate([*hidden_folders, *(path for path in hidden if os.path.isdir(path))])
    # What is in a hidden folder is out of reach anyway.
    protected, files, folders = (
        tuple(path for path in paths if not is_in_any(path.parent, folders)) for paths in (protected, files, folders)
    )
    pinned = find_parent_folders([*protected, *files, *folders, *config.writable_folders], config.writable_folders)
    return HostFilesystem(*_list_root_folder(), pinned, protected, files, folders), found.warnings


def _list_root_folder() -> tuple[tuple[tuple[str, Path], ...], tuple[Path, ...]]:
    """The links of the root directory with their targets, and the system's folders."""
    links: list[tuple[str, Path]] = []
    system: list[Path] = []
    for entry in sorted(_list_entries(Path("/")), key=lambda entry: entry.name):
        if entry.is_symlink():
            links.append((os.readlink(entry.path), Path(entry.path)))
        elif entry.path in SYSTEM_FOLDERS or entry.name.startswith("lib"):
            system.append(Path(entry.path))
    return tuple(links), tuple(system)


def _filter_existing(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if os.path.lexists(path) and not os.path.islink(path)]


def _deduplicate(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))


def find_parent_folders(paths: Iterable[Path], writable_folders: Sequence[Path]) -> tuple[Path, ...]:
    """The folders between writable ones and what is in them: whoever moved one would move that with it."""
    found = {
        parent
        for path in paths
        for folder in writable_folders
        if path.is_relative_to(folder)
        for parent in path.parents
        if parent.is_relative_to(folder)
    }
    return tuple(sorted(found.difference(writable_folders)))


def _protect_git_paths(
    config: SandboxConfig, repositories: Sequence[Path], protected_paths: ProtectedPaths, git_reader: GitReader | None
) -> None:
    """Protect what git would run or read in the writable folders, in the repositories in them and around them.

    Args:
        config: what the run may do.
        repositories: the folders in which git finds one.
        protected_paths: what to protect.
        git_reader: what asks git, None where there is no git.
    """
    for folder in repositories:
        if target := _read_gitfile(folder / ".git"):
            protected_paths.protect(target, "folder", used_by="git")
    if git_reader is None:  # nothing that git would run
        return
    folders = _deduplicate([*config.writable_folders, *repositories])
    asked = folders[: len(config.writable_folders) + MAX_GIT_REPOSITORIES]
    if asked != folders:
        protected_paths.add_warning(
            f"more than {MAX_GIT_REPOSITORIES} git repositories: files that the others use are not protected"
        )
    for repository in git_reader.read_repositories(asked):
        folder = repository.folder
        if repository.git_dir and folder in config.writable_folders and folder.is_relative_to(repository.git_dir):
            raise SafetyError(
                f"--safe protects nothing in {folder}: it belongs to the git repository {repository.git_dir}",
                "start in the folder of the work itself",
            )
        if repository.error:
            protected_paths.add_warning(
                f"git cannot report its configuration for {folder} ({repository.error}): "
                "programs that it names may be unprotected"
            )
        for path in repository.paths:
            protected_paths.protect(path.path, path.placeholder_type, used_by="git")


def _read_gitfile(path: Path) -> Path | None:
    """Where the repository is, if `.git` is a file: git may find none there, which can be made."""
    if os.path.isfile(path):
        with suppress(OSError), path.open("rb") as file:
            prefix, _, name = file.read(10_000).partition(b"\0")[0].partition(b"gitdir:")
            return path.parent / os.fsdecode(name.strip()) if name.strip() and not prefix else None
    return None


def _protect_search_path(config: SandboxConfig, protected_paths: ProtectedPaths) -> None:
    """Protect the folders on the user's PATH: the next command of any terminal could come from them."""
    for entry in dict.fromkeys(config.user_environment.get("PATH", "").split(os.pathsep)):
        for folder in config.writable_folders:
            path = folder / entry
            if is_in_any(path, [folder]) or Path(os.path.realpath(path)).is_relative_to(folder):
                protected_paths.protect(path, "folder", used_by="every shell (PATH names it)", reject_links=False)


def scan_folder(folder: Path, writable_folders: Sequence[Path] = ()) -> ScanResult:
    """Search a writable folder for protected names, secrets and repositories, nearer ones first.

    Args:
        folder: where to search.
        writable_folders: all folders that can be written, where a link may lead.
    """
    inside = _deduplicate((folder, *writable_folders))
    known = {*map(str, inside)}
    protected: list[Path] = []
    links: list[Path] = []
    files: list[Path] = []
    folders: list[Path] = []
    repositories: list[Path] = []
    waiting, waiting_last = deque([(str(folder), False)]), deque[tuple[str, bool]]()
    left = MAX_SCANNED_ENTRIES
    while (waiting or waiting_last) and left > 0:
        last = not waiting
        current, is_protected = (waiting or waiting_last).popleft()
        entries = _list_entries(current, left + 1)
        left -= len(entries)
        if current not in known and {entry.name for entry in entries}.issuperset(_BARE_REPOSITORY_NAMES):
            protected.append(Path(current))
            repositories.append(Path(current))
            continue
        for entry in entries:
            name, is_link = entry.name, entry.is_symlink()
            if is_link and (is_protected or name in PROTECTED_NAME_SET):
                links.append(Path(entry.path))
            if _has_secret_name(entry) and _add_hidden(entry, inside, files, folders):
                continue
            if name == ".git":
                repositories.append(Path(current))
            if name in PROTECTED_NAME_SET and not is_link:
                protected.append(Path(entry.path))
            if name != ".git" and entry.is_dir(follow_symlinks=False):
                later = last or name in _LOW_PRIORITY_NAMES
                (waiting_last if later else waiting).append((entry.path, is_protected or name in PROTECTED_NAME_SET))
    complete = not waiting and not waiting_last and left >= 0
    return ScanResult(
        _deduplicate(protected),
        _deduplicate(links),
        _deduplicate(files),
        _deduplicate(folders),
        _deduplicate(repositories),
        complete,
    )


def _has_secret_name(entry: os.DirEntry[str]) -> bool:
    """Whether the name is one of files with secrets: `.env`, `.env.local`, `.envrc`, `.env.d`, `prod.env` ..."""
    name = entry.name.lower()
    return name.startswith(".env") or name.endswith(".env")


def _add_hidden(
    entry: os.DirEntry[str], visible_folders: Sequence[Path], hidden_files: list[Path], hidden_folders: list[Path]
) -> bool:
    """Add the file or folder that an entry is, or leads to, if it has to be hidden; returns whether it has to."""
    target = Path(os.path.realpath(entry.path))
    if not is_in_any(target, visible_folders) or any(folder.is_relative_to(target) for folder in visible_folders):
        return False
    if not os.path.exists(target) or (entry.name in PROTECTED_NAME_SET and is_empty(target)):  # a placeholder
        return False
    if not os.path.isdir(target):
        hidden_files.append(target)
        return True
    if os.path.lexists(target / "pyvenv.cfg"):  # a virtual environment
        return False
    hidden_folders.append(target)
    return True


def is_bare_repository(folder: Path) -> bool:
    """Whether git would take a folder itself for a repository, without any `.git` in it."""
    return all(os.path.lexists(folder / name) for name in _BARE_REPOSITORY_NAMES)


def _list_entries(folder: Path | str, limit: int | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, limit))
    except OSError:
        return []  # what the user cannot read, a call cannot either


def find_private_paths(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files and folders below a folder that not everybody can read; to root, inside, they would be open."""
    files: list[Path] = []
    folders: list[Path] = []
    waiting = [str(folder)]
    while waiting:
        for entry in _list_entries(waiting.pop()):
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
