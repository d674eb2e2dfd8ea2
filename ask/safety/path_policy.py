"""The folders that a run in safe mode may read and write.

Paths are resolved once, and folders that would defeat the sandbox are refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.config.directories import SAFE_STATE_FOLDER
from ask.config.symbolic_links import resolve_links
from ask.errors import SafetyError
from ask.safety.bubblewrap import FILES_HINT, TEMPORARY_FOLDER
from ask.safety.git_paths import find_git
from ask.safety.mounts import is_below, read_mounts
from ask.safety.outer_repository import OuterRepository, build_git_environment, find_outer_repositories
from ask.safety.protected_paths import is_in_any
from ask.safety.sandbox_config import INHERITED_VARIABLES, SandboxConfig
from ask.safety.scan_record import read_scan_record, read_scanned_folders

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/etc", "/opt", "/nix")
_KERNEL_FOLDERS = ("/dev", "/proc", "/sys", "/run")
_MACOS_FOLDERS = ("/System", "/Library", "/Applications")
_HOST_FOLDERS = (*SYSTEM_FOLDERS, *_KERNEL_FOLDERS, *_MACOS_FOLDERS)
_KERNEL_FILESYSTEMS = {
    *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs"),
    *("efivarfs", "selinuxfs", "binfmt_misc", "bpf", "fusectl", "pstore"),
}
"""Pseudo file systems: writing there changes the machine."""
_PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
_PYTHON_PREFIXES = {Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}
"""The Python installation that the worker runs on."""
_LIBRARY_FOLDER_NAMES = ("site-packages", "dist-packages")
_COMPANION_PACKAGES = ("ask_providers", "ask_prompts")
_FALLBACK_HOME = Path("/run/home")
_RUNTIMES = ("python3", "node")
_TOOLCHAIN_MARKERS = (
    *("pyvenv.cfg", "conda-meta", "lib/node_modules", "lib/ruby", "lib/perl5", "lib/rustlib", "lib/modules"),
    "lib/python3*/os.py",
)
"""Paths next to the `bin` of a toolchain, but not next to that of a project with `bin` and `lib` folders."""
_ENVIRONMENT_PATHS = ("pyvenv.cfg", "lib/python3*", "lib/node_modules")
"""What is readable next to a `bin` in a folder where a call may have made a project look like a toolchain."""
_VERSION_MANAGER_MARKERS = ("versions", "installs")
"""Folders next to the `shims` of a version manager such as pyenv or mise."""


def build_sandbox_config(
    working_directory: Path,
    allowed_folders: Sequence[Path] = (),
    *,
    config_dir: Path,
    cache_dir: Path,
    data_dir: Path,
    overflow_directory: Path,
    environment: Mapping[str, str],
    extra_variables: Iterable[str] = (),
    runs_commands: bool = True,
    allow_git: bool = False,
) -> SandboxConfig:
    """Build the sandbox configuration of a run.

    `allowed_folders` are writable in addition to the working directory. `overflow_directory` receives the long outputs
    of this run; it is in `data_dir`, which is otherwise hidden, and can be read in the sandbox. `environment` is the
    user's; calls see only `INHERITED_VARIABLES` and `extra_variables` of it. Only commands need toolchains.
    With `allow_git`, the folders' git repositories are readable even if they are stored outside.

    Raises:
        SafetyError: a folder does not exist, or making it writable would defeat the sandbox.
    """
    homes = _find_home_folders(environment)
    secret_folders = (_resolve(config_dir), _resolve(data_dir))
    folders = [_resolve_folder(folder) for folder in (working_directory, *allowed_folders)]
    _check_folders(folders, homes, (*secret_folders, _resolve(cache_dir)))
    private_folders, home = (*homes, *secret_folders), _choose_covered_home(homes[0])
    readable: dict[Path, None] = {}
    repositories: tuple[OuterRepository, ...] = ()
    if runs_commands:
        _check_homes(homes)
        _check_python(private_folders)
        changeable_folders = read_scanned_folders(secret_folders[1] / SAFE_STATE_FOLDER)
        toolchains = _find_toolchains(environment.get("PATH", ""), private_folders, changeable_folders)
        readable = dict.fromkeys((*_PYTHON_PREFIXES, _PACKAGE_FOLDER, *toolchains))
        hidden_paths = map(Path, read_scan_record(secret_folders[1] / SAFE_STATE_FOLDER, changeable_folders).hidden)
        git = find_git(environment, folders)
        repositories = tuple(find_outer_repositories(sorted({*folders}), (*homes, *hidden_paths), secret_folders, git))
    outer_paths = dict.fromkeys(path for repository in repositories for path in repository.paths)
    repository_paths = tuple(outer_paths) if allow_git else ()
    return SandboxConfig(
        working_directory=folders[0],
        allowed_folders=tuple(folders[1:]),
        readable_folders=tuple(path for path in readable if not any(map(path.is_relative_to, SYSTEM_FOLDERS))),
        secret_folders=secret_folders,
        overflow_directory=_resolve(overflow_directory),
        state_folder=secret_folders[1] / SAFE_STATE_FOLDER,
        home=home,
        environment={
            "LANG": "C.UTF-8",
            **(build_git_environment() if repository_paths else {}),
            **{name: environment[name] for name in (*INHERITED_VARIABLES, *extra_variables) if name in environment},
            "HOME": str(home),
            "TMPDIR": TEMPORARY_FOLDER,
        },
        user_environment=environment,
        outer_repositories=repositories,
        readable_repository_paths=repository_paths,
    )


def _choose_covered_home(home: Path) -> Path:
    """Return the folder that is covered with an empty one: the home, unless that overlaps system folders."""
    hides_system = any(home.is_relative_to(path) or Path(path).is_relative_to(home) for path in _HOST_FOLDERS)
    return _FALLBACK_HOME if hides_system else home


def _check_homes(homes: Iterable[Path]) -> None:
    """Refuse a home directory in a system folder, which is readable. That of a system account has no files."""
    for home in homes:
        folder = next(filter(home.is_relative_to, SYSTEM_FOLDERS), None)
        if folder and os.access(home, os.W_OK):
            raise SafetyError(
                f"--safe cannot hide your home directory {home}: commands can read {folder}", f"use {FILES_HINT}"
            )


def _check_python(private_folders: Iterable[Path]) -> None:
    """Refuse a Python whose folder contains what must stay hidden."""
    for prefix in _PYTHON_PREFIXES:
        if any(path.is_relative_to(prefix) for path in private_folders):
            raise SafetyError(
                f"--safe would have to expose {prefix}, which contains Python",
                "use a Python installed in its own folder",
            )


def _resolve(path: str | Path) -> Path:
    """Resolve a path. Path.resolve() raises an exception for a link to itself, which may be anywhere in PATH."""
    return Path(os.path.realpath(path))


def _resolve_folder(folder: Path) -> Path:
    try:
        resolved = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        raise SafetyError(f"the folder {folder} does not exist", "use an existing folder") from None
    if not resolved.is_dir():
        raise SafetyError(f"{folder} is not a folder", "use a folder")
    return resolved


def _find_home_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the home directories from the environment and from the user database."""
    import pwd

    homes = [environment.get("HOME", "")]
    with suppress(KeyError):  # in a container, the user may be missing from the database
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    return [_resolve(name) for name in homes if name.startswith("/")] or [_FALLBACK_HOME]


