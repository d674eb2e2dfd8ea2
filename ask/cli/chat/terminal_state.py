"""Terminal modes during a chat, restored however the chat ends."""

from __future__ import annotations

import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from prompt_toolkit import Application

TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
IFLAG, LFLAG = 0, 3  # indexes into the list returned by tcgetattr


@contextmanager
def preserve_terminal() -> Iterator[None]:
    """Turn off echo and line mode so that input typed during an answer goes to the next prompt; then restore both.

    Enter must arrive as a carriage return, not as a newline, so that every typed line is a message of its own.
    """
    descriptor = sys.stdin.fileno()
    original_modes = modes = None
    with suppress(termios.error):
        original_modes, modes = termios.tcgetattr(descriptor), termios.tcgetattr(descriptor)
        modes[IFLAG] &= ~termios.ICRNL
        modes[LFLAG] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
    try:
        yield
    finally:
        if original_modes is not None:
            with suppress(termios.error):  # the terminal may have been closed
                termios.tcsetattr(descriptor, termios.TCSANOW, original_modes)


@contextmanager
def exit_prompt_on_signal(application: Application[Any]) -> Iterator[None]:
    """Make termination signals exit the prompt, which then raises SystemExit.

    An exception raised inside the event loop of prompt_toolkit could make it hang.
    """

    def handle_signal(number: int, _: FrameType | None) -> None:
        system_exit = SystemExit(128 + number)
        if application.loop is None or not application.is_running:
            raise system_exit
        application.loop.call_soon_threadsafe(exit_prompt, system_exit)

    def exit_prompt(system_exit: SystemExit) -> None:
        if application.future is not None and not application.future.done():
            application.exit(exception=system_exit)

    handlers = {number: signal.getsignal(number) for number in TERMINATION_SIGNALS}
    handled = [number for number, handler in handlers.items() if callable(handler)]  # not those ignored under nohup
    for number in handled:
        signal.signal(number, handle_signal)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, handlers[number])
