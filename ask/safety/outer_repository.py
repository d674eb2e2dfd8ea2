"""The git repository of a writable folder, if it is stored outside: in a folder above, or that of a linked worktree or
a submodule.

A `.git` file may have been written by a call of an earlier run. It is therefore followed only if the repository that it
names refers back to its folder. A call can also make another folder look like such a repository, but cannot rename one
that contains secrets. Therefore, the repository must have a name that only repositories have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.records import NamedTuple
from ask.safety.git_paths import GitReader

_MAX_FILE_SIZE = 10_000
REPOSITORY_CONTENT = ("HEAD", "objects", "refs")
"""The names by which git recognizes a repository."""
_BARE_SUFFIXES = (".git", ".bare")
"""How the names of bare repositories end."""


class OuterRepository(NamedTuple):
    """The repository that git uses in a writable folder, and what of it is outside the writable folders."""

    folder: Path
    """The writable folder."""
    top: Path
    """The folder that contains `.git`."""
    paths: tuple[Path, ...] = ()
    """The resolved folders and files that git needs to read; () if they must not be made readable."""
    reason: str = ""
    """Why `paths` is empty."""
    alternates: tuple[str, ...] = ()
    """Folders of other repositories from which it borrows objects."""


def find_outer_repositories(
    writable_folders: Sequence[Path], homes: Sequence[Path], secret_folders: Sequence[Path], git: str | None
) -> Iterator[OuterRepository]:
    """Yield the repositories of writable folders that are stored outside all of them.

    `homes` are never made readable as a whole, and nothing in `secret_folders` is. `git` reads a submodule's
    configuration.
    """
    for folder in writable_folders:
        top = next((path for path in (folder, *folder.parents) if _is_repository(path / ".git")), None)
        if top is None:
            continue
        found = _examine_repository(folder, top, git)
        outside = tuple(path for path in found.paths if not any(map(path.is_relative_to, writable_folders)))
        if any(private.is_relative_to(path) for path in outside for private in (*homes, *secret_folders)) or any(
            path.is_relative_to(secret) for path in outside for secret in secret_folders
        ):
            yield OuterRepository(folder, top, reason="it contains private folders")
        elif outside or found.reason:
            yield found._replace(paths=outside)


def _is_repository(path: Path) -> bool:
    """Check whether git would look no further than this `.git`."""
    return os.path.isfile(path) or all(os.path.lexists(path / name) for name in REPOSITORY_CONTENT)


def _examine_repository(folder: Path, top: Path, git: str | None) -> OuterRepository:
    dot_git = top / ".git"
    if os.path.islink(dot_git):
        return OuterRepository(folder, top, reason="its .git is a link")
    if os.path.isdir(dot_git):
        return OuterRepository(folder, top, (dot_git,), alternates=_read_alternates(dot_git))
    target = read_gitfile(dot_git)
    if target is None:
        return OuterRepository(folder, top, reason="its .git file is not valid")
    git_dir = Path(os.path.realpath(target))
    common = git_dir.parents[1] if git_dir.parent.name == "worktrees" else git_dir
    if common == git_dir:
        names_top = os.path.realpath(git_dir / (_read_worktree_setting(git_dir, git) or "?")) == str(top)
        names_top &= not os.path.lexists(git_dir / "commondir")
    else:
        names_top = os.path.realpath(git_dir / _read_line(git_dir / "gitdir")) == str(dot_git)
    if not names_top or not _is_repository(common):
        return OuterRepository(folder, top, reason=f"{git_dir} does not refer back to {top}")
    if ".git" not in common.parts and not common.name.endswith(_BARE_SUFFIXES):
        return OuterRepository(folder, top, reason=f"{common} is not named .git")
    return OuterRepository(folder, top, (common, dot_git), alternates=_read_alternates(common))


def read_gitfile(path: Path) -> Path | None:
    """Return the repository that a `.git` file points to, even if it does not exist: a call could create it."""
    if os.path.isfile(path):
        with suppress(OSError), path.open("rb") as file:
            prefix, _, name = file.read(_MAX_FILE_SIZE).partition(b"\0")[0].partition(b"gitdir:")
            return path.parent / os.fsdecode(name.strip()) if name.strip() and not prefix else None
    return None


def _read_line(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        return os.fsdecode(file.read(_MAX_FILE_SIZE).partition(b"\0")[0].strip()) or "?"
    return "?"


def _read_worktree_setting(git_dir: Path, git: str | None) -> str:
    """Return where the configuration of a submodule's repository says that its files are."""
    if not git:
        return ""
    with GitReader(git, {}) as reader:
        return reader.read_setting(git_dir / "config", "core.worktree")


def _read_alternates(git_dir: Path) -> tuple[str, ...]:
    text = ""
    with suppress(OSError, ValueError):
        text = (git_dir / "objects/info/alternates").read_text()[:_MAX_FILE_SIZE]
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def build_git_environment() -> Mapping[str, str]:
    """Build the variables with which git uses a repository that is mounted read-only in an otherwise empty folder.

    The files of a sandbox can have any owner, and nothing that git runs there leaves it.
    """
    return {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
