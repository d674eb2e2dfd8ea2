"""The spinner: when it appears, its frames, and the thread that redraws it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress

TICK_SECONDS = 0.1
"""Time between two redraws of the spinner and of the answer."""
SPINNER_DELAY_SECONDS = 0.5
"""Time before the spinner appears."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def choose_frame(seconds: float) -> str:
    """Return the frame to show after so many seconds."""
    return _FRAMES[int(seconds / TICK_SECONDS) % len(_FRAMES)]


class Ticker:
    """Calls a function periodically in its own thread, between `start` and `stop`. Its first error ends the thread."""

    def __init__(self, on_tick: Callable[[], None]) -> None:
        self._on_tick = on_tick
        self._stop_event: threading.Event | None = None

    def start(self) -> None:
        """Start or continue ticking."""
        if self._stop_event is not None:
            return
        self._stop_event = threading.Event()
        thread = threading.Thread(target=self._run, args=(self._stop_event,), name="ask ticker", daemon=True)
        # Signals must be delivered to the main thread, which blocks them where it cannot be interrupted.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            thread.start()
        except RuntimeError:
            pass  # no thread is available: there is no animation, but all output is shown
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)

    def stop(self) -> None:
        """Stop ticking; a tick that has started may still be running."""
        if self._stop_event is not None:
            self._stop_event.set()
            self._stop_event = None

    def _run(self, stop_event: threading.Event) -> None:
        with suppress(Exception):  # the main thread gets the same error, and reports it
            while not stop_event.wait(TICK_SECONDS):
                self._on_tick()
