"""The mounts of a sandbox, and their verification from outside before anything runs in it.

bubblewrap looks up every path by its name. A program that can write to one of the folders, such as another run in
safe mode, can replace a folder with a link at that moment. Then the sandbox would contain the link's target.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ask.errors import SafetyError
from ask.records import NamedTuple
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig, select_outermost
from ask.tools.file_access import open_existing_folder

_OCTAL_ESCAPE = re.compile(rb"\\([0-7]{3})")


class BindMount(NamedTuple):
    """A file or folder of the host that is mounted in the sandbox."""

    source: Path
    destination: Path
    writable: bool = False


def list_bind_mounts(config: SandboxConfig, filesystem: HostFilesystem) -> list[BindMount]:
    """List the mounts from the host in order, without those that a later one would cover."""
    writable = sorted({*config.writable_folders, *filesystem.pinned_folders})
    readable = [
        path
        for path in sorted({*config.readable_folders, *config.readable_repository_paths})
        if {path, *path.parents}.isdisjoint(config.writable_folders)
    ]
    protected = sorted(select_outermost(filesystem.read_only_paths))
    return [
        *(BindMount(path, path) for path in (*filesystem.system_folders, *readable)),
        *(BindMount(path, path, writable=True) for path in writable if {*path.parents}.isdisjoint(protected)),
        *(BindMount(path, path) for path in protected),
        *(BindMount(Path("/dev/null"), path) for path in sorted(filesystem.hidden_files)),
        BindMount(config.overflow_directory, config.overflow_directory),
    ]


class MountEntry(NamedTuple):
    """A line of /proc/PID/mountinfo; see proc(5).

    Paths are strings: each start compares thousands of them, which takes ten times as long with Path.
    """

    mount_id: int
    parent_id: int
    """The id of the mount that this one is attached to."""
    device: str
    """The major and minor number of the file system."""
    root: str
    """The path within the file system that is mounted."""
    mount_point: str
    """Where it is mounted, as seen by the process."""
    options: Collection[str]
    """The options of this mount, such as `ro`."""
    filesystem_type: str


def read_mounts(pid: int | str = "self") -> list[MountEntry]:
    """List the mounts that a process sees."""
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        return [_parse_entry(line) for line in file]


def _parse_entry(line: bytes) -> MountEntry:
    mount_fields, _, filesystem_fields = line.partition(b" - ")
    mount_id, parent_id, device, root, mount_point, options = mount_fields.split()[:6]
    return MountEntry(
        int(mount_id),
        int(parent_id),
        device.decode(),
        _unescape(root),
        _unescape(mount_point),
        options.decode().split(","),
        os.fsdecode(filesystem_fields.split()[0]),
    )


def _unescape(path: bytes) -> str:
    return os.fsdecode(_OCTAL_ESCAPE.sub(lambda code: bytes([int(code[1], 8)]), path) if b"\\" in path else path)


class MountCheck:
    """The expected mounts of a sandbox: bind mounts, and hidden folders that are covered with empty ones.

    The sources are identified when this is created, before bubblewrap mounts them.

    Raises:
        SafetyError: a source no longer exists.
    """

    def __init__(self, bind_mounts: Iterable[BindMount], hidden_folders: Iterable[Path]) -> None:
        self._hidden_folders = [str(folder) for folder in hidden_folders]
        # If several are mounted at the same path, only the last is visible.
        visible = {str(bind.destination): bind for bind in bind_mounts}
        self._expected_mounts = {
            path: (_identify(str(bind.source))[0], bind.writable) for path, bind in visible.items()
        }

    def run(self, pid: int) -> None:
        """Check that the mounts of a process are the expected ones and no others.

        The process must be waiting after bubblewrap's last mount.

        Raises:
            SafetyError: a path was replaced while the sandbox was being set up.
        """
        host = read_mounts()
        host_devices = {mount.device for mount in host}
        inside = read_mounts(pid)
        # bubblewrap has not pivoted to the sandbox's root yet. Devices that the host does not have are the sandbox's.
        proc_mounts = (
            mount for mount in inside if mount.filesystem_type == "proc" and mount.device not in host_devices
        )
        proc = next(proc_mounts, None)
        if proc is None:
            raise SafetyError("the sandbox does not have its own /proc", "see ask safe")
        root = proc.mount_point.rpartition("/")[0]
        unexplained = {mount.mount_id: mount for mount in inside if is_below(mount.mount_point, root)}
        own_mount_points = {mount.mount_point for mount in unexplained.values() if mount.device not in host_devices}
        for folder in self._hidden_folders:
            if root + folder not in own_mount_points:
                raise _make_changed_error(folder)
        for path, (expected_identity, writable) in self._expected_mounts.items():
            identity, mount_id = _identify(root + path, f"/proc/{pid}/root")
            mount = unexplained.pop(mount_id, None)
            if identity != expected_identity or mount is None or mount.mount_point != root + path:
                raise _make_changed_error(path)
            if not writable and "ro" not in mount.options:
                raise _make_changed_error(path)
        for mount in unexplained.values():
            path = mount.mount_point.removeprefix(root) or "/"
            if mount.device in host_devices and _find_filesystem_root(host, path) != (mount.device, mount.root):
                raise _make_changed_error(path)


def _make_changed_error(path: str) -> SafetyError:
    return SafetyError(f"{path} changed while the sandbox was opening", "try again")


def is_below(path: str, folder: str) -> bool:
    """Check whether a path is the folder or inside it. Both must be resolved."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _find_filesystem_root(mounts: Iterable[MountEntry], path: str) -> tuple[str, str] | None:
    """Return the device that a path is on and its path there, without accessing the file."""
    on_path = [mount for mount in mounts if path.startswith(mount.mount_point) and is_below(path, mount.mount_point)]
    mount_ids = {mount.mount_id for mount in on_path}
    current = None
    children = [mount for mount in on_path if mount.parent_id not in mount_ids]
    while children:
        # Of several children of a mount, the one with the shortest path covers the others.
        current = min(children, key=lambda mount: len(mount.mount_point))
        children = [mount for mount in on_path if mount.parent_id == current.mount_id]
    if current is None:
        return None
    relative_path = path[len(current.mount_point) :].strip("/")
    return current.device, os.path.join(current.root, relative_path) if relative_path else current.root


