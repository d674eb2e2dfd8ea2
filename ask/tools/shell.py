"""The tool `bash`: one command in a shell of its own, with its output as it comes and an end for all of it.

What becomes of long output is in `output`, how everything is found and ended in `processes`.
"""

from __future__ import annotations

import codecs
import errno
import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from ask.messages import ToolSpec
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.tools.output_limits import MAX_RESULT_LENGTH, OutputCapture
from ask.tools.process_tree import kill_process_tree

if TYPE_CHECKING:
    from subprocess import Popen

_MARK_VARIABLE = "ASK_CALL"
_READ_SIZE = 65_536
_OUTPUT_GRACE_PERIOD = 0.1
"""Seconds in which what the shell does not wait for, as `> >(sort)`, may still write its output."""
_POLL_INTERVAL = 0.01
"""Seconds between two looks at the shell, where the system cannot tell of its end."""
_MAX_SELECT_TIMEOUT = 3_600.0
"""Seconds that a selector is made to wait at once; it overflows at a few weeks."""
_BACKGROUND_NOTE = (
    "[a background process still holds the output: redirect its output to a file, or it may end on writing]"
)


def run_bash(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Runs `command` and returns when the shell exits, even where it leaves something running behind it.

    Raises:
        ToolError: bash cannot be started, or `timeout` is not above 0.
    """
    seconds = min(context.command_timeout, arguments.get("timeout", math.inf))
    if seconds <= 0:
        raise ToolError("nothing was run: timeout must be above 0 seconds")
    mark = os.urandom(16).hex()
    with _open_shell(arguments["command"], context, mark) as process:
        streams = [_OutputStream(pipe, label, context) for label, pipe in _list_pipes(process)]
        try:
            exited = _read_until_exit(process, streams, time.monotonic() + seconds)
            if not exited:
                kill_process_tree(process.pid, mark)
            for stream in streams:
                stream.finish()
        except BaseException:
            for stream in streams:
                stream.capture.discard()
            raise
    if not exited:
        return ToolResult(
            _format_result(f"stopped after {seconds:g} s, with all that it had started", streams), failed=True
        )
    status, line = _format_exit_status(process.returncode)
    left = "" if all(stream.is_closed for stream in streams) else _BACKGROUND_NOTE
    return ToolResult(_format_result(line, streams, left), failed=status != 0, exit_status=status)


class _OutputStream:
    """One pipe of the shell: takes its bytes, shows their text without secrets and keeps what a result can hold."""

    def __init__(self, pipe: IO[bytes], label: str, context: ToolContext) -> None:
        self.pipe = pipe
        self.label = label
        self.capture = OutputCapture(context.spill_directory, label, context.open_spill)
        self.is_closed = False
        self._redactor = context.redactor.open_stream()
        self._on_output: Callable[[str], None] = context.on_output
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        os.set_blocking(pipe.fileno(), False)

    def read_available(self) -> None:
        """Takes what is there, if anything."""
        with suppress(BlockingIOError):
            data = os.read(self.pipe.fileno(), _READ_SIZE)
            self.is_closed = not data
            self._handle_text(self._redactor.feed(self._decode(data)))

    def finish(self) -> None:
        """Takes the last of it, up to a character that was never completed."""
        self.read_available()
        self._handle_text(self._redactor.feed(self._decode(b"", True)) + self._redactor.finish())

    def _handle_text(self, text: str) -> None:
        if text:
            self.capture.feed(text)
            self._on_output(text)


@contextmanager
def _open_shell(command: str, context: ToolContext, mark: str) -> Iterator[Popen[bytes]]:
    """The running shell; an exception in the block ends it and all that it started."""
    process = None
    try:
        process = _start_shell(command, context, mark)
        yield process
    except BaseException:
        kill_process_tree(process.pid if process else None, mark)
        raise
    finally:
        if process:
            for _, pipe in _list_pipes(process):
                pipe.close()
            _reap_process(process)


def _start_shell(command: str, context: ToolContext, mark: str) -> Popen[bytes]:
    from subprocess import DEVNULL, PIPE, Popen

    # A call within another call's command belongs to both.
    marks = f"{context.environment.get(_MARK_VARIABLE, '')} {mark}".strip()
    try:
        return Popen(
            ["bash", "-c", "--", command],
            bufsize=0,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=context.directory,
            env={**context.environment, _MARK_VARIABLE: marks},
            start_new_session=True,
            # Safe between fork and exec: a system call, and nothing else.
            preexec_fn=partial(os.nice, context.niceness) if context.niceness else None,  # noqa: PLW1509
        )
    except OSError as error:
        if not context.directory.is_dir():
            raise ToolError("nothing was run: the working directory is gone") from None
        if error.errno == errno.ENOENT:
            raise ToolError("nothing was run: bash is not installed here") from None
        if error.errno == errno.E2BIG:
            raise ToolError("nothing was run: the command is too long; write it to a file and run that") from None
        raise ToolError(f"nothing was run: bash does not start: {error.strerror}") from None
    except ValueError:
        raise ToolError("nothing was run: the command holds a NUL or half a character") from None


def _list_pipes(process: Popen[bytes]) -> list[tuple[str, IO[bytes]]]:
    pipes = (("stdout", process.stdout), ("stderr", process.stderr))
    return [(label, pipe) for label, pipe in pipes if pipe]


def _reap_process(process: Popen[bytes]) -> None:
    from subprocess import TimeoutExpired

    # One that hangs in the kernel cannot be waited for.
    with suppress(TimeoutExpired):
        process.wait(1)


def _read_until_exit(process: Popen[bytes], streams: Sequence[_OutputStream], deadline: float) -> bool:
    """Reads until the shell has exited and nobody holds its pipes, or little later; False at the deadline."""
    exited = False
    with selectors.DefaultSelector() as selector, _open_pidfd(process.pid) as watch:
        for stream in streams:
            selector.register(stream.pipe, selectors.EVENT_READ, stream)
        if watch is not None:
            selector.register(watch, selectors.EVENT_READ)
        while (not exited or selector.get_map()) and (left := deadline - time.monotonic()) > 0:
            gone = False
            patience = _POLL_INTERVAL if watch is None and not exited else _MAX_SELECT_TIMEOUT
            for key, _ in selector.select(min(left, patience)):
                if key.data is None:
                    gone = True
                    selector.unregister(key.fileobj)
                    continue
                key.data.read_available()
                if key.data.is_closed:
                    selector.unregister(key.fileobj)
            if not exited and (gone or (watch is None and process.poll() is not None)):
                exited = True
                deadline = time.monotonic() + _OUTPUT_GRACE_PERIOD
    return exited


@contextmanager
def _open_pidfd(pid: int) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process exits; None where the system has no such thing."""
    try:
        watch = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield watch
    finally:
        os.close(watch)


def _format_exit_status(return_code: int) -> tuple[int, str]:
    """The exit status as a shell counts it, and the line that tells of it."""
    if return_code >= 0:
        return return_code, f"exit code: {return_code}"
    return (
        128 - return_code,
        f"exit code: {128 - return_code} (killed by signal {-return_code}: {signal.strsignal(-return_code)})",
    )


def _format_result(status_line: str, streams: Sequence[_OutputStream], note: str = "") -> str:
    """The result: what happened, and what each stream said; a stream gets the room that the other leaves."""
    said = [stream for stream in streams if stream.capture.length]
    frame = [status_line, *(f"{stream.label}:" for stream in said), note]
    room = MAX_RESULT_LENGTH - sum(len(line) + 2 for line in frame)
    total = sum(stream.capture.length for stream in said)
    text = status_line
    for stream in said:
        others = total - stream.capture.length
        text = _append_line(text, f"{stream.label}:\n" + stream.capture.truncate(max(room // 2, room - others)))
    return _append_line(text, note) if note else text


def _append_line(text: str, addition: str) -> str:
    return text + addition if text.endswith("\n") else f"{text}\n{addition}"


BASH = Tool(
    ToolSpec(
        "bash",
        "Run a command with bash. Returns exit code, stdout and stderr. stdin is empty: nothing can be typed in. "
        "A background process needs its output redirected.",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout": {"type": "number", "description": "seconds, to stop it earlier than the user's limit"},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    ),
    run_bash,
    changes=True,
)
