"""The clipboard of the user's desktop, through the program that sets it, or the terminal."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from subprocess import DEVNULL, SubprocessError, run

from ask.errors import FileError

TIMEOUT_SECONDS = 5.0
"""Seconds that a program may take."""


def copy_text(text: str, environment: Mapping[str, str]) -> None:
    """Copy a text to the clipboard.

    Without a program that does it, as over SSH, the terminal is asked to (OSC 52). It sends no answer, so that it is
    not known whether it does.

    Raises:
        FileError: there is neither such a program nor a terminal.
    """
    data = text.encode(errors="replace")
    for command in _list_programs(environment):
        try:
            run(
                command,
                input=data,
                stdout=DEVNULL,
                stderr=DEVNULL,
                timeout=TIMEOUT_SECONDS,
                env=environment,
                check=True,
            )
        except (OSError, SubprocessError):
            continue  # it is not installed, or has no display
        return
    try:
        with open("/dev/tty", "wb", buffering=0) as terminal:
            terminal.write(b"\x1b]52;c;" + base64.b64encode(data) + b"\x07")
    except OSError as error:
        raise FileError(f"cannot copy: there is no clipboard program and no terminal ({error.strerror})") from error


def _list_programs(environment: Mapping[str, str]) -> Iterator[Sequence[str]]:
    """Yield the commands that may set the clipboard, best first."""
    if environment.get("TMUX"):
        yield "tmux", "load-buffer", "-w", "-"  # also sets the clipboard of the terminal; tmux does not pass on OSC 52
    if environment.get("SSH_TTY") or environment.get("SSH_CONNECTION"):
        return  # the other programs would set the clipboard of the remote machine
    if environment.get("WAYLAND_DISPLAY"):
        yield ("wl-copy",)
    if environment.get("DISPLAY"):
        yield "xclip", "-selection", "clipboard"
        yield "xsel", "--clipboard", "--input"
    yield ("pbcopy",)
    yield ("clip.exe",)
