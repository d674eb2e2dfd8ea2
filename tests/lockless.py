"""Runs a program as on a file system without locks: the kernel refuses every fcntl lock with ENOLCK."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

FCNTL_NUMBERS = {"x86_64": 72, "aarch64": 25}
LOCK_COMMANDS = (5, 6, 7, 36, 37, 38)
"""F_GETLK, F_SETLK, F_SETLKW, and those for open file descriptions, on machines with 64 bits."""
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER_OFFSET, SECOND_ARGUMENT_OFFSET = 0, 24
ALLOW, FAIL = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


def refuse_locks() -> None:
    """Install the filter in this process, whose children inherit it."""
    count = len(LOCK_COMMANDS)
    instructions = [
        (LOAD, 0, 0, NUMBER_OFFSET),
        (JUMP_IF_EQUAL, 0, count + 1, FCNTL_NUMBERS[platform.machine()]),
        (LOAD, 0, 0, SECOND_ARGUMENT_OFFSET),
        *((JUMP_IF_EQUAL, count - position, 0, command) for position, command in enumerate(LOCK_COMMANDS)),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, FAIL | errno.ENOLCK),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse_locks()
    os.execvp(sys.argv[1], sys.argv[1:])
