"""The toolchains that commands in a sandbox can read: the program folders on PATH, and what belongs to them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ask.config.secret_files import is_virtual_environment
from ask.config.symbolic_links import resolve_links
from ask.safety.protected_paths import is_in_any

_RUNTIMES = ("python3", "node")
_TOOLCHAIN_MARKERS = (
    *("pyvenv.cfg", "conda-meta", "lib/node_modules", "lib/ruby", "lib/perl5", "lib/rustlib", "lib/modules"),
    "lib/python3*/os.py",
)
"""Paths next to the `bin` of a toolchain, but not next to that of a project with `bin` and `lib` folders."""
_ENVIRONMENT_PATHS = ("pyvenv.cfg", "lib/python3*", "lib/node_modules")
"""What is readable next to a `bin` in a project: a virtual environment, or what a call may have made look like one."""
_VERSION_MANAGER_MARKERS = ("versions", "installs")
"""Folders next to the `shims` of a version manager such as pyenv or mise."""


def find_toolchains(
    search_path: str, private_folders: Sequence[Path], changeable_folders: Sequence[Path]
) -> Iterator[Path]:
    """Yield the program folders on PATH, or the toolchains they belong to, unless they contain private folders.

    Calls of earlier runs could write in `changeable_folders`. A link there may lead to any folder, which is therefore
    yielded only if it is a toolchain.
    """
    for entry in dict.fromkeys(search_path.split(os.pathsep)):
        if not entry.startswith("/") or not os.path.isdir(entry):
            continue
        folder, folder_links = resolve_links(Path(entry))
        found = {folder: folder_links}
        for program, links in (resolve_links(folder / name) for name in _RUNTIMES):
            found.setdefault(program.parent, [*folder_links, *links])
        for programs, links in found.items():
            if _is_toolchain(programs, changeable_folders):
                paths = [programs.parent, programs]
            elif any(is_in_any(link, changeable_folders) for link in links):
                continue
            else:
                paths = [programs]
            if is_in_any(programs, changeable_folders) or _is_environment_in_project(programs.parent):
                yield from _find_environment_paths(programs)
            for path in filter(os.path.isdir, paths):
                if not any(private.is_relative_to(path) for private in private_folders):
                    yield path
                    break


def _find_environment_paths(program_folder: Path) -> Iterator[Path]:
    """Yield the parts of a toolchain next to its programs that nothing else would have, and no links."""
    for name in _ENVIRONMENT_PATHS if program_folder.name == "bin" else ():
        for path in program_folder.parent.glob(name):
            if os.path.realpath(path) == str(path):
                yield path


def _is_toolchain(program_folder: Path, changeable_folders: Sequence[Path]) -> bool:
    """Check whether the parent of a program folder is a toolchain, not a project or a home directory."""
    parent = program_folder.parent
    if program_folder.name == "shims":
        markers: tuple[str, ...] = _VERSION_MANAGER_MARKERS
    elif program_folder.name == "bin" and parent.name != ".local" and not _is_environment_in_project(parent):
        markers = _TOOLCHAIN_MARKERS
    else:
        return False
    for target, links in (resolve_links(path) for name in markers for path in parent.glob(name)):
        if not any(is_in_any(path, changeable_folders) for path in (parent, target, *links)):
            return True
    return False


def _is_environment_in_project(folder: Path) -> bool:
    """Check whether a folder is a virtual environment that also contains a project, as `python3 -m venv .` creates."""
    return os.path.exists(folder / "pyvenv.cfg") and not is_virtual_environment(folder)
