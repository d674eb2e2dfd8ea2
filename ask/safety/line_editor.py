"""A line to edit on a terminal: a child with Python's readline, which has the user's keys and leaves ours alone."""

from __future__ import annotations

import os
import sys

_EXIT_TIMEOUT = 0.5
"""Seconds that the child has, when Ctrl-C has ended it too, to put the terminal back."""
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
    """The line that the user makes of `text`; None where there is none. Without readline it begins empty.

    Args:
        terminal_fd: the descriptor of the terminal.
        prompt: stands before the line.
        text: one line without control characters.

    Raises:
        OSError: the child cannot be started.
    """
    from subprocess import DEVNULL, Popen, TimeoutExpired

    result, its_end = os.pipe()
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _CHILD_CODE, prompt, text, str(its_end)]
    with open(result, "rb") as line:
        try:
            child = Popen(command, stdin=terminal_fd, stdout=terminal_fd, stderr=DEVNULL, pass_fds=[its_end])
        finally:
            os.close(its_end)
        try:
            edited = line.read()
            return edited.decode("utf-8", "surrogateescape") if child.wait() == 0 else None
        finally:
            try:
                child.wait(_EXIT_TIMEOUT)
            except TimeoutExpired:
                child.kill()
                child.wait()
