"""Modules that a Python command of git would import from a writable folder instead of the installed ones.

Python looks for modules in the current folder first (`python -m`, `-c`, code from standard input), and git runs its
commands in the top folder of a repository.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PYTHON_COMMAND = re.compile(r"\b(?:python|pypy)[\d.]*\b")
_MODULE_OPTION = re.compile(r"\s-m\s*(\w+)")
_SUFFIXES = (".py", ".pyc", ".so")


class ImportedModules:
    """The modules in some folders that these commands would import, as they are now; () if none runs Python."""

    def __init__(self, folders: Sequence[Path], commands: Iterable[str]) -> None:
        python_commands = [command for command in commands if _PYTHON_COMMAND.search(command)]
        names = {name for command in python_commands for name in _MODULE_OPTION.findall(command)}
        if python_commands:
            names |= sys.stdlib_module_names - {*sys.builtin_module_names}
        self._folders, self._names = folders if names else (), names
        self._before = self._find()

    def find_changes(self) -> list[Path]:
        """Return the modules that have been created or changed."""
        return [path for path, change_time in self._find().items() if self._before.get(path) != change_time]

    def _find(self) -> Mapping[Path, int]:
        """Return when each file with such a module has last changed."""
        found: dict[Path, int] = {}
        for folder in self._folders:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.partition(".")[0] in self._names:
                        path = Path(entry.path)
                        for file in [path] if path.name.endswith(_SUFFIXES) else path.glob("__init__.*"):
                            with suppress(OSError):
                                found[file] = file.stat().st_ctime_ns
        return dict(sorted(found.items()))
