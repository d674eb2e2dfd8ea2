"""What a confined run may read and write: names resolved once, what would open the sandbox refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.errors import SafetyError
from ask.safety.mounts import is_below, read_mounts
from ask.safety.sandbox_config import DEFAULT_LIMITS, TEMPORARY_FOLDER, Limits, SandboxConfig

INHERITED_VARIABLES = ("PATH", "LANG", "TERM")

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/etc", "/opt", "/nix")
_KERNEL_FOLDERS = ("/dev", "/proc", "/sys", "/run")
_KERNEL_FILESYSTEMS = {
    *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs"),
    *("efivarfs", "selinuxfs", "binfmt_misc", "bpf", "fusectl", "pstore"),
}
"""File systems that are no files: what is written there changes the machine."""
_PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
_LIBRARY_FOLDER_NAMES = ("site-packages", "dist-packages")
_COMPANION_PACKAGES = ("ask_providers", "ask_prompts")
_FALLBACK_HOME = Path("/run/home")
_RUNTIMES = ("python3", "node")
_TOOLCHAIN_MARKERS = (
    "pyvenv.cfg",
    "conda-meta",
    "lib/node_modules",
    "lib/ruby",
    "lib/perl5",
    "lib/rustlib",
    "lib/modules",
)
"""What is beside the `bin` of a toolchain, and not of a project that has a `bin` and a `lib` too."""
_VERSION_MANAGER_MARKERS = ("versions", "installs")
"""What is beside the `shims` of a version manager, such as pyenv or mise."""


def build_sandbox_config(
    working_directory: Path,
    allowed_folders: Sequence[Path] = (),
    *,
    config_dir: Path,
    data_dir: Path,
    overflow_directory: Path,
    environment: Mapping[str, str],
    extra_variables: Iterable[str] = (),
    readable_folders: Sequence[Path] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> SandboxConfig:
    """What a run is confined to.

    Args:
        working_directory: the working directory.
        allowed_folders: further directories that may be written.
        config_dir: ask's folder of configuration and keys.
        data_dir: ask's folder of data.
        overflow_directory: the folder for long outputs of this run alone, in `data_dir`; its content can be read inside.
        environment: the user's.
        extra_variables: further variables of it that calls may see.
        readable_folders: further folders that calls may read.
        limits: what calls may use.

    Raises:
        SafetyError: a directory cannot be writable without opening the sandbox, or is not there.
    """
    homes = _find_home_folders(environment)
    secret = (config_dir.resolve(), data_dir.resolve())
    folders = [_resolve_folder(folder) for folder in (working_directory, *allowed_folders)]
    _check_folders(folders, homes, secret)
    home, tools = _choose_sandbox_home(homes[0]), _find_toolchains(environment.get("PATH", ""), (*homes, *secret))
    return SandboxConfig(
        working_directory=folders[0],
        allowed_folders=tuple(folders[1:]),
        readable_folders=tuple(
            _exclude_system_paths(
                {
                    *_list_python_prefixes(),
                    _PACKAGE_FOLDER,
                    *tools,
                    *(_resolve_folder(path) for path in readable_folders),
                }
            )
        ),
        secret_folders=secret,
        overflow_directory=overflow_directory.resolve(),
        state_folder=secret[1] / "safe",
        home=home,
        environment={
            "LANG": "C.UTF-8",
            **{name: environment[name] for name in (*INHERITED_VARIABLES, *extra_variables) if name in environment},
            "HOME": str(home),
            "TMPDIR": TEMPORARY_FOLDER,
        },
        limits=limits,
        user_environment=environment,
    )


def _resolve_folder(folder: Path) -> Path:
    try:
        found = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        raise SafetyError(f"there is no folder {folder}", "name one that exists") from None
    if not found.is_dir():
        raise SafetyError(f"{folder} is no folder", "name a folder")
    return found


def _find_home_folders(environment: Mapping[str, str]) -> list[Path]:
    """The user's home directories: the environment's, and the one of the user database."""
    import pwd

    named = [environment.get("HOME", "")]
    with suppress(KeyError):  # a container's user may be a bare number
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    return [Path(name).resolve() for name in named if name.startswith("/")] or [_FALLBACK_HOME]


def _choose_sandbox_home(home: Path) -> Path:
    """Where the empty home is: in the place of the user's, unless the system has its folders there."""
    system = [Path(name) for name in (*SYSTEM_FOLDERS, *_KERNEL_FOLDERS)]
    clash = any(home.is_relative_to(folder) or folder.is_relative_to(home) for folder in system)
    return _FALLBACK_HOME if clash else home


