"""Prompts on the user's terminal, /dev/tty, since stdin is often a pipe.

Whatever mode the terminal was left in, it echoes and reads lines during a prompt, and is restored afterward.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

_DEFAULT_COLUMNS, _DEFAULT_ROWS = 80, 24
_MIN_COLUMNS = 20
_EXIT_TIMEOUT = 0.5
"""Seconds that the line editor has to restore the terminal after Ctrl-C."""
_EDITOR_CODE = """
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
"""Edits a line with readline, in a child process: it reads the user's key bindings without changing those of ask."""
_REPORTS = r"\x1b(?:\[(?:[IO]|\d+;\d+R|[?>=][0-?]*[ -/]*[@-~])|\]\d[^\x07\x1b]*(?:\x07|\x1b\\)|P[\d>!][^\x1b]*\x1b\\)"
"""What a terminal sends as if it was typed: changes of its focus, and late answers to other programs. Not keys."""
_INPUT_MODES, _OUTPUT_MODES, _LOCAL_MODES = 0, 1, 3  # indexes into the result of tcgetattr


WRAP_PREFIX = "  > "
"""The prefix of a line that continues one too long for the terminal."""


class NoTerminalError(Exception):
    """There is no terminal, or it was closed."""


class Terminal:
    """A context in which the terminal is open. Its modes are restored at the end.

    Every method may raise NoTerminalError.
    """

    def __enter__(self) -> Self:
        with _convert_errors(), ExitStack() as stack:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            stack.callback(os.close, self._fd)
            self._saved_modes = termios.tcgetattr(self._fd)
            size = os.get_terminal_size(self._fd)
            stack.pop_all()
        self.columns = max(size.columns or _DEFAULT_COLUMNS, _MIN_COLUMNS)
        self.rows = size.lines or _DEFAULT_ROWS
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(self._fd, termios.TCSANOW, self._saved_modes)
        os.close(self._fd)

    def show(self, text: str) -> int:
        """Show ASCII text, wrapped. Return its number of rows if it does not fit on the screen, otherwise 0.

        That number is shown first, because the beginning of the text scrolls away.
        """
        rows = wrap_lines(text, self.columns)
        count = len(rows) if len(rows) >= self.rows else 0
        if count:
            self.write(f"[{count:,} lines, more than fit on the screen]\n")
        self.write("\n".join(rows) + "\n")
        return count

    def write(self, text: str) -> None:
        """Write ASCII text."""
        data = text.encode("ascii")
        with _convert_errors():
            while data:
                data = data[os.write(self._fd, data) :]

    def read_line(self, prompt: str) -> str | None:
        """Read a line, None at end of file. Input typed before the prompt is discarded."""
        self._enable_line_mode()
        line, rows = b"", "\n".join(wrap_lines(prompt, self.columns))
        with self._end_line_on_interrupt(), self._repeat_after_stop(rows), _convert_errors():
            self.write(rows)
            while not line.endswith(b"\n"):
                data = os.read(self._fd, 4096)
                if not data:
                    self.write("\n")
                    return None
                line += data
        return re.sub(_REPORTS, "", line.decode("ascii", "replace"))

    def edit_line(self, prompt: str, text: str) -> str | None:
        """Let the user edit a line of printable ASCII. Return None if editing is canceled.

        Without readline, the line is empty at first.
        """
        from subprocess import DEVNULL, Popen, TimeoutExpired

        read_fd, write_fd = os.pipe()
        command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _EDITOR_CODE, prompt, text, str(write_fd)]
        with self._end_line_on_interrupt(), _convert_errors(), open(read_fd, "rb") as result:
            try:
                child = Popen(command, stdin=self._fd, stdout=self._fd, stderr=DEVNULL, pass_fds=[write_fd])
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

    def _enable_line_mode(self) -> None:
        """Turn on echo and line editing, and discard pending input."""
        with _convert_errors():
            modes: list[Any] = termios.tcgetattr(self._fd)
            modes[_INPUT_MODES] = modes[_INPUT_MODES] & ~(termios.IGNCR | termios.INLCR) | termios.ICRNL
            modes[_OUTPUT_MODES] |= termios.OPOST | termios.ONLCR
            modes[_LOCAL_MODES] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, modes)

    @contextmanager
    def _repeat_after_stop(self, text: str) -> Iterator[None]:
        """Write the text again when the program continues after Ctrl-Z: the shell has written to the terminal."""
        if threading.current_thread() is not threading.main_thread():  # only this one can handle signals
            yield
            return
        previous = signal.signal(signal.SIGCONT, lambda *_: self.write(text))
        try:
            yield
        finally:
            signal.signal(signal.SIGCONT, previous)

    @contextmanager
    def _end_line_on_interrupt(self) -> Iterator[None]:
        """Start a new line after Ctrl-C, which leaves the cursor at the end of the prompt."""
        try:
            yield
        except KeyboardInterrupt:
            with suppress(NoTerminalError):
                self.write("\n")
            raise


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, termios.error) as error:
        raise NoTerminalError(str(error)) from None


def wrap_lines(text: str, columns: int) -> list[str]:
    """Split ASCII text into lines that fit the terminal, between words where possible.

    If the terminal wrapped a long line itself, the model could make the rest look like a line from ask.
    """
    rows = []
    for line in text.split("\n"):
        rest, prefix = line, ""
        while len(rest) > (width := columns - len(prefix)):
            end = rest.rfind(" ", width // 2, width) + 1 or width
            rows.append(prefix + rest[:end])
            rest, prefix = rest[end:], WRAP_PREFIX
        rows.append(prefix + rest)
    return rows
