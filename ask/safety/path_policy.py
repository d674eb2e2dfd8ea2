"""What a confined run may read and write: names resolved once, what would open the sandbox refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.errors import SafetyError
from ask.safety.confinement import DEFAULT_LIMITS, TEMPORARY, Confinement, Limits
from ask.safety.mounts import is_below, read_mounts

INHERITED = ("PATH", "LANG", "TERM")

SYSTEM = ("/usr", "/bin", "/sbin", "/etc", "/opt", "/nix")
_KERNEL = ("/dev", "/proc", "/sys", "/run")
_OF_THE_KERNEL = {
    *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs"),
    *("efivarfs", "selinuxfs", "binfmt_misc", "bpf", "fusectl", "pstore"),
}
"""File systems that are no files: what is written there changes the machine."""
_CODE = Path(__file__).resolve().parents[1]
_LIBRARIES = ("site-packages", "dist-packages")
_PARTS = ("ask_providers", "ask_prompts")
_ELSEWHERE = Path("/run/home")
_RUNTIMES = ("python3", "node")
_TOOLCHAIN = ("pyvenv.cfg", "conda-meta", "lib/node_modules", "lib/ruby", "lib/perl5", "lib/rustlib", "lib/modules")
"""What is beside the `bin` of a toolchain, and not of a project that has a `bin` and a `lib` too."""
_VERSION_MANAGER = ("versions", "installs")
"""What is beside the `shims` of a version manager, such as pyenv or mise."""


def confine(
    directory: Path,
    allowed: Sequence[Path] = (),
    *,
    config: Path,
    data: Path,
    spill: Path,
    environment: Mapping[str, str],
    admitted: Iterable[str] = (),
    readable: Sequence[Path] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Confinement:
    """What a run is confined to.

    Args:
        directory: the working directory.
        allowed: further directories that may be written.
        config: ask's folder of configuration and keys.
        data: ask's folder of data.
        spill: the folder for long outputs of this run alone, in `data`; its content can be read inside.
        environment: the user's.
        admitted: further variables of it that calls may see.
        readable: further folders that calls may read.
        limits: what calls may use.

    Raises:
        SafetyError: a directory cannot be writable without opening the sandbox, or is not there.
    """
    homes = _homes(environment)
    secret = (config.resolve(), data.resolve())
    folders = [_resolve(folder) for folder in (directory, *allowed)]
    _refuse_all(folders, homes, secret)
    home, tools = _inner_home(homes[0]), _toolchains(environment.get("PATH", ""), (*homes, *secret))
    return Confinement(
        directory=folders[0],
        allowed=tuple(folders[1:]),
        readable=tuple(_outside_system({*_prefixes(), _CODE, *tools, *(_resolve(path) for path in readable)})),
        secret=secret,
        spill=spill.resolve(),
        state=secret[1] / "safe",
        home=home,
        environment={
            "LANG": "C.UTF-8",
            **{name: environment[name] for name in (*INHERITED, *admitted) if name in environment},
            "HOME": str(home),
            "TMPDIR": TEMPORARY,
        },
        limits=limits,
        user_environment=environment,
    )


def _resolve(folder: Path) -> Path:
    try:
        found = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        raise SafetyError(f"there is no folder {folder}", "name one that exists") from None
    if not found.is_dir():
        raise SafetyError(f"{folder} is no folder", "name a folder")
    return found


def _homes(environment: Mapping[str, str]) -> list[Path]:
    """The user's home directories: the environment's, and the one of the user database."""
    import pwd

    named = [environment.get("HOME", "")]
    with suppress(KeyError):  # a container's user may be a bare number
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    return [Path(name).resolve() for name in named if name.startswith("/")] or [_ELSEWHERE]


def _inner_home(home: Path) -> Path:
    """Where the empty home is: in the place of the user's, unless the system has its folders there."""
    system = [Path(name) for name in (*SYSTEM, *_KERNEL)]
    clash = any(home.is_relative_to(folder) or folder.is_relative_to(home) for folder in system)
    return _ELSEWHERE if clash else home