def _list_code_folders(python_path: Path) -> list[Path]:
    """Where everything comes from that runs in ask itself."""
    from importlib.util import find_spec

    specs = [find_spec(name) for name in _COMPANION_PACKAGES]
    parts = [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    libraries = [Path(entry) for entry in sys.path if Path(entry).name in _LIBRARY_FOLDER_NAMES]
    return [
        path.resolve() for path in (_PACKAGE_FOLDER, python_path.parent, Path(os.__file__).parent, *parts, *libraries)
    ]


def _check_folders(folders: Sequence[Path], home_folders: Sequence[Path], secret_folders: Sequence[Path]) -> None:
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    for folder in folders:
        _check_folder(
            folder,
            home_folders,
            {"configuration": secret_folders[:1], "data": secret_folders[1:], "code": _list_code_folders(python)},
        )
    for mount in read_mounts():
        if mount.filesystem_type in _KERNEL_FILESYSTEMS and any(
            is_below(mount.mount_point, str(folder)) for folder in folders
        ):
            raise SafetyError(
                f"--safe protects nothing where {mount.mount_point} is: it belongs to the kernel", "unmount it"
            )
    for prefix in _list_python_prefixes():
        if any(path.is_relative_to(prefix) for path in (*home_folders, *secret_folders)):
            raise SafetyError(f"--safe would have to show {prefix}, where Python is", "use a Python of its own folder")


def _check_folder(folder: Path, home_folders: Sequence[Path], own_folders: Mapping[str, Sequence[Path]]) -> None:
    advice = "start in the folder of the work itself"
    if any(home.is_relative_to(folder) for home in home_folders) and folder != Path("/"):
        raise SafetyError(f"--safe protects nothing in {folder}: it holds your home directory", advice)
    for name in (*SYSTEM_FOLDERS, *_KERNEL_FOLDERS):
        if Path(name).resolve().is_relative_to(folder):
            raise SafetyError(f"--safe protects nothing in {folder}: it holds the system", advice)
    if any(folder.is_relative_to(name) for name in _KERNEL_FOLDERS):
        raise SafetyError(f"--safe cannot work in {folder}: it belongs to the kernel", advice)
    for entry in (Path(entry).resolve() for entry in sys.path if entry):
        if entry.is_relative_to(folder):
            named = _is_on_pythonpath(entry)
            where, what = (f"{entry}, which PYTHONPATH names", "unset PYTHONPATH") if named else ("there", advice)
            raise SafetyError(f"--safe cannot work in {folder}: Python takes ask's modules from {where}", what)
    for what, paths in own_folders.items():
        for path in paths:
            if path.is_relative_to(folder) or folder.is_relative_to(path):
                raise SafetyError(f"--safe cannot work in {folder}: ask's own {what} is there ({path})", advice)


def _is_on_pythonpath(entry: Path) -> bool:
    """Whether Python looks for modules in a folder because the user's PYTHONPATH names it."""
    names = os.environ.get("PYTHONPATH")
    return names is not None and entry in {Path(name).resolve() for name in names.split(os.pathsep)}


def _list_python_prefixes() -> set[Path]:
    """The folders of the Python that the worker runs on."""
    return {Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}


def _exclude_system_paths(paths: Iterable[Path]) -> Iterator[Path]:
    """Those that are not shown anyway."""
    for path in paths:
        if not any(path.is_relative_to(folder) for folder in SYSTEM_FOLDERS):
            yield path


def _find_toolchains(search_path: str, private_folders: Sequence[Path]) -> Iterator[Path]:
    """The programs on the search path and what belongs to them, as far as nothing private is in it."""
    for entry in dict.fromkeys(search_path.split(os.pathsep)):
        folder = Path(entry)
        if not folder.is_absolute() or not os.path.isdir(folder):
            continue
        folder = Path(os.path.realpath(folder))
        runtimes = [Path(os.path.realpath(folder / name)).parent for name in _RUNTIMES]
        for programs in dict.fromkeys((folder, *runtimes)):
            whole = programs.parent
            for path in (whole, programs) if _is_toolchain(programs) else (programs,):
                if os.path.isdir(path) and not any(one.is_relative_to(path) for one in private_folders):
                    yield path
                    break


def _is_toolchain(program_folder: Path) -> bool:
    """Whether all that is beside a folder of programs belongs to them, not to a project or to the user."""
    whole = program_folder.parent
    if program_folder.name == "shims":
        return any(os.path.isdir(whole / name) for name in _VERSION_MANAGER_MARKERS)
    if program_folder.name != "bin" or whole.name == ".local":
        return False
    return any(os.path.lexists(whole / name) for name in _TOOLCHAIN_MARKERS) or any(whole.glob("lib/python3*/os.py"))


def check_folders_unmoved(config: SandboxConfig) -> None:
    """See that the writable directories' names still mean those directories: a call may have put a link there.

    Raises:
        SafetyError: one does not.
    """
    for folder in config.writable_folders:
        if os.path.realpath(folder) != str(folder) or not os.path.isdir(folder):
            raise SafetyError(f"{folder} is not the folder any more that it was at the start", "start again")
