"""Ending a child process when its parent ends."""

from __future__ import annotations

import ctypes
import signal

PR_SET_PDEATHSIG = 1
"""See prctl(2)."""
prctl = getattr(ctypes.CDLL(None), "prctl", None)


def end_with_parent() -> None:
    """Have the kernel end this process once the thread that started it has ended, even by SIGKILL."""
    if prctl:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
