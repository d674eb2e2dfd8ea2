"""Input from the user's terminal, /dev/tty, since stdin is often a pipe: prompts for a line or a single key.

Whatever mode the terminal was left in, it reads lines or single keys during a prompt, and is restored afterward.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from select import select
from typing import Any, Self

from ask.console import apply_style

_DEFAULT_COLUMNS, _DEFAULT_ROWS = 80, 24
_MIN_COLUMNS = 20
_EXIT_SECONDS = 0.5
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
_INPUT_MODES, _OUTPUT_MODES, _LOCAL_MODES, _CONTROL_KEYS = 0, 1, 3, 6  # indexes into the result of tcgetattr
_SETTLE_SECONDS = 0.3
"""Time without input after which keys are meant for a question that is shown.

Claude Code and Codex have approved calls by keys of a message that was being typed when the question appeared:
https://github.com/anthropics/claude-code/issues/37955, https://github.com/openai/codex/issues/18207
"""
_BURST_SECONDS = 0.03
"""Time within which the bytes of one key, or of pasted text, follow each other."""
_POLL_SECONDS = 0.25
"""Time between two checks of the terminal's size and modes."""
ESCAPE_KEY, END_KEY = "\x1b", "\x04"

WRAP_PREFIX = "  > "
"""The prefix of a line that continues one too long for the terminal."""
PROMPT_PREFIX = "  "
"""The same for prompts, which ask wrote itself."""


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
        self._set_size(size)
        return self

    def _set_size(self, size: os.terminal_size) -> None:
        self._size = size
        self.columns = max(size.columns or _DEFAULT_COLUMNS, _MIN_COLUMNS)
        self.rows = size.lines or _DEFAULT_ROWS

    def __exit__(self, *_: object) -> None:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(self._fd, termios.TCSANOW, self._saved_modes)
        os.close(self._fd)

    def show(self, lines: Sequence[tuple[str, str]], rows_below: int = 0) -> int:
        """Show lines of ASCII text, each in its style.

        They are wrapped. If they do not fit on the screen with some more rows below them, their number of rows is shown
        first, because the beginning scrolls away, and returned; otherwise, 0 is returned.
        """
        rows = [(row, style) for text, style in lines for row in wrap_lines(text, self.columns)]
        count = len(rows) if len(rows) + rows_below >= self.rows else 0
        if count:
            note = wrap_lines(f"[{count:,} lines, more than fit on the screen]", self.columns, PROMPT_PREFIX)
            self.write("".join(f"{row}\n" for row in note))
        self.write("".join(f"{apply_style(row, style)}\n" for row, style in rows))
        return count

    def write(self, text: str) -> None:
        """Write ASCII text."""
        data = text.encode("ascii")
        with _convert_errors():
            while data:
                data = data[os.write(self._fd, data) :]

    def read_line(self, prompt: str) -> str | None:
        """Read a line, None at end of file. Input typed before the prompt is discarded.

        The last line of the prompt is the question, which ask wrote; those above it may contain other text.
        """
        self._set_modes(echo=True)
        *above, question = prompt.split("\n")
        wrapped = [*wrap_lines("\n".join(above), self.columns)] if above else []
        line, rows = b"", "\n".join([*wrapped, *wrap_lines(question, self.columns, PROMPT_PREFIX)])
        with self._end_line_on_interrupt(), _handle_continue(partial(self.write, rows)), _convert_errors():
            self.write(rows)
            while not line.endswith(b"\n"):
                # If another thread gets the signal, its handler runs only after a call in this thread has returned.
                if self._has_input(_POLL_SECONDS):
                    data = os.read(self._fd, 4096)
                    if not data:
                        self.write("\n")
                        return None
                    line += data
        return re.sub(_REPORTS, "", line.decode("ascii", "replace"))

    def read_key(self, prompt: str) -> str | None:
        """Read one key, without Enter, which may follow at once.

        Keys that were typed before the user could see what is above the prompt are discarded, and so is pasted text.
        The prompt is not shown while the user types.

        Returns:
            The key in lower case; "" for anything that is not a single key; None if the terminal was resized, or the
            program continues after Ctrl-Z, so that everything has to be shown again.
        """
        self._set_modes(echo=False)
        continued: list[bool] = []
        with self._end_line_on_interrupt(), _handle_continue(partial(continued.append, True)), _convert_errors():
            while self._has_input(_SETTLE_SECONDS):
                self._read_bytes()
            self.write("\n".join(wrap_lines(prompt, self.columns, PROMPT_PREFIX)))
            modes = termios.tcgetattr(self._fd)
            while True:
                if self._has_input(_POLL_SECONDS):
                    data = self._read_bytes()
                    while self._has_input(_BURST_SECONDS):
                        data += self._read_bytes()
                    keys = re.sub(_REPORTS, "", data.decode("ascii", "replace"))
                    if keys:
                        key = keys[:1] + keys[1:].strip("\r\n")
                        return key.lower() if len(key) == 1 else ""
                size = os.get_terminal_size(self._fd)
                if continued or size != self._size or termios.tcgetattr(self._fd) != modes:
                    self._set_size(size)
                    self.write("\n")
                    return None

    def _has_input(self, seconds: float) -> bool:
        return bool(select([self._fd], [], [], seconds)[0])

    def _read_bytes(self) -> bytes:
        """Read what has been typed; raise NoTerminalError if the terminal was closed."""
        data = os.read(self._fd, 4096)
        if not data:
            raise NoTerminalError("the terminal was closed")
        return data

    def edit_line(self, prompt: str, text: str) -> str | None:
        """Let the user edit a line of printable ASCII. Return None if editing is canceled.

        Without readline, the line is empty at first.
        """
        from subprocess import DEVNULL, Popen, TimeoutExpired

        self._set_modes(echo=True)
        read_fd, write_fd = os.pipe()
        command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _EDITOR_CODE, prompt, text, str(write_fd)]
        with self._end_line_on_interrupt(), _convert_errors(), open(read_fd, "rb") as result:
            try:
                child = Popen(command, stdin=self._fd, stdout=self._fd, stderr=DEVNULL, pass_fds=[write_fd])
            finally:
                os.close(write_fd)
            try:
                edited = result.read()
                if child.wait() == 0:
                    return edited.decode("utf-8", "surrogateescape")
                self.write("\n")
                return None
            finally:
                try:
                    child.wait(_EXIT_SECONDS)
                except TimeoutExpired:
                    child.kill()
                    child.wait()

    def _set_modes(self, *, echo: bool) -> None:
        """Turn echo and line editing on or off, and discard pending input."""
        line_modes = termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK
        with _convert_errors():
            modes: list[Any] = termios.tcgetattr(self._fd)
            modes[_INPUT_MODES] = modes[_INPUT_MODES] & ~(termios.IGNCR | termios.INLCR) | termios.ICRNL
            modes[_OUTPUT_MODES] |= termios.OPOST | termios.ONLCR
            modes[_LOCAL_MODES] |= termios.ISIG
            if echo:
                modes[_LOCAL_MODES] |= line_modes
            else:
                modes[_LOCAL_MODES] &= ~line_modes
                # A read returns as soon as there is one byte.
                modes[_CONTROL_KEYS][termios.VMIN], modes[_CONTROL_KEYS][termios.VTIME] = 1, 0
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, modes)

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
def _handle_continue(handle: Callable[[], object]) -> Iterator[None]:
    """Call a function when the program continues after Ctrl-Z: the shell has written to the terminal."""
    if threading.current_thread() is not threading.main_thread():  # only this one can handle signals
        yield
        return
    previous = signal.signal(signal.SIGCONT, lambda *_: handle())
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, previous)


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, termios.error) as error:
        raise NoTerminalError(str(error)) from None


def wrap_lines(text: str, columns: int, continuation: str = WRAP_PREFIX) -> list[str]:
    """Split ASCII text into lines that fit the terminal, between words where possible.

    If the terminal wrapped a long line itself, the model could make the rest look like a line from ask.
    """
    rows = []
    for line in text.split("\n"):
        rest, prefix = line, ""
        while len(rest) > (width := columns - len(prefix)):
            end = rest.rfind(" ", width // 2, width) + 1 or width
            rows.append(prefix + rest[:end])
            rest, prefix = rest[end:], continuation
        rows.append(prefix + rest)
    return rows
