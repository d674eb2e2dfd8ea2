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
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path

from ask.errors import SafetyError
from ask.safety.git_paths import GitReader, find_git
from ask.safety.path_policy import SYSTEM_FOLDERS
from ask.safety.protected_paths import (
    PROTECTED_NAME_SET,
    PlaceholderCreator,
    ProtectedPaths,
    find_placeholder_names,
    is_in_any,
)
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.tools.file_access import can_contain_secrets, is_empty

MAX_SCANNED_ENTRIES = 20_000
MAX_GIT_REPOSITORIES = 50
_LOW_PRIORITY_NAMES = frozenset({"node_modules", "__pycache__", "site-packages"})
_BARE_REPOSITORY_NAMES = ("HEAD", "objects", "refs")


def inspect_filesystem(
    config: SandboxConfig, create_placeholders: PlaceholderCreator | None, previous: HostFilesystem
) -> tuple[HostFilesystem, list[str]]:
    """Find the paths to mount, protect and hide, and return them with warnings about gaps.

    Without `create_placeholders`, the protected paths may be missing: no sandbox mounts them.

    Paths in `previous`, the result of an earlier inspection, stay protected or hidden even if a call has changed them.

    Raises:
        SafetyError: a writable folder contains something that cannot be protected.
    """
    protected_paths = ProtectedPaths(config.writable_folders, by_mounts=bool(create_placeholders))
    scan = FolderScan(config.writable_folders, protected_paths)
    git = find_git(config.user_environment, config.writable_folders)
    with GitReader(git, config.user_environment) if git else nullcontext() as git_reader:
        if git_reader:
            git_reader.start_reading(config.writable_folders)  # while the folders are scanned
        private_paths = find_private_paths(Path("/etc"))
        for toolchain in config.readable_folders:
            for entry in _list_entries(toolchain):
                scan.hide_secrets(entry, (toolchain,))
        for folder in config.outermost_folders:
            if not scan.scan(folder):
                unprotected = (
                    ".env files and repositories"
                    if create_placeholders
                    else "the targets of .env links, and repositories,"
                )
                protected_paths.add_warning(f"{folder} is large: {unprotected} deep inside it are not protected")
        _protect_git_paths(config, scan.repositories, protected_paths, git_reader)
    _protect_search_path(config, protected_paths)
    for name in find_placeholder_names(config.user_environment):
        for folder in config.writable_folders:
            # A folder, because git status does not list empty folders.
            protected_paths.protect(folder / name, "folder")
    protected = [*scan.filter_existing(previous.protected_paths), *protected_paths.finalize(create_placeholders)]
    previously_hidden = scan.filter_existing((*previous.hidden_files, *previous.hidden_folders))
    hidden = [*private_paths, *protected_paths.unreadable_folders, *scan.hidden_paths, *previously_hidden]
    folders = [path for path in hidden if os.path.isdir(path)]
    files = [path for path in hidden if not os.path.isdir(path)]
    # Paths in a hidden folder are out of reach anyway.
    protected_tuple, files_tuple, folders_tuple = (
        tuple(dict.fromkeys(path for path in paths if not is_in_any(path.parent, folders)))
        for paths in (protected, files, folders)
    )
    pinned = find_parent_folders(
        [*protected_tuple, *files_tuple, *folders_tuple, *config.writable_folders], config.writable_folders
    )
    filesystem = HostFilesystem(*_list_root_folder(), pinned, protected_tuple, files_tuple, folders_tuple)
    return filesystem, protected_paths.warnings


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


