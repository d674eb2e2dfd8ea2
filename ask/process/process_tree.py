"""Kill a command together with all processes that it started.

A process belongs to the command if it is in the shell's session, has the call's mark in its environment, or descends
from a process that does. Without /proc, only the shell's process group can be signaled.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

TERM_GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""
EXIT_SECONDS = 1.0
"""Seconds that a process has to exit that was killed or is no longer needed."""
_POLL_SECONDS = 0.02
_MARK_VARIABLE = "ASK_CALL"


def mark_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Add a new mark to an environment; return the environment and the mark.

    Earlier marks are kept: a command that another command starts belongs to both.
    """
    mark = os.urandom(16).hex()
    return {**environment, _MARK_VARIABLE: f"{environment.get(_MARK_VARIABLE, '')} {mark}".strip()}, mark


def describe_exit(return_code: int) -> str:
    """Describe the return code of a process; a negative one is a signal."""
    if return_code >= 0:
        return f"exit status {return_code}"
    return f"killed by signal {-return_code}: {signal.strsignal(-return_code)}"


def wait_for_exit(process: Popen[bytes]) -> None:
    """Wait until a process ends, but not forever: one that is stuck in the kernel never does."""
    from subprocess import TimeoutExpired

    with suppress(TimeoutExpired):
        process.wait(EXIT_SECONDS)


def kill_process_tree(session_id: int | None, mark: str) -> None:
    """Send SIGTERM to all processes of a command, then SIGKILL to those that are left.

    The grace period is `TERM_GRACE_SECONDS` seconds. An interrupt during it sends SIGKILL at once.

    Args:
        session_id: process id of the shell, which leads its session and is not yet reaped; None if unknown.
        mark: a random string in the environment of every process that the shell started.
    """
    try:
        any_left = _signal_processes(session_id, mark, signal.SIGTERM)
        deadline = time.monotonic() + TERM_GRACE_SECONDS
        while any_left and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            any_left = _signal_processes(session_id, mark, 0)  # signal 0 only checks whether they exist
    finally:
        _kill_until_none_left(session_id, mark)


def _kill_until_none_left(session_id: int | None, mark: str) -> None:
    """Send SIGKILL to all processes. An interrupt, such as the third Ctrl-C, is raised only after that."""
    try:
        # Repeat, because the search can miss processes that are forked meanwhile.
        deadline = time.monotonic() + TERM_GRACE_SECONDS
        while _signal_processes(session_id, mark, signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    except (KeyboardInterrupt, SystemExit):
        _kill_until_none_left(session_id, mark)
        raise


def _signal_processes(session_id: int | None, mark: str, signal_number: int) -> bool:
    """Signal all processes of a command; return whether there were any."""
    any_signaled = False
    for pid in _find_processes(session_id, mark.encode()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal_number)
            any_signaled = True
    return any_signaled


def _find_processes(session_id: int | None, mark: bytes) -> list[int]:
    """Return the process ids of a command; a negative number is a process group.

    Parents come before their children: a shell whose child is killed first would run its next command.
    """
    if not os.path.exists("/proc/self/stat"):
        return [] if session_id is None else [-session_id]
    children: dict[int, list[int]] = defaultdict(list)
    queue = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        state, parent, _, session, *_ = read_stat_fields(name) or (b"X", 0, 0, 0)
        if state in (b"Z", b"X"):  # has ended; its parent has not noticed yet
            continue
        children[int(parent)].append(int(name))
        if int(session) == session_id or mark in read_proc_file(name, "environ"):
            queue.append(int(name))
    found: set[int] = set()
    while queue:
        pid = queue.pop()
        if pid not in found:
            found.add(pid)
            queue += children[pid]
    descendants = {child for pid in found for child in children[pid]}
    ordered = [pid for pid in found if pid not in descendants]
    for pid in ordered:  # also those that are added meanwhile
        ordered += children[pid]
    return ordered


def read_stat_fields(pid: str) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on, see proc(5); [] if the process is gone."""
    # The command name before them, in parentheses, may contain any character.
    return read_proc_file(pid, "stat").rpartition(b")")[2].split()


def read_proc_file(pid: str, name: str) -> bytes:
    """Return the content of a file in /proc/PID; b"" if the process is gone or belongs to another user."""
    try:
        return Path("/proc", pid, name).read_bytes()
    except OSError:
        return b""
