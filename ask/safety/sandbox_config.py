"""What a sandbox looks like: bubblewrap's arguments from a description. Pure: it looks at no file and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

TEMPORARY_FOLDER = "/tmp"  # noqa: S108 - the sandbox's own
SANDBOX_MARKER_PATH = "/run/ask-sandbox"
"""A file in every sandbox. bubblewrap writes it after the last mount, from a pipe, and waits for the end of that."""


class Limits(NamedTuple):
    """What the calls may use: processes (threads count) at a time, bytes of memory, of a file, of kept output."""

    processes: int = 256
    memory: int = 4 << 30
    file_size: int = 1 << 30
    output_size: int = 1 << 20
    temporary_size: int = 1 << 30


DEFAULT_LIMITS = Limits()


class SandboxConfig(NamedTuple):
    """What a run is confined to. All paths are absolute and resolved; `places.confine` makes it and refuses bad ones.

    Attributes:
        working_directory: the working directory, writable.
        allowed_folders: further writable directories.
        readable_folders: what can be read beside the system's folders: toolchains, Python, ask's own code.
        secret_folders: ask's configuration and data, which must be out of reach; the self-test tries.
        overflow_directory: where long outputs are kept; it can be read.
        state_folder: where ask notes what a run leaves in the writable directories.
        home: the user's home directory, in whose place is an empty one.
        environment: that of all processes inside.
        limits: what they may use.
        user_environment: the user's own; other programs of the user find their configuration by it.
    """

    working_directory: Path
    allowed_folders: tuple[Path, ...]
    readable_folders: tuple[Path, ...]
    secret_folders: tuple[Path, ...]
    overflow_directory: Path
    state_folder: Path
    home: Path
    environment: Mapping[str, str]
    limits: Limits = DEFAULT_LIMITS
    user_environment: Mapping[str, str] = MappingProxyType({})

    @property
    def writable_folders(self) -> tuple[Path, ...]:
        """The directories that can be written, each before those in it."""
        return tuple(sorted({self.working_directory, *self.allowed_folders}))

    @property
    def outermost_folders(self) -> tuple[Path, ...]:
        """Those of them that are not in another one."""
        folders = self.writable_folders
        return tuple(one for one in folders if not any(one.is_relative_to(other) for other in {*folders} - {one}))


class HostFilesystem(NamedTuple):
    """What is on this machine at the moment when a sandbox is opened.

    Attributes:
        root_links: links of the root directory, such as /bin, and where they lead.
        system_folders: the system's folders, read-only.
        pinned_folders: folders in the writable directories that keep their names, since something guarded is in them.
        protected_paths: files and folders in the writable directories that stay as they are.
        hidden_files: files that cannot be read.
        hidden_folders: folders in whose place is an empty one.
    """

    root_links: tuple[tuple[str, Path], ...]
    system_folders: tuple[Path, ...]
    pinned_folders: tuple[Path, ...]
    protected_paths: tuple[Path, ...]
    hidden_files: tuple[Path, ...]
    hidden_folders: tuple[Path, ...]


class BindMount(NamedTuple):
    """A file or folder of the host that is mounted in the sandbox; bubblewrap looks up both paths by name."""

    source: Path
    destination: Path
    writable: bool = False


def list_bind_mounts(config: SandboxConfig, filesystem: HostFilesystem) -> list[BindMount]:
    """List what is mounted from the host, in order, without what a later mount would cover."""
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
    """The arguments that make bubblewrap run `command`, as process 1, in the sandbox.

    Args:
        config: what the run may do.
        filesystem: what there is.
        command: what to run.
        filter_fd: a descriptor of the seccomp filter.
        info_fd: a descriptor that bubblewrap writes the process id of the command to.
        mounted_fd: a descriptor that bubblewrap reads to its end when everything is mounted, before it goes on.
    """
    walls = "--unshare-user --disable-userns --unshare-ipc --unshare-pid --unshare-uts --unshare-net"
    more = "--unshare-cgroup-try --cap-drop ALL --new-session --die-with-parent --as-pid-1"
    return [
        *walls.split(),
        *more.split(),
        *("--seccomp", str(filter_fd)),
        *("--info-fd", str(info_fd)),
        *_build_mount_arguments(config, filesystem),
        *("--file", str(mounted_fd), SANDBOX_MARKER_PATH),
        # What the mounts above needed is made by now: nothing else can be put beside them.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(config.working_directory)),
        "--",
        *command,
    ]


def _build_mount_arguments(config: SandboxConfig, filesystem: HostFilesystem) -> Iterator[str]:
    """The mounts, each behind those that it lies in."""
    for target, path in filesystem.root_links:
        yield from ("--symlink", target, str(path))
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var")
    size = str(config.limits.temporary_size)
    for place in sorted({TEMPORARY_FOLDER, "/var/tmp", "/dev/shm", str(config.home)}):  # noqa: S108
        yield from ("--size", size, "--perms", "1777", "--tmpfs", place)
    for bind in list_bind_mounts(config, filesystem):
        yield from ("--bind" if bind.writable else "--ro-bind", str(bind.source), str(bind.destination))
    for folder in filesystem.hidden_folders:
        yield from ("--perms", "0555", "--tmpfs", str(folder), "--remount-ro", str(folder))
