"""The two ends of the program: standard output, which holds the answer alone, and the lines beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO

from ask.errors import FileError
from ask.text import for_terminal

DIM, RESET = "\x1b[2m", "\x1b[0m"


class Output:
    """Standard output, in UTF-8 whatever the locale. On a terminal, control characters are made visible."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise FileError("standard output is closed")
        self._stream: BinaryIO = sys.stdout.buffer
        self.terminal = sys.stdout.isatty()
        self._at_line_start = True
        if not os.get_blocking(self._stream.fileno()):
            os.set_blocking(self._stream.fileno(), True)

    def write(self, text: str) -> None:
        """Write a piece of text and let it be seen at once.

        Raises:
            FileError: it cannot be written.
            BrokenPipeError: nobody reads any more.
        """
        if text:
            self._at_line_start = text.endswith("\n")
            self._put(for_terminal(text) if self.terminal else text)

    def end_line(self) -> None:
        """Begin a new line, unless at the start of one."""
        if not self._at_line_start:
            self.write("\n")

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text.encode(errors="replace"))
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise FileError(f"cannot write the answer ({fault.strerror})") from fault


class Console:
    """Standard error: warnings, and what the tools do.

    Args:
        environment: says whether colour is wanted.
        quiet: say nothing at all.
        plain: no styling.
        redact: takes the keys out of a text.
    """

    def __init__(
        self, environment: Mapping[str, str], *, quiet: bool, plain: bool, redact: Callable[[str], str] = str
    ) -> None:
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self.redact = redact
        self._quiet = quiet
        colour = self.terminal and not plain and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        self._dim, self._reset = (DIM, RESET) if colour else ("", "")

    def line(self, text: str) -> None:
        """Say something, on a line of its own."""
        self._write(f"{for_terminal(self.redact(text))}\n")

    def dim(self, text: str) -> None:
        """Show a piece of text that is beside the point."""
        self._write(f"{self._dim}{for_terminal(self.redact(text))}{self._reset}")

    def _write(self, text: str) -> None:
        if self._quiet or sys.stderr is None:
            return
        try:
            sys.stderr.buffer.write(text.encode(errors="replace"))
            sys.stderr.flush()
        except (OSError, ValueError):
            self._quiet = True
