"""The configuration of a sandbox and the bubblewrap arguments built from it.

This module reads no files and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

TEMPORARY_FOLDER = "/tmp"  # noqa: S108 - this is the sandbox's /tmp
SANDBOX_MARKER_PATH = "/run/ask-sandbox"
"""A file in every sandbox. After the last mount, bubblewrap copies it from a pipe until that is closed."""


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


DEFAULT_LIMITS = Limits()


class SandboxConfig(NamedTuple):
    """The paths, environment and limits of a sandbox.

    All paths are absolute and resolved; `path_policy.build_sandbox_config` checks them.
    """

    working_directory: Path
    """The working directory, which is writable."""
    allowed_folders: tuple[Path, ...]
    """Additional writable folders."""
    readable_folders: tuple[Path, ...]
    """Readable folders other than the system's: toolchains, Python, ask's own code."""
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
    limits: Limits = DEFAULT_LIMITS
    user_environment: Mapping[str, str] = MappingProxyType({})
    """The user's environment outside, by which other programs find their configuration."""

    @property
    def writable_folders(self) -> tuple[Path, ...]:
        """The writable folders, parents before their subfolders."""
        return tuple(sorted({self.working_directory, *self.allowed_folders}))

    @property
    def outermost_folders(self) -> tuple[Path, ...]:
        """The writable folders that are not inside another one."""
        folders = self.writable_folders
        return tuple(
            folder for folder in folders if not any(folder.is_relative_to(other) for other in {*folders} - {folder})
        )


class HostFilesystem(NamedTuple):
    """The paths of the host that matter to a sandbox, as they are when it is started."""

    root_links: tuple[tuple[str, Path], ...]
    """Targets and paths of the links in the root folder, such as /bin."""
    system_folders: tuple[Path, ...]
    """System folders, mounted read-only."""
    pinned_folders: tuple[Path, ...]
    """Folders in the writable ones that cannot be moved, because they contain protected paths."""
    protected_paths: tuple[Path, ...]
    """Files and folders in the writable folders that are mounted read-only."""
    hidden_files: tuple[Path, ...]
    """Files that cannot be read."""
    hidden_folders: tuple[Path, ...]
    """Folders that are covered with empty ones."""


class BindMount(NamedTuple):
    """A file or folder of the host that is mounted in the sandbox."""

    source: Path
    destination: Path
    writable: bool = False


def list_bind_mounts(config: SandboxConfig, filesystem: HostFilesystem) -> list[BindMount]:
    """List the mounts from the host in order, without those that a later one would cover."""
    writable = sorted({*config.writable_folders, *filesystem.pinned_folders})
    readable = [
        path for path in sorted(config.readable_folders) if {path, *path.parents}.isdisjoint(config.writable_folders)
    ]
    protected = [
        path for path in sorted(filesystem.protected_paths) if {*path.parents}.isdisjoint(filesystem.protected_paths)
    ]
    return [
        *(BindMount(path, path) for path in (*filesystem.system_folders, *readable)),
        *(BindMount(path, path, writable=True) for path in writable if {*path.parents}.isdisjoint(protected)),
        *(BindMount(path, path) for path in protected),
        *(BindMount(Path("/dev/null"), path) for path in sorted(filesystem.hidden_files)),
        BindMount(config.overflow_directory, config.overflow_directory),
    ]


def build_bubblewrap_arguments(
    config: SandboxConfig,
    filesystem: HostFilesystem,
    command: Sequence[str],
    *,
    filter_fd: int,
    info_fd: int,
    mounted_fd: int,
) -> list[str]:
    """Build the arguments that make bubblewrap run `command` as process 1 of the sandbox.

    bubblewrap reads the seccomp filter from `filter_fd` and writes the command's process id to `info_fd`. When
    everything is mounted, it reads `mounted_fd` to its end before it continues.
    """
    namespaces = "--unshare-user --disable-userns --unshare-ipc --unshare-pid --unshare-uts --unshare-net"
    process_options = "--unshare-cgroup-try --cap-drop ALL --new-session --die-with-parent --as-pid-1"
    return [
        *namespaces.split(),
        *process_options.split(),
        *("--seccomp", str(filter_fd)),
        *("--info-fd", str(info_fd)),
        *_build_mount_arguments(config, filesystem),
        *("--file", str(mounted_fd), SANDBOX_MARKER_PATH),
        # Read-only from here on: the mount points above have been created, and nothing can be added next to them.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(config.working_directory)),
        "--",
        *command,
    ]


def _build_mount_arguments(config: SandboxConfig, filesystem: HostFilesystem) -> Iterator[str]:
    """Yield the mount arguments; parents come before their subfolders."""
    for target, link in filesystem.root_links:
        yield from ("--symlink", target, str(link))
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var")
    size = str(config.limits.temporary_size)
    for path in sorted({TEMPORARY_FOLDER, "/var/tmp", "/dev/shm", str(config.home)}):  # noqa: S108
        yield from ("--size", size, "--perms", "1777", "--tmpfs", path)
    for bind in list_bind_mounts(config, filesystem):
        yield from ("--bind" if bind.writable else "--ro-bind", str(bind.source), str(bind.destination))
    for folder in filesystem.hidden_folders:
        yield from ("--perms", "0555", "--tmpfs", str(folder), "--remount-ro", str(folder))
