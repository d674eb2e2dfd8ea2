"""Guards for importing plugins: slow imports and output are reported, and a plugin cannot end the process."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import NoReturn

from ask.config.secrets import Redactor
from ask.text import format_one_line

SLOW_LOAD_SECONDS = 1.0
"""Seconds after which a plugin that is still loading is reported."""
MAX_OUTPUT_BYTES = 4_096
"""The limit for how much of a plugin's output is reported."""
MAX_LINE_LENGTH = 200
MAX_WAIT = 1.0
"""How long to wait for the last output, in seconds: a child process may still have the pipe open."""
FIRST_FREE_DESCRIPTOR = 3
"""The lowest file descriptor after the standard streams, whose numbers must not be reused if one is closed."""

NotifyCallback = Callable[[str], None]


@contextmanager
def report_slow_loading(name: str, notify: NotifyCallback) -> Iterator[None]:
    """Report the plugin as soon as the block has run for `SLOW_LOAD_SECONDS`."""
    timer = threading.Timer(SLOW_LOAD_SECONDS, notify, [f"the plugin {format_one_line(name)} is slow to load"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def guard_import(name: str, notify: NotifyCallback) -> Iterator[None]:
    """Guard the import of the plugin `name` in the block. Whatever it prints is reported as one line.

    `os._exit` raises SystemExit instead; native code can still end the process.
    """
    name = format_one_line(name)
    with (
        capture_output(f"{name} printed output while loading", notify) as notify_user,
        report_slow_loading(name, notify_user),
        _block_exit(),
    ):
        yield


@contextmanager
def capture_output(event: str, notify: NotifyCallback) -> Iterator[NotifyCallback]:
    """Report what a plugin prints in the block as one line through `notify`.

    File descriptors are redirected, because child processes and native code may print, too. The block gets a `notify`
    that it can call meanwhile, from any thread.
    """
    user_streams = _copy_user_streams()
    lock = threading.Lock()
    with TemporaryFile() as output:
        output_streams = dict.fromkeys(user_streams, output.fileno())

        def notify_user(text: str) -> None:
            with lock:
                _redirect(user_streams)
                notify(text)
                _redirect(output_streams)

        _redirect(output_streams)
        try:
            yield notify_user
        finally:
            with lock:
                _redirect(user_streams)
                for saved in user_streams.values():
                    os.close(saved)
                user_streams.clear()
                output_streams.clear()
            output.seek(0)
            printed = format_one_line(output.read(MAX_OUTPUT_BYTES).decode(errors="replace"), MAX_LINE_LENGTH)
            if printed:
                notify(f"the plugin {event}: {printed}")


@contextmanager
def redact_output(redactor: Redactor) -> Iterator[None]:
    """Redact what the process and its children print in the block, and send it to standard error.

    Unlike `capture_output`, it is for plugins that are called in several threads.
    """
    user_streams = _copy_user_streams()
    source, sink = os.pipe()

    def copy_redacted() -> None:
        stream = redactor.open_stream()
        decode = getincrementaldecoder("utf-8")("surrogateescape").decode
        target = user_streams.get(2, os.devnull)
        with open(source, "rb", buffering=0) as pipe, open(target, "wb", buffering=0) as output:
            while data := pipe.read(MAX_OUTPUT_BYTES):
                output.write(stream.feed(decode(data)).encode("utf-8", "surrogateescape"))
            output.write(stream.finish().encode("utf-8", "surrogateescape"))

    thread = threading.Thread(target=copy_redacted, daemon=True)
    thread.start()
    _redirect(dict.fromkeys(user_streams, sink))
    os.close(sink)
    try:
        yield
    finally:
        _redirect(user_streams)
        if 1 in user_streams:
            os.close(user_streams[1])
        thread.join(MAX_WAIT)


def _copy_user_streams() -> dict[int, int]:
    """Duplicate the descriptors of standard output and standard error, as far as they are open."""
    copies = {}
    for descriptor in (1, 2):
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
def _block_exit() -> Iterator[None]:
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