def _code(python: Path) -> list[Path]:
    """Where everything comes from that runs in ask itself."""
    from importlib.util import find_spec

    specs = [find_spec(name) for name in _PARTS]
    parts = [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    libraries = [Path(entry) for entry in sys.path if Path(entry).name in _LIBRARIES]
    return [path.resolve() for path in (_CODE, python.parent, Path(os.__file__).parent, *parts, *libraries)]


def _refuse_all(folders: Sequence[Path], homes: Sequence[Path], secret: Sequence[Path]) -> None:
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    for folder in folders:
        _refuse(folder, homes, {"configuration": secret[:1], "data": secret[1:], "code": _code(python)})
    for mount in read_mounts():
        if mount.kind in _OF_THE_KERNEL and any(is_below(mount.path, str(folder)) for folder in folders):
            raise SafetyError(f"--safe protects nothing where {mount.path} is: it belongs to the kernel", "unmount it")
    for prefix in _prefixes():
        if any(path.is_relative_to(prefix) for path in (*homes, *secret)):
            raise SafetyError(f"--safe would have to show {prefix}, where Python is", "use a Python of its own folder")


def _refuse(folder: Path, homes: Sequence[Path], own: Mapping[str, Sequence[Path]]) -> None:
    advice = "start in the folder of the work itself"
    if any(home.is_relative_to(folder) for home in homes) and folder != Path("/"):
        raise SafetyError(f"--safe protects nothing in {folder}: it holds your home directory", advice)
    for name in (*SYSTEM, *_KERNEL):
        if Path(name).resolve().is_relative_to(folder):
            raise SafetyError(f"--safe protects nothing in {folder}: it holds the system", advice)
    if any(folder.is_relative_to(name) for name in _KERNEL):
        raise SafetyError(f"--safe cannot work in {folder}: it belongs to the kernel", advice)
    for entry in (Path(entry).resolve() for entry in sys.path if entry):
        if entry.is_relative_to(folder):
            named = _is_named(entry)
            where, what = (f"{entry}, which PYTHONPATH names", "unset PYTHONPATH") if named else ("there", advice)
            raise SafetyError(f"--safe cannot work in {folder}: Python takes ask's modules from {where}", what)
    for what, paths in own.items():
        for path in paths:
            if path.is_relative_to(folder) or folder.is_relative_to(path):
                raise SafetyError(f"--safe cannot work in {folder}: ask's own {what} is there ({path})", advice)


def _is_named(entry: Path) -> bool:
    """Whether Python looks for modules in a folder because the user's PYTHONPATH names it."""
    names = os.environ.get("PYTHONPATH")
    return names is not None and entry in {Path(name).resolve() for name in names.split(os.pathsep)}


def _prefixes() -> set[Path]:
    """The folders of the Python that the worker runs on."""
    return {Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}


def _outside_system(paths: Iterable[Path]) -> Iterator[Path]:
    """Those that are not shown anyway."""
    for path in paths:
        if not any(path.is_relative_to(folder) for folder in SYSTEM):
            yield path


def _toolchains(search: str, private: Sequence[Path]) -> Iterator[Path]:
    """The programs on the search path and what belongs to them, as far as nothing private is in it."""
    for entry in dict.fromkeys(search.split(os.pathsep)):
        folder = Path(entry)
        if not folder.is_absolute() or not os.path.isdir(folder):
            continue
        folder = Path(os.path.realpath(folder))
        runtimes = [Path(os.path.realpath(folder / name)).parent for name in _RUNTIMES]
        for programs in dict.fromkeys((folder, *runtimes)):
            whole = programs.parent
            for path in (whole, programs) if _is_toolchain(programs) else (programs,):
                if os.path.isdir(path) and not any(one.is_relative_to(path) for one in private):
                    yield path
                    break


def _is_toolchain(programs: Path) -> bool:
    """Whether all that is beside a folder of programs belongs to them, not to a project or to the user."""
    whole = programs.parent
    if programs.name == "shims":
        return any(os.path.isdir(whole / name) for name in _VERSION_MANAGER)
    if programs.name != "bin" or whole.name == ".local":
        return False
    return any(os.path.lexists(whole / name) for name in _TOOLCHAIN) or any(whole.glob("lib/python3*/os.py"))


def check_unmoved(confinement: Confinement) -> None:
    """See that the writable directories' names still mean those directories: a call may have put a link there.

    Raises:
        SafetyError: one does not.
    """
    for folder in confinement.writable:
        if os.path.realpath(folder) != str(folder) or not os.path.isdir(folder):
            raise SafetyError(f"{folder} is not the folder any more that it was at the start", "start again")
