"""Scan of the writable folders for paths that must be read-only or hidden in a sandbox.

`inspect_filesystem` runs before each start of a sandbox, because calls change these folders. A path that was protected
once stays protected. Files are examined with os.path: methods of Path raise if a parent folder cannot be read or links
form a loop.
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
    """The result of scanning a writable folder."""

    protected_paths: tuple[Path, ...]
    """Files and folders with a protected name, and bare repositories."""
    protected_links: tuple[Path, ...]
    """Links with a protected name, and links in protected folders."""
    hidden_files: tuple[Path, ...]
    """Files that may contain secrets."""
    hidden_folders: tuple[Path, ...]
    """Folders that may contain secrets."""
    repositories: tuple[Path, ...]
    """Folders in which git finds a repository."""
    complete: bool
    """Whether the scan finished before it reached `MAX_SCANNED_ENTRIES`."""


def inspect_filesystem(
    config: SandboxConfig, create_placeholders: PlaceholderCreator, previous: HostFilesystem = EMPTY_FILESYSTEM
) -> tuple[HostFilesystem, list[str]]:
    """Find the paths to mount, protect and hide, and return them with warnings about gaps.

    Paths in `previous`, the result of an earlier inspection, stay protected or hidden even if a call has changed them.

    Raises:
        SafetyError: a writable folder contains something that cannot be protected.
    """
    protected_paths = ProtectedPaths(config.writable_folders)
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
            protected_paths.protect_all(result.protected_paths)
            protected_paths.protect_all(result.protected_links, "folder")
            hidden_files += result.hidden_files
            hidden_folders += result.hidden_folders
            if not result.complete:
                protected_paths.add_warning(
                    f"{folder} is large: .env files and repositories far down in it are not guarded"
                )
        repositories = [path for result in results for path in result.repositories]
        _protect_git_paths(config, repositories, protected_paths, reader)
    _protect_search_path(config, protected_paths)
    for name in find_placeholder_names(config.user_environment):
        # A folder, because git status does not list empty folders.
        protected_paths.protect_all((folder / name for folder in config.writable_folders), "folder")
    protected = _deduplicate(
        [*_filter_existing(previous.protected_paths), *protected_paths.finalize(create_placeholders)]
    )
    hidden = [*_filter_existing(previous.hidden_files), *_filter_existing(previous.hidden_folders)]
    files = _deduplicate([*hidden_files, *(path for path in hidden if not os.path.isdir(path))])
    folders = _deduplicate([*hidden_folders, *(path for path in hidden if os.path.isdir(path))])
    # Paths in a hidden folder are out of reach anyway.
    protected, files, folders = (
        tuple(path for path in paths if not is_in_any(path.parent, folders)) for paths in (protected, files, folders)
    )
    pinned = find_parent_folders([*protected, *files, *folders, *config.writable_folders], config.writable_folders)
    return HostFilesystem(*_list_root_folder(), pinned, protected, files, folders), protected_paths.warnings


def _list_root_folder() -> tuple[tuple[tuple[str, Path], ...], tuple[Path, ...]]:
    """Return the links in the root folder with their targets, and the system folders."""
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
    """Return the folders between the writable folders and `paths`: moving one of them would move the path, too."""
    parents = {
        parent
        for path in paths
        for folder in writable_folders
        if path.is_relative_to(folder)
        for parent in path.parents
        if parent.is_relative_to(folder)
    }
    return tuple(sorted(parents.difference(writable_folders)))


def _protect_git_paths(
    config: SandboxConfig, repositories: Sequence[Path], protected_paths: ProtectedPaths, git_reader: GitReader | None
) -> None:
    """Protect what git runs or reads in the writable folders and in repositories inside or around them."""
    for folder in repositories:
        if target := _read_gitfile(folder / ".git"):
            protected_paths.protect(target, "folder", used_by="git")
    if git_reader is None:  # git is not installed
        return
    folders = _deduplicate([*config.writable_folders, *repositories])
    examined = folders[: len(config.writable_folders) + MAX_GIT_REPOSITORIES]
    if examined != folders:
        protected_paths.add_warning(
            f"more than {MAX_GIT_REPOSITORIES} git repositories: files that the others use are not protected"
        )
    for repository in git_reader.read_repositories(examined):
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
    """Return the repository that a `.git` file points to, even if it does not exist: a call could create it."""
    if os.path.isfile(path):
        with suppress(OSError), path.open("rb") as file:
            prefix, _, name = file.read(10_000).partition(b"\0")[0].partition(b"gitdir:")
            return path.parent / os.fsdecode(name.strip()) if name.strip() and not prefix else None
    return None


def _protect_search_path(config: SandboxConfig, protected_paths: ProtectedPaths) -> None:
    """Protect the folders on the user's PATH: any shell could run a program from them next."""
    for entry in dict.fromkeys(config.user_environment.get("PATH", "").split(os.pathsep)):
        for folder in config.writable_folders:
            path = folder / entry
            if is_in_any(path, [folder]) or Path(os.path.realpath(path)).is_relative_to(folder):
                protected_paths.protect(path, "folder", used_by="every shell (PATH names it)", reject_links=False)


