"""Paths that have to stay as they are: resolved, held by placeholders, and checked for links that could be replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.errors import SafetyError

PlaceholderCreator = Callable[[Mapping[Path, bool]], None]
"""Creates placeholders: a path without links, and whether it has to be a folder (or else an empty file).

Paths that are there but empty are passed, too: they can be the placeholders of another run.
"""

_MAX_LINKS = 40
_MAX_NAME_LENGTH = 255


class ProtectedPaths:
    """Collects paths in the writable folders that have to stay as they are, and makes them free of links.

    Attributes:
        warnings: what is not covered.
    """

    def __init__(self, writable_folders: Sequence[Path]) -> None:
        self._writable_folders = writable_folders
        self._existing_paths: dict[Path, None] = {}
        self._placeholders: dict[Path, bool] = {}
        self._links: dict[Path, str] = {}
        self.warnings: list[str] = []

    def add_warning(self, warning: str) -> None:
        """Add a warning, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def protect_all(self, paths: Iterable[Path], placeholder_type: str = "") -> None:
        """Protect each of the paths, see `protect`."""
        for path in paths:
            self.protect(path, placeholder_type)

    def protect(
        self,
        path: Path,
        placeholder_type: str = "",
        *,
        used_by: str = "other programs",
        reject_links: bool | None = None,
    ) -> None:
        """Protect where a path leads, and each link on the way.

        Args:
            path: an absolute path.
            placeholder_type: what to hold its place with while it is missing, see `GitPath`.
            used_by: what uses it, for a warning.
            reject_links: whether to raise, not to warn, if a link on the way can be replaced; by default with a placeholder.

        Raises:
            SafetyError: a link on the way could be replaced.
        """
        target, links = resolve_links(path)
        for link in links:
            self._protect_link(
                link, used_by, reject_links=bool(placeholder_type) if reject_links is None else reject_links
            )
        root = next((folder for folder in self._writable_folders if target.is_relative_to(folder)), None)
        if any(folder.is_relative_to(target) for folder in self._writable_folders):
            self.add_warning(f"{target} is used by {used_by} and cannot be protected: calls can write there")
        elif root is not None:
            first = next((one for one in _list_path_steps(root, target) if _is_replaceable(one, target)), target)
            exists = os.path.lexists(first)
            if exists and not is_empty(first):
                self._existing_paths[first] = None
            elif (exists and first == target) or (
                placeholder_type and len(os.fsencode(first.name)) <= _MAX_NAME_LENGTH
            ):
                is_folder = os.path.isdir(first) if exists else first != target or placeholder_type == "folder"
                self._placeholders.setdefault(first, is_folder)

    def _protect_link(self, link: Path, used_by: str, *, reject_links: bool) -> None:
        """A link cannot be mounted over, so the folder that it is in has to be read-only."""
        if not is_in_any(link, self._writable_folders):
            return
        if not any(folder.is_relative_to(link.parent) for folder in self._writable_folders):
            self._links.setdefault(link, used_by)
        elif reject_links:
            raise SafetyError(f"{link} is a link, which --safe cannot protect", "put the file or folder itself there")
        else:
            self.add_warning(f"{link} is used by {used_by} and cannot be protected: it is a link")

    def finalize(self, create_placeholders: PlaceholderCreator) -> list[Path]:
        """Create the placeholders, and return all protected paths that are in no other.

        Raises:
            SafetyError: one could not be created.
        """
        create_placeholders(self._placeholders)
        for path in self._placeholders:
            if not os.path.lexists(path) and os.access(path.parent, os.W_OK):
                raise SafetyError(f"--safe cannot create the placeholder {path}", "check whether the disk is full")
        paths = [*self._existing_paths, *(path for path in self._placeholders if os.path.lexists(path))]
        for link, used_by in self._links.items():
            if not is_in_any(link, paths):
                paths.append(link.parent)
                self.add_warning(
                    f"{link.parent} is read-only in this run: {link.name} in it is a link used by {used_by}"
                )
        known = set(paths)
        return [path for path in dict.fromkeys(paths) if known.isdisjoint(path.parents)]


def is_in_any(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path is one of the folders, or in one of them."""
    return any(path.is_relative_to(folder) for folder in folders)


def _list_path_steps(root: Path, target: Path) -> list[Path]:
    """The steps from a folder to a path in it."""
    steps = [target, *target.parents]
    return steps[: steps.index(root)][::-1]


def _is_replaceable(path: Path, target: Path) -> bool:
    """Whether something else could be put there: it is missing, empty, or a file on the way to the target."""
    return is_empty(path) or not os.path.lexists(path) or (path != target and not os.path.isdir(path))


def is_empty(path: Path) -> bool:
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(path) as entries:
                return next(entries, None) is None
        return stat.S_ISREG(status.st_mode) and status.st_size == 0
    return False


def resolve_links(path: Path) -> tuple[Path, list[Path]]:
    """Resolve a path as os.path.realpath does, and also return the links on the way."""
    links: list[Path] = []
    current = Path("/")
    waiting = list(reversed(path.parts[1:]))
    while waiting:
        part = waiting.pop()
        if part in ("", ".", ".."):
            current = current.parent if part == ".." else current
            continue
        following = current / part
        try:
            target = os.readlink(following)
        except (OSError, ValueError):
            current = following
            continue
        links.append(following)
        if len(links) > _MAX_LINKS:  # a loop
            return following, links[:1]
        current = Path("/") if target.startswith("/") else current
        waiting += reversed(target.split("/"))
    return current, links
