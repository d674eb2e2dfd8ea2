"""What a sandbox looks like: bubblewrap's arguments from a description. Pure: it looks at no file and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

TEMPORARY = "/tmp"  # noqa: S108 - the sandbox's own
SANDBOX_MARK = "/run/ask-sandbox"
"""A file in every sandbox. bubblewrap writes it after the last mount, from a pipe, and waits for the end of that."""


class Limits(NamedTuple):
    """What the calls may use: processes (threads count) at a time, bytes of memory, of a file, of kept output."""

    processes: int = 256
    memory: int = 4 << 30
    file_size: int = 1 << 30
    output: int = 1 << 20
    temporary: int = 1 << 30


DEFAULT_LIMITS = Limits()


class Confinement(NamedTuple):
    """What a run is confined to. All paths are absolute and resolved; `places.confine` makes it and refuses bad ones.

    Attributes:
        directory: the working directory, writable.
        allowed: further writable directories.
        readable: what can be read beside the system's folders: toolchains, Python, ask's own code.
        secret: ask's configuration and data, which must be out of reach; the self-test tries.
        spill: where long outputs are kept; it can be read.
        state: where ask notes what a run leaves in the writable directories.
        home: the user's home directory, in whose place is an empty one.
        environment: that of all processes inside.
        limits: what they may use.
        user_environment: the user's own; other programs of the user find their configuration by it.
    """

    directory: Path
    allowed: tuple[Path, ...]
    readable: tuple[Path, ...]
    secret: tuple[Path, ...]
    spill: Path
    state: Path
    home: Path
    environment: Mapping[str, str]
    limits: Limits = DEFAULT_LIMITS
    user_environment: Mapping[str, str] = MappingProxyType({})

    @property
    def writable(self) -> tuple[Path, ...]:
        """The directories that can be written, each before those in it."""
        return tuple(sorted({self.directory, *self.allowed}))

    @property
    def outermost(self) -> tuple[Path, ...]:
        """Those of them that are not in another one."""
        folders = self.writable
        return tuple(one for one in folders if not any(one.is_relative_to(other) for other in {*folders} - {one}))


class View(NamedTuple):
    """What is on this machine at the moment when a sandbox is opened.

    Attributes:
        links: links of the root directory, such as /bin, and where they lead.
        system: the system's folders, read-only.
        pinned: folders in the writable directories that keep their names, since something guarded is in them.
        protected: files and folders in the writable directories that stay as they are.
        hidden_files: files that cannot be read.
        hidden_folders: folders in whose place is an empty one.
    """

    links: tuple[tuple[str, Path], ...]
    system: tuple[Path, ...]
    pinned: tuple[Path, ...]
    protected: tuple[Path, ...]
    hidden_files: tuple[Path, ...]
    hidden_folders: tuple[Path, ...]


class Bind(NamedTuple):
    """A file or folder of the host that is mounted in the sandbox; bubblewrap looks up both paths by name."""

    source: Path
    destination: Path
    writable: bool = False


def list_binds(confinement: Confinement, view: View) -> list[Bind]:
    """List what is mounted from the host, in order, without what a later mount would cover."""
    writable = sorted({*confinement.writable, *view.pinned})
    readable = [path for path in sorted(confinement.readable) if {path, *path.parents}.isdisjoint(confinement.writable)]
    protected = [path for path in sorted(view.protected) if {*path.parents}.isdisjoint(view.protected)]
    return [
        *(Bind(path, path) for path in (*view.system, *readable)),
        *(Bind(path, path, writable=True) for path in writable if {*path.parents}.isdisjoint(protected)),
        *(Bind(path, path) for path in protected),
        *(Bind(Path("/dev/null"), path) for path in sorted(view.hidden_files)),
        Bind(confinement.spill, confinement.spill),
    ]


def bubblewrap_arguments(
    confinement: Confinement, view: View, command: Sequence[str], *, filter_fd: int, info_fd: int, mounted_fd: int
) -> list[str]:
    """The arguments that make bubblewrap run `command`, as process 1, in the sandbox.

    Args:
        confinement: what the run may do.
        view: what there is.
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
        *_mounts(confinement, view),
        *("--file", str(mounted_fd), SANDBOX_MARK),
        # What the mounts above needed is made by now: nothing else can be put beside them.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(confinement.directory)),
        "--",
        *command,
    ]


def _mounts(confinement: Confinement, view: View) -> Iterator[str]:
    """The mounts, each behind those that it lies in."""
    for target, path in view.links:
        yield from ("--symlink", target, str(path))
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var")
    size = str(confinement.limits.temporary)
    for place in sorted({TEMPORARY, "/var/tmp", "/dev/shm", str(confinement.home)}):  # noqa: S108
        yield from ("--size", size, "--perms", "1777", "--tmpfs", place)
    for bind in list_binds(confinement, view):
        yield from ("--bind" if bind.writable else "--ro-bind", str(bind.source), str(bind.destination))
    for folder in view.hidden_folders:
        yield from ("--perms", "0555", "--tmpfs", str(folder), "--remount-ro", str(folder))