def find_alias(path: Path, folders: Iterable[Path], mounts: Sequence[MountEntry]) -> str:
    """Return where in some folders bind mounts show what is at a path; "" if nowhere. All must be resolved."""
    wanted = _find_filesystem_root(mounts, str(path))
    related = [mount for mount in mounts if wanted and mount.device == wanted[0]]
    for folder in map(str, folders) if wanted else ():
        inner = [mount for mount in related if is_below(mount.mount_point, folder)]
        places = [
            (folder, _find_filesystem_root(mounts, folder)),
            *((mount.mount_point, (mount.device, mount.root)) for mount in inner),
        ]
        for place, shown in places:
            if shown and wanted and wanted[0] == shown[0] and is_below(wanted[1], shown[1]):
                alias = os.path.normpath(f"{place}/{wanted[1][len(shown[1].rstrip('/')) :]}")
                if _is_same_file(str(path), alias):
                    return alias
    return ""


def _is_same_file(path: str, alias: str) -> bool:
    """Check that two paths lead to the same file, or would: the root of all mounts of NFS is said to be "/"."""
    while not os.path.lexists(path) and os.path.basename(path) == os.path.basename(alias):
        path, alias = os.path.dirname(path), os.path.dirname(alias)
    with suppress(OSError):
        return os.path.samefile(path, alias)
    return False


def _identify(path: str, root: str = "/") -> tuple[tuple[int, int], int]:
    """Return the device and inode of an absolute path below a folder, and the id of the mount that it is in.

    Raises:
        SafetyError: it does not exist, or a component is a link.
    """
    *folders, name = path.strip("/").split("/")
    try:
        with open_existing_folder(root, folders) as folder_fd:
            descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        raise _make_changed_error(path) from None
    try:
        status = os.fstat(descriptor)
        with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:
            mount_id = int(file.read().partition(b"mnt_id:")[2].split(maxsplit=1)[0])
    finally:
        os.close(descriptor)
    return (status.st_dev, status.st_ino), mount_id
