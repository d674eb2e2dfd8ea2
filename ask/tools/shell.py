"""The tool `bash`: runs a command in its own shell, streams the output, and can kill all processes of the command."""

from __future__ import annotations

import codecs
import errno
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from ask.process.process_tree import describe_exit, kill_process_tree, mark_environment, wait_for_exit
from ask.tools.base import RunToolContext, ToolError, ToolResult
from ask.tools.output_limits import MAX_RESULT_CHARACTERS, OutputCapture
from ask.tools.terminal_output import TerminalOutputFilter

if TYPE_CHECKING:
    from subprocess import Popen

UNATTENDED_VARIABLES = {
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), "true"),
    **dict.fromkeys(("PAGER", "GIT_PAGER", "GH_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    "GIT_TERMINAL_PROMPT": "0",
}
"""Variables that prevent programs from waiting for a user: editors change nothing, and pagers do not page."""
_READ_BYTES = 65_536
_OUTPUT_GRACE_SECONDS = 0.5
"""Seconds in which processes that the shell does not wait for, as in `> >(sort)`, may still write output."""
_POLL_SECONDS = 0.01
"""Seconds between two checks of the shell, on systems without pidfd."""
_MAX_SELECT_SECONDS = 3_600.0
"""Longest timeout for one select call; values of a few weeks overflow."""
_START_FAILURES = {
    errno.ENOENT: "bash is not installed",
    errno.E2BIG: "the command is too long; write it to a file and run that",
}
_BACKGROUND_NOTE = (
    "[a background process still uses the output: redirect its output to a file, or it may fail when it writes]"
)


def run_bash(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """Run `command` and return when the shell exits, even if it leaves background processes running.

    Raises:
        ToolError: bash cannot be started, or `timeout` is not positive.
    """
    seconds = context.get_time_limit(arguments)
    environment, mark = mark_environment({**context.environment, **UNATTENDED_VARIABLES})
    process = None
    streams: list[_OutputStream] = []
    max_length = context.max_result_length or MAX_RESULT_CHARACTERS
    try:
        process = _start_shell(arguments["command"], context, environment)
        pipes = {"stdout": process.stdout, "stderr": process.stderr}
        streams = [_OutputStream(pipe, label, context, max_length) for label, pipe in pipes.items() if pipe]
        exited = _read_until_exit(process, streams, time.monotonic() + seconds)
        if not exited:
            kill_process_tree(process.pid, mark)
        for stream in streams:
            stream.finish()
    except BaseException:
        for stream in streams:
            stream.capture.discard()
        kill_process_tree(process.pid if process else None, mark)
        raise
    finally:
        for stream in streams:
            stream.pipe.close()
        if process:
            wait_for_exit(process)
    if not exited:
        more = f"the timeout can be up to {context.max_command_timeout:g} s"
        if seconds == context.max_command_timeout:
            more = "the user allows no more time"
        line = f"timed out after {seconds:g} s; the command and its children were killed; {more}"
        return ToolResult(_format_result(line, streams, max_length), failed=True)
    code = process.returncode
    status = code if code >= 0 else 128 - code  # as shells count it
    line = f"exit code: {status}" if code >= 0 else f"exit code: {status} ({describe_exit(code)})"
    note = "" if all(stream.is_closed for stream in streams) else _BACKGROUND_NOTE
    return ToolResult(_format_result(line, streams, max_length, note), failed=status != 0, exit_status=status)


class _OutputStream:
    """One pipe of the shell: decodes its output, redacts secrets, reports it and captures it for the result.

    What is captured contains no colors, and progress only in its last state.
    """

    def __init__(self, pipe: IO[bytes], label: str, context: RunToolContext, max_length: int) -> None:
        self.pipe = pipe
        self.label = label
        self.capture = OutputCapture(context.overflow_directory, label, max_length)
        self.is_closed = False
        self._redactor = context.redactor.open_stream()
        self._filter = TerminalOutputFilter()
        self._captured_redactor = context.redactor.open_stream()
        """Redacts a key that is complete only without the control sequences in it."""
        self._on_output: Callable[[str], None] = context.on_output
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        os.set_blocking(pipe.fileno(), False)

    def read_available(self) -> None:
        """Read the available output without blocking."""
        with suppress(BlockingIOError):
            data = os.read(self.pipe.fileno(), _READ_BYTES)
            self.is_closed = not data
            self._handle_text(self._redactor.feed(self._decode(data.replace(b"\0", b"\\x00"))))

    def finish(self) -> None:
        """Read the rest, and flush incomplete characters and the redactor."""
        self.read_available()
        self._handle_text(self._redactor.feed(self._decode(b"", True)) + self._redactor.finish())
        self._capture(self._captured_redactor.feed(self._filter.finish()) + self._captured_redactor.finish())

    def _handle_text(self, text: str) -> None:
        if text:
            self._capture(self._captured_redactor.feed(self._filter.feed(text)))
            self._on_output(text)

    def _capture(self, text: str) -> None:
        if text:
            self.capture.feed(text)


def _start_shell(command: str, context: RunToolContext, environment: Mapping[str, str]) -> Popen[bytes]:
    from subprocess import DEVNULL, PIPE, Popen

    try:
        return Popen(
            ["bash", "-c", "--", command],
            bufsize=0,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=context.directory,
            env=environment,
            start_new_session=True,
            # Safe between fork and exec, because it is only a system call.
            preexec_fn=partial(os.nice, context.niceness) if context.niceness else None,  # noqa: PLW1509
        )
    except OSError as error:
        reason = _START_FAILURES.get(error.errno or 0, f"bash cannot be started: {error.strerror}")
        if not context.directory.is_dir():
            reason = "the working directory no longer exists"
        elif error.filename == os.devnull:  # in a folder for chroot without devices
            reason = f"{os.devnull} cannot be opened: {error.strerror}"
    except ValueError:
        reason = "the command contains a NUL or an unpaired surrogate"
    raise ToolError(f"nothing was run: {reason}")


def _read_until_exit(process: Popen[bytes], streams: Sequence[_OutputStream], deadline: float) -> bool:
    """Read until the shell has exited and its pipes are closed; return False on timeout.

    Pipes that other processes keep open are read until the grace period ends.
    """
    exited = False
    with selectors.DefaultSelector() as selector, ExitStack() as cleanup:
        pidfd = None
        with suppress(AttributeError, OSError):  # not every system has pidfd
            pidfd = os.pidfd_open(process.pid)
            cleanup.callback(os.close, pidfd)
        for stream in streams:
            selector.register(stream.pipe, selectors.EVENT_READ, stream)
        if pidfd is not None:
            selector.register(pidfd, selectors.EVENT_READ)
        while (not exited or selector.get_map()) and (time_left := deadline - time.monotonic()) > 0:
            shell_exited = False
            max_wait = _POLL_SECONDS if pidfd is None and not exited else _MAX_SELECT_SECONDS
            for key, _ in selector.select(min(time_left, max_wait)):
                if key.data is None:
                    shell_exited = True
                    selector.unregister(key.fileobj)
                    continue
                key.data.read_available()
                if key.data.is_closed:
                    selector.unregister(key.fileobj)
            if not exited and (shell_exited or (pidfd is None and process.poll() is not None)):
                exited = True
                deadline = time.monotonic() + _OUTPUT_GRACE_SECONDS
    return exited


def _format_result(status_line: str, streams: Sequence[_OutputStream], max_length: int, note: str = "") -> str:
    """Format the status line and the output of each stream.

    A stream may use the length that the other one leaves.
    """
    used_streams = [stream for stream in streams if stream.capture.length]
    fixed_lines = [status_line, *(f"{stream.label}:" for stream in used_streams), note]
    available = max_length - sum(len(line) + 2 for line in fixed_lines)
    total_length = sum(stream.capture.length for stream in used_streams)
    text = status_line
    for stream in used_streams:
        other_length = total_length - stream.capture.length
        text = _append_line(
            text, f"{stream.label}:\n" + stream.capture.truncate(max(available // 2, available - other_length))
        )
    return _append_line(text, note) if note else text


def _append_line(text: str, addition: str) -> str:
    return text + addition if text.endswith("\n") else f"{text}\n{addition}"
