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

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
INPUT, LOCAL = 0, 3  # places in what tcgetattr returns


@contextmanager
def terminal_kept() -> Iterator[None]:
    """Keep what is typed meanwhile out of answers, key by key for the next prompt, and restore the terminal at the end.

    The prompt must see each Enter as the key and not as a newline, so that every typed line is a message of its own.
    """
    descriptor = sys.stdin.fileno()
    before = modes = None
    with suppress(termios.error):
        before, modes = termios.tcgetattr(descriptor), termios.tcgetattr(descriptor)
        modes[INPUT] &= ~termios.ICRNL
        modes[LOCAL] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
    try:
        yield
    finally:
        if before is not None:
            with suppress(termios.error):  # it is gone, and its state with it
                termios.tcsetattr(descriptor, termios.TCSANOW, before)


@contextmanager
def ended_in_order(prompt: Application[Any]) -> Iterator[None]:
    """Have a signal that ends the program end the prompt first: an exception in the middle of its loop may hang it.

    The prompt raises SystemExit then.
    """

    def end(number: int, _: FrameType | None) -> None:
        ending = SystemExit(128 + number)
        if prompt.loop is None or not prompt.is_running:
            raise ending
        prompt.loop.call_soon_threadsafe(leave, ending)

    def leave(ending: SystemExit) -> None:
        if prompt.future is not None and not prompt.future.done():
            prompt.exit(exception=ending)

    before = {ending: signal.getsignal(ending) for ending in ENDINGS}
    heard = [ending for ending, handler in before.items() if callable(handler)]
    for ending in heard:
        signal.signal(ending, end)
    try:
        yield
    finally:
        for ending in heard:
            signal.signal(ending, before[ending])
