"""Standard output, which carries only the answer, and standard error, for everything else."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from ask.errors import BrokenOutputError, FileError
from ask.text import escape_control_characters, wrap_text

BOLD, DIM, ITALIC, UNDERLINE, STRIKETHROUGH = "1", "2", "3", "4", "9"
RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN = "31", "32", "33", "34", "35", "36"
"""Styles: the parameters of an SGR escape sequence, which can be joined by semicolons."""
STDIN, STDOUT, STDERR = 0, 1, 2
CLEAR_LINE = "\r\x1b[2K"
SGR_PATTERN = r"\x1b\[([0-9;]*)m"
COLOR_PARAMETER = r"[349][0-7]|10[0-7]"
HYPERLINK_PATTERN = r"\x1b\]8;[^\x1b]*\x1b\\"
NO_HYPERLINK_TERMINALS = r"|dumb|unknown|linux|vt\d+.*"
NO_HYPERLINK_COLORTERMS = ("gnome-terminal", "xfce4-terminal")
FIRST_FREE_DESCRIPTOR = 3
"""The lowest file descriptor after the standard streams, whose numbers must not be reused if one is closed."""
_private_streams: dict[int, BinaryIO] = {}
"""The user's standard output and standard error, by their descriptors, while these lead elsewhere."""


def get_descriptor(stream: int) -> int:
    """Return the descriptor that leads to the user's `STDOUT` or `STDERR`."""
    return _private_streams[stream].fileno() if stream in _private_streams else stream


def is_output_terminal() -> bool:
    """Check whether standard output is a terminal."""
    return sys.stdout is not None and os.isatty(get_descriptor(STDOUT))


def protect_standard_output() -> None:
    """Reserve standard output for ask: for everything else, it is standard error for the rest of the run.

    Code of plugins may print at any time, from threads, child processes and native code. Nothing happens if standard
    output is closed.
    """
    if sys.stdout is not None and STDOUT not in _private_streams:
        redirect_stream(STDOUT, STDERR)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def redirect_stream(stream: int, target: int) -> None:
    """Lead `STDOUT` or `STDERR` to another descriptor. Only the functions of this module still reach the user's."""
    with suppress(Exception):  # closed, or replaced by a plugin
        (sys.stdout if stream == STDOUT else sys.stderr).flush()
    private = fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR)
    _close_private_streams_in_children()
    _private_streams[stream] = open(private, "wb")  # noqa: SIM115 - open until the process ends
    try:
        os.dup2(target, stream)
    except OSError:  # standard error is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def restore_stream(stream: int) -> None:
    """Undo `redirect_stream`."""
    with suppress(Exception):
        (sys.stdout if stream == STDOUT else sys.stderr).flush()
    with _private_streams.pop(stream) as private:
        os.dup2(private.fileno(), stream)


def close_standard_output() -> None:
    """Close standard output, if it is protected."""
    if STDOUT in _private_streams:
        with suppress(OSError):  # what could not be written was an error before
            _private_streams.pop(STDOUT).close()


@cache
def _close_private_streams_in_children() -> None:
    """Close the private streams in every forked child: one that runs on must not keep a pipe open."""
    os.register_at_fork(after_in_child=_close_private_streams)


def _close_private_streams() -> None:
    for stream in _private_streams.values():
        os.closerange(stream.fileno(), stream.fileno() + 1)  # ignores errors: a plugin may have closed it


@contextmanager
def lend_standard_output(*, only_terminal: bool = False) -> Iterator[None]:
    """Let child processes in the block write to the user's standard output although it is protected."""
    if STDOUT not in _private_streams or (only_terminal and not is_output_terminal()):
        yield
        return
    replacement = os.dup(STDOUT)
    os.dup2(get_descriptor(STDOUT), STDOUT)
    try:
        yield
    finally:
        os.dup2(replacement, STDOUT)
        os.close(replacement)


def read_color_choice(environment: Mapping[str, str]) -> bool | None:
    """Return True if colors are wanted even in a pipe, and False if they are not wanted at all; None by default.

    See https://force-color.org and https://no-color.org. As in Node.js, where the first variable comes from, 0 and
    false do not force colors.
    """
    if environment.get("FORCE_COLOR", "").lower() not in ("", "0", "false"):
        return True
    return False if environment.get("NO_COLOR") else None


def _remove_colors(text: str) -> str:
    """Remove colors from the escape sequences in a text; keep bold, dim and the like."""

    def replace(match: re.Match[str]) -> str:
        kept = _remove_color_parameters(match[1])
        return f"\x1b[{kept}m" if kept or not match[1] else ""

    return re.sub(SGR_PATTERN, replace, text)


def _remove_color_parameters(style: str) -> str:
    return ";".join(parameter for parameter in style.split(";") if not re.fullmatch(COLOR_PARAMETER, parameter))


