"""Checks of what is kept on the disk: the folders, and the file of conversations."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ask.agent.workspace import Workspace
from ask.cli.doctor.finding import OK, PROBLEM, WARNING, Finding
from ask.errors import FileError
from ask.render.amounts import counted, short

PATIENCE = 1.0
"""Seconds to wait for another process that keeps the history to itself."""
LEAST = 10_000_000
"""Bytes on a disk below which it is as good as full."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO
MISSED = {
    "config": (WARNING, "settings and keys cannot be changed"),
    "data": (PROBLEM, "conversations and what files held before cannot be kept"),
    "cache": (WARNING, "every start takes longer"),
}
"""How bad it is that a folder cannot be written, and why."""


def check_folders(workspace: Workspace) -> Iterator[Finding]:
    """Whether the folders can be written, or made."""
    for name, folder in workspace.places._asdict().items():
        state, loss = MISSED[name]
        there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        check, words = f"{name} folder", str(folder) if there == folder else f"{folder}, not made yet"
        if not there.is_dir():
            yield Finding(state, check, f"{there} is no folder: {loss}", "move it away")
        elif not os.access(there, os.W_OK | os.X_OK):
            fix = f"make {there} writable, or set XDG_{name.upper()}_HOME to another place"
            yield Finding(state, check, f"{there} cannot be written: {loss}", fix)
        elif (free := room(there)) < LEAST:
            yield Finding(state, check, f"{folder} is on a disk with {short(free)} bytes left", "make room on it")
        else:
            yield Finding(OK, check, words)


def room(folder: Path) -> int:
    """The bytes left on a disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def check_history(workspace: Workspace) -> Iterator[Finding]:
    """Whether the saved conversations can be read, how many they are, and that nobody else reads them."""
    from ask.history.store import Store

    path = workspace.history
    if not path.exists():
        yield Finding(OK, "history", "no conversation is saved yet")
        return
    try:
        with Store(path, create=False, patience=PATIENCE) as store:
            [(count,)] = store.rows("SELECT count(*) FROM conversations")
    except FileError as error:
        yield Finding(PROBLEM, "history", error.message, error.advice)
        return
    status = path.stat()
    words = f"{counted(count, 'conversation')} in {short(status.st_size)} bytes"
    if status.st_mode & OTHERS:
        yield Finding(WARNING, "history", f"{words}; others can read it", f"chmod 600 {path}")
    elif not workspace.config.get("history.enabled", True):
        yield Finding(OK, "history", f"{words}; not saved any more (history.enabled)")
    else:
        yield Finding(OK, "history", words)
