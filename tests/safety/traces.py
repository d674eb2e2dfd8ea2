"""What is to be seen on the host of the sandboxes for a folder."""

from __future__ import annotations

import os
from pathlib import Path

from tests.program import is_running


def processes(directory: Path) -> list[int]:
    """The processes on this machine that are, or were, in a sandbox for that directory."""
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
