"""The limit ends code that would run forever, however it reacts, and leaves nothing behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from ask.process.time_limit import limit_time


class TooSlowError(Exception):
    pass


def loop() -> None:
    while True:
        time.sleep(0.001)


def catch_the_first() -> None:
    try:
        loop()
    except TooSlowError:
        loop()


class Resource:
    def __del__(self) -> None:
        loop()


def loop_in_a_destructor() -> None:
    Resource()
    loop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("run", [loop, catch_the_first, loop_in_a_destructor])
def test_the_code_is_interrupted(run: Callable[[], None]) -> None:
    previous = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TooSlowError), limit_time(0.05, TooSlowError):
        run()
    assert signal.getsignal(signal.SIGALRM) is previous
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_processor_time_does_not_pass_while_waiting() -> None:
    with limit_time(0.1, TooSlowError, counts_processor_time=True):
        time.sleep(0.3)
    with pytest.raises(TooSlowError), limit_time(0.05, TooSlowError, counts_processor_time=True):
        while True:
            pass


def test_an_outer_limit_continues() -> None:
    with pytest.raises(TooSlowError), limit_time(0.2, TooSlowError):
        with limit_time(5, ValueError):
            pass
        loop()


def test_zero_is_no_limit() -> None:
    with limit_time(0, TooSlowError):
        time.sleep(0.15)
