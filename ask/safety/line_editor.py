"""Editing of a line on a terminal with readline.

readline runs in a child process, so that it can read the user's key bindings without changing those of ask.
"""

from __future__ import annotations

import os
import sys

_EXIT_TIMEOUT = 0.5
"""Seconds that the child has to restore the terminal after Ctrl-C."""
_CHILD_CODE = """
import sys
try:
    import readline
    readline.set_startup_hook(lambda: readline.insert_text(sys.argv[2]))
except ImportError:
    pass
try:
    line = input(sys.argv[1])
except (EOFError, KeyboardInterrupt):
    sys.exit(1)
with open(int(sys.argv[3]), "wb") as result:
    result.write(line.encode("utf-8", "surrogateescape"))
"""


def edit_line(terminal_fd: int, prompt: str, text: str) -> str | None:
    """Let the user edit `text`, one line without control characters. Return None if editing is canceled.

    Without readline, the line is empty at first.

    Raises:
        OSError: the child cannot be started.
    """
    from subprocess import DEVNULL, Popen, TimeoutExpired

    read_fd, write_fd = os.pipe()
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _CHILD_CODE, prompt, text, str(write_fd)]
    with open(read_fd, "rb") as result:
        try:
            child = Popen(command, stdin=terminal_fd, stdout=terminal_fd, stderr=DEVNULL, pass_fds=[write_fd])
        finally:
            os.close(write_fd)
        try:
            edited = result.read()
            return edited.decode("utf-8", "surrogateescape") if child.wait() == 0 else None
        finally:
            try:
                child.wait(_EXIT_TIMEOUT)
            except TimeoutExpired:
                child.kill()
                child.wait()
