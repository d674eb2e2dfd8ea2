"""Which terminal this is, so that each goes on with its own conversation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ask.text import repair_surrogates

PROC = Path("/proc")


def identify_terminal(environment: Mapping[str, str]) -> str:
    """A name for the terminal, the same for all that is started in it, never used again; "" where there is none.

    It is `$ASK_SESSION` where that is set. Otherwise it tells the device together with the shell that leads the
    session and when that began: numbers of devices and of processes come again.
    """
    named = environment.get("ASK_SESSION")
    if named:
        return f"session:{repair_surrogates(named)}"
    own = _read_process_stat("self")
    if not own:
        return _identify_without_proc()
    leader, device = own[3], own[4]
    if device == "0":
        return ""
    began = _read_process_stat(leader)[19:20]
    return ":".join(("terminal", device, leader, _read_boot_id(), *began))


def _read_boot_id() -> str:
    """What the system calls the time since it was started, in which no process begins twice; "" if it does not tell."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _read_process_stat(pid: str) -> list[str]:
    """What the system tells of a process, from its state on; [] where it tells nothing."""
    try:
        # The command's name, in parentheses, may hold anything.
        return (PROC / pid / "stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def _identify_without_proc() -> str:
    from subprocess import DEVNULL, PIPE, run

    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return ""
    leader = str(os.getsid(0))
    try:
        began = run(["ps", "-o", "lstart=", "-p", leader], stdout=PIPE, stderr=DEVNULL, check=False).stdout
    except OSError:
        began = b""
    return ":".join(("terminal", leader, " ".join(began.decode(errors="replace").split())))
