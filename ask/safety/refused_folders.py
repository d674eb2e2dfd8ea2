"""The folders in which safe mode refuses to work, because making them writable would defeat it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ask.errors import SafetyError
from ask.safety.bubblewrap import FILES_HINT
from ask.safety.mounts import MountEntry, find_alias, is_below, read_mounts

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/etc", "/opt", "/nix")
_KERNEL_FOLDERS = ("/dev", "/proc", "/sys", "/run")
_MACOS_FOLDERS = ("/System", "/Library", "/Applications")
HOST_FOLDERS = (*SYSTEM_FOLDERS, *_KERNEL_FOLDERS, *_MACOS_FOLDERS)
_KERNEL_FILESYSTEMS = {
    *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs"),
    *("efivarfs", "selinuxfs", "binfmt_misc", "bpf", "fusectl", "pstore"),
}
"""Pseudo file systems: writing there changes the machine."""
PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
PYTHON_PREFIXES = {Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}
"""The Python installation that the worker runs on."""
_LIBRARY_FOLDER_NAMES = ("site-packages", "dist-packages")
_LIBRARY_FOLDER_VARIABLES = ("LD_LIBRARY_PATH", "GCONV_PATH", "OPENSSL_MODULES", "OPENSSL_ENGINES")
_LIBRARY_VARIABLES = ("LD_PRELOAD", "LD_AUDIT")
_COMPANION_PACKAGES = ("ask_providers", "ask_prompts")
_OWN_ENVIRONMENT = "install ask in an environment of its own, as pipx does"


def check_folders(
    folders: Sequence[Path], homes: Sequence[Path], own_folders: Sequence[Path], environment: Mapping[str, str]
) -> None:
    """Refuse writable folders that would defeat the sandbox."""
    for folder in folders:
        _check_folder(folder, format_folder_hint(folder, folders[0]), homes, own_folders)
    _check_mounts(folders, (*homes, *own_folders))
    _check_library_paths(folders, environment)


def _check_folder(folder: Path, hint: str, homes: Sequence[Path], own_folders: Sequence[Path]) -> None:
    """Refuse a writable folder that would defeat the sandbox, with a hint for the user."""
    if any(resolve_path(path).is_relative_to(folder) for path in HOST_FOLDERS):
        raise SafetyError(f"safe mode protects nothing in {folder}: it contains the system", hint)
    if any(home.is_relative_to(folder) for home in homes):
        raise SafetyError(f"safe mode protects nothing in {folder}: it contains your home directory", hint)
    if any(map(folder.is_relative_to, _KERNEL_FOLDERS)):
        raise SafetyError(f"safe mode cannot work in {folder}: it belongs to the kernel", hint)
    search_path = os.environ.get("PYTHONPATH")
    configured_entries = [resolve_path(name) for name in search_path.split(os.pathsep)] if search_path else ()
    # Other programs use PYTHONPATH even if ask runs on `python -I`.
    for entry in (*(resolve_path(name) for name in sys.path if name), *configured_entries):
        if entry.is_relative_to(folder):
            raise SafetyError(
                f"safe mode cannot work in {folder}: Python loads modules from {entry}",
                f"unset PYTHONPATH, or {hint}" if entry in configured_entries else f"{hint}, or {_OWN_ENVIRONMENT}",
            )
    named_folders = zip(("configuration", "data", "cache"), own_folders, strict=True)
    for content, path in (*named_folders, *(("code", path) for path in _list_code_folders())):
        if path.is_relative_to(folder) or folder.is_relative_to(path):
            hint = f"{hint}, or {_OWN_ENVIRONMENT}" if content == "code" else hint
            raise SafetyError(f"safe mode cannot work in {folder}: it contains ask's own {content} ({path})", hint)


def _check_mounts(folders: Sequence[Path], private_folders: Sequence[Path]) -> None:
    """Refuse kernel file systems in the writable folders, and mounts that show private folders there, too."""
    mounts = _read_mounts()
    for mount in mounts:
        if mount.filesystem_type in _KERNEL_FILESYSTEMS and any(
            is_below(mount.mount_point, str(folder)) for folder in folders
        ):
            raise SafetyError(
                f"safe mode protects nothing in {mount.mount_point}: it belongs to the kernel", "unmount it"
            )
    for path in private_folders:
        if alias := find_alias(resolve_path(path), folders, mounts):
            folder = next(folder for folder in folders if is_below(alias, str(folder)))
            raise SafetyError(
                f"safe mode protects nothing in {folder}: {alias} is {path}, mounted there, too",
                format_folder_hint(folder, folders[0]),
            )


def _read_mounts() -> Sequence[MountEntry]:
    """List the mounts. Only Linux has /proc, and kernel file systems and bind mounts in any folder."""
    return read_mounts() if os.path.isdir("/proc/self") else ()


def _check_library_paths(folders: Sequence[Path], environment: Mapping[str, str]) -> None:
    """Refuse writable folders from which programs, ask included, load libraries. The first is the current folder."""
    for name in (*_LIBRARY_FOLDER_VARIABLES, *_LIBRARY_VARIABLES):
        value, lists_folders = environment.get(name, ""), name in _LIBRARY_FOLDER_VARIABLES
        entries = re.split("[:;]" if lists_folders else r"[\s:]+", value) if value else ()
        # An empty entry is the current folder; a library without a slash is looked for in the library path.
        paths = {e: resolve_path(folders[0] / e) for e in entries if "/" in e or lists_folders}
        refused = {entry: path for entry, path in paths.items() if any(map(path.is_relative_to, folders))}
        if refused:
            path = next(iter(refused.values()))
            others = shlex.quote(":".join(entry for entry in entries if entry not in refused))
            note = f"; an empty part of {name} is the current folder" if "" in refused else ""
            raise SafetyError(
                f"safe mode cannot work in {folders[0]}: programs load libraries from {path} ({name}={value!r})",
                f"run: export {name}={others}{note}",
            )


def check_case(paths: Iterable[Path]) -> None:
    """Refuse a file system that ignores case: a mount covers one spelling of a name, and the others lead past it.

    Those of Windows in WSL, and of macOS in a container, are such.
    """
    for path in paths:
        other = path.with_name(path.name.swapcase())
        # Inode numbers say nothing: some of these file systems have one for each spelling.
        if other != path and os.path.lexists(other) and not {path.name, other.name}.issubset(os.listdir(path.parent)):
            raise SafetyError(
                f"--safe cannot protect {path}: its file system ignores case, so {other.name} leads to it, too",
                f"use a folder on another file system, or {FILES_HINT}",
            )


def format_folder_hint(folder: Path, working_directory: Path) -> str:
    """Return the hint for a writable folder that safe mode refuses."""
    if folder == working_directory:
        return "start in the project's own folder"
    return "choose a smaller folder for --allow-dir (or safe.allow_dirs)"


def _list_code_folders() -> list[Path]:
    """List the folders of all code that runs in ask's own process."""
    from importlib.util import find_spec

    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    specs = [find_spec(name) for name in _COMPANION_PACKAGES]
    companions = [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    libraries = [Path(entry) for entry in sys.path if Path(entry).name in _LIBRARY_FOLDER_NAMES]
    folders = (PACKAGE_FOLDER, python.parent, Path(os.__file__).parent, *companions, *libraries, *_find_editable_code())
    return [resolve_path(path) for path in folders]


def _find_editable_code() -> Iterator[Path]:
    """Yield the packages in development mode (`pip install -e`) that are imported from elsewhere than `sys.path`."""
    for finder in sys.meta_path:
        module = sys.modules.get(getattr(finder, "__module__", ""))
        # The tables of the finders of setuptools, and of the package `editables` that hatchling and PDM use.
        for table in (getattr(module, "MAPPING", {}), getattr(finder, "_redirections", {})):
            yield from map(Path, table.values())


def check_homes(homes: Iterable[Path]) -> None:
    """Refuse a home directory in a system folder, which is readable. That of a system account has no files.

    A mount may show it there, too: NixOS can keep homes in /nix/persist.
    """
    mounts = _read_mounts()
    system_folders = dict.fromkeys(map(resolve_path, SYSTEM_FOLDERS))
    for home in homes:
        place = next(filter(home.is_relative_to, SYSTEM_FOLDERS), "") or find_alias(home, system_folders, mounts)
        if place and os.access(home, os.W_OK):
            raise SafetyError(
                f"--safe cannot hide your home directory {home}: commands can read {place}", f"use {FILES_HINT}"
            )


def check_python(private_folders: Iterable[Path]) -> None:
    """Refuse a Python whose folder contains what must stay hidden."""
    for prefix in PYTHON_PREFIXES:
        if any(path.is_relative_to(prefix) for path in private_folders):
            raise SafetyError(
                f"--safe would have to expose {prefix}, which contains Python",
                "use a Python installed in its own folder",
            )


def resolve_path(path: str | Path) -> Path:
    """Resolve a path. Path.resolve() raises an exception for a link to itself, which may be anywhere in PATH."""
    return Path(os.path.realpath(path))
