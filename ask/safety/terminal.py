"""The user's terminal for the length of a question: /dev/tty, since stdin is often a pipe.

Whatever state it was left in, it echoes and takes lines while a question is asked, and is put back after it.
"""

from __future__ import annotations

import os
import select
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from ask.safety.description import wrap_lines

_DEFAULT_COLUMNS, _DEFAULT_ROWS = 80, 24
_MIN_COLUMNS = 20
_INPUT_MODES, _OUTPUT_MODES, _LOCAL_MODES = 0, 1, 3  # places in what tcgetattr returns


class NoTerminalError(Exception):
    """There is no terminal to ask on, or no longer one."""


class Terminal:
    """The terminal as a context, outside of which it is as it was.

    Raises:
        NoTerminal: from any of its methods.

    Attributes:
        columns, rows: its size.
    """

    def __enter__(self) -> Self:
        with _convert_errors():
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            with _convert_errors():
                self._saved_modes = termios.tcgetattr(self._fd)
                size = os.get_terminal_size(self._fd)
        except NoTerminalError:
            os.close(self._fd)
            raise
        self.columns = max(size.columns or _DEFAULT_COLUMNS, _MIN_COLUMNS)
        self.rows = size.lines or _DEFAULT_ROWS
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            termios.tcsetattr(self._fd, termios.TCSANOW, self._saved_modes)
        except termios.error:
            pass  # it is gone, and its state with it
        finally:
            os.close(self._fd)

    def wrap_lines(self, text: str) -> list[str]:
        """The lines of a text in ASCII as this terminal can show them."""
        return wrap_lines(text, self.columns)

    def show(self, text: str) -> int:
        """Show a text in ASCII, folded; return its number of rows if it does not fit on the screen, otherwise 0.

        The number is shown before the text, whose beginning scrolls away.
        """
        rows = self.wrap_lines(text)
        count = len(rows) if len(rows) >= self.rows else 0
        if count:
            self.write(f"[{count:,} lines, more than the terminal shows at once]\n")
        self.write("\n".join(rows) + "\n")
        return count

    def write(self, text: str) -> None:
        """Show a text in ASCII."""
        data = text.encode("ascii")
        with _convert_errors():
            while data:
                data = data[os.write(self._fd, data) :]

    def read_line(self, prompt: str) -> str | None:
        """The line that is typed in answer, None for an end. What was typed before does not count."""
        self._enable_line_mode()
        line = b""
        with self._end_line_on_interrupt(), _convert_errors():
            self.write(prompt)
            while not line.endswith(b"\n"):
                _wait_for_input(self._fd)
                piece = os.read(self._fd, 4096)
                if not piece:
                    self.write("\n")
                    return None
                line += piece
        return line.decode("ascii", "replace")

    def edit_line(self, prompt: str, text: str) -> str | None:
        """The line that the user makes of a text in printable ASCII; None for an end."""
        from ask.safety.line_editor import edit_line

        with self._end_line_on_interrupt(), _convert_errors():
            return edit_line(self._fd, prompt, text)

    def _enable_line_mode(self) -> None:
        """Have lines typed and seen, and forget what was typed until now."""
        with _convert_errors():
            modes: list[Any] = termios.tcgetattr(self._fd)
            modes[_INPUT_MODES] = modes[_INPUT_MODES] & ~(termios.IGNCR | termios.INLCR) | termios.ICRNL
            modes[_OUTPUT_MODES] |= termios.OPOST | termios.ONLCR
            modes[_LOCAL_MODES] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, modes)

    @contextmanager
    def _end_line_on_interrupt(self) -> Iterator[None]:
        """Ctrl-C leaves the cursor behind the question; what is shown next is not to stand there."""
        try:
            yield
        except KeyboardInterrupt:
            with suppress(NoTerminalError):
                self.write("\n")
            raise


def _wait_for_input(fd: int) -> None:
    """Wait until there is something to read. A plain read would not hear a Ctrl-C that comes just before it."""
    hearing, telling = os.pipe()
    try:
        os.set_blocking(telling, False)
        before = signal.set_wakeup_fd(telling)
        try:
            select.select([fd, hearing], [], [])
        finally:
            signal.set_wakeup_fd(before)
    finally:
        os.close(hearing)
        os.close(telling)


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, termios.error) as fault:
        raise NoTerminalError(str(fault)) from None