def can_use_hyperlinks(environment: Mapping[str, str]) -> bool:
    """Check whether a terminal supports OSC 8 hyperlinks, or at least ignores them.

    Unknown terminals ignore them. Those that print them are excluded: consoles, Apple's Terminal, and old versions of
    gnome-terminal and xfce4-terminal (which set COLORTERM to their names), as in GCC's -fdiagnostics-urls=auto.
    FORCE_HYPERLINK overrides this, as in https://github.com/chalk/supports-hyperlinks.
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
    """Wrap lines between words if the descriptor is a terminal. Words that are wider are left to it, to be copied."""
    try:
        width = os.get_terminal_size(get_descriptor(descriptor)).columns
    except OSError:
        return text
    return "\n".join(wrap_text(text, width, divide_words=False)) if width > 0 else text


def apply_style(text: str, style: str) -> str:
    """Return text in a style, with escape sequences."""
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


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


def is_for_pager(output: StandardOutput, environment: Mapping[str, str]) -> bool:
    """Check whether to lay out an answer in a pipe as on a terminal, for a pager such as less -R."""
    return not output.is_terminal and output.is_pipe and read_color_choice(environment) is True


def can_redraw(output: StandardOutput, environment: Mapping[str, str]) -> bool:
    """Check whether rows on standard output can be redrawn.

    This needs a capable terminal and a process in the foreground.
    """
    is_capable = environment.get("TERM", "") not in ("", "unknown", "dumb")
    return output.is_terminal and is_capable and is_in_foreground()


def is_in_foreground(stream: int = STDOUT) -> bool:
    """Check whether this program is in the foreground process group of a stream's terminal."""
    try:
        return os.tcgetpgrp(get_descriptor(stream)) == os.getpgrp()
    except OSError:
        return False


def can_redraw_now(stream: int = STDOUT) -> bool:
    """Check whether rows can be redrawn: this program is in the foreground, and no other run writes below them.

    Runs of one process group, as under `xargs -P`, share a lock of the terminal. A run that can lock it alone has no
    neighbors. Those of other groups are in the background or stopped.
    """
    if not is_in_foreground(stream):
        return False
    terminal, group = get_descriptor(stream), os.getpgrp()
    with suppress(OSError):  # it does not support locks
        fcntl.lockf(terminal, fcntl.LOCK_SH, 1, group)
        try:
            fcntl.lockf(terminal, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, group)
        except (BlockingIOError, PermissionError):
            return False
        fcntl.lockf(terminal, fcntl.LOCK_SH, 1, group)
    return True


def unlock_terminal() -> None:
    """Let other runs of this process group redraw their rows."""
    with suppress(OSError):
        if is_output_terminal():
            fcntl.lockf(get_descriptor(STDOUT), fcntl.LOCK_UN, 1, os.getpgrp())


def should_show_footer(mode: str) -> bool:
    """Check whether to print lines that only help a person who continues the conversation on this terminal.

    Unless `mode` is "always" or "never", they are printed if an interactive shell started ask (it makes each command
    the leader of a process group, as make, xargs and scripts do not), standard input has no data, and both outputs are
    the same terminal: otherwise they would end up in an editor's buffer, over a pager or in a log.
    """
    if mode != "auto":
        return mode == "always"
    try:
        has_data = not (os.isatty(STDIN) or os.path.samestat(os.fstat(STDIN), os.stat(os.devnull)))
        output, errors = get_descriptor(STDOUT), get_descriptor(STDERR)
        is_one_terminal = os.isatty(output) and os.isatty(errors) and os.path.sameopenfile(output, errors)
    except OSError:
        return False
    return is_one_terminal and not has_data and os.getpgrp() == os.getpid()