def _list_code_folders() -> list[Path]:
    """List the folders of all code that runs in ask's own process."""
    from importlib.util import find_spec

    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    specs = [find_spec(name) for name in _COMPANION_PACKAGES]
    companions = [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    libraries = [Path(entry) for entry in sys.path if Path(entry).name in _LIBRARY_FOLDER_NAMES]
    folders = (_PACKAGE_FOLDER, python.parent, Path(os.__file__).parent, *companions, *libraries)
    return [_resolve(path) for path in folders]


def format_folder_hint(folder: Path, working_directory: Path) -> str:
    """Return the hint for a writable folder that safe mode refuses."""
    if folder == working_directory:
        return "start in the project's own folder"
    return "choose a smaller folder for --allow-dir (or safe.allow_dirs)"


def _check_folders(folders: Sequence[Path], homes: Sequence[Path], own_folders: Sequence[Path]) -> None:
    """Refuse writable folders that would defeat the sandbox."""
    for folder in folders:
        _check_folder(folder, format_folder_hint(folder, folders[0]), homes, own_folders)
    _check_mounts(folders)


def _check_folder(folder: Path, hint: str, homes: Sequence[Path], own_folders: Sequence[Path]) -> None:
    """Refuse a writable folder that would defeat the sandbox, with a hint for the user."""
    if any(_resolve(path).is_relative_to(folder) for path in _HOST_FOLDERS):
        raise SafetyError(f"safe mode protects nothing in {folder}: it contains the system", hint)
    if any(home.is_relative_to(folder) for home in homes):
        raise SafetyError(f"safe mode protects nothing in {folder}: it contains your home directory", hint)
    if any(map(folder.is_relative_to, _KERNEL_FOLDERS)):
        raise SafetyError(f"safe mode cannot work in {folder}: it belongs to the kernel", hint)
    for entry in (_resolve(entry) for entry in sys.path if entry):
        if entry.is_relative_to(folder):
            raise SafetyError(
                f"safe mode cannot work in {folder}: Python loads ask's modules from {entry}",
                f"unset PYTHONPATH, or {hint}",
            )
    named_folders = zip(("configuration", "data", "cache"), own_folders, strict=True)
    for content, path in (*named_folders, *(("code", path) for path in _list_code_folders())):
        if path.is_relative_to(folder) or folder.is_relative_to(path):
            raise SafetyError(f"safe mode cannot work in {folder}: it contains ask's own {content} ({path})", hint)


def _check_mounts(folders: Sequence[Path]) -> None:
    """Refuse kernel file systems in the writable folders. Only Linux has /proc, and such mounts in any folder."""
    for mount in read_mounts() if os.path.isdir("/proc/self") else ():
        if mount.filesystem_type in _KERNEL_FILESYSTEMS and any(
            is_below(mount.mount_point, str(folder)) for folder in folders
        ):
            raise SafetyError(
                f"safe mode protects nothing in {mount.mount_point}: it belongs to the kernel", "unmount it"
            )


def _find_toolchains(
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
            if is_in_any(programs, changeable_folders):
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
    elif program_folder.name == "bin" and parent.name != ".local":
        markers = _TOOLCHAIN_MARKERS
    else:
        return False
    for target, links in (resolve_links(path) for name in markers for path in parent.glob(name)):
        if not any(is_in_any(path, changeable_folders) for path in (parent, target, *links)):
            return True
    return False


def check_folders_unmoved(config: SandboxConfig) -> None:
    """Check that no call has replaced a writable folder with a link.

    Raises:
        SafetyError: a folder was replaced or removed.
    """
    for folder in config.writable_folders:
        if os.path.realpath(folder) != str(folder) or not os.path.isdir(folder):
            raise SafetyError(f"{folder} was replaced after the start", "start again")
