"""Standard output, which carries only the answer, and standard error, for everything else."""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ask.errors import BrokenOutputError, FileError
from ask.text import escape_control_characters, repair_surrogates

BOLD, DIM, RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
STDOUT, STDERR = 1, 2
CLEAR_LINE = "\r\x1b[2K"


SGR_PATTERN = r"\x1b\[([0-9;]*)m"
COLOR_PARAMETER = r"[349][0-7]|10[0-7]"
HYPERLINK_PATTERN = r"\x1b\]8;[^\x1b]*\x1b\\"
NO_HYPERLINK_TERMINALS = r"|dumb|unknown|linux|vt\d+.*"
NO_HYPERLINK_COLORTERMS = ("gnome-terminal", "xfce4-terminal")
PROC = Path("/proc")


def should_use_color(environment: Mapping[str, str]) -> bool:
    """Check whether colors are wanted. See https://no-color.org and https://force-color.org."""
    return bool(environment.get("FORCE_COLOR")) or not environment.get("NO_COLOR")


def _can_use_styles(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Check whether escape sequences for bold, dim and colors can be written."""
    return bool(environment.get("FORCE_COLOR")) or (is_terminal and environment.get("TERM") != "dumb")


def _remove_colors(text: str) -> str:
    """Remove colors from the escape sequences in a text; keep bold, dim and the like."""

    def replace(match: re.Match[str]) -> str:
        kept = [parameter for parameter in match[1].split(";") if not re.fullmatch(COLOR_PARAMETER, parameter)]
        return f"\x1b[{';'.join(kept)}m" if kept else ""

    return re.sub(SGR_PATTERN, replace, text)


def can_use_hyperlinks(environment: Mapping[str, str]) -> bool:
    """Check whether a terminal supports OSC 8 hyperlinks, or at least ignores them.

    Unknown terminals ignore them. Those that print them are excluded: consoles, Apple's Terminal, and old versions of
    gnome-terminal and xfce4-terminal (which set COLORTERM to their names), as in GCC's -fdiagnostics-urls=auto.
    FORCE_HYPERLINK overrides this, as in https://www.npmjs.com/package/supports-hyperlinks.
    """
    term, color_term = environment.get("TERM", ""), environment.get("COLORTERM", "")
    if term in ("", "dumb"):
        return False
    if forced := environment.get("FORCE_HYPERLINK"):
        return forced != "0"
    return not (
        re.fullmatch(NO_HYPERLINK_TERMINALS, term)
        or (term == "xterm" and not color_term)
        or color_term in NO_HYPERLINK_COLORTERMS
        or environment.get("TERM_PROGRAM") == "Apple_Terminal"
    )


def wrap_for_terminal(text: str, descriptor: int) -> str:
    """Wrap lines between words if the descriptor is a terminal. Words that are wider stay whole, to be copied."""
    try:
        width = os.get_terminal_size(descriptor).columns
    except OSError:
        return text
    if not 0 < width < max(map(len, text.split("\n"))):
        return text
    from textwrap import wrap

    lines = (
        wrap(line, width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False) or [""]
        for line in text.split("\n")
    )
    return "\n".join("\n".join(parts) for parts in lines)


def format_hyperlink(text: str, target: str) -> str:
    """Format an OSC 8 hyperlink. See https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda.

    `target` must be an ASCII URL without control characters.
    """
    return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\"


def _link_files(text: str, files: Mapping[str, Path]) -> str:
    """Link the first occurrence of each file name in an escaped text to its path.

    The URL names the host, so that a terminal does not open a local file of that name over SSH.
    """
    from urllib.parse import quote

    for name, path in files.items():
        shown_name = escape_control_characters(name)
        if match := re.search(rf"(?<![\w/.-]){re.escape(shown_name)}(?![\w/-])", text):
            try:
                url = f"file://{os.uname().nodename}{quote(os.fsencode(path.absolute()))}"
            except FileNotFoundError:  # the working directory was removed
                continue
            text = text[: match.start()] + format_hyperlink(shown_name, url) + text[match.end() :]
    return text


def can_redraw(output: StandardOutput, environment: Mapping[str, str]) -> bool:
    """Check whether rows on standard output can be redrawn.

    This needs a capable terminal and a process in the foreground.
    """
    is_capable = environment.get("TERM", "") not in ("", "unknown", "dumb")
    return output.is_terminal and is_capable and is_in_foreground()


def is_in_foreground() -> bool:
    """Check whether this program is in the terminal's foreground process group."""
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:
        return False


class StandardOutput:
    """Standard output, in UTF-8 whatever the locale.

    On a terminal, control characters are made visible. `environment` enables styles and decides about colors. With
    `show_partial_lines`, an incomplete line is written as soon as possible.

    Several processes may share a pipe or file, as under `xargs -P`. Each locks it from the first byte of a line to the
    last, so that lines are never mixed: while another process has the lock, an incomplete line is buffered, and a
    complete line waits.

    With `is_exclusive`, what anything else in this process prints goes to standard error from now on.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        show_partial_lines: bool = True,
        is_exclusive: bool = False,
    ) -> None:
        if sys.stdout is None:
            raise FileError("standard output is closed")
        self.is_terminal = sys.stdout.isatty()
        self._is_exclusive = is_exclusive
        self._stream: BinaryIO = _take_standard_output() if is_exclusive else sys.stdout.buffer
        self._use_styles = environment is not None and _can_use_styles(environment, is_terminal=self.is_terminal)
        self._use_color = environment is not None and should_use_color(environment)
        self._use_hyperlinks = self.is_terminal and environment is not None and can_use_hyperlinks(environment)
        self._at_line_start = True
        self._show_partial_lines = show_partial_lines
        self._pending_text = ""
        self._has_lock = False
        os.set_blocking(self._stream.fileno(), True)

    def write(self, text: str, style: str = "", files: Mapping[str, Path] | None = None) -> None:
        """Write and flush some text; `style` is an escape sequence that starts it.

        On a terminal, the names of `files` in the text become hyperlinks to their paths.

        Raises:
            FileError: standard output cannot be written.
            BrokenOutputError: its reader has closed it.
        """
        if text:
            self._at_line_start = text.endswith("\n")
            style = (style if self._use_color else _remove_colors(style)) if self._use_styles else ""
            if self.is_terminal:
                text = escape_control_characters(text)
                text = _link_files(text, files) if files and self._use_hyperlinks else text
            styled = f"{style}{text}{RESET}" if style else text
            if self.is_terminal:
                self._write_to_stream(styled)
                return
            self._pending_text += styled
            if self._at_line_start or self._show_partial_lines:
                self._write_pending(wait=self._at_line_start)

    def write_raw(self, sequences: str) -> None:
        """Write text with escape sequences to a terminal.

        Untrusted text in it must already be escaped.

        Raises:
            AskError: as from `write`.
        """
        sequences = sequences if self._use_hyperlinks else re.sub(HYPERLINK_PATTERN, "", sequences)
        self._write_to_stream(sequences if self._use_color else _remove_colors(sequences))

    def end_line(self) -> None:
        """End the current line, if there is one."""
        if not self._at_line_start:
            self.write("\n")

    def flush(self) -> None:
        """Write an incomplete line that was buffered."""
        if self._pending_text:
            self._write_pending(wait=True)

    def close(self) -> None:
        """Close the stream, if it is exclusive."""
        if self._is_exclusive:
            with suppress(OSError):  # what could not be written was an error before
                self._stream.close()

    def _write_pending(self, *, wait: bool) -> None:
        """Write the buffered text; without `wait`, only if no other process has the lock."""
        if not (self._has_lock or self._acquire_lock(wait=wait)):
            return
        text, self._pending_text = self._pending_text, ""
        self._write_to_stream(text)
        if self._at_line_start and self._has_lock:
            fcntl.lockf(self._stream, fcntl.LOCK_UN)
            self._has_lock = False

    def _acquire_lock(self, *, wait: bool) -> bool:
        """Lock standard output; also return true if it does not support locks."""
        try:
            fcntl.lockf(self._stream, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True
        self._has_lock = True
        return True

    def _write_to_stream(self, text: str) -> None:
        try:
            self._stream.write(text.encode(errors="replace"))
            self._stream.flush()
        except BrokenPipeError:
            raise BrokenOutputError("standard output was closed by its reader") from None
        except OSError as error:
            raise FileError(f"cannot write to standard output ({error.strerror})") from error


def _take_standard_output() -> BinaryIO:
    """Return a stream to standard output, and redirect its file descriptor to standard error."""
    sys.stdout.flush()
    stream = open(os.dup(1), "wb")  # noqa: SIM115 - open until the process ends
    with suppress(OSError):  # standard error is closed
        os.dup2(2, 1)
    return stream


class StderrConsole:
    """Standard error: notices, tool calls and reasoning.

    `environment` decides whether colors are used. With `quiet`, nothing is printed; with `plain`, nothing is styled.
    `redact` removes secrets from all text.
    """

    def __init__(
        self, environment: Mapping[str, str], *, quiet: bool, plain: bool, redact: Callable[[str], str] = str
    ) -> None:
        self.is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self.redact = redact
        self.environment = environment
        self.is_quiet = quiet
        self._status = ""
        use_styles = not plain and _can_use_styles(environment, is_terminal=self.is_terminal)
        self._dim_start, self._dim_end = (DIM, RESET) if use_styles else ("", "")
        self._use_hyperlinks = self.is_terminal and use_styles and can_use_hyperlinks(environment)

    def print_line(self, text: str, files: Mapping[str, Path] | None = None) -> None:
        """Print a line. On a terminal, the names of `files` in it become hyperlinks to their paths."""
        self._write(f"{self._format(wrap_for_terminal(text, STDERR), files)}\n")

    def print_notice(self, text: str) -> None:
        """Print a line after the name of the program."""
        self.print_line(f"ask: {text}")

    def print_dim(self, text: str, files: Mapping[str, Path] | None = None) -> None:
        """Print dimmed text, which may be an incomplete line, with hyperlinks as in `print_line`."""
        self._write(self._dim(text, files))

    def show_status(self, text: str) -> None:
        """Show a short line on a terminal until the next output; "" erases it."""
        if self._dim_start and self.is_terminal and text != self._status:
            self._write(CLEAR_LINE + self._dim(text) if text else "")
            self._status = text

    def _dim(self, text: str, files: Mapping[str, Path] | None = None) -> str:
        return f"{self._dim_start}{self._format(text, files)}{self._dim_end}"

    def _format(self, text: str, files: Mapping[str, Path] | None = None) -> str:
        text = escape_control_characters(self.redact(text))
        return _link_files(text, files) if files and self._use_hyperlinks else text

    def _write(self, text: str) -> None:
        if self.is_quiet or sys.stderr is None:
            return
        if self._status:
            self._status, text = "", CLEAR_LINE + text
        try:
            sys.stderr.buffer.write(text.encode(errors="replace"))
            sys.stderr.flush()
        except (OSError, ValueError):
            self.is_quiet = True


def identify_terminal(environment: Mapping[str, str]) -> str:
    """Return an id for the terminal, the same for all its processes and never reused; "" without a terminal.

    It is `$ASK_SESSION` if set. Otherwise it consists of the device, the shell that leads the session, and the boot
    and start time of that shell, because device numbers and process ids are reused.
    """
    session = environment.get("ASK_SESSION")
    if session:
        return f"session:{repair_surrogates(session)}"
    process_stat = read_process_stat("self")
    if not process_stat:
        return _identify_without_proc()
    leader, device = process_stat[3], process_stat[4]
    if device == "0":
        return ""
    start_time = read_process_stat(leader)[19:20]
    return ":".join(("terminal", device, leader, _read_boot_id(), *start_time))


def _read_boot_id() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_process_stat(pid: str) -> list[str]:
    """Read the fields of /proc/PID/stat from the process state on; [] if it cannot be read."""
    try:
        # The command name, in parentheses, may itself contain spaces and parentheses.
        return (PROC / pid / "stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def _identify_without_proc() -> str:
    from subprocess import DEVNULL, PIPE, run

    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return ""
    leader = str(os.getsid(0))
    try:
        start_time = run(["ps", "-o", "lstart=", "-p", leader], stdout=PIPE, stderr=DEVNULL, check=False).stdout
    except OSError:
        start_time = b""
    return ":".join(("terminal", leader, " ".join(start_time.decode(errors="replace").split())))
