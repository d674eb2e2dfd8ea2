"""A clock for what moves on the screen while the program itself waits for the network or a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

TICK_INTERVAL = 0.1
"""Seconds between two ticks."""


class Ticker:
    """Calls a function again and again, in a thread of its own, from `start` to `stop`.

    Args:
        first: is called once, when it starts for the first time.
        tick: whose first error ends the ticking.
    """

    def __init__(self, on_first_start: Callable[[], object], on_tick: Callable[[], None]) -> None:
        self._on_first_start = on_first_start
        self._on_tick = on_tick
        self._is_active = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Tick from now on."""
        self._is_active.set()
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
        self._is_active.clear()

    def _run(self) -> None:
        pause = threading.Event()
        try:
            self._on_first_start()
            while True:
                self._is_active.wait()
                self._on_tick()
                pause.wait(TICK_INTERVAL)
        except Exception:  # noqa: BLE001 - the program itself meets the same error, and tells of it
            return
