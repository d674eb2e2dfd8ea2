"""A clock for what moves on the screen while the program itself waits for the network or a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

INTERVAL = 0.1
"""Seconds between two ticks."""


class Ticker:
    """Calls a function again and again, in a thread of its own, from `start` to `stop`.

    Args:
        first: is called once, when it starts for the first time.
        tick: whose first error ends the ticking.
    """

    def __init__(self, first: Callable[[], object], tick: Callable[[], None]) -> None:
        self._first = first
        self._tick = tick
        self._ticking = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Tick from now on."""
        self._ticking.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ask ticker", daemon=True)
            # A signal that came to this thread would end the run in the midst of what may not be interrupted.
            heard = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._thread.start()
            except RuntimeError:
                pass  # no thread is to be had: nothing moves, and all is shown
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def stop(self) -> None:
        """Rest; a tick may be under way."""
        self._ticking.clear()

    def _run(self) -> None:
        pause = threading.Event()
        try:
            self._first()
            while True:
                self._ticking.wait()
                self._tick()
                pause.wait(INTERVAL)
        except Exception:  # noqa: BLE001 - the program itself meets the same error, and tells of it
            return
