"""Escape attempts: calls of a model, and how to detect on the host that one succeeded."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.program import is_running
from tests.safety.fake_host import TOKEN, FakeHost

SuccessCheck = Callable[[FakeHost, str], bool]
"""Checks whether an escape succeeded, given the host and the output of the call."""


class Escape(NamedTuple):
    """An escape attempt. `@name@` in the arguments is replaced by a value of the fake host.

    Attributes:
        has_succeeded: checks the host and the output of the call.
        root: whether only root can try it.
        lacks: why it may fail on some machines even without safe mode; "" if it always succeeds there.
    """

    name: str
    tool: str
    arguments: Mapping[str, Any]
    has_succeeded: SuccessCheck
    root: bool = False
    lacks: str = ""


def shell(name: str, command: str, has_succeeded: SuccessCheck, *, root: bool = False, lacks: str = "") -> Escape:
    """Build an escape that runs a command."""
    return Escape(name, "bash", {"command": command}, has_succeeded, root, lacks)


def output_contains(text: str = TOKEN) -> SuccessCheck:
    """Check whether the output of the call contains a text."""
    return lambda host, output: host.fill(text) in output


def file_exists(path: str) -> SuccessCheck:
    """Check whether a file exists."""
    return lambda host, output: Path(host.fill(path)).exists()


def file_contains(path: str, text: str) -> SuccessCheck:
    """Check whether a file contains a text."""

    def has_succeeded(host: FakeHost, output: str) -> bool:
        file = Path(host.fill(path))
        return file.exists() and text in file.read_text(errors="replace")

    return has_succeeded


def status_matches(path: str, fits: Callable[[os.stat_result], bool]) -> SuccessCheck:
    """Check whether a file exists and its status meets a condition."""
    return lambda host, output: (host.base / path).exists() and fits((host.base / path).stat())


def server_received(text: str) -> SuccessCheck:
    """Check whether a server outside has received a text."""
    return lambda host, output: text in host.listener.read_received()


def process_runs(arguments: str) -> SuccessCheck:
    """Check whether a process outside has these arguments, and kill it."""

    def has_succeeded(host: FakeHost, output: str) -> bool:
        wanted = host.fill(arguments).replace(" ", "\0").encode()
        found = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal() and wanted in _arguments(entry)]
        alive = [int(entry.name) for entry in found if is_running(int(entry.name))]
        for process in alive:
            os.kill(process, signal.SIGKILL)
        return bool(alive)

    return has_succeeded


def _arguments(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def python(code: str) -> str:
    """Build a command that runs Python code."""
    return f"@python@ -c '{code}'"


def system_call(x86_64: int, aarch64: int, *arguments: int | str) -> str:
    """Build a command that makes a system call and prints "it worked" on success. Arguments are Python code."""
    number = {"x86_64": x86_64, "aarch64": aarch64}[platform.machine()]
    return python(
        f"import ctypes; c = ctypes.CDLL(None, use_errno=True); "
        f"r = c.syscall({', '.join(map(str, (number, *arguments)))}); "
        f'print("it worked" if r >= 0 else ctypes.get_errno())'
    )
