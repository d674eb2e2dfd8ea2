"""Bubblewrap: find a trustworthy one, build its arguments, explain its error messages."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ask.errors import SafetyError
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig

TEMPORARY_FOLDER = "/tmp"  # noqa: S108 - this is the sandbox's /tmp
SANDBOX_MARKER_PATH = "/run/ask-sandbox"
"""A file in every sandbox. After the last mount, bubblewrap copies it from a pipe until that is closed."""


BUBBLEWRAP_PATHS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Paths to try. PATH is not used: it can contain the working directory."""
MIN_VERSION = (0, 8, 0)
_INSTALL_HINT = "install bubblewrap (apt, dnf or pacman install bubblewrap)"
_KNOWN_FAILURES = (
    (
        ("uid map", "loopback", "Permission denied"),
        "the system does not let bubblewrap make a user namespace",
        "on Ubuntu, install the AppArmor profile bwrap-userns-restrict; in a container, allow user namespaces",
    ),
    (
        ("namespace", "No space left", "user namespaces"),
        "user namespaces are switched off",
        "set kernel.unprivileged_userns_clone=1 and user.max_user_namespaces above 0 with sysctl",
    ),
    (
        ("mount proc",),
        "the system does not let bubblewrap mount /proc",
        "in a container, run it with --security-opt systempaths=unconfined",
    ),
)


def find_bubblewrap(candidates: Sequence[str] = BUBBLEWRAP_PATHS) -> str:
    """Return the path of bubblewrap.

    Raises:
        SafetyError: this is not Linux, or bubblewrap is not installed, or users other than root can modify it.
    """
    if os.uname().sysname != "Linux":
        raise SafetyError("--safe works on Linux alone as yet", "go on without it only where the model is trusted")
    for name in candidates:
        path = Path(name)
        if path.exists():
            for part in (path.resolve(), path.resolve().parent):
                status = part.stat()
                if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise SafetyError(f"--safe does not trust {part}: others than root can change it", _INSTALL_HINT)
            if not os.access(path, os.X_OK):
                raise SafetyError(f"--safe cannot run {name}", _INSTALL_HINT)
            return name
    raise SafetyError("--safe needs bubblewrap (bwrap), which is not installed", _INSTALL_HINT)


def explain_bubblewrap_failure(program: str, stderr: str) -> SafetyError:
    """Explain why the sandbox did not start, from the stderr of bubblewrap or of the worker in it."""
    version = read_bubblewrap_version(program)
    if version and version < MIN_VERSION:
        actual, required = (".".join(map(str, numbers)) for numbers in (version, MIN_VERSION))
        return SafetyError(f"--safe needs bubblewrap {required}, and {program} is {actual}", "install a newer one")
    lines = stderr.strip().splitlines()
    last_line = lines[-1][:300] if lines else "it said nothing"
    if last_line.startswith("bwrap: "):
        for markers, cause, hint in _KNOWN_FAILURES:
            if any(marker in last_line for marker in markers):
                return SafetyError(f"no sandbox can be opened: {cause} ({last_line})", hint)
    return SafetyError(f"no sandbox can be opened ({last_line})", "see `ask safe`, or go on without --safe")


def read_bubblewrap_version(program: str) -> tuple[int, ...]:
    """Return the version that `program --version` prints, or ()."""
    from subprocess import SubprocessError, run

    try:
        output = run([program, "--version"], capture_output=True, text=True, timeout=5, env={}, check=False).stdout
    except (OSError, SubprocessError):
        return ()
    return tuple(int(part) for part in output.rpartition(" ")[2].strip().split(".") if part.isdecimal())


class BindMount(NamedTuple):
    """A file or folder of the host that is mounted in the sandbox."""

    source: Path
    destination: Path
    writable: bool = False


def list_bind_mounts(config: SandboxConfig, filesystem: HostFilesystem) -> list[BindMount]:
    """List the mounts from the host in order, without those that a later one would cover."""
    writable = sorted({*config.writable_folders, *filesystem.pinned_folders})
    readable = [
        path for path in sorted(config.readable_folders) if {path, *path.parents}.isdisjoint(config.writable_folders)
    ]
    protected = [
        path for path in sorted(filesystem.protected_paths) if {*path.parents}.isdisjoint(filesystem.protected_paths)
    ]
    return [
        *(BindMount(path, path) for path in (*filesystem.system_folders, *readable)),
        *(BindMount(path, path, writable=True) for path in writable if {*path.parents}.isdisjoint(protected)),
        *(BindMount(path, path) for path in protected),
        *(BindMount(Path("/dev/null"), path) for path in sorted(filesystem.hidden_files)),
        BindMount(config.overflow_directory, config.overflow_directory),
    ]


def build_bubblewrap_arguments(
    config: SandboxConfig,
    filesystem: HostFilesystem,
    command: Sequence[str],
    *,
    filter_fd: int,
    info_fd: int,
    mounted_fd: int,
) -> list[str]:
    """Build the arguments that make bubblewrap run `command` as process 1 of the sandbox.

    bubblewrap reads the seccomp filter from `filter_fd` and writes the command's process id to `info_fd`. When
    everything is mounted, it reads `mounted_fd` to its end before it continues.
    """
    namespaces = "--unshare-user --disable-userns --unshare-ipc --unshare-pid --unshare-uts --unshare-net"
    process_options = "--unshare-cgroup-try --cap-drop ALL --new-session --die-with-parent --as-pid-1"
    return [
        *namespaces.split(),
        *process_options.split(),
        *("--seccomp", str(filter_fd)),
        *("--info-fd", str(info_fd)),
        *_build_mount_arguments(config, filesystem),
        *("--file", str(mounted_fd), SANDBOX_MARKER_PATH),
        # Read-only from here on: the mount points above have been created, and nothing can be added next to them.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(config.working_directory)),
        "--",
        *command,
    ]


def _build_mount_arguments(config: SandboxConfig, filesystem: HostFilesystem) -> Iterator[str]:
    """Yield the mount arguments; parents come before their subfolders."""
    for target, link in filesystem.root_links:
        yield from ("--symlink", target, str(link))
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var")
    size = str(config.limits.temporary_size)
    for path in sorted({TEMPORARY_FOLDER, "/var/tmp", "/dev/shm", str(config.home)}):  # noqa: S108
        yield from ("--size", size, "--perms", "1777", "--tmpfs", path)
    for bind in list_bind_mounts(config, filesystem):
        yield from ("--bind" if bind.writable else "--ro-bind", str(bind.source), str(bind.destination))
    for folder in filesystem.hidden_folders:
        yield from ("--perms", "0555", "--tmpfs", str(folder), "--remount-ro", str(folder))
