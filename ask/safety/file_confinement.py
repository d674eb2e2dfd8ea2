"""Safe mode without a sandbox: the file tools are confined to some folders by path checks, and nothing is run.

`ask.tools.file_access` walks every path from the descriptor of its folder and asks `FileConfinement.find_denial` about
each link on it and about the result. The names of `PROTECTED_NAMES`, and those of files with secrets, are checked then,
wherever they are. The paths that git uses, and the targets of links, are determined once, at the start: a file tool
follows links, so no call can replace one.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ask.atomic_files import FOLDER_FLAGS, create_private_folder
from ask.config.secret_files import can_contain_secrets, is_virtual_environment
from ask.errors import SafetyError
from ask.safety.folder_scan import inspect_filesystem
from ask.safety.protected_paths import is_protected_name
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.tools.base import FolderConfinement, RunToolContext, ToolError
from ask.tools.file_access import HIDDEN_REASON, open_target

_PROTECTED = "is read-only in safe mode: other programs run it or trust it"


class FileConfinement:
    """Confines the file tools of a run to its folders.

    Attributes:
        context: what the file tools need to know.
        warnings: gaps in the protection of the folders.

    Raises:
        SafetyError: a folder cannot be confined.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self.context = FolderConfinement({}, self.find_denial, self.is_hidden_file)
        try:
            filesystem, self.warnings = inspect_filesystem(config, None, HostFilesystem())
            create_private_folder(config.overflow_directory)
            folders = (*config.writable_folders, *config.readable_folders, config.overflow_directory)
            self.context = self.context._replace(folders={path: os.open(path, FOLDER_FLAGS) for path in folders})
        except OSError as error:
            path = error.filename or config.working_directory
            raise SafetyError(f"safe mode cannot use {path} ({error.strerror})", "check its permissions") from error
        self._protected_paths = _normalize_paths(filesystem.protected_paths)
        self._hidden_files, self._hidden_folders = filesystem.hidden_files, filesystem.hidden_folders
        self._hidden_paths = _normalize_paths(filesystem.hidden_paths)

    def find_denial(self, path: Path, for_writing: bool) -> str:
        """Return why a path must not be read, or written; "" if it may be.

        The path is in one of the folders. All folders on it, but not necessarily itself, are resolved.
        """
        if any(map(path.is_relative_to, (*self._config.readable_folders, self._config.overflow_directory))):
            return "is read-only" if for_writing else ""
        # The innermost folder: a path is sorted after those above it.
        root = max(folder for folder in self._config.writable_folders if path.is_relative_to(folder))
        current = root
        for name in path.relative_to(root).parts:
            current /= name
            normalized, normalized_path = normalize_name(name), _normalize_path(current)
            if normalized_path in self._hidden_paths or (
                can_contain_secrets(normalized) and not is_virtual_environment(current)
            ):
                return HIDDEN_REASON
            if for_writing and (is_protected_name(normalized) or normalized_path in self._protected_paths):
                return _PROTECTED
        return ""

    def is_hidden_file(self, status: os.stat_result) -> bool:
        """Check whether a file is a hidden one, or one of ask's own, that has a second name (a hard link)."""
        if status.st_nlink < 2:
            return False
        path = self._hidden_paths_by_id.get((status.st_dev, status.st_ino))
        return path is not None and _read_file_id(path) == (status.st_dev, status.st_ino)

    @cached_property
    def _hidden_paths_by_id(self) -> Mapping[tuple[int, int], str]:
        """The hidden files by device and inode, determined when a call first reads a file with several names."""
        folders = (*self._config.secret_folders, *self._hidden_folders)
        walked = (os.path.join(parent, name) for top in folders for parent, _, names in os.walk(top) for name in names)
        paths = (*map(str, self._hidden_files), *walked)
        return {file_id: path for path in paths if (file_id := _read_file_id(path))}

    def run_self_test(self) -> Iterator[tuple[str, bool]]:
        """Try to get out of the folders; yield the name of each attempt, and whether it was prevented."""
        context = RunToolContext(
            self._config.working_directory, {}, 0, self._config.overflow_directory, print, confinement=self.context
        )
        link = self._config.overflow_directory / "self-test-link"
        link.symlink_to(self._config.secret_folders[0])
        try:
            for name, path, for_writing in (
                ("reading ask's configuration and data", self._config.secret_folders[0], False),
                ("following a link to them", link, False),
                ("changing what is protected", self._config.working_directory / ".git/config", True),
                ("writing outside", Path("/ask-self-test"), True),
            ):
                try:
                    with open_target(path, context, for_writing=for_writing):
                        yield name, False
                except ToolError:
                    yield name, True
        finally:
            link.unlink()

    def close(self) -> None:
        """Close the folders. Later calls fail."""
        for descriptor in self.context.folders.values():
            os.close(descriptor)
        self.context = self.context._replace(folders={})
        with suppress(OSError):  # not empty if there are overflow files
            self._config.overflow_directory.rmdir()


def _read_file_id(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def normalize_name(name: str) -> str:
    """Normalize a file name so that names of the same file on macOS are equal.

    Its file systems ignore case and Unicode composition, and HFS+ also ignores invisible characters (CVE-2014-9390).
    """
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", visible).casefold())


def _normalize_path(path: Path) -> tuple[str, ...]:
    return tuple(map(normalize_name, path.parts))


def _normalize_paths(paths: Iterable[Path]) -> frozenset[tuple[str, ...]]:
    return frozenset(map(_normalize_path, paths))
