"""The identity of a terminal: `ask -c` and `ask undo` continue what was done on the same one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ask.text import repair_surrogates

PROC = Path("/proc")


def identify_terminal(environment: Mapping[str, str]) -> str:
    """Return an id for the terminal, the same for all its processes and never reused; "" without a terminal.

    It is `$ASK_SESSION` if set. Otherwise it consists of the device, the shell that leads the session, and the boot
    and start time of that shell, because device numbers and process ids are reused.
    """
    session = environment.get("ASK_SESSION")
    if session:
        return f"session:{repair_surrogates(session)}"
    process_stat = read_process_stat("self")
    if not process_stat:
        return _identify_without_proc()
    leader, device = process_stat[3], process_stat[4]  # the fields 6 and 7 of proc(5)
    if device == "0":
        return ""
    start_time = read_process_stat(leader)[19:20]  # field 22; nothing if the shell has ended
    return ":".join(("terminal", device, leader, _read_boot_id(), *start_time))


def _read_boot_id() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_process_stat(pid: str) -> list[str]:
    """Read the fields of /proc/PID/stat from the process state on; [] if it cannot be read."""
    try:
        # The command name, in parentheses, may itself contain spaces and parentheses.
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
        start_time = run(["ps", "-o", "lstart=", "-p", leader], stdout=PIPE, stderr=DEVNULL, check=False).stdout
    except OSError:
        start_time = b""
    return ":".join(("terminal", leader, " ".join(start_time.decode(errors="replace").split())))
