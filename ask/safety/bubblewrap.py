"""Finding a trustworthy bubblewrap and explaining its error messages."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ask.errors import SafetyError

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
