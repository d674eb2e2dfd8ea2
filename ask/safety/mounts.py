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
from ask.safety.confinement import Bind

_ESCAPED = re.compile(rb"\\([0-7]{3})")


class MountEntry(NamedTuple):
    """A line of /proc/PID/mountinfo; see proc(5).

    Paths are strings: a start compares thousands of them, which takes Path ten times as long.

    Attributes:
        number: the id of the mount.
        parent: the id of the mount that it is attached to.
        device: the major and minor number of the file system.
        root: the path within the file system that is mounted.
        path: where it is mounted, as the process sees it.
        options: the options of this mount, such as `ro`.
        kind: the type of the file system.
    """

    number: int
    parent: int
    device: str
    root: str
    path: str
    options: Collection[str]
    kind: str


def read_mounts(process: int | str = "self") -> list[MountEntry]:
    """List the mounts that a process sees."""
    with open(f"/proc/{process}/mountinfo", "rb") as file:
        return [_parse_entry(line) for line in file]


def _parse_entry(line: bytes) -> MountEntry:
    before, _, after = line.partition(b" - ")
    number, parent, device, root, path, options = before.split()[:6]
    kind = os.fsdecode(after.split()[0])
    return MountEntry(
        int(number), int(parent), device.decode(), _unescape(root), _unescape(path), options.decode().split(","), kind
    )


def _unescape(path: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), path) if b"\\" in path else path)


class MountCheck:
    """The check of a sandbox's mounts; what is known before they are mounted is looked up when this is created.

    Args:
        binds: the host's files and folders that are to be mounted.
        hidden_folders: the folders that are to be covered with empty ones.

    Raises:
        SafetyError: one of them is gone.
    """

    def __init__(self, binds: Iterable[Bind], hidden_folders: Iterable[Path]) -> None:
        self._hidden = [str(folder) for folder in hidden_folders]
        # Of several binds at one place, the last is seen.
        last = {str(bind.destination): bind for bind in binds}
        with open_tree("/") as tree:
            self._wanted = {path: (tree.identify(str(bind.source)), bind.writable) for path, bind in last.items()}

    def run(self, process: int) -> None:
        """Check that everything was mounted that was to be, where it was to be, and nothing else.

        Args:
            process: the process in the sandbox, which waits after bubblewrap's last mount.

        Raises:
            SafetyError: a name has got another meaning meanwhile.
        """
        host = read_mounts()
        host_devices = {mount.device for mount in host}
        inside = read_mounts(process)
        # bubblewrap has not made the sandbox's root "/" yet. A file system that the host does not have is its own.
        proc = next((it.path for it in inside if it.kind == "proc" and it.device not in host_devices), None)
        if proc is None:
            raise SafetyError("the sandbox has no /proc of its own", "see `ask safe`")
        root = proc.rpartition("/")[0]
        unexplained = {mount.number: mount for mount in inside if is_below(mount.path, root)}
        empty = {mount.path for mount in unexplained.values() if mount.device not in host_devices}
        for folder in self._hidden:
            if root + folder not in empty:
                raise _changed(folder)
        with open_tree(f"/proc/{process}/root") as tree:
            for path, (wanted, writable) in self._wanted.items():
                found = tree.identify(root + path)
                mount = unexplained.pop(_read_mount_id(tree.open(root + path)), None)
                if found != wanted or mount is None or mount.path != root + path:
                    raise _changed(path)
                if not writable and "ro" not in mount.options:
                    raise _changed(path)
        for mount in unexplained.values():
            path = mount.path.removeprefix(root) or "/"
            if mount.device in host_devices and _find_root(host, path) != (mount.device, mount.root):
                raise _changed(path)


def _changed(path: str) -> SafetyError:
    return SafetyError(f"{path} changed while the sandbox was being opened", "run it again")


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder, or in it; both without links, `.` and `..`."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _find_root(mounts: Sequence[MountEntry], path: str) -> tuple[str, str] | None:
    """Find the file system that a path is in and its path there, from the names alone."""
    numbers = {mount.number for mount in mounts}
    on_path = [mount for mount in mounts if is_below(path, mount.path)]
    found = None
    upper = [mount for mount in on_path if mount.parent not in numbers]
    while upper:
        # Of the mounts that are attached to one, the highest hides what is below its path.
        found = min(upper, key=lambda mount: len(mount.path))
        upper = [mount for mount in on_path if mount.parent == found.number]
    if found is None:
        return None
    rest = path[len(found.path) :].strip("/")
    return found.device, os.path.join(found.root, rest) if rest else found.root


class Tree:
    """Opens files below a folder without following links.

    Files that are opened one after the other share the descriptors of the folders that they have in common.
    """

    def __init__(self, top: int) -> None:
        self._top = top
        self._names: list[str] = []
        self._opened: list[int] = []

    def open(self, path: str) -> int:
        """Return a descriptor of what an absolute path names, without access to its content, until the next call.

        Raises:
            OSError: it does not exist, or a link is on the way.
        """
        names = [name for name in path.split("/") if name]
        self.close(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._names, names, strict=False))))
        for name in names[len(self._names) :]:
            above = self._opened[-1] if self._opened else self._top
            self._opened.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above))
            self._names.append(name)
        return self._opened[-1] if self._opened else self._top

    def identify(self, path: str) -> tuple[int, int]:
        """Return the device and inode of what an absolute path names.

        Raises:
            SafetyError: it does not exist, or a link is on the way.
        """
        try:
            status = os.fstat(self.open(path))
        except OSError:
            raise _changed(path) from None
        return status.st_dev, status.st_ino

    def close(self, depth: int = 0) -> None:
        """Close the descriptors below a depth."""
        while len(self._opened) > depth:
            os.close(self._opened.pop())
            self._names.pop()


@contextmanager
def open_tree(top: str) -> Iterator[Tree]:
    """Open a folder to look up files below it."""
    descriptor = os.open(top, os.O_PATH | os.O_CLOEXEC)
    tree = Tree(descriptor)
    try:
        yield tree
    finally:
        tree.close()
        os.close(descriptor)


def _read_mount_id(descriptor: int) -> int:
    """Return the id of the mount that an open file was found in."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:
        return int(file.read().partition(b"mnt_id:")[2].split(maxsplit=1)[0])
