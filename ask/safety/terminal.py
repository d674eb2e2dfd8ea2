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

from ask.safety.description import fold

_COLUMNS, _ROWS = 80, 24
_FEWEST_COLUMNS = 20
_INPUT, _OUTPUT, _LOCAL = 0, 1, 3  # places in what tcgetattr returns


class NoTerminal(Exception):
    """There is no terminal to ask on, or no longer one."""


class Terminal:
    """The terminal as a context, outside of which it is as it was.

    Raises:
        NoTerminal: from any of its methods.

    Attributes:
        columns, rows: its size.
    """

    def __enter__(self) -> Self:
        with _told():
            self._file = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            with _told():
                self._before = termios.tcgetattr(self._file)
                size = os.get_terminal_size(self._file)
        except NoTerminal:
            os.close(self._file)
            raise
        self.columns = max(size.columns or _COLUMNS, _FEWEST_COLUMNS)
        self.rows = size.lines or _ROWS
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            termios.tcsetattr(self._file, termios.TCSANOW, self._before)
        except termios.error:
            pass  # it is gone, and its state with it
        finally:
            os.close(self._file)

    def fold(self, text: str) -> list[str]:
        """The lines of a text in ASCII as this terminal can show them."""
        return fold(text, self.columns)

    def show(self, text: str) -> int:
        """Show a text in ASCII, folded; return its number of rows if it does not fit on the screen, otherwise 0.

        The number is shown before the text, whose beginning scrolls away.
        """
        rows = self.fold(text)
        count = len(rows) if len(rows) >= self.rows else 0
        if count:
            self.write(f"[{count:,} lines, more than the terminal shows at once]\n")
        self.write("\n".join(rows) + "\n")
        return count

    def write(self, text: str) -> None:
        """Show a text in ASCII."""
        data = text.encode("ascii")
        with _told():
            while data:
                data = data[os.write(self._file, data) :]

    def ask(self, prompt: str) -> str | None:
        """The line that is typed in answer, None for an end. What was typed before does not count."""
        self._take_lines()
        line = b""
        with self._line_ended(), _told():
            self.write(prompt)
            while not line.endswith(b"\n"):
                _wait_for_input(self._file)
                piece = os.read(self._file, 4096)
                if not piece:
                    self.write("\n")
                    return None
                line += piece
        return line.decode("ascii", "replace")

    def edit(self, prompt: str, text: str) -> str | None:
        """The line that the user makes of a text in printable ASCII; None for an end."""
        from ask.safety.line_editor import edit_line

        with self._line_ended(), _told():
            return edit_line(self._file, prompt, text)

    def _take_lines(self) -> None:
        """Have lines typed and seen, and forget what was typed until now."""
        with _told():
            modes: list[Any] = termios.tcgetattr(self._file)
            modes[_INPUT] = modes[_INPUT] & ~(termios.IGNCR | termios.INLCR) | termios.ICRNL
            modes[_OUTPUT] |= termios.OPOST | termios.ONLCR
            modes[_LOCAL] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG
            termios.tcsetattr(self._file, termios.TCSAFLUSH, modes)

    @contextmanager
    def _line_ended(self) -> Iterator[None]:
        """Ctrl-C leaves the cursor behind the question; what is shown next is not to stand there."""
        try:
            yield
        except KeyboardInterrupt:
            with suppress(NoTerminal):
                self.write("\n")
            raise


def _wait_for_input(file: int) -> None:
    """Wait until there is something to read. A plain read would not hear a Ctrl-C that comes just before it."""
    hearing, telling = os.pipe()
    try:
        os.set_blocking(telling, False)
        before = signal.set_wakeup_fd(telling)
        try:
            select.select([file, hearing], [], [])
        finally:
            signal.set_wakeup_fd(before)
    finally:
        os.close(hearing)
        os.close(telling)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (OSError, termios.error) as fault:
        raise NoTerminal(str(fault)) from None
