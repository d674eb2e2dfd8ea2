"""A time limit for code in this process that cannot be trusted to end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REPEAT_INTERVAL = 0.1
"""Seconds after which the interruption is repeated.

Python discards an exception that is raised in a destructor or a callback, and the code may catch it.
"""


@contextmanager
def limit_time(seconds: float, make_error: Callable[[], BaseException]) -> Iterator[None]:
    """Interrupt Python code and regular expressions of the main thread after a time by raising an error.

    `make_error` creates it. A limit of 0 means none.
    """
    is_active = True

    def interrupt(*_: object) -> None:
        if is_active:
            raise make_error()

    previous_handler = signal.signal(signal.SIGALRM, interrupt)
    previous_timer = signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_INTERVAL if seconds else 0)
    try:
        try:
            yield
        finally:
            is_active = False
    finally:
        is_active = False  # again, because the line above may have been interrupted
        signal.setitimer(signal.ITIMER_REAL, *previous_timer)
        signal.signal(signal.SIGALRM, previous_handler)
