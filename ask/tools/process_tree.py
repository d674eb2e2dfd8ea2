"""Ends a command together with everything that it started, wherever that has gone.

A process belongs to the command if it is in the shell's session, has the call's mark in its environment, or
descends from one that does. Without /proc, only the shell's process group can be reached.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

TERM_GRACE_PERIOD = 2.0
"""Seconds between TERM and KILL."""
_POLL_INTERVAL = 0.02


def kill_process_tree(session_id: int | None, mark: str) -> None:
    """Sends TERM to all, and KILL to what is left after `TERM_GRACE_PERIOD` seconds; whoever interrupts that gets KILL at once.

    Args:
        session_id: the process id of the shell, which leads its session and is not yet reaped; None if unknown.
        mark: a random text in the environment of everything that the shell started.
    """
    try:
        left = _signal_processes(session_id, mark, signal.SIGTERM)
        deadline = time.monotonic() + TERM_GRACE_PERIOD
        while left and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL)
            left = _signal_processes(session_id, mark, 0)
    finally:
        # Again and again, because what is forked during the search is not found by it.
        deadline = time.monotonic() + TERM_GRACE_PERIOD
        while _signal_processes(session_id, mark, signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL)


def _signal_processes(session_id: int | None, mark: str, signal_number: int) -> bool:
    """Whether anything was there to get the signal."""
    reached = False
    for process in _find_processes(session_id, mark.encode()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal_number)
            reached = True
    return reached


def _find_processes(session_id: int | None, mark: bytes) -> list[int]:
    """The processes of a command; a negative number stands for a process group.

    Parents come before their children: a shell whose child ends first would go on to its next command.
    """
    proc = Path("/proc")
    if not (proc / "self/stat").exists():
        return [] if session_id is None else [-session_id]
    children: dict[int, list[int]] = defaultdict(list)
    waiting = []
    for entry in proc.iterdir():
        if not entry.name.isdecimal():
            continue
        # The command's name, in parentheses, may hold anything; the fields after it are numbers.
        state, parent, _, leader, *_ = _read_proc_file(entry / "stat").rpartition(b")")[2].split() or (b"X", 0, 0, 0)
        if state in (b"Z", b"X"):
            continue
        children[int(parent)].append(int(entry.name))
        if int(leader) == session_id or mark in _read_proc_file(entry / "environ"):
            waiting.append(int(entry.name))
    found: set[int] = set()
    while waiting:
        process = waiting.pop()
        if process not in found:
            found.add(process)
            waiting += children[process]
    below = {child for process in found for child in children[process]}
    ordered = [process for process in found if process not in below]
    for process in ordered:
        ordered += children[process]
    return ordered


def _read_proc_file(path: Path) -> bytes:
    """The file's content, b"" where the process is gone or somebody else's."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
