"""Guards around the loading of plugins: slow ones are named, and none can write to the terminal or end the process."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from ask.text import one_line

SLOW = 1.0
"""Seconds after which a plugin that is still loading is named."""
OUTPUT_LIMIT = 4_096
"""Bytes of a plugin's output that are reported."""
LINE_LIMIT = 200
FIRST_FREE = 3
"""The lowest file descriptor that is not a standard stream, one of which may be closed."""

Notify = Callable[[str], None]


@contextmanager
def report_slow_loading(name: str, notify: Notify) -> Iterator[None]:
    """Report the plugin if the block takes longer than a second, while it still runs."""
    timer = threading.Timer(SLOW, notify, [f"waiting for the plugin {one_line(name)}, which loads slowly"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def guard_import(name: str, notify: Notify) -> Iterator[None]:
    """Import a plugin into this process in the block.

    What it prints is reported as one line on standard error. `os._exit` raises SystemExit; code that is not Python
    can still end the process.

    Args:
        name: the plugin.
        notify: takes a line for the user, also from another thread.
    """
    output = _Output()
    try:
        with report_slow_loading(name, output.outside(notify)), _exit_refused():
            yield
    finally:
        printed = output.restore()
        if printed:
            notify(f"the plugin {one_line(name)} printed while it was loaded: {printed}")


class _Output:
    """Standard output and standard error as file descriptors, redirected to memory until `restore` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saved: dict[int, int] = {}
        for descriptor in (1, 2):
            with suppress(OSError):  # it is closed
                self._saved[descriptor] = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
        # Without memfd_create (macOS) the output is discarded.
        in_memory = hasattr(os, "memfd_create")
        memory = os.memfd_create("plugin output") if in_memory else os.open(os.devnull, os.O_RDWR)
        self._memory = fcntl.fcntl(memory, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
        os.close(memory)
        _flush()
        for descriptor in self._saved:
            os.dup2(self._memory, descriptor)

    def outside(self, notify: Notify) -> Notify:
        """Make `notify` write to the user and not to memory."""

        def write(text: str) -> None:
            with self._lock:
                _flush()
                self._switch()
                notify(text)
                for descriptor in self._saved:
                    os.dup2(self._memory, descriptor)

        return write

    def restore(self) -> str:
        """End the redirection; return on one line what was written meanwhile."""
        with self._lock:
            _flush()
            self._switch()
            for saved in self._saved.values():
                os.close(saved)
            self._saved.clear()
            with suppress(OSError):
                os.lseek(self._memory, 0, os.SEEK_SET)
            data = os.read(self._memory, OUTPUT_LIMIT)
            os.close(self._memory)
        return one_line(data.decode(errors="replace"), LINE_LIMIT)

    def _switch(self) -> None:
        for descriptor, saved in self._saved.items():
            os.dup2(saved, descriptor)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, missing, or replaced by the plugin
            stream.flush()


@contextmanager
def _exit_refused() -> Iterator[None]:
    process, end = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:  # a child that the plugin forked
            end(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = end
