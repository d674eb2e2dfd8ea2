"""Runs a program as on a file system without file locks, such as NFS without a lock daemon."""

from __future__ import annotations

import platform
import sys

import pytest

LAUNCHER = """
import ctypes, os, platform, struct, sys
fcntl = {"x86_64": 72, "aarch64": 25}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, fcntl), (0x20, 0, 0, 24), (0x25, 1, 0, 7), (0x25, 1, 0, 4),
         (6, 0, 0, 0x7FFF0000), (6, 0, 0, 0x50000 | 37)]
code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
program = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(code))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, program, 0, 0):
    raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.argv[1], sys.argv[1:])
"""
WITHOUT_LOCKS = (sys.executable, "-c", LAUNCHER)
"""A command to put before another: the commands of fcntl(2) that lock a file fail with ENOLCK."""
NEEDS_SECCOMP = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="needs seccomp and the number of a system call",
)
