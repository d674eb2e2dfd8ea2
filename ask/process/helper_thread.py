"""A time limit for code that runs in another thread than the main one, which cannot be interrupted."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_own_helper = threading.local()
"""The `_Helper` of a thread."""


def call_with_limit(function: Callable[[], T], seconds: float, make_error: Callable[[], BaseException]) -> T:
    """Call a function in a thread other than the main one, and raise an error if it takes longer.

    Unlike the main thread (`ask.process.time_limit`), others cannot be interrupted while they wait. Therefore the
    function is called in a second thread, the same one each time. If it is too slow, that thread is given up: it ends
    as soon as it runs Python code. A limit of 0 means none.
    """
    if not seconds:
        return function()
    if not hasattr(_own_helper, "thread"):
        _own_helper.thread = _Helper()
    helper: _Helper = _own_helper.thread
    helper.calls.put(function)
    try:
        result, error = helper.results.get(timeout=seconds)
    except Empty:
        del _own_helper.thread
        helper.interrupt()
        raise make_error() from None
    if error is not None:
        raise error
    returned: T = result
    return returned


class _Helper:
    """A thread that calls functions for another one, and ends with it."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._thread = threading.Thread(target=_serve_calls, args=(self.calls, self.results), daemon=True)
        self._thread.start()
        weakref.finalize(self, self.calls.put, None)

    def interrupt(self) -> None:
        """Raise SystemExit in the thread once it runs Python code."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(SystemExit)
        )


def _serve_calls(
    calls: SimpleQueue[Callable[[], Any] | None], results: SimpleQueue[tuple[Any, BaseException | None]]
) -> None:
    while function := calls.get():
        try:
            results.put((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised in the other thread
            results.put((None, error))
        del function  # it may refer to large arguments
