"""The spinner: when it appears, its frames and the text beside it, and the thread that redraws it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from ask.render.text_layout import truncate_text
from ask.text import format_one_line

TICK_SECONDS = 0.1
"""Time between two redraws of the spinner and of the answer."""
SPINNER_DELAY_SECONDS = 0.5
"""Time before the spinner appears."""
SECONDS_PER_MINUTE = 60
WAKE_SIGNAL = signal.SIGURG
"""Interrupts a system call of the main thread, and nothing else: by default, it is ignored, also in child processes."""
WAITING_ACTION = "waiting for the model"
"""The text beside the spinner until something of an answer arrives."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def format_call_action(tool_name: str) -> str:
    """Return the text beside the spinner while the model writes a tool call."""
    return f"writing a call to {format_one_line(tool_name)}"


def format_spinner(action: str, seconds: float, columns: int) -> str:
    """Return the spinner after this many seconds, with the current action: "⠼ waiting for the model, 12 s"."""
    frame = _FRAMES[int(seconds / TICK_SECONDS) % len(_FRAMES)]
    minutes, rest = divmod(int(seconds), SECONDS_PER_MINUTE)
    elapsed = f", {minutes} min {rest} s" if minutes else f", {rest} s"
    return f"{frame} {truncate_text(action, max(columns - 4 - len(elapsed), 1))}{elapsed}"


@cache
def _open_signal_pipe() -> tuple[int, int]:
    """Open a pipe to which Python writes the numbers of received signals; it stays open."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer


def _has_received_signal(reader: int) -> bool:
    """Check whether signals other than `WAKE_SIGNAL` were received since the last call."""
    try:
        return any(number != WAKE_SIGNAL for number in os.read(reader, 512))
    except BlockingIOError:
        return False


class Ticker:
    """Calls a function periodically in its own thread, between `start` and `stop`. Its first error ends the thread.

    It also wakes up the main thread for signals. Python handles a signal when the main thread next runs Python code.
    A signal that arrives just before a system call, as while this thread has the interpreter lock, does not interrupt
    that call, so that Ctrl-C would have no effect until the next part of an answer arrives.
    """

    def __init__(self, on_tick: Callable[[], None]) -> None:
        self._on_tick = on_tick
        self._stop_event: threading.Event | None = None
        self._is_signal_waiting = False
        """Whether the main thread may not yet have handled a signal; it handles `WAKE_SIGNAL` together with it."""

    def start(self) -> None:
        """Start or continue ticking."""
        if self._stop_event is not None:
            return
        reader, writer = _open_signal_pipe()
        signal.signal(WAKE_SIGNAL, self._end_waiting)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # each time: asyncio resets it at a prompt
        self._stop_event = threading.Event()
        thread = threading.Thread(target=self._run, args=(self._stop_event, reader), name="ask ticker", daemon=True)
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

    def _end_waiting(self, *_: object) -> None:
        self._is_signal_waiting = False

    def _run(self, stop_event: threading.Event, reader: int) -> None:
        with suppress(Exception):  # the main thread gets the same error, and reports it
            while not stop_event.wait(TICK_SECONDS):
                self._is_signal_waiting = self._is_signal_waiting or _has_received_signal(reader)
                if self._is_signal_waiting:
                    signal.pthread_kill(threading.main_thread().ident or 0, WAKE_SIGNAL)
                self._on_tick()
