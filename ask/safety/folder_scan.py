"""Scan of the writable folders for paths that must be read-only or hidden in a sandbox.

`inspect_filesystem` runs before each start of a sandbox, because calls change these folders. A path that was protected
once stays protected. Files are examined with os.path: methods of Path raise if a parent folder cannot be read or links
form a loop.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from shlex import quote

from ask.config.secret_files import can_contain_secrets, is_virtual_environment
from ask.errors import SafetyError
from ask.safety.crowded_folders import cover_paths, limit_mounts
from ask.safety.git_paths import GitReader, GitRepository, find_git
from ask.safety.git_worktrees import REPOSITORY_CONTENT, read_gitfile
from ask.safety.home_links import find_linked_paths
from ask.safety.protected_paths import (
    SHOWN_ONCE,
    PlaceholderCreator,
    ProtectedPaths,
    find_direnv_watches,
    find_placeholders,
    is_in_any,
    is_protected_name,
)
from ask.safety.refused_folders import SYSTEM_FOLDERS, format_folder_hint
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.safety.scan_record import ScanRecord, make_record, read_scan_record, write_scan_record
from ask.safety.shell_syntax import list_search_path
from ask.text import format_one_line, join_names
from ask.tools.file_access import is_empty

MAX_TOP_ENTRIES = 1_000_000
"""Maximum number of entries of the writable folders and of the folders in them: these are scanned completely."""
MAX_SCANNED_ENTRIES = 20_000
"""Maximum number of entries in deeper folders that are scanned."""
MAX_FOLDER_ENTRIES = 5_000
"""Maximum number of entries of one deeper folder that are scanned, so that it does not prevent the scan of others."""
MAX_GIT_REPOSITORIES = 50
"""Maximum number of repositories whose configuration is read, in addition to those of earlier runs."""
_MAX_NAMED_COMMANDS = 10
"""How many commands of git a warning names."""
_LIBRARY_NAME = re.compile(r"lib(?:x?\d+)?")
"""The names of the system's folders for libraries, such as lib64. A folder such as /library is the user's."""
_LOW_PRIORITY_NAMES = frozenset({"node_modules", "__pycache__", "site-packages"})


def inspect_filesystem(
    config: SandboxConfig, create_placeholders: PlaceholderCreator | None, previous: HostFilesystem
) -> tuple[HostFilesystem, list[str]]:
    """Find the paths to mount, protect and hide, and return them with warnings about gaps.

    Without `create_placeholders`, the protected paths may be missing: no sandbox mounts them.

    Paths in `previous`, the result of an earlier inspection, stay protected or hidden even if a call has changed them.
    What was hidden in an earlier run stays hidden. What was protected stays protected if not everything can be scanned:
    otherwise, the user has changed it.

    Raises:
        SafetyError: a writable folder contains something that cannot be protected.
    """
    record = read_scan_record(config.state_folder, config.outermost_folders)
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
        is_complete = _scan_folders(config, scan, protected_paths, by_mounts=bool(create_placeholders))
        known = filter(os.path.isdir, scan.filter_existing(map(Path, record.repositories)))
        repositories = list(dict.fromkeys((*known, *scan.repositories)))
        scan.hide_other_names()  # once all secrets are known
        is_git_read = _protect_git_paths(config, repositories, len(record.repositories), protected_paths, git_reader)
    _protect_search_path(config, protected_paths)
    _protect_direnv_watches(config, protected_paths)
    _protect_unconfined_programs(config, protected_paths)
    for path, placeholder_type in find_placeholders(config.user_environment, config.writable_folders):
        # Mostly folders, because git status does not list empty ones.
        protected_paths.protect(path, placeholder_type)
    is_complete = is_complete and is_git_read
    protected = [
        *scan.filter_existing((*previous.protected_paths, *(() if is_complete else map(Path, record.protected)))),
        *protected_paths.finalize(create_placeholders),
    ]
    secrets = _add_earlier_secrets(scan, record, protected_paths, is_complete=is_complete)
    hidden = [*private_paths, *protected_paths.unreadable_folders, *secrets]
    hidden += scan.filter_existing(previous.hidden_paths)
    filesystem = cover_paths(
        HostFilesystem(
            *_list_root_folder(),
            protected_paths=tuple(protected),
            crowded_folders=tuple(scan.filter_existing(previous.crowded_folders)),
            hidden_files=tuple(path for path in hidden if not os.path.isdir(path)),
            hidden_folders=tuple(filter(os.path.isdir, hidden)),
        )
    )
    found = make_record(map(str, paths) for paths in (filesystem.protected_paths, secrets, repositories))
    crowded_warnings: list[str] = []
    if create_placeholders:
        filesystem, crowded_warnings = limit_mounts(filesystem, config.writable_folders)
    write_scan_record(config.state_folder, config.outermost_folders, found)
    return filesystem, [*protected_paths.warnings, *crowded_warnings]


def find_hidden_paths(folder: Path, state_folder: Path) -> list[Path]:
    """Return what safe mode hides in a folder, resolved: what a copy of it must not have.

    In a copy, neither absolute links nor the record of earlier runs would show that it contains secrets.

    Raises:
        SafetyError: the folder cannot be searched, or the record cannot be read.
    """
    folder = Path(os.path.realpath(folder))
    scan = FolderScan([folder], ProtectedPaths([folder], by_mounts=False))
    scan.scan(folder)
    scan.hide_other_names()
    earlier = read_scan_record(state_folder, [folder]).hidden
    return list(dict.fromkeys((*scan.hidden_paths, *scan.filter_existing(map(Path, earlier)))))


def _scan_folders(config: SandboxConfig, scan: FolderScan, protected_paths: ProtectedPaths, *, by_mounts: bool) -> bool:
    """Scan the writable folders, with a warning for each that is too large; return whether none is."""
    is_complete = True
    for folder in config.writable_folders:
        if not scan.scan(folder):
            is_complete = False
            missed = ".env files and repositories" if by_mounts else "repositories and targets of .env links"
            protected_paths.add_warning(
                f"{folder} is too large to be searched completely: {missed} deep inside it that no earlier run has "
                "found are not protected; to protect them, start in a subfolder"
            )
    return is_complete


def _list_root_folder() -> tuple[tuple[tuple[str, Path], ...], tuple[Path, ...]]:
    """Return the links in the root folder with their targets, and the system folders."""
    links: list[tuple[str, Path]] = []
    system: list[Path] = []
    for entry in sorted(_list_entries(Path("/")), key=lambda entry: entry.name):
        if entry.is_symlink():
            links.append((os.readlink(entry.path), Path(entry.path)))
        elif entry.path in SYSTEM_FOLDERS or _LIBRARY_NAME.fullmatch(entry.name):
            system.append(Path(entry.path))
    return tuple(links), tuple(system)


def _add_earlier_secrets(
    scan: FolderScan, record: ScanRecord, protected_paths: ProtectedPaths, *, is_complete: bool
) -> list[Path]:
    """Return what a scan hides, and what was hidden in an earlier run: calls can delete a link that leads there."""
    earlier = scan.filter_existing(map(Path, record.hidden))
    hidden = frozenset(scan.hidden_paths)
    names = [str(path) for path in earlier if hidden.isdisjoint((path, *path.parents))] if is_complete else []
    if names:
        count, them = (f"{len(names):,} paths stay", "the first one") if len(names) > 1 else ("1 path stays", "it")
        protected_paths.add_warning(
            f"{count} hidden, as in an earlier run: {join_names(names, 3)}; to make {them} readable: ask safe --forget "
            f"{quote(names[0])}"
        )
    return list(dict.fromkeys((*scan.hidden_paths, *earlier)))


def _protect_git_paths(
    config: SandboxConfig,
    repositories: Sequence[Path],
    known_count: int,
    protected_paths: ProtectedPaths,
    git_reader: GitReader | None,
) -> bool:
    """Protect what git runs or reads in the writable folders and in repositories inside or around them.

    Those of earlier runs come first, and are `known_count`. Return whether git has reported everything.
    """
    for folder in repositories:
        if target := read_gitfile(folder / ".git"):
            protected_paths.protect(target, "folder", used_by="git")
    if git_reader is None:  # git is not installed
        return True
    folders = list(dict.fromkeys([*config.writable_folders, *repositories]))
    examined = folders[: len(config.writable_folders) + min(known_count, MAX_GIT_REPOSITORIES) + MAX_GIT_REPOSITORIES]
    is_complete = examined == folders
    if not is_complete:
        protected_paths.add_warning(
            f"more than {MAX_GIT_REPOSITORIES} git repositories: files used by the new ones are not protected"
        )
    unclear_commands: list[str] = []
    for repository in git_reader.read_repositories(examined):
        folder = repository.folder
        if repository.git_dir and folder in config.writable_folders and folder.is_relative_to(repository.git_dir):
            raise SafetyError(
                f"safe mode protects nothing in {folder}: it belongs to the git repository {repository.git_dir}",
                format_folder_hint(folder, config.working_directory),
            )
        if repository.error:
            is_complete = False
            protected_paths.add_warning(
                f"git cannot report its configuration for {folder} ({repository.error}): programs named there may "
                "be unprotected"
            )
        unclear_commands += (
            f"{name}: {format_one_line(text, 100)}" for name, text in repository.unclear_commands.items()
        )
        _protect_repository(repository, protected_paths)
    if commands := list(dict.fromkeys(unclear_commands)):
        protected_paths.add_warning(_format_unclear_commands(commands))
    return is_complete


def _protect_repository(repository: GitRepository, protected_paths: ProtectedPaths) -> None:
    for path in repository.paths:
        protected_paths.protect(path.path, path.placeholder_type, used_by="git")
    for submodule in repository.submodules:
        protected_paths.protect(submodule, "folder", used_by="git", reject_links=False)


def _format_unclear_commands(commands: Sequence[str]) -> str:
    more = f"; and {len(commands) - _MAX_NAMED_COMMANDS} more" if len(commands) > _MAX_NAMED_COMMANDS else ""
    has_python = any("python" in command for command in commands)
    advice = "; with python3 -I, modules in the folder are not imported" if has_python else ""
    return (
        f"git or other programs run commands whose files the model may be able to change or create "
        f"({'; '.join(commands[:_MAX_NAMED_COMMANDS])}{more}): after a run, read its changes with ask undo -n "
        f"before you use them, even git status{advice} {SHOWN_ONCE}"
    )


def _protect_search_path(config: SandboxConfig, protected_paths: ProtectedPaths) -> None:
    """Protect the folders on the user's PATH: any shell could run a program from them next.

    Python runs what is in the folder for its compiled modules, and in that of the user's packages, wherever it starts.
    """
    environment = config.user_environment
    users = dict.fromkeys(list_search_path(environment), "every shell (PATH contains it)")
    for name in ("PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"):
        if folder_name := environment.get(name):
            users[folder_name] = f"every Python ({name})"
    for entry, used_by in users.items():
        for folder in config.writable_folders:
            path = folder / entry
            if is_in_any(path, [folder]) or Path(os.path.realpath(path)).is_relative_to(folder):
                protected_paths.protect(path, "folder", used_by=used_by, reject_links=False)
    for path in find_linked_paths(config.user_environment, config.writable_folders):
        protected_paths.protect(path, "folder", used_by=f"other programs ({path} leads to it)", reject_links=False)


def _protect_direnv_watches(config: SandboxConfig, protected_paths: ProtectedPaths) -> None:
    """Protect what direnv reads at the user's next prompt, with a warning about files that are not known for that."""
    watches = find_direnv_watches(config.user_environment)
    for path in watches:
        protected_paths.protect(path, "folder", used_by="direnv", reject_links=False)
    names = [
        format_one_line(path.name)
        for path in watches
        if is_in_any(path, config.writable_folders)
        and os.path.isfile(path)
        and not (is_protected_name(path.name) or can_contain_secrets(path.name.lower()))
    ]
    if names:
        protected_paths.add_warning(
            f"read-only in this run, because direnv reads them again when they change: {join_names(names, 5)} "
            f"{SHOWN_ONCE}"
        )


