"""Runs a program as on a file system without locks or shared memory: the kernel refuses them.

python lockless.py locks|memory PROGRAM [ARGUMENT]...
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

SYSTEM_CALLS = {"x86_64": {"fcntl": 72, "mmap": 9}, "aarch64": {"fcntl": 25, "mmap": 222}}
LOCK_COMMANDS = (5, 6, 7, 36, 37, 38)
"""F_GETLK, F_SETLK, F_SETLKW, and those for open file descriptions, on machines with 64 bits."""
MAP_SHARED = 1
REFUSED = {"locks": ("fcntl", 1, LOCK_COMMANDS, errno.ENOLCK), "memory": ("mmap", 3, (MAP_SHARED,), errno.ENODEV)}
"""What is refused: a system call, the number of an argument, its values, and the error."""
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER_OFFSET, ARGUMENTS_OFFSET, ARGUMENT_BYTES = 0, 16, 8
ALLOW, FAIL = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


def refuse(kind: str) -> None:
    """Install the filter in this process, whose children inherit it."""
    name, argument, values, error = REFUSED[kind]
    count = len(values)
    instructions = [
        (LOAD, 0, 0, NUMBER_OFFSET),
        (JUMP_IF_EQUAL, 0, count + 1, SYSTEM_CALLS[platform.machine()][name]),
        (LOAD, 0, 0, ARGUMENTS_OFFSET + argument * ARGUMENT_BYTES),
        *((JUMP_IF_EQUAL, count - position, 0, value) for position, value in enumerate(values)),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, FAIL | error),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
