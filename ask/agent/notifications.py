"""Notifications of the terminal: a long run has ended, or a question waits.

They are sent as OSC 9 or OSC 777, which terminals show as desktop notifications, or as the bell.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

BELL = "\a"
OSC9_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal")
"""Values of TERM_PROGRAM. https://iterm2.com/documentation-escape-codes.html"""
OSC9_NAMES, OSC777_NAMES = r"iterm|wezterm|ghostty|kitty|warp", r"foot"
"""Patterns for the names of terminals, in TERM and as they report them to tmux.

rxvt and VTE show OSC 777 only with an extension or a patch, and ignore it without.
"""
SILENT_VARIABLES = ("ASCIINEMA_REC", "VHS_RECORD", "VIM_TERMINAL", "NVIM", "INSIDE_EMACS")
"""Recordings, where a bell would be heard by everyone who plays them, and terminals in editors, which flash at it."""
NAMELESS_TERMS = ("", "dumb", "unknown")
RUN_SECONDS = 30.0
"""Seconds since the user's last input after which the end of a run is announced."""
QUESTION_DELAY_SECONDS = 10.0
"""Seconds without an answer after which a question is announced. A user at the terminal has answered by then."""
TMUX_FORMAT = "#{allow-passthrough} #{window_active} #{client_termtype} #{client_termname}"
TMUX_SECONDS = 2.0


def notify(text: str, method: str, environment: Mapping[str, str]) -> None:
    """Send a notification to the terminal that ask was started on, if there is one.

    Args:
        text: ASCII text of ask itself, which is shown after "ask: ".
        method: a value of the setting; "auto" is what the terminal is known to support.
        environment: names the terminal.
    """
    sequence = format_notification(text, method, environment)
    if not sequence:
        return
    with suppress(OSError):  # there is no terminal, or it was closed
        descriptor = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.write(descriptor, sequence.encode("ascii"))
        finally:
            os.close(descriptor)


def format_notification(text: str, method: str, environment: Mapping[str, str]) -> str:
    """Return the bytes of a notification as text; "" for none."""
    wrap: Callable[[str], str] = str
    is_silent = environment.get("TERM", "") in NAMELESS_TERMS or any(map(environment.get, SILENT_VARIABLES))
    if method == "auto" and is_silent:
        return ""
    if environment.get("TMUX"):
        method, wrap = _select_in_tmux(method, environment)
    elif method == "auto":
        method = _select_method(environment)
    if method == "osc9":
        return wrap(f"\x1b]9;ask: {text}\a")
    if method == "osc777":
        return wrap(f"\x1b]777;notify;ask;{text}\a")
    return BELL if method == "bell" else ""


def _select_method(environment: Mapping[str, str]) -> str:
    """Return how the terminal is notified. One that is not known gets the bell, which all have."""
    term = environment.get("TERM", "")
    if environment.get("STY") or term.startswith("screen"):  # what is around screen cannot be known
        return "bell"
    if method := _find_method(term):
        return method
    # Programs started from another terminal inherit its variables.
    inherits = term == "linux" or term.startswith("alacritty")
    is_osc9 = environment.get("TERM_PROGRAM") in OSC9_PROGRAMS or environment.get("LC_TERMINAL") == "iTerm2"
    return "osc9" if is_osc9 and not inherits else "bell"


def _find_method(name: str) -> str:
    """Return how a terminal of this name is notified; "" if it is not known."""
    if re.search(OSC9_NAMES, name, re.IGNORECASE):
        return "osc9"
    return "osc777" if re.search(OSC777_NAMES, name, re.IGNORECASE) else ""


def _select_in_tmux(method: str, environment: Mapping[str, str]) -> tuple[str, Callable[[str], str]]:
    """Return how the terminal around tmux is notified, and a function that wraps a sequence for it.

    tmux passes sequences on only if the user has allowed it, from a window that is shown unless all are allowed. It
    marks the window of a bell, and rings it outside.
    """
    if method in ("bell", "none"):
        return method, str
    target = ["-t", environment["TMUX_PANE"]] if environment.get("TMUX_PANE") else []
    command = ["tmux", "display-message", "-p", *target, TMUX_FORMAT]
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TMUX_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return "bell", str
    allowed, is_shown, name, *_ = (*answer.stdout.strip("\n").split(" ", 2), "", "", "")
    if allowed != "all" and not (allowed in ("on", "1") and is_shown == "1"):  # "1" is what tmux 3.3 prints
        return "bell", str
    return (_find_method(name) or "bell") if method == "auto" else method, _wrap_for_tmux


def _wrap_for_tmux(sequence: str) -> str:
    """Wrap a sequence in the DCS that tmux passes on. https://github.com/tmux/tmux/wiki/FAQ"""
    escaped = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{escaped}\x1b\\"


@contextmanager
def announce_question(send: Callable[[], None], *, waits: bool) -> Iterator[None]:
    """Call `send`, in a thread, if a question in the block waits for its answer.

    With `waits`, the block ends only after `send` has returned.
    """
    timer = threading.Timer(QUESTION_DELAY_SECONDS, send)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if waits:
            timer.join()


def announce_end(seconds: float, exit_code: int, method: str, environment: Mapping[str, str]) -> None:
    """Send a notification that a run has ended if the user has waited for long, since the last input."""
    if seconds >= RUN_SECONDS:
        notify(describe_end(seconds, exit_code), method, environment)


def describe_end(seconds: float, exit_code: int) -> str:
    """Describe the end of a run."""
    minutes, rest = divmod(round(seconds), 60)
    duration = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"failed after {duration} (exit code {exit_code})" if exit_code else f"finished after {duration}"
