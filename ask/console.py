"""The two ends of the program: standard output, which holds the answer alone, and the lines beside it."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO

from ask.errors import BrokenOutputError, FileError
from ask.text import escape_control_characters

BOLD, DIM, RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
CLEAR_LINE = "\r\x1b[2K"


def should_use_color(environment: Mapping[str, str]) -> bool:
    """Whether a terminal may be sent colours, and bold and dim with them."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def can_redraw(output: StandardOutput, environment: Mapping[str, str]) -> bool:
    """Whether what is shown may be changed afterwards: on a terminal that can do it, and where nobody types."""
    able = output.is_terminal and should_use_color(environment) and environment.get("TERM", "") not in ("", "unknown")
    return able and is_in_foreground()


def is_in_foreground() -> bool:
    """Whether the terminal is ours at the moment, not that of the shell or of another program."""
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:
        return False


class StandardOutput:
    """Standard output, in UTF-8 whatever the locale. On a terminal, control characters are made visible.

    Several processes may share a pipe or file, as under `xargs -P`. Each locks it from the first byte of a line to the
    last, so lines are never mixed: an incomplete line is kept back, and a complete one waits, while another has it.

    Args:
        colour: show styles on a terminal.
        live: show a line before it is complete.
    """

    def __init__(self, *, color: bool = False, show_partial_lines: bool = True) -> None:
        if sys.stdout is None:
            raise FileError("standard output is closed")
        self._stream: BinaryIO = sys.stdout.buffer
        self.is_terminal = sys.stdout.isatty()
        self._use_styles = color and self.is_terminal
        self._at_line_start = True
        self._show_partial_lines = show_partial_lines
        self._pending_text = ""
        self._has_lock = False
        if not os.get_blocking(self._stream.fileno()):
            os.set_blocking(self._stream.fileno(), True)

    def write(self, text: str, style: str = "") -> None:
        """Write a piece of text and let it be seen at once; `style` is the escape sequence that begins it.

        Raises:
            FileError: it cannot be written.
            ReaderGone: nobody reads any more.
        """
        if text:
            self._at_line_start = text.endswith("\n")
            if self.is_terminal:
                shown = escape_control_characters(text)
                self._write_to_stream(f"{style}{shown}{RESET}" if style and self._use_styles else shown)
                return
            self._pending_text += text
            if self._at_line_start or self._show_partial_lines:
                self._write_pending(wait=self._at_line_start)

    def write_raw(self, sequences: str) -> None:
        """Write to a terminal what was made for it, in which nothing that came from outside is left as it was.

        Raises:
            AskError: as from `write`.
        """
        self._write_to_stream(sequences)

    def end_line(self) -> None:
        """Begin a new line, unless at the start of one."""
        if not self._at_line_start:
            self.write("\n")

    def flush(self) -> None:
        """Write an incomplete line that was kept back."""
        if self._pending_text:
            self._write_pending(wait=True)

    def _write_pending(self, *, wait: bool) -> None:
        """Write the text that waits, unless another process is within a line and `wait` is false."""
        if not (self._has_lock or self._acquire_lock(wait=wait)):
            return
        text, self._pending_text = self._pending_text, ""
        self._write_to_stream(text)
        if self._at_line_start:
            self._set_lock(fcntl.LOCK_UN)
            self._has_lock = False

    def _acquire_lock(self, *, wait: bool) -> bool:
        """Lock standard output; true too where it cannot be locked."""
        try:
            self._set_lock(fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True
        self._has_lock = True
        return True

    def _set_lock(self, operation: int) -> None:
        fcntl.lockf(self._stream.fileno(), operation)

    def _write_to_stream(self, text: str) -> None:
        try:
            self._stream.write(text.encode(errors="replace"))
            self._stream.flush()
        except BrokenPipeError:
            raise BrokenOutputError("nobody reads the output") from None
        except OSError as fault:
            raise FileError(f"cannot write the answer ({fault.strerror})") from fault


class StderrConsole:
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
        self.is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self.redact = redact
        self.environment = environment
        self._quiet = quiet
        self._status = ""
        colour = self.is_terminal and not plain and should_use_color(environment)
        self._dim_start, self._dim_end = (DIM, RESET) if colour else ("", "")

    def print_line(self, text: str) -> None:
        """Say something, on a line of its own."""
        self._write(f"{escape_control_characters(self.redact(text))}\n")

    def print_dim(self, text: str) -> None:
        """Show a piece of text that is beside the point."""
        self._write(f"{self._dim_start}{escape_control_characters(self.redact(text))}{self._dim_end}")

    def show_status(self, text: str) -> None:
        """Show a short line on a terminal that is gone once anything else is shown; "" takes it away."""
        if self._dim_start and text != self._status:
            self._write(
                f"{CLEAR_LINE}{self._dim_start}{escape_control_characters(self.redact(text))}{self._dim_end}"
                if text
                else ""
            )
            self._status = text

    def _write(self, text: str) -> None:
        if self._quiet or sys.stderr is None:
            return
        if self._status:
            self._status, text = "", CLEAR_LINE + text
        try:
            sys.stderr.buffer.write(text.encode(errors="replace"))
            sys.stderr.flush()
        except (OSError, ValueError):
            self._quiet = True
