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
from ask.safety.profile import Bind

_ESCAPED = re.compile(rb"\\([0-7]{3})")


class MountEntry(NamedTuple):
    """A line of /proc/PID/mountinfo; see proc(5).

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
    root: Path
    path: Path
    options: Collection[str]
    kind: str


def read_mounts(process: int | str = "self") -> list[MountEntry]:
    """List the mounts that a process sees."""
    return [_parse_entry(line) for line in Path(f"/proc/{process}/mountinfo").read_bytes().splitlines()]


def _parse_entry(line: bytes) -> MountEntry:
    before, _, after = line.partition(b" - ")
    number, parent, device, *paths, options = before.split()[:6]
    root, path = (Path(os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), one))) for one in paths)
    kind = os.fsdecode(after.split()[0])
    return MountEntry(int(number), int(parent), os.fsdecode(device), root, path, os.fsdecode(options).split(","), kind)


def check_mounts(process: int, binds: Iterable[Bind], hidden_folders: Iterable[Path]) -> None:
    """Check that everything was mounted that was to be, where it was to be, and nothing else.

    Args:
        process: the process in the sandbox, which waits after bubblewrap's last mount.
        binds: the host's files and folders that were to be mounted.
        hidden_folders: the folders that were to be covered with empty ones.

    Raises:
        SafetyError: a name has got another meaning meanwhile.
    """
    host = read_mounts()
    host_devices = {mount.device for mount in host}
    inside = read_mounts(process)
    # bubblewrap has not made the sandbox's root "/" yet. A file system that the host does not have is its own.
    root = next((it.path.parent for it in inside if it.kind == "proc" and it.device not in host_devices), None)
    if root is None:
        raise SafetyError("the sandbox has no /proc of its own", "see `ask safe`")
    unexplained = {mount.number: mount for mount in inside if mount.path.is_relative_to(root)}
    empty = {mount.path for mount in unexplained.values() if mount.device not in host_devices}
    for folder in hidden_folders:
        if root / folder.relative_to("/") not in empty:
            raise _changed(folder)
    with open_tree("/") as host_tree, open_tree(f"/proc/{process}/root") as sandbox_tree:
        for bind in {bind.destination: bind for bind in binds}.values():
            destination = root / bind.destination.relative_to("/")
            try:
                wanted, _ = _identify(host_tree.open(bind.source))
                found, number = _identify(sandbox_tree.open(destination))
            except OSError:
                raise _changed(bind.destination) from None
            mount = unexplained.pop(number, None)
            if found != wanted or mount is None or mount.path != destination:
                raise _changed(bind.destination)
            if not bind.writable and "ro" not in mount.options:
                raise _changed(bind.destination)
    for mount in unexplained.values():
        path = Path("/") / mount.path.relative_to(root)
        if mount.device in host_devices and _find_root(host, path) != (mount.device, mount.root):
            raise _changed(path)


def _changed(path: Path) -> SafetyError:
    return SafetyError(f"{path} changed while the sandbox was being opened", "run it again")


def _find_root(mounts: Sequence[MountEntry], path: Path) -> tuple[str, Path] | None:
    """Find the file system that a path is in and its path there, from the names alone."""
    numbers = {mount.number for mount in mounts}
    on_path = [mount for mount in mounts if path.is_relative_to(mount.path)]
    found = None
    upper = [mount for mount in on_path if mount.parent not in numbers]
    while upper:
        # Of the mounts that are attached to one, the highest hides what is below its path.
        found = min(upper, key=lambda mount: len(mount.path.parts))
        upper = [mount for mount in on_path if mount.parent == found.number]
    return (found.device, found.root / path.relative_to(found.path)) if found else None


class Tree:
    """Opens files below a folder without following links.

    Files that are opened one after the other share the descriptors of the folders that they have in common.
    """

    def __init__(self, top: int) -> None:
        self._top = top
        self._names: list[str] = []
        self._opened: list[int] = []

    def open(self, path: Path) -> int:
        """Return a descriptor of what an absolute path names, without access to its content, until the next call.

        Raises:
            OSError: it does not exist, or a link is on the way.
        """
        names = path.parts[1:]
        self.close(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._names, names, strict=False))))
        for name in names[len(self._names) :]:
            above = self._opened[-1] if self._opened else self._top
            self._opened.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above))
            self._names.append(name)
        return self._opened[-1] if self._opened else self._top

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


def _identify(descriptor: int) -> tuple[tuple[int, int], int]:
    """Return the device and inode of an open file, and the id of the mount that it was found in."""
    status = os.fstat(descriptor)
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    mount = next(int(line.partition(":")[2]) for line in lines if line.startswith("mnt_id:"))
    return (status.st_dev, status.st_ino), mount