def _protect_unconfined_programs(config: SandboxConfig, protected_paths: ProtectedPaths) -> None:
    """Protect what config.toml names and later runs start or trust, and the files that allowed tools run outside.

    There is a warning about the latter: what these import cannot be known.
    """
    for path, placeholder_type in config.configured_paths:
        protected_paths.protect(path, placeholder_type, used_by="ask (config.toml names it)", reject_links=False)
    for path in config.unconfined_programs:
        if is_in_any(path, config.writable_folders) or is_in_any(path.resolve(), config.writable_folders):
            protected_paths.protect(path, used_by="a tool outside the sandbox", reject_links=False)
            protected_paths.add_warning(
                f"{path} runs outside the sandbox: it is read-only in this run, but the model can change what it "
                "imports or reads from the folder"
            )


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
        self._scanned_folders: list[str] = []

    def scan(self, folder: Path) -> bool:
        """Search a folder breadth-first; return whether that was possible within the limits.

        The folder and the folders in it are searched completely: what calls write there must not make anything else
        invisible. Links are followed only if they lead to one of the writable folders.

        Raises:
            SafetyError: these have too many entries.
        """
        queue, low_priority_queue = deque([(str(folder), 0, False, False)]), deque[tuple[str, int, bool, bool]]()
        remaining_entries, is_complete = {True: MAX_TOP_ENTRIES, False: MAX_SCANNED_ENTRIES}, True
        while queue or low_priority_queue:
            # What packages contain is searched last, so that it does not use up the limit.
            current, depth, is_protected, is_low_priority = (queue or low_priority_queue).popleft()
            is_top = depth <= 1
            if remaining_entries[is_top] <= 0 and not is_top:
                return False
            if not os.access(current, os.R_OK | os.X_OK) and self._protected_paths.hide_unreadable(Path(current)):
                continue
            limit = remaining_entries[is_top] if is_top else min(remaining_entries[is_top], MAX_FOLDER_ENTRIES)
            entries, count = _list_relevant_entries(current, limit)
            remaining_entries[is_top] -= count
            if count > limit:
                is_complete = False
                if is_top:
                    raise SafetyError(
                        f"{folder} and the folders in it have more than {MAX_TOP_ENTRIES:,} files: safe mode cannot "
                        "find what it must protect",
                        "start in another folder",
                    )
            self._scanned_folders.append(current)
            is_bare = {entry.name for entry in entries}.issuperset(REPOSITORY_CONTENT)
            if is_bare and Path(current) not in self._writable_folders:
                self._protected_paths.protect(Path(current))
                self.repositories.append(Path(current))
                is_low_priority = True  # not skipped: a call can make any folder look like a repository
            for entry in entries:
                if self._visit_entry(entry, is_protected=is_protected):
                    is_low = is_low_priority or entry.name in _LOW_PRIORITY_NAMES
                    is_entry_protected = is_protected or is_protected_name(entry.name)
                    target_queue = low_priority_queue if is_low and depth > 0 else queue
                    target_queue.append((entry.path, depth + 1, is_entry_protected, is_low))
        return is_complete

    def hide_other_names(self) -> None:
        """Hide the other names of hidden files (hard links): a call may have made one before the file had secrets."""
        hidden_ids = set[tuple[int, int]]()
        for path in self.hidden_paths:
            with suppress(OSError):
                status = path.stat()
                if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                    hidden_ids.add((status.st_dev, status.st_ino))
        inodes = {inode for _, inode in hidden_ids}
        for folder in self._scanned_folders if hidden_ids else ():
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.inode() in inodes and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if (status.st_dev, status.st_ino) in hidden_ids:
                            self.hidden_paths.append(Path(entry.path))

    def _visit_entry(self, entry: os.DirEntry[str], *, is_protected: bool) -> bool:
        """Add an entry to the findings; return whether it is a folder to search."""
        has_protected_name, is_link = is_protected_name(entry.name), entry.is_symlink()
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
        """Return the paths of an earlier scan that are still there; where that cannot be seen, hide their folder.

        If the user has moved a folder and left a link to it, the paths are the new ones.
        """
        resolved = (Path(os.path.realpath(path)) for path in paths if not os.path.islink(path))
        return [
            path
            for path in resolved
            if not self._protected_paths.hide_unreadable(path)
            and is_in_any(path, self._writable_folders)
            and os.path.lexists(path)
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
        is_placeholder = is_protected_name(entry.name) and is_empty(target)
        if is_placeholder or is_virtual_environment(target) or not os.path.exists(target):
            return False
        self.hidden_paths.append(target)
        return True


def _list_relevant_entries(folder: str, limit: int) -> tuple[list[os.DirEntry[str]], int]:
    """Return the entries of a folder that are folders, links or have a name that matters, and how many it has.

    If there are more than `limit`, or the folder cannot be read to its end, the count is `limit + 1`: what cannot be
    seen may be there.
    """
    relevant, count = [], 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > limit:
                    break
                name = entry.name
                if (
                    is_protected_name(name)
                    or name in REPOSITORY_CONTENT
                    or not entry.is_file(follow_symlinks=False)
                    or can_contain_secrets(name.lower())
                ):
                    relevant.append(entry)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # Of those without permission, `ProtectedPaths.hide_unreadable` has hidden what a call could make readable.
        pass
    except OSError:
        count = limit + 1
    return relevant, count


def _list_entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
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
