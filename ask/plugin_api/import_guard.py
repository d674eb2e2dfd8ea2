"""Guards around the loading of plugins: slow ones are named, and none can write to the terminal or end the process."""

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
"""Seconds after which a plugin that is still loading is named."""
MAX_OUTPUT_BYTES = 4_096
"""Bytes of a plugin's output that are reported."""
MAX_LINE_LENGTH = 200
FIRST_FREE_DESCRIPTOR = 3
"""The lowest file descriptor that is not a standard stream, one of which may be closed."""

NotifyCallback = Callable[[str], None]


@contextmanager
def report_slow_loading(name: str, notify: NotifyCallback) -> Iterator[None]:
    """Report the plugin if the block takes longer than a second, while it still runs."""
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
    """Import a plugin into this process in the block.

    What it prints is reported as one line on standard error. `os._exit` raises SystemExit; code that is not Python
    can still end the process.

    Args:
        name: the plugin.
        notify: takes a line for the user, also from another thread.
    """
    output = _OutputRedirect()
    try:
        with report_slow_loading(name, output.wrap_notify(notify)), _block_exit():
            yield
    finally:
        printed = output.restore()
        if printed:
            notify(f"the plugin {format_one_line(name)} printed while it was loaded: {printed}")


class _OutputRedirect:
    """Standard output and standard error as file descriptors, redirected to memory until `restore` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saved_descriptors: dict[int, int] = {}
        for descriptor in (1, 2):
            with suppress(OSError):  # it is closed
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
        """Make `notify` write to the user and not to memory."""

        def notify_user(text: str) -> None:
            with self._lock:
                _flush_streams()
                self._restore_descriptors()
                notify(text)
                for descriptor in self._saved_descriptors:
                    os.dup2(self._memory_descriptor, descriptor)

        return notify_user

    def restore(self) -> str:
        """End the redirection; return on one line what was written meanwhile."""
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
    process, end = os.getpid(), os._exit

    def raise_system_exit(status: int) -> NoReturn:
        if os.getpid() != process:  # a child that the plugin forked
            end(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = raise_system_exit
    try:
        yield
    finally:
        os._exit = end