def scan_folder(folder: Path, writable_folders: Sequence[Path] = ()) -> ScanResult:
    """Search a writable folder breadth-first for protected names, secrets and repositories.

    Links are followed only if they lead to one of `writable_folders`.
    """
    inside = _deduplicate((folder, *writable_folders))
    top_folders = {*map(str, inside)}
    protected: list[Path] = []
    links: list[Path] = []
    files: list[Path] = []
    folders: list[Path] = []
    repositories: list[Path] = []
    queue, low_priority_queue = deque([(str(folder), False)]), deque[tuple[str, bool]]()
    remaining_entries = MAX_SCANNED_ENTRIES
    while (queue or low_priority_queue) and remaining_entries > 0:
        is_low_priority = not queue
        current, is_protected = (queue or low_priority_queue).popleft()
        entries = _list_entries(current, remaining_entries + 1)
        remaining_entries -= len(entries)
        if current not in top_folders and {entry.name for entry in entries}.issuperset(_BARE_REPOSITORY_NAMES):
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
                target_queue = low_priority_queue if is_low_priority or name in _LOW_PRIORITY_NAMES else queue
                target_queue.append((entry.path, is_protected or name in PROTECTED_NAME_SET))
    complete = not queue and not low_priority_queue and remaining_entries >= 0
    return ScanResult(
        _deduplicate(protected),
        _deduplicate(links),
        _deduplicate(files),
        _deduplicate(folders),
        _deduplicate(repositories),
        complete,
    )


def _has_secret_name(entry: os.DirEntry[str]) -> bool:
    """Check for the name of a file with secrets: `.env`, `.env.local`, `.envrc`, `.env.d`, `prod.env` ..."""
    name = entry.name.lower()
    return name.startswith(".env") or name.endswith(".env")


def _add_hidden(
    entry: os.DirEntry[str], visible_folders: Sequence[Path], hidden_files: list[Path], hidden_folders: list[Path]
) -> bool:
    """Add the target of an entry to the hidden paths if it must be hidden. Return whether it was added."""
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
    """Check whether git would treat a folder without `.git` as a bare repository."""
    return all(os.path.lexists(folder / name) for name in _BARE_REPOSITORY_NAMES)


def _list_entries(folder: Path | str, limit: int | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, limit))
    except OSError:
        return []  # a call cannot read it either


def find_private_paths(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files and folders below a folder that are not world-readable.

    If ask runs as root, calls could read them in the sandbox.
    """
    files: list[Path] = []
    folders: list[Path] = []
    pending = [str(folder)]
    while pending:
        for entry in _list_entries(pending.pop()):
            if entry.is_symlink():  # links have no permissions of their own
                continue
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:  # deleted since the folder was read
                continue
            is_private = not mode & stat.S_IROTH
            if stat.S_ISDIR(mode) and not is_private:
                pending.append(entry.path)
            elif stat.S_ISDIR(mode):
                folders.append(Path(entry.path))
            elif is_private and stat.S_ISREG(mode):
                files.append(Path(entry.path))
    return files, folders
