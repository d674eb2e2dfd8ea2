"""Guards for importing plugins: slow imports and output are reported, and a plugin cannot end the process."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from ask.text import format_one_line

SLOW_LOAD_SECONDS = 1.0
"""Seconds after which a plugin that is still loading is reported."""
MAX_OUTPUT_BYTES = 4_096
"""The limit for how much of a plugin's output is reported."""
MAX_LINE_LENGTH = 200
FIRST_FREE_DESCRIPTOR = 3
"""The lowest file descriptor after the standard streams, whose numbers must not be reused if one is closed."""

NotifyCallback = Callable[[str], None]


@contextmanager
def report_slow_loading(name: str, notify: NotifyCallback) -> Iterator[None]:
    """Report the plugin as soon as the block has run for `SLOW_LOAD_SECONDS`."""
    timer = threading.Timer(
        SLOW_LOAD_SECONDS, notify, [f"waiting for the plugin {format_one_line(name)}, which loads slowly"]
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def guard_import(name: str, notify: NotifyCallback) -> Iterator[None]:
    """Guard the import of the plugin `name` in the block.

    Whatever it prints is reported as one line through `notify`, which may be called from another thread. `os._exit`
    raises SystemExit instead; native code can still end the process.
    """
    name = format_one_line(name)
    with (
        capture_output(f"{name} printed while it was loaded", notify) as notify_user,
        report_slow_loading(name, notify_user),
        _block_exit(),
    ):
        yield


@contextmanager
def capture_output(event: str, notify: NotifyCallback) -> Iterator[NotifyCallback]:
    """Report what a plugin prints in the block as one line through `notify`.

    The block gets a `notify` that it can call from any thread meanwhile.
    """
    output = _OutputRedirect()
    try:
        yield output.wrap_notify(notify)
    finally:
        printed = output.restore()
        if printed:
            notify(f"the plugin {event}: {printed}")


class _OutputRedirect:
    """Redirects the file descriptors of standard output and standard error to memory until `restore` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saved_descriptors: dict[int, int] = {}
        for descriptor in (1, 2):
            with suppress(OSError):  # the stream is closed
                self._saved_descriptors[descriptor] = fcntl.fcntl(
                    descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR
                )
        # Without memfd_create (macOS) the output is discarded.
        in_memory = hasattr(os, "memfd_create")
        memory = os.memfd_create("plugin output") if in_memory else os.open(os.devnull, os.O_RDWR)
        self._memory_descriptor = fcntl.fcntl(memory, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR)
        os.close(memory)
        _flush_streams()
        for descriptor in self._saved_descriptors:
            os.dup2(self._memory_descriptor, descriptor)

    def wrap_notify(self, notify: NotifyCallback) -> NotifyCallback:
        """Return a `notify` that writes to the user instead of to memory."""

        def notify_user(text: str) -> None:
            with self._lock:
                _flush_streams()
                self._restore_descriptors()
                notify(text)
                for descriptor in self._saved_descriptors:
                    os.dup2(self._memory_descriptor, descriptor)

        return notify_user

    def restore(self) -> str:
        """End the redirection and return the captured output as one line."""
        with self._lock:
            _flush_streams()
            self._restore_descriptors()
            for saved in self._saved_descriptors.values():
                os.close(saved)
            self._saved_descriptors.clear()
            with suppress(OSError):
                os.lseek(self._memory_descriptor, 0, os.SEEK_SET)
            data = os.read(self._memory_descriptor, MAX_OUTPUT_BYTES)
            os.close(self._memory_descriptor)
        return format_one_line(data.decode(errors="replace"), MAX_LINE_LENGTH)

    def _restore_descriptors(self) -> None:
        for descriptor, saved in self._saved_descriptors.items():
            os.dup2(saved, descriptor)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, missing, or replaced by the plugin
            stream.flush()


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
