"""Asks the human at the terminal, who must not be fooled by what a model writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ask.text import spelled_out


def ask_on_terminal(tool: str, arguments: Mapping[str, Any], directory: Path, timeout: float) -> bool | None:
    """Show a call and ask whether to carry it out; None where there is no terminal to ask on.

    The question goes to /dev/tty, since stdin is often a pipe. What was typed before the question was there
    does not count. Anything but yes is no.

    Args:
        tool: the tool's name.
        arguments: the call's arguments.
        directory: where it would run.
        timeout: seconds it may take.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return _ask(terminal, describe(tool, arguments, directory, timeout))
    finally:
        os.close(terminal)


def _ask(terminal: int, question: str) -> bool:
    import termios

    os.write(terminal, f"{question}\n".encode("ascii"))
    termios.tcflush(terminal, termios.TCIFLUSH)
    os.write(terminal, b"Run this? [y/N] ")
    answer = os.read(terminal, 1024)
    return answer.decode("ascii", "replace").strip().lower() in ("y", "yes")


def describe(tool: str, arguments: Mapping[str, Any], directory: Path, timeout: float) -> str:
    """The call in printable ASCII, whole, with where it runs and for how long at most."""
    limit = arguments.get("timeout")
    if isinstance(limit, int | float) and 0 < limit < timeout:
        timeout = limit
    lines = [f"The model wants to call {spelled_out(tool)}:"]
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value)
        lines.append(f"  {spelled_out(name)}: {spelled_out(text)}")
    lines.append(f"  in {spelled_out(str(directory))}, for {timeout:g} s at most")
    return "\n".join(line.replace("\n", "\n  | ") for line in lines)
