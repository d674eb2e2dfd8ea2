"""Processes of sandboxes that are visible on the host."""

from __future__ import annotations

import os
from pathlib import Path

from tests.program import is_running


def processes(directory: Path) -> list[int]:
    """Return the processes on this machine that run in a sandbox for the directory, or started one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                arguments = (entry / "cmdline").read_bytes()
                inside = os.readlink(entry / "cwd") == str(directory) and int(entry.name) != os.getpid()
            except OSError:
                continue
            if (inside or (b"bwrap\0" in arguments and os.fsencode(directory) in arguments)) and is_running(
                int(entry.name)
            ):
                found.append(int(entry.name))
    return found