def find_parent_folders(paths: Iterable[Path], writable_folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders between the writable folders and `paths`: moving one of them would move the path, too."""
    parents = {parent for path in paths for parent in path.parents if is_in_any(parent, writable_folders)}
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
    folders = list(dict.fromkeys([*config.writable_folders, *repositories]))
    examined = folders[: len(config.writable_folders) + MAX_GIT_REPOSITORIES]
    if examined != folders:
        protected_paths.add_warning(
            f"more than {MAX_GIT_REPOSITORIES} git repositories: files used by the others are not protected"
        )
    for repository in git_reader.read_repositories(examined):
        folder = repository.folder
        if repository.git_dir and folder in config.writable_folders and folder.is_relative_to(repository.git_dir):
            raise SafetyError(
                f"safe mode protects nothing in {folder}: it belongs to the git repository {repository.git_dir}",
                "start in the project's own folder",
            )
        if repository.error:
            protected_paths.add_warning(
                f"git cannot report its configuration for {folder} ({repository.error}): programs named there may "
                "be unprotected"
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
                protected_paths.protect(path, "folder", used_by="every shell (PATH contains it)", reject_links=False)


class FolderScan:
    """A search of the writable folders for protected names, secrets and repositories.

    Protected are files, folders and links with a protected name, links in protected folders, and bare repositories.
    """

    def __init__(self, writable_folders: Sequence[Path], protected_paths: ProtectedPaths) -> None:
        self._writable_folders = writable_folders
        self._protected_paths = protected_paths
        self.hidden_paths: list[Path] = []
        """Files and folders that may contain secrets."""
        self.repositories: list[Path] = []
        """Folders in which git finds a repository."""

    def scan(self, folder: Path) -> bool:
        """Search a folder breadth-first; return whether that was possible within `MAX_SCANNED_ENTRIES`.

        Links are followed only if they lead to one of the writable folders.
        """
        queue, low_priority_queue = deque([(str(folder), False)]), deque[tuple[str, bool]]()
        remaining_entries = MAX_SCANNED_ENTRIES
        while (queue or low_priority_queue) and remaining_entries > 0:
            is_low_priority = not queue
            current, is_protected = (queue or low_priority_queue).popleft()
            if not os.access(current, os.R_OK | os.X_OK) and self._protected_paths.hide_unreadable(Path(current)):
                continue
            entries = _list_entries(current, remaining_entries + 1)
            remaining_entries -= len(entries)
            is_bare = {entry.name for entry in entries}.issuperset(_BARE_REPOSITORY_NAMES)
            if is_bare and Path(current) not in self._writable_folders:
                self._protected_paths.protect(Path(current))
                self.repositories.append(Path(current))
                continue
            for entry in entries:
                if self._visit_entry(entry, is_protected=is_protected):
                    target_queue = low_priority_queue if is_low_priority or entry.name in _LOW_PRIORITY_NAMES else queue
                    target_queue.append((entry.path, is_protected or entry.name in PROTECTED_NAME_SET))
        return not queue and not low_priority_queue and remaining_entries >= 0

    def _visit_entry(self, entry: os.DirEntry[str], *, is_protected: bool) -> bool:
        """Add an entry to the findings; return whether it is a folder to search."""
        has_protected_name, is_link = entry.name in PROTECTED_NAME_SET, entry.is_symlink()
        if is_link and (is_protected or has_protected_name):
            self._protected_paths.protect(Path(entry.path), "folder")
        if self.hide_secrets(entry, self._writable_folders):
            return False
        if entry.name == ".git":
            self.repositories.append(Path(entry.path).parent)
        if has_protected_name and not is_link:
            self._protected_paths.protect(Path(entry.path))
        return entry.name != ".git" and entry.is_dir(follow_symlinks=False)

    def filter_existing(self, paths: Iterable[Path]) -> list[Path]:
        """Return the paths of an earlier scan that are still there; where that cannot be seen, hide their folder."""
        return [
            path
            for path in paths
            if not self._protected_paths.hide_unreadable(path) and os.path.lexists(path) and not os.path.islink(path)
        ]

    def hide_secrets(self, entry: os.DirEntry[str], visible_folders: Sequence[Path]) -> bool:
        """Hide what an entry leads to if its name is one for secrets. Return whether it is hidden.

        Such names are `.env`, `.env.local`, `.envrc`, `.env.d`, `prod.env` and the like.
        """
        if not can_contain_secrets(entry.name.lower()):
            return False
        target = Path(os.path.realpath(entry.path))
        if self._protected_paths.hide_unreadable(target):
            return True
        if not is_in_any(target, visible_folders) or any(folder.is_relative_to(target) for folder in visible_folders):
            return False
        is_placeholder = entry.name in PROTECTED_NAME_SET and is_empty(target)
        is_virtual_environment = os.path.lexists(target / "pyvenv.cfg")
        if is_placeholder or is_virtual_environment or not os.path.exists(target):
            return False
        self.hidden_paths.append(target)
        return True


def is_bare_repository(folder: Path) -> bool:
    """Check whether git would treat a folder without `.git` as a bare repository."""
    return all(os.path.lexists(folder / name) for name in _BARE_REPOSITORY_NAMES)


def _list_entries(folder: Path | str, limit: int | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, limit))
    except OSError:
        # Not one of the folders that a call could make readable: `ProtectedPaths.hide_unreadable` comes first.
        return []


def find_private_paths(folder: Path) -> list[Path]:
    """Return the files and folders below a folder that are not world-readable.

    If ask runs as root, calls could read them in the sandbox.
    """
    paths: list[Path] = []
    pending = [str(folder)]
    while pending:
        for entry in _list_entries(pending.pop()):
            if entry.is_symlink():
                continue
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:  # deleted since the folder was read
                continue
            if mode & stat.S_IROTH:
                pending += [entry.path] if stat.S_ISDIR(mode) else []
            elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                paths.append(Path(entry.path))
    return paths
