"""Runs a command on a terminal of its own, 80 columns wide, and reads what it shows: `on_terminal.py COMMAND...`."""

from __future__ import annotations

import os
import pty
import sys
import termios


def main() -> None:
    """Run it, and exit as it did."""
    process, terminal = pty.fork()
    if not process:
        os.environ["TERM"] = "xterm-256color"
        termios.tcsetwinsize(0, (24, 80))
        os.execvp(sys.argv[1], sys.argv[1:])
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # how Linux tells that the terminal has lost its last user
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


if __name__ == "__main__":
    main()