class StandardOutput:
    """Standard output, in UTF-8 whatever the locale.

    On a terminal, control characters are made visible. `environment` enables styles and decides about colors. With
    `show_partial_lines`, an incomplete line is written as soon as possible.

    Several processes may share a pipe or file, as under `xargs -P`. Each locks it from the first byte of a line to the
    last, so that lines are never mixed: while another process has the lock, an incomplete line is buffered, and a
    complete line waits.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        show_partial_lines: bool = True,
    ) -> None:
        if sys.stdout is None and STDOUT not in _private_streams:
            raise FileError("standard output is closed")
        descriptor = get_descriptor(STDOUT)
        self.is_terminal = os.isatty(descriptor)
        self.is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        self.has_styles = self._use_color = self._use_hyperlinks = False
        if environment is not None:
            choice = read_color_choice(environment)
            self.has_styles = choice is True or (self.is_terminal and environment.get("TERM") != "dumb")
            self._use_color = choice is not False
            self._use_hyperlinks = self.is_terminal and can_use_hyperlinks(environment)
        self._at_line_start = True
        self._show_partial_lines = show_partial_lines
        self._pending_text = ""
        self._has_lock = False
        os.set_blocking(descriptor, True)

    def write(self, text: str, style: str = "", files: Mapping[str, Path] | None = None) -> None:
        """Write and flush some text; `style` is its style.

        On a terminal, the names of `files` in the text become hyperlinks to their paths.

        Raises:
            FileError: standard output cannot be written.
            BrokenOutputError: its reader has closed it.
        """
        if text:
            self._at_line_start = text.endswith("\n")
            if self.is_terminal:
                text = escape_control_characters(text)
                text = _link_files(text, files) if files and self._use_hyperlinks else text
            style = style if self._use_color else _remove_color_parameters(style)
            styled = apply_style(text, style) if self.has_styles else text
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

    def _write_pending(self, *, wait: bool) -> None:
        """Write the buffered text; without `wait`, only if no other process has the lock."""
        if not self._has_lock:
            try:
                fcntl.lockf(get_descriptor(STDOUT), fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._has_lock = True
            except (BlockingIOError, PermissionError):
                return
            except OSError:  # it does not support locks
                pass
        text, self._pending_text = self._pending_text, ""
        self._write_to_stream(text)
        if self._at_line_start and self._has_lock:
            fcntl.lockf(get_descriptor(STDOUT), fcntl.LOCK_UN)
            self._has_lock = False

    def _write_to_stream(self, text: str) -> None:
        stream = _private_streams.get(STDOUT) or sys.stdout.buffer  # a plugin may be loaded within an answer
        try:
            stream.write(text.encode(errors="replace"))
            stream.flush()
        except BrokenPipeError:
            raise BrokenOutputError("standard output was closed by its reader") from None
        except OSError as error:
            raise FileError(f"cannot write to standard output ({error.strerror})") from error


class StderrConsole:
    """Standard error: notices, tool calls and reasoning.

    `environment` decides whether colors are used. With `quiet`, nothing is printed; with `plain`, nothing is styled.
    `redact` removes secrets from all text. `use_color` is whether text may be colored.
    """

    def __init__(
        self, environment: Mapping[str, str], *, quiet: bool, plain: bool, redact: Callable[[str], str] = str
    ) -> None:
        self.is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self.redact = redact
        self.environment = environment
        self.is_quiet = quiet
        self.accepts_notifications = self.is_terminal and not (quiet or plain)
        self._status = ""
        choice = read_color_choice(environment)
        can_use_styles = choice is True or (self.is_terminal and environment.get("TERM") != "dumb")
        self._use_styles = can_use_styles and not plain
        self.use_color = self._use_styles and choice is not False
        self._use_hyperlinks = self.is_terminal and self._use_styles and can_use_hyperlinks(environment)

    def print_line(self, text: str, files: Mapping[str, Path] | None = None) -> None:
        """Print a line. On a terminal, the names of `files` in it become hyperlinks to their paths."""
        self._write(wrap_for_terminal(text, STDERR), files, end="\n")

    def print_notice(self, text: str) -> None:
        """Print a line after the name of the program. A file name in it may contain line breaks."""
        self.print_line(f"ask: {text}".replace("\n", " "))

    def print_warning(self, text: str) -> None:
        """Print a notice that `quiet` does not suppress."""
        self._write(wrap_for_terminal(f"ask: {text}", STDERR), end="\n", is_suppressible=False)

    def print_dim(self, text: str, files: Mapping[str, Path] | None = None) -> None:
        """Print dimmed text, which may be an incomplete line, with hyperlinks as in `print_line`."""
        self._write(text, files, style=DIM)

    def print_styled(self, text: str, style: str) -> None:
        """Print a line in a style, without colors if they are not wanted."""
        self._write(text, style=style if self.use_color else _remove_color_parameters(style), end="\n")

    def show_status(self, text: str) -> None:
        """Show a short line on a terminal until the next output, unless other runs write to it; "" erases it."""
        if text and self.is_terminal and not can_redraw_now(STDERR):
            text = ""
        if self._use_styles and self.is_terminal and text != self._status:
            if text:
                self._write(text, style=DIM, start=CLEAR_LINE)
            else:
                self._write("")
            self._status = text

    def _write(
        self,
        text: str,
        files: Mapping[str, Path] | None = None,
        *,
        style: str = "",
        start: str = "",
        end: str = "",
        is_suppressible: bool = True,
    ) -> None:
        """Write a text in a style, redacted and escaped, with links to `files`."""
        if (self.is_quiet and is_suppressible) or sys.stderr is None:
            return
        if self._status:
            self._status, start = "", (CLEAR_LINE if can_redraw_now(STDERR) else "\n") + start
        text = escape_control_characters(self.redact(text))
        if files and self._use_hyperlinks:
            text = _link_files(text, files)
        text = apply_style(text, style) if self._use_styles else text
        data = f"{start}{text}{end}".encode(errors="replace")
        try:
            sys.stderr.flush()
            while data:  # not through sys.stderr: a signal handler may print while a write of its buffer is going on
                data = data[os.write(get_descriptor(STDERR), data) :]
        except (OSError, ValueError):
            self.is_quiet = True
