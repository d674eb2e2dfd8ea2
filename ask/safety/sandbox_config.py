"""The configuration of a sandbox: folders, limits (enforced by `limit_monitor`) and environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from ask.records import NamedTuple
from ask.safety.git_worktrees import OuterRepository

INHERITED_VARIABLES = ("PATH", "LANG", "TERM")
"""The environment variables that calls in the sandbox see, besides those that the user names."""


def select_outermost(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are not inside another one, each once."""
    unique = dict.fromkeys(paths)
    return [path for path in unique if unique.keys().isdisjoint(path.parents)]


class Limits(NamedTuple):
    """Resource limits of all calls together; sizes are in bytes."""

    processes: int = 256
    """Maximum number of processes and threads at a time."""
    memory: int = 4 << 30
    file_size: int = 1 << 30
    output_size: int = 1 << 20
    """Maximum size of the output that is kept, and of each overflow file."""
    temporary_size: int = 1 << 30
    """Maximum size of each temporary file system."""


class SandboxConfig(NamedTuple):
    """The paths, environment and limits of a sandbox.

    All paths are absolute and resolved; `sandbox_folders.build_sandbox_config` checks them.
    """

    working_directory: Path
    """The working directory, which is writable."""
    allowed_folders: tuple[Path, ...]
    """Additional writable folders."""
    readable_folders: tuple[Path, ...]
    """Readable folders other than the system's: toolchains, Python, ask's own code, long outputs of earlier runs."""
    secret_folders: tuple[Path, ...]
    """ask's configuration and data folders, which must not be accessible; the self-test checks this."""
    overflow_directory: Path
    """The folder for long outputs, which is readable."""
    state_folder: Path
    """The folder for the manifests of placeholders."""
    home: Path
    """The user's home directory, which is covered with an empty one."""
    environment: Mapping[str, str]
    """The environment variables of all processes in the sandbox."""
    limits: Limits = Limits()
    user_environment: Mapping[str, str] = MappingProxyType({})
    """The user's environment outside, by which other programs find their configuration."""
    outer_repositories: tuple[OuterRepository, ...] = ()
    """The git repositories of the writable folders that are stored outside them."""
    readable_repository_paths: tuple[Path, ...] = ()
    """The files and folders of these repositories that are readable."""
    unconfined_programs: tuple[Path, ...] = ()
    """The files that allowed tools run outside the sandbox, with links unresolved."""
    configured_paths: tuple[tuple[Path, str], ...] = ()
    """The files and folders that config.toml names and later runs trust, with links unresolved, and their types."""

    @property
    def writable_folders(self) -> tuple[Path, ...]:
        """The writable folders, parents before their subfolders."""
        return tuple(sorted({self.working_directory, *self.allowed_folders}))

    @property
    def outermost_folders(self) -> tuple[Path, ...]:
        """The writable folders that are not inside another one."""
        return tuple(select_outermost(self.writable_folders))


class HostFilesystem(NamedTuple):
    """The paths of the host that matter to a sandbox, as they are when it is started."""

    root_links: tuple[tuple[str, Path], ...] = ()
    """Targets and paths of the links in the root folder, such as /bin."""
    system_folders: tuple[Path, ...] = ()
    """System folders, mounted read-only."""
    pinned_folders: tuple[Path, ...] = ()
    """Folders in the writable ones that cannot be moved, because they contain protected paths."""
    protected_paths: tuple[Path, ...] = ()
    """Files and folders in the writable folders that are mounted read-only."""
    crowded_folders: tuple[Path, ...] = ()
    """Folders in the writable ones that are mounted read-only as a whole, because too much in them is protected."""
    hidden_files: tuple[Path, ...] = ()
    """Files that cannot be read."""
    hidden_folders: tuple[Path, ...] = ()
    """Folders that are covered with empty ones."""

    @property
    def hidden_paths(self) -> tuple[Path, ...]:
        return (*self.hidden_files, *self.hidden_folders)

    @property
    def read_only_paths(self) -> tuple[Path, ...]:
        """The paths in the writable folders that no call can change."""
        return (*self.protected_paths, *self.crowded_folders)
