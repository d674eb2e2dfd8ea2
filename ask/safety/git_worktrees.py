"""The git repository of a writable folder, if it is stored outside: in a folder above, or that of a linked worktree or
a submodule.

A `.git` file may have been written by a call of an earlier run. It is therefore followed only if the repository that it
names refers back to its folder. A call can also make another folder look like such a repository, but cannot rename one
that contains secrets, nor move these. Therefore, the repository must have a name that only repositories have, and
contain nothing that git did not put there, and nothing that was hidden in an earlier run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from ask.records import NamedTuple
from ask.safety.git_paths import GitReader, read_start

REPOSITORY_CONTENT = ("HEAD", "objects", "refs")
"""The names by which git recognizes a repository."""
_BARE_SUFFIXES = (".git", ".bare")
"""How the names of bare repositories end."""
_BARE_CONTENT = re.compile(
    r"(?:[A-Z_]+_)?HEAD|(?:COMMIT|TAG|NOTES)_EDITMSG|EDIT_DESCRIPTION|config(?:\.worktree)?|description|hooks|info|objects"
    r"|refs|packed-refs|reftable|logs|index|shallow|branches|worktrees|modules|rr-cache|gc\.(?:log|pid)|lfs|annex"
    r"|git-daemon-export-ok|.*\.lock"
)
"""What git and its extensions put into the top of a bare repository."""


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
    writable_folders: Sequence[Path], private_paths: Sequence[Path], secret_folders: Sequence[Path], git: str | None
) -> Iterator[OuterRepository]:
    """Yield the repositories of writable folders that are stored outside all of them.

    No folder that contains one of `private_paths` is made readable, and nothing in `secret_folders` is. `git` decides
    whether a file `.git` leads to a repository.
    """
    for folder in writable_folders:
        top = next((path for path in (folder, *folder.parents) if _is_repository(path / ".git")), None)
        if top is None:
            continue
        found = _examine_repository(folder, top, git)
        outside = tuple(path for path in found.paths if not any(map(path.is_relative_to, writable_folders)))
        private = [path for path in (*private_paths, *secret_folders) if any(map(path.is_relative_to, outside))]
        if private or any(path.is_relative_to(secret) for path in outside for secret in secret_folders):
            yield OuterRepository(folder, top, reason=f"{found.paths[0]} contains private files or folders")
        elif outside or found.reason:
            yield found._replace(paths=outside)


def _is_repository(path: Path) -> bool:
    """Check whether git would look no further than this `.git`."""
    return os.path.isfile(path) or has_repository_content(path)


def has_repository_content(folder: Path) -> bool:
    """Check whether git recognizes a folder as a repository. Its objects and refs may be where `commondir` leads."""
    return any(
        all(os.path.lexists(folder / name) for name in names) for names in (REPOSITORY_CONTENT, ("HEAD", "commondir"))
    )


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
    # That of a linked worktree is .git/worktrees/NAME.
    common = git_dir.parents[1] if git_dir.parent.name == "worktrees" else git_dir
    if reason := _find_wrong_reference(git_dir, common, top, git) or _find_foreign_content(common):
        return OuterRepository(folder, top, reason=reason)
    return OuterRepository(folder, top, (common, dot_git), alternates=_read_alternates(common))


def _find_wrong_reference(git_dir: Path, common: Path, top: Path, git: str | None) -> str:
    """Return why a repository is not that of the folder whose `.git` file names it, or ""."""
    with GitReader(git, {}) if git else nullcontext() as reader:
        if not reader or reader.read_repositories([top])[0].git_dir != git_dir:
            return f"git does not recognize the repository {git_dir}"
        worktree = reader.read_setting(git_dir / "config", "core.worktree")
    # Without a name, "?" is used: with "", the path would be that of the repository itself.
    if common == git_dir:
        names_top = os.path.realpath(git_dir / (worktree or "?")) == str(top)
        # With this file, git would use the objects and the configuration of another repository.
        names_top &= not os.path.lexists(git_dir / "commondir")
    else:
        name = os.fsdecode(read_start(git_dir / "gitdir").partition(b"\0")[0].strip())
        names_top = os.path.realpath(git_dir / (name or "?")) == str(top / ".git")
    return "" if names_top and _is_repository(common) else f"{git_dir} does not refer back to {top}"


def _find_foreign_content(common: Path) -> str:
    """Return why a folder may contain other files than those of a repository, or ""."""
    if ".git" in common.parts:
        return ""
    if not common.name.endswith(_BARE_SUFFIXES):
        return f"{common} is not named .git"
    foreign = sorted(name for name in os.listdir(common) if not _BARE_CONTENT.fullmatch(name))
    return f"{common} contains {foreign[0]}, which is not a file of git" if foreign else ""


def read_gitfile(path: Path) -> Path | None:
    """Return the repository that a `.git` file points to, even if it does not exist: a call could create it."""
    if os.path.isfile(path):
        prefix, _, name = read_start(path).partition(b"\0")[0].partition(b"gitdir:")
        return path.parent / os.fsdecode(name.strip()) if name.strip() and not prefix else None
    return None


def _read_alternates(git_dir: Path) -> tuple[str, ...]:
    text = read_start(git_dir / "objects/info/alternates").decode(errors="replace")
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
