"""The terminal of a chat, which is left as it was found, however the chat ends."""

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
IFLAG, LFLAG = 0, 3  # places in what tcgetattr returns


@contextmanager
def preserve_terminal() -> Iterator[None]:
    """Keep what is typed meanwhile out of answers, key by key for the next prompt, and restore the terminal at the end.

    The prompt must see each Enter as the key and not as a newline, so that every typed line is a message of its own.
    """
    descriptor = sys.stdin.fileno()
    before = modes = None
    with suppress(termios.error):
        before, modes = termios.tcgetattr(descriptor), termios.tcgetattr(descriptor)
        modes[IFLAG] &= ~termios.ICRNL
        modes[LFLAG] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
    try:
        yield
    finally:
        if before is not None:
            with suppress(termios.error):  # it is gone, and its state with it
                termios.tcsetattr(descriptor, termios.TCSANOW, before)


@contextmanager
def exit_prompt_on_signal(application: Application[Any]) -> Iterator[None]:
    """Have a signal that ends the program end the prompt first: an exception in the middle of its loop may hang it.

    The prompt raises SystemExit then.
    """

    def handle_signal(number: int, _: FrameType | None) -> None:
        ending = SystemExit(128 + number)
        if application.loop is None or not application.is_running:
            raise ending
        application.loop.call_soon_threadsafe(exit_prompt, ending)

    def exit_prompt(system_exit: SystemExit) -> None:
        if application.future is not None and not application.future.done():
            application.exit(exception=system_exit)

    before = {ending: signal.getsignal(ending) for ending in TERMINATION_SIGNALS}
    heard = [ending for ending, handler in before.items() if callable(handler)]
    for ending in heard:
        signal.signal(ending, handle_signal)
    try:
        yield
    finally:
        for ending in heard:
            signal.signal(ending, before[ending])
