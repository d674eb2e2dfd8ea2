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

GRACE = 2.0
"""Seconds between TERM and KILL."""
_PAUSE = 0.02


def end_all(session: int | None, mark: str) -> None:
    """Sends TERM to all, and KILL to what is left after `GRACE` seconds; whoever interrupts that gets KILL at once.

    Args:
        session: the process id of the shell, which leads its session and is not yet reaped; None if unknown.
        mark: a random text in the environment of everything that the shell started.
    """
    try:
        left = _signal_all(session, mark, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while left and time.monotonic() < deadline:
            time.sleep(_PAUSE)
            left = _signal_all(session, mark, 0)
    finally:
        # Again and again, because what is forked during the search is not found by it.
        deadline = time.monotonic() + GRACE
        while _signal_all(session, mark, signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(_PAUSE)


def _signal_all(session: int | None, mark: str, number: int) -> bool:
    """Whether anything was there to get the signal."""
    reached = False
    for process in _find(session, mark.encode()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
            reached = True
    return reached


def _find(session: int | None, mark: bytes) -> list[int]:
    """The processes of a command; a negative number stands for a process group.

    Parents come before their children: a shell whose child ends first would go on to its next command.
    """
    proc = Path("/proc")
    if not (proc / "self/stat").exists():
        return [] if session is None else [-session]
    children: dict[int, list[int]] = defaultdict(list)
    waiting = []
    for entry in proc.iterdir():
        if not entry.name.isdecimal():
            continue
        # The command's name, in parentheses, may hold anything; the fields after it are numbers.
        state, parent, _, leader, *_ = _read(entry / "stat").rpartition(b")")[2].split() or (b"X", 0, 0, 0)
        if state in (b"Z", b"X"):
            continue
        children[int(parent)].append(int(entry.name))
        if int(leader) == session or mark in _read(entry / "environ"):
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


def _read(path: Path) -> bytes:
    """The file's content, b"" where the process is gone or somebody else's."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
