"""Snapshots of files that a run in safe mode can create or change, and that programs of the user run afterward.

They show which of these files are different at the end of the run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

_PYTHON_COMMAND = re.compile(r"\b(?:python|pypy)[\d.]*\b")
_MODULE_OPTION = re.compile(r"\s-m\s*(\w+)")
_SUFFIXES = (".py", ".pyc", ".so")


class FileSnapshot:
    """The state of the existing files among those that `list_files` yields, when the snapshot is taken."""

    def __init__(self, list_files: Callable[[], Iterable[Path]]) -> None:
        self._list_files = list_files
        self._before = self._read_states()

    def find_changes(self) -> list[Path]:
        """Return the files that have been created or changed since."""
        return [path for path, state in self._read_states().items() if self._before.get(path) != state]

    def _read_states(self) -> Mapping[Path, tuple[int, int]]:
        """Return the inode of each path and the time of its last change (ctime), which no call can set."""
        states: dict[Path, tuple[int, int]] = {}
        for path in self._list_files():
            with suppress(OSError):
                status = path.stat()
                states[path] = status.st_ino, status.st_ctime_ns
        return dict(sorted(states.items()))


def snapshot_imported_modules(folders: Sequence[Path], commands: Iterable[str]) -> FileSnapshot:
    """Take a snapshot of the modules in some folders that Python commands of git would import before installed ones.

    Python looks for modules in the current folder first (`python -m`, `-c`, code from standard input), and git runs its
    commands in the top folder of a repository.
    """
    python_commands = [command for command in commands if _PYTHON_COMMAND.search(command)]
    names = {name for command in python_commands for name in _MODULE_OPTION.findall(command)}
    if python_commands:
        names |= sys.stdlib_module_names - {*sys.builtin_module_names}
    return FileSnapshot(partial(_list_modules, folders if names else (), names))


def _list_modules(folders: Sequence[Path], names: set[str]) -> Iterator[Path]:
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.partition(".")[0] in names:
                    path = Path(entry.path)
                    yield from [path] if path.name.endswith(_SUFFIXES) else path.glob("__init__.*")
