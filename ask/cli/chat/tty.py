"""The terminal of a chat, which is left as it was found, however the chat ends."""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOCAL = 3  # its place in what tcgetattr returns


@contextmanager
def terminal_kept() -> Iterator[None]:
    """Keep what is typed meanwhile out of answers (the next prompt shows it), and put the terminal back in the end."""
    descriptor = sys.stdin.fileno()
    before = modes = None
    with suppress(termios.error):
        before, modes = termios.tcgetattr(descriptor), termios.tcgetattr(descriptor)
        modes[LOCAL] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
    try:
        yield
    finally:
        if before is not None:
            with suppress(termios.error):  # it is gone, and its state with it
                termios.tcsetattr(descriptor, termios.TCSANOW, before)
