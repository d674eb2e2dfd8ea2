"""The folders that a run in safe mode may read and write, resolved once; `refused_folders` checks them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.config.directories import SAFE_STATE_FOLDER, get_logical_path
from ask.config.foreign_links import find_foreign_link
from ask.config.symbolic_links import resolve_links
from ask.errors import SafetyError
from ask.safety.bubblewrap import TEMPORARY_FOLDER
from ask.safety.git_paths import find_git
from ask.safety.git_worktrees import OuterRepository, build_git_environment, find_outer_repositories
from ask.safety.refused_folders import (
    HOST_FOLDERS,
    PACKAGE_FOLDER,
    PYTHON_PREFIXES,
    SYSTEM_FOLDERS,
    check_folders,
    check_homes,
    check_python,
    resolve_path,
)
from ask.safety.sandbox_config import INHERITED_VARIABLES, SandboxConfig
from ask.safety.scan_record import read_hidden_paths, read_scanned_folders
from ask.safety.toolchains import find_toolchains

_FALLBACK_HOME = Path("/run/home")


def build_sandbox_config(
    working_directory: Path,
    allowed_folders: Sequence[Path] = (),
    *,
    config_dir: Path,
    cache_dir: Path,
    data_dir: Path,
    overflow_directory: Path,
    environment: Mapping[str, str],
    extra_variables: Iterable[str] = (),
    runs_commands: bool = True,
    allow_git: bool = False,
) -> SandboxConfig:
    """Build the sandbox configuration of a run.

    `allowed_folders` are writable in addition to the working directory. `overflow_directory` receives the long outputs
    of this run; it is in `data_dir`, which is otherwise hidden, and can be read in the sandbox. `environment` is the
    user's; calls see only `INHERITED_VARIABLES` and `extra_variables` of it. Only commands need toolchains.
    With `allow_git`, the folders' git repositories are readable even if they are stored outside.

    Raises:
        SafetyError: a folder does not exist, or making it writable would defeat the sandbox.
    """
    homes = _find_home_folders(environment)
    secret_folders = (resolve_path(config_dir), resolve_path(data_dir))
    state_folder = secret_folders[1] / SAFE_STATE_FOLDER
    changeable_folders = read_scanned_folders(state_folder)
    hidden_paths = [*map(Path, read_hidden_paths(state_folder))]
    named_folders = (get_logical_path(working_directory, environment), *allowed_folders)
    folders = [_resolve_folder(folder, changeable_folders, hidden_paths) for folder in named_folders]
    check_folders(folders, homes, (*secret_folders, resolve_path(cache_dir)), environment)
    private_folders, home = (*homes, *secret_folders), _choose_covered_home(homes[0])
    readable, repositories = dict[Path, None](), tuple[OuterRepository, ...]()
    if runs_commands:
        check_homes(homes)
        check_python(private_folders)
        toolchains = find_toolchains(environment.get("PATH", ""), private_folders, [*changeable_folders])
        readable = dict.fromkeys((*PYTHON_PREFIXES, PACKAGE_FOLDER, *toolchains))
        git = find_git(environment, folders)
        repositories = tuple(find_outer_repositories(sorted({*folders}), (*homes, *hidden_paths), secret_folders, git))
    repository_paths = tuple(dict.fromkeys(path for each in repositories for path in each.paths)) if allow_git else ()
    return SandboxConfig(
        working_directory=folders[0],
        allowed_folders=tuple(folders[1:]),
        readable_folders=tuple(path for path in readable if not any(map(path.is_relative_to, SYSTEM_FOLDERS))),
        secret_folders=secret_folders,
        overflow_directory=resolve_path(overflow_directory),
        state_folder=state_folder,
        home=home,
        environment={
            "LANG": "C.UTF-8",
            **(build_git_environment() if repository_paths else {}),
            **{name: environment[name] for name in (*INHERITED_VARIABLES, *extra_variables) if name in environment},
            "HOME": str(home),
            "TMPDIR": TEMPORARY_FOLDER,
        },
        user_environment=environment,
        outer_repositories=repositories,
        readable_repository_paths=repository_paths,
    )


def _choose_covered_home(home: Path) -> Path:
    """Return the folder that is covered with an empty one: the home, unless that overlaps system folders."""
    hides_system = any(home.is_relative_to(path) or Path(path).is_relative_to(home) for path in HOST_FOLDERS)
    return _FALLBACK_HOME if hides_system else home


def _resolve_folder(folder: Path, changeable_folders: Mapping[Path, float], hidden_paths: Sequence[Path]) -> Path:
    """Resolve a folder that is to be writable.

    Raises:
        SafetyError: there is none, or a link on the way leads out of a folder where calls of earlier runs could write,
            or to what was hidden from them.
    """
    if not os.path.isdir(folder):  # also not, if there are more links than the kernel follows
        problem = f"{folder} is not a folder" if os.path.exists(folder) else f"the folder {folder} does not exist"
        raise SafetyError(problem, "use an existing folder")
    resolved, links = resolve_links(folder.absolute())
    if link := find_foreign_link(resolved, links, changeable_folders, hidden_paths):
        raise SafetyError(
            f"{link} is a symbolic link, which a run in safe mode may have created",
            f"name the folder that it leads to ({resolved}), or replace the link",
        )
    return resolved


def _find_home_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the home directories from the environment and from the user database."""
    import pwd

    homes = [environment.get("HOME", "")]
    with suppress(KeyError):  # in a container, the user may be missing from the database
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    return [resolve_path(name) for name in homes if name.startswith("/")] or [_FALLBACK_HOME]


def check_folders_unmoved(config: SandboxConfig) -> None:
    """Check that no call has replaced a writable folder with a link.

    Raises:
        SafetyError: a folder was replaced or removed.
    """
    for folder in config.writable_folders:
        if os.path.realpath(folder) != str(folder) or not os.path.isdir(folder):
            raise SafetyError(f"{folder} was replaced after the start", "start again")
