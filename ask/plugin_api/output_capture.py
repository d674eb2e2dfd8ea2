"""Capturing what plugins print, and reporting it to the user. No call of a plugin can end the process."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO, NoReturn, TypeVar

from ask.console import FIRST_FREE_DESCRIPTOR, STDERR, STDOUT, protect_standard_output, redirect_stream, restore_stream
from ask.process.helper_thread import call_with_limit
from ask.process.time_limit import limit_time
from ask.text import format_one_line

T = TypeVar("T")
MAX_OUTPUT_BYTES = 4_096
"""The limit for how much of a plugin's output is reported."""
MAX_LINE_CHARACTERS = 200
MAX_WAIT_SECONDS = 1.0
"""How long to wait for the last output: a child process may still have the pipe open."""

NotifyCallback = Callable[[str], None]


@contextmanager
def capture_output(event: str, notify: NotifyCallback) -> Iterator[NotifyCallback]:
    """Report what a plugin prints in the block as one line through `notify`.

    File descriptors are redirected, because child processes and native code may print, too. The block gets a `notify`
    that it can call meanwhile, from any thread.
    """
    user_streams = _copy_user_streams()
    lock = threading.Lock()
    with _open_unnamed_file() as output:
        output_streams = dict.fromkeys(user_streams, output.fileno())

        def notify_user(text: str) -> None:
            with lock:
                _redirect(user_streams)
                notify(text)
                _redirect(output_streams)

        _redirect(output_streams)
        try:
            with _end_forked_children():
                yield notify_user
        finally:
            with lock:
                _redirect(user_streams)
                for saved in user_streams.values():
                    os.close(saved)
                user_streams.clear()
                output_streams.clear()
            output.seek(0)
            _report(event, output.read(MAX_OUTPUT_BYTES), notify)


def _open_unnamed_file() -> IO[bytes]:
    """Open a file without a name. In memory it takes half as long, and hooks are called for each event of a stream."""
    if sys.platform == "linux":
        return open(os.memfd_create("plugin output"), "w+b", buffering=0)
    return TemporaryFile()


@contextmanager
def _end_forked_children() -> Iterator[None]:
    """End a child process that the block forked where the block ends, which would run on as a second ask."""
    pid = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != pid:
            os._exit(os.EX_OK)


def call_isolated(
    call: Callable[[], T], event: str, notify: NotifyCallback, seconds: float, make_error: Callable[[], BaseException]
) -> T:
    """Call a hook. Report what it prints, and raise an error if it takes longer than `seconds`; 0 is no limit.

    File descriptors and signals belong to the whole process. What calls hooks in other threads than the main one
    reports their output by `report_output`.
    """
    if threading.current_thread() is not threading.main_thread():
        return call_with_limit(_end_forked_children()(call), seconds, make_error)
    with capture_output(event, notify), limit_time(seconds, make_error), block_exit():
        return call()


@contextmanager
def report_output(plugins: str, notify: NotifyCallback) -> Iterator[None]:
    """Report what the process and its children print in the block through `notify`, as output of `plugins`.

    Unlike `capture_output`, it is for plugins that are called in several threads. Meanwhile only `ask.console` reaches
    the user's standard output and standard error.
    """
    if sys.stdout is None or sys.stderr is None:  # their descriptors may belong to other files
        yield
        return
    protect_standard_output()
    event = f"{plugins} printed"
    source, sink = os.pipe()

    def report_lines() -> None:
        pending = b""
        with open(source, "rb", buffering=0) as pipe:
            while data := pipe.read(MAX_OUTPUT_BYTES):
                lines, _, pending = (pending + data).rpartition(b"\n")
                _report(event, lines, notify)
                if len(pending) > MAX_OUTPUT_BYTES:
                    _report(event, pending, notify)
                    pending = b""
        _report(event, pending, notify)

    thread = threading.Thread(target=report_lines, daemon=True)
    thread.start()
    redirect_stream(STDERR, sink)
    os.dup2(sink, STDOUT)
    os.close(sink)
    try:
        with block_exit():
            yield
    finally:
        restore_stream(STDERR)
        os.dup2(STDERR, STDOUT)
        thread.join(MAX_WAIT_SECONDS)


def _report(event: str, output: bytes, notify: NotifyCallback) -> None:
    printed = format_one_line(output.decode(errors="replace"), MAX_LINE_CHARACTERS)
    if printed:
        notify(f"the plugin {event}: {printed}")


def _copy_user_streams() -> dict[int, int]:
    """Duplicate the descriptors of standard output and standard error, as far as they are open."""
    copies = {}
    for descriptor in (STDOUT, STDERR):
        with suppress(OSError):  # the stream is closed
            copies[descriptor] = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR)
    return copies


def _redirect(targets: Mapping[int, int]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, missing, or replaced by the plugin
            stream.flush()
    for descriptor, target in targets.items():
        os.dup2(target, descriptor)


@contextmanager
def block_exit() -> Iterator[None]:
    """Let `os._exit` raise SystemExit in the block, except in a child process that it forked."""
    pid, original_exit = os.getpid(), os._exit

    def raise_system_exit(status: int) -> NoReturn:
        if os.getpid() != pid:  # a child that the plugin forked
            original_exit(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = raise_system_exit
    try:
        yield
    finally:
        os._exit = original_exit
