"""The program that builds the sandbox: where a trustworthy one is, and what its complaints mean to the user."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ask.errors import SafetyError

BUBBLEWRAP_PATHS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Where it may be. Never looked up on PATH, which a working directory can be on."""
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
    """The path of bubblewrap.

    Raises:
        SafetyError: this is not Linux, it is not installed, or could have been changed by somebody other than root.
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
    """Why no sandbox could be opened, from what bubblewrap, or the worker in it, wrote as it ended."""
    version = read_bubblewrap_version(program)
    if version and version < MIN_VERSION:
        told, wanted = (".".join(map(str, numbers)) for numbers in (version, MIN_VERSION))
        return SafetyError(f"--safe needs bubblewrap {wanted}, and {program} is {told}", "install a newer one")
    lines = stderr.strip().splitlines()
    told = lines[-1][:300] if lines else "it said nothing"
    if told.startswith("bwrap: "):
        for signs, cause, fix in _KNOWN_FAILURES:
            if any(sign in told for sign in signs):
                return SafetyError(f"no sandbox can be opened: {cause} ({told})", fix)
    return SafetyError(f"no sandbox can be opened ({told})", "see `ask safe`, or go on without --safe")


def read_bubblewrap_version(program: str) -> tuple[int, ...]:
    """The version of a bubblewrap, () if it does not tell."""
    from subprocess import SubprocessError, run

    try:
        said = run([program, "--version"], capture_output=True, text=True, timeout=5, env={}, check=False).stdout
    except (OSError, SubprocessError):
        return ()
    return tuple(int(part) for part in said.rpartition(" ")[2].strip().split(".") if part.isdecimal())
