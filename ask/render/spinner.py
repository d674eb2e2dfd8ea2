"""The spinner: when it appears, its frames and the text beside it, and the thread that redraws it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from ask.render.text_layout import truncate_text
from ask.text import format_one_line

TICK_SECONDS = 0.1
"""Time between two redraws of the spinner and of the answer."""
SPINNER_DELAY_SECONDS = 0.5
"""Time before the spinner appears."""
SECONDS_PER_MINUTE = 60
WAITING_ACTION = "waiting for the model"
"""The text beside the spinner until something of an answer arrives."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def format_call_action(tool_name: str) -> str:
    """Return the text beside the spinner while the model writes a tool call."""
    return f"writing a call to {format_one_line(tool_name)}"


def format_spinner(action: str, seconds: float, columns: int) -> str:
    """Return the spinner after so many seconds, with what is awaited: "⠼ waiting for the model, 12 s"."""
    frame = _FRAMES[int(seconds / TICK_SECONDS) % len(_FRAMES)]
    minutes, rest = divmod(int(seconds), SECONDS_PER_MINUTE)
    elapsed = f", {minutes} min {rest} s" if minutes else f", {rest} s"
    return f"{frame} {truncate_text(action, max(columns - 4 - len(elapsed), 1))}{elapsed}"


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
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # may raise for a Ctrl-C just before it
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
