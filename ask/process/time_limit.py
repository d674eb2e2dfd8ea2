"""A time limit for code in this process that cannot be trusted to end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REPEAT_SECONDS = 0.1
"""Seconds after which the interruption is repeated.

Python discards an exception that is raised in a destructor or a callback, and the code may catch it.
"""


@contextmanager
def limit_time(
    seconds: float, make_error: Callable[[], BaseException], *, counts_processor_time: bool = False
) -> Iterator[None]:
    """Interrupt Python code and regular expressions of the main thread after a time by raising an error.

    `make_error` creates it. A limit of 0 means none. With `counts_processor_time`, only the time counts in which this
    process runs, so that a busy machine makes no difference.
    """
    is_active = True
    timer, timer_signal = signal.ITIMER_REAL, signal.SIGALRM
    if counts_processor_time:
        timer, timer_signal = signal.ITIMER_VIRTUAL, signal.SIGVTALRM

    def interrupt(*_: object) -> None:
        if is_active:
            raise make_error()

    previous_handler = signal.signal(timer_signal, interrupt)
    previous_timer = signal.setitimer(timer, seconds, _REPEAT_SECONDS if seconds else 0)
    try:
        try:
            yield
        finally:
            is_active = False
    finally:
        is_active = False  # again, because the line above may have been interrupted
        signal.setitimer(timer, *previous_timer)
        signal.signal(timer_signal, previous_handler)
