"""What a way out is: calls that a model may make, and how to see on the host that one of them got out."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.program import is_running
from tests.safety.ground import TOKEN, Ground

Seen = Callable[[Ground, str], bool]
"""Whether a call got out: from the ground, and from the text that it gave."""


class Escape(NamedTuple):
    """A way out. `@name@` in the arguments stands for a place on the ground.

    Attributes:
        name: what is tried.
        tool: the tool that is called.
        arguments: what with.
        seen: whether it got out.
        root: whether only root has this way.
        lacks: why a machine may not have this way even without safe mode; "" where every one has it.
    """

    name: str
    tool: str
    arguments: Mapping[str, Any]
    seen: Seen
    root: bool = False
    lacks: str = ""


def shell(name: str, command: str, seen: Seen, *, root: bool = False, lacks: str = "") -> Escape:
    """A way out by a command."""
    return Escape(name, "bash", {"command": command}, seen, root, lacks)


def told(text: str = TOKEN) -> Seen:
    """The call's result holds the text."""
    return lambda ground, said: ground.fill(text) in said


def made(path: str) -> Seen:
    """There is such a file."""
    return lambda ground, said: Path(ground.fill(path)).exists()


def holds(path: str, text: str) -> Seen:
    """The file holds the text."""

    def seen(ground: Ground, said: str) -> bool:
        file = Path(ground.fill(path))
        return file.exists() and text in file.read_text(errors="replace")

    return seen


def status(path: str, fits: Callable[[os.stat_result], bool]) -> Seen:
    """The file is there, and its status fits."""
    return lambda ground, said: (ground.base / path).exists() and fits((ground.base / path).stat())


def heard(text: str) -> Seen:
    """A server outside was told so."""
    return lambda ground, said: text in ground.listener.heard()


def runs(arguments: str) -> Seen:
    """A process outside has these arguments; it is ended."""

    def seen(ground: Ground, said: str) -> bool:
        wanted = ground.fill(arguments).replace(" ", "\0").encode()
        found = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal() and wanted in _arguments(entry)]
        alive = [int(entry.name) for entry in found if is_running(int(entry.name))]
        for process in alive:
            os.kill(process, signal.SIGKILL)
        return bool(alive)

    return seen


def _arguments(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def python(code: str) -> str:
    """A command that runs Python code."""
    return f"@python@ -c '{code}'"


def system_call(x86_64: int, aarch64: int, *arguments: int | str) -> str:
    """A command that makes a system call, and says "it worked" if it did. Arguments are Python."""
    number = {"x86_64": x86_64, "aarch64": aarch64}[platform.machine()]
    return python(
        f"import ctypes; c = ctypes.CDLL(None, use_errno=True); "
        f"r = c.syscall({', '.join(map(str, (number, *arguments)))}); "
        f'print("it worked" if r >= 0 else ctypes.get_errno())'
    )
