"""Compares the mounts of a sandbox with what was to be mounted, from outside, before anything runs in it.

bubblewrap looks up every path by its name. A program that can write to one of the folders, such as another run in
safe mode, can replace a folder with a link in that moment. Then the sandbox would contain what the link points to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from ask.errors import SafetyError
from ask.safety.sandbox_config import BindMount

_OCTAL_ESCAPE = re.compile(rb"\\([0-7]{3})")


class MountEntry(NamedTuple):
    """A line of /proc/PID/mountinfo; see proc(5).

    Paths are strings: a start compares thousands of them, which takes Path ten times as long.

    Attributes:
        mount_id: the id of the mount.
        parent_id: the id of the mount that it is attached to.
        device: the major and minor number of the file system.
        root: the path within the file system that is mounted.
        mount_point: where it is mounted, as the process sees it.
        options: the options of this mount, such as `ro`.
        filesystem_type: the type of the file system.
    """

    mount_id: int
    parent_id: int
    device: str
    root: str
    mount_point: str
    options: Collection[str]
    filesystem_type: str


def read_mounts(pid: int | str = "self") -> list[MountEntry]:
    """List the mounts that a process sees."""
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        return [_parse_entry(line) for line in file]


def _parse_entry(line: bytes) -> MountEntry:
    before, _, after = line.partition(b" - ")
    number, parent, device, root, path, options = before.split()[:6]
    kind = os.fsdecode(after.split()[0])
    return MountEntry(
        int(number), int(parent), device.decode(), _unescape(root), _unescape(path), options.decode().split(","), kind
    )


def _unescape(path: bytes) -> str:
    return os.fsdecode(_OCTAL_ESCAPE.sub(lambda code: bytes([int(code[1], 8)]), path) if b"\\" in path else path)


class MountCheck:
    """The check of a sandbox's mounts; what is known before they are mounted is looked up when this is created.

    Args:
        binds: the host's files and folders that are to be mounted.
        hidden_folders: the folders that are to be covered with empty ones.

    Raises:
        SafetyError: one of them is gone.
    """

    def __init__(self, bind_mounts: Iterable[BindMount], hidden_folders: Iterable[Path]) -> None:
        self._hidden_folders = [str(folder) for folder in hidden_folders]
        # Of several binds at one place, the last is seen.
        last = {str(bind.destination): bind for bind in bind_mounts}
        with create_path_opener("/") as tree:
            self._expected_mounts = {
                path: (tree.identify(str(bind.source)), bind.writable) for path, bind in last.items()
            }

    def run(self, pid: int) -> None:
        """Check that everything was mounted that was to be, where it was to be, and nothing else.

        Args:
            pid: the process in the sandbox, which waits after bubblewrap's last mount.

        Raises:
            SafetyError: a name has got another meaning meanwhile.
        """
        host = read_mounts()
        host_devices = {mount.device for mount in host}
        inside = read_mounts(pid)
        # bubblewrap has not made the sandbox's root "/" yet. A file system that the host does not have is its own.
        proc = next(
            (it.mount_point for it in inside if it.filesystem_type == "proc" and it.device not in host_devices), None
        )
        if proc is None:
            raise SafetyError("the sandbox has no /proc of its own", "see `ask safe`")
        root = proc.rpartition("/")[0]
        unexplained = {mount.mount_id: mount for mount in inside if is_below(mount.mount_point, root)}
        empty = {mount.mount_point for mount in unexplained.values() if mount.device not in host_devices}
        for folder in self._hidden_folders:
            if root + folder not in empty:
                raise _make_changed_error(folder)
        with create_path_opener(f"/proc/{pid}/root") as tree:
            for path, (wanted, writable) in self._expected_mounts.items():
                found = tree.identify(root + path)
                mount = unexplained.pop(_read_mount_id(tree.open(root + path)), None)
                if found != wanted or mount is None or mount.mount_point != root + path:
                    raise _make_changed_error(path)
                if not writable and "ro" not in mount.options:
                    raise _make_changed_error(path)
        for mount in unexplained.values():
            path = mount.mount_point.removeprefix(root) or "/"
            if mount.device in host_devices and _find_filesystem_root(host, path) != (mount.device, mount.root):
                raise _make_changed_error(path)


def _make_changed_error(path: str) -> SafetyError:
    return SafetyError(f"{path} changed while the sandbox was being opened", "run it again")


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder, or in it; both without links, `.` and `..`."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _find_filesystem_root(mounts: Sequence[MountEntry], path: str) -> tuple[str, str] | None:
    """Find the file system that a path is in and its path there, from the names alone."""
    numbers = {mount.mount_id for mount in mounts}
    on_path = [mount for mount in mounts if is_below(path, mount.mount_point)]
    found = None
    upper = [mount for mount in on_path if mount.parent_id not in numbers]
    while upper:
        # Of the mounts that are attached to one, the highest hides what is below its path.
        found = min(upper, key=lambda mount: len(mount.mount_point))
        upper = [mount for mount in on_path if mount.parent_id == found.mount_id]
    if found is None:
        return None
    rest = path[len(found.mount_point) :].strip("/")
    return found.device, os.path.join(found.root, rest) if rest else found.root


class PathOpener:
    """Opens files below a folder without following links.

    Files that are opened one after the other share the descriptors of the folders that they have in common.
    """

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._names: list[str] = []
        self._open_fds: list[int] = []

    def open(self, path: str) -> int:
        """Return a descriptor of what an absolute path names, without access to its content, until the next call.

        Raises:
            OSError: it does not exist, or a link is on the way.
        """
        names = [name for name in path.split("/") if name]
        self.close(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._names, names, strict=False))))
        for name in names[len(self._names) :]:
            above = self._open_fds[-1] if self._open_fds else self._root_fd
            self._open_fds.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above))
            self._names.append(name)
        return self._open_fds[-1] if self._open_fds else self._root_fd

    def identify(self, path: str) -> tuple[int, int]:
        """Return the device and inode of what an absolute path names.

        Raises:
            SafetyError: it does not exist, or a link is on the way.
        """
        try:
            status = os.fstat(self.open(path))
        except OSError:
            raise _make_changed_error(path) from None
        return status.st_dev, status.st_ino

    def close(self, depth: int = 0) -> None:
        """Close the descriptors below a depth."""
        while len(self._open_fds) > depth:
            os.close(self._open_fds.pop())
            self._names.pop()


@contextmanager
def create_path_opener(root: str) -> Iterator[PathOpener]:
    """Open a folder to look up files below it."""
    descriptor = os.open(root, os.O_PATH | os.O_CLOEXEC)
    tree = PathOpener(descriptor)
    try:
        yield tree
    finally:
        tree.close()
        os.close(descriptor)


def _read_mount_id(descriptor: int) -> int:
    """Return the id of the mount that an open file was found in."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:
        return int(file.read().partition(b"mnt_id:")[2].split(maxsplit=1)[0])
