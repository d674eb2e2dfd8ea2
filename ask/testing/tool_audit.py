"""Reports what tools do in their own process: files they change, and calls that block an event loop.

`ToolContract` loads this module with the tools. A report is a line on stderr, which the contract removes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ask import Tool

REPORT_PREFIX = "\0contract: "
CHANGE, BLOCK = "changed", "blocked"
"""The first word of a report."""
CHANGE_EVENTS = frozenset(
    f"os.{name}"
    for name in ("remove", "rename", "mkdir", "rmdir", "truncate", "chmod", "chown", "link", "symlink", "utime")
)
"""Audit events of changes to files, whose first argument is a path.

https://docs.python.org/3/library/audit_events.html
"""
BLOCKING_EVENTS = frozenset({"time.sleep", "socket.getaddrinfo", "urllib.Request"})
"""Audit events of calls that wait. Python reports `time.sleep` from 3.13 on."""
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
IGNORED_FOLDERS = ("__pycache__", ".cache")
"""Folders with files that are only copies."""


def register_tools() -> list[Tool]:
    """Begin to report; there are no tools."""
    folders = (f"{os.getcwd()}/", f"{tempfile.gettempdir()}/")  # before the hook, which must not open a file

    def report(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and len(arguments) == 3 and isinstance(arguments[2], int):
            path, _, flags = arguments
            if flags & WRITE_FLAGS and _is_kept(path, *folders):
                _write_report(CHANGE, os.fsdecode(path))
        elif event in CHANGE_EVENTS and _is_kept(arguments[0], *folders):
            _write_report(CHANGE, os.fsdecode(arguments[0]))
        elif event in BLOCKING_EVENTS and _is_in_event_loop():
            _write_report(BLOCK, event)

    sys.addaudithook(report)
    return []


def _is_kept(path: object, start_folder: str, temporary_folder: str) -> bool:
    """Check whether a path is that of a file which others see: neither a device nor a temporary file."""
    if not isinstance(path, str | bytes):  # a file descriptor
        return False
    absolute = os.path.abspath(os.fsdecode(path))
    if absolute.startswith(start_folder):
        return True
    is_copy = any(part in IGNORED_FOLDERS for part in Path(absolute).parts)
    return not is_copy and not f"{absolute}/".startswith(("/dev/", "/proc/", temporary_folder))


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _write_report(word: str, detail: str) -> None:
    os.write(2, f"{REPORT_PREFIX}{word} {' '.join(detail.split())}\n".encode())
