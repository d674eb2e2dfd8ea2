"""The spinner: its frames, when it appears, and the thread that turns it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

TICK_INTERVAL = 0.1
"""Time between two redraws of the spinner and of the answer, in seconds."""
SPINNER_DELAY = 0.5
"""Time before the spinner appears, in seconds."""
SPINNER_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Ticker:
    """Calls a function periodically in its own thread, between `start` and `stop`. Its first error ends the thread."""

    def __init__(self, on_tick: Callable[[], None]) -> None:
        self._on_tick = on_tick
        self._is_active = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start or continue ticking."""
        self._is_active.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ask ticker", daemon=True)
            # Signals must be delivered to the main thread, which blocks them where it cannot be interrupted.
            previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._thread.start()
            except RuntimeError:
                pass  # no thread is available: there is no animation, but all output is shown
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)

    def stop(self) -> None:
        """Stop ticking; a tick that has started may still be running."""
        self._is_active.clear()

    def _run(self) -> None:
        pause = threading.Event()
        try:
            while True:
                self._is_active.wait()
                self._on_tick()
                pause.wait(TICK_INTERVAL)
        except Exception:  # noqa: BLE001 - the main thread gets the same error, and reports it
            return
