"""Runs hooks under guard: output, network access, waiting and unexpected exceptions are reported as mistakes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

import pytest

from ask import AskError
from ask.testing.conversation import KEY

HOOK_TIMEOUT = 2.0
"""The time limit for one call of a hook, in seconds."""
BLOCKED_AUDIT_EVENTS = {
    "socket.": "used the network",
    "subprocess.": "started a process",
    "os.system": "started a process",
    "os.exec": "started a process",
    "os.fork": "started a process",
    "os.posix_spawn": "started a process",
    "os.spawn": "started a process",
    "time.sleep": "called time.sleep",
}
"""What a hook has done, by the prefix of the audit event (https://docs.python.org/3/library/audit_events.html)."""
HARMLESS_AUDIT_EVENTS = frozenset({"socket.__new__", "socket.gethostname"})
PURE = "Hooks must not do I/O, wait or print: ask sends the requests and shows the output"

_running_hook: str = ""
_violations: list[str] = []


def fail(message: str) -> NoReturn:
    """Fail the test with a message, without the traceback of the kit."""
    __tracebackhide__ = True
    pytest.fail(message, pytrace=False)


@contextmanager
def guard_hook(hook: str, input_data: object = None) -> Iterator[None]:
    """Run a hook in the block, and fail the test if it prints, uses the network, takes too long or raises.

    An `AskError` passes through. `input_data` is shown if the hook raises any other exception.
    """
    __tracebackhide__ = True
    global _running_hook  # noqa: PLW0603 - read by the audit hook, which cannot be removed
    _install_audit_hook()
    _violations.clear()
    output = _get_output_file()
    raised: Exception | SystemExit | None = None
    with _redirect_output(output), _limit_time(hook):
        _running_hook = hook
        try:
            yield
        except (Exception, SystemExit) as error:  # noqa: BLE001 - reported below
            raised = error
        finally:
            _running_hook = ""
    printed = _read_output(output)
    if _violations:
        fail(f"{hook} {_violations[0]}. {PURE}.")
    if KEY in printed:
        fail(f"{hook} printed the API key: {printed[:200]!r}. Remove the output: the key must not reach any log.")
    if printed:
        fail(f"{hook} printed {printed[:200]!r}. {PURE}, so remove the output.")
    if isinstance(raised, AskError):
        raise raised
    if raised is not None:
        shown = "" if input_data is None else f" for {str(input_data)[:500]!r}"
        raise AssertionError(
            f"{hook} raised {type(raised).__name__}: {raised}{shown}. Only an ask.AskError may be raised: "
            "check the types of all values that come from outside."
        ) from raised


def measure_waiting(function: Callable[[], Any]) -> float:
    """Return the seconds that a function spends waiting, the shortest of three calls."""
    waits = []
    for _ in range(3):
        start, cpu_start = time.monotonic(), time.thread_time()
        function()
        waits.append(time.monotonic() - start - (time.thread_time() - cpu_start))
    return min(waits)


@cache
def _install_audit_hook() -> None:
    """Forbid network access and processes while a hook is running."""

    def check_event(event: str, arguments: tuple[Any, ...]) -> None:
        if not _running_hook or event in HARMLESS_AUDIT_EVENTS:
            return
        for prefix, action in BLOCKED_AUDIT_EVENTS.items():
            if event.startswith(prefix):
                detail = ", ".join(repr(each) for each in arguments if isinstance(each, str | tuple | int))
                _violations.append(f"{action} ({event} {detail})".replace(" )", ")"))
                raise PermissionError(f"{_running_hook} {action}")

    sys.addaudithook(check_event)


@cache
def _get_output_file() -> IO[str]:
    return TemporaryFile("w+", encoding="utf-8", errors="replace", newline="")


@contextmanager
def _redirect_output(output: IO[str]) -> Iterator[None]:
    """Redirect the standard streams, and their descriptors, which processes and native code use."""
    saved = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
    try:
        for descriptor, _ in saved:
            os.dup2(output.fileno(), descriptor)
        with redirect_stdout(output), redirect_stderr(output):
            yield
    finally:
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)


def _read_output(output: IO[str]) -> str:
    """Return what was written to the file, and empty it."""
    output.flush()
    if not os.fstat(output.fileno()).st_size:
        return ""
    output.seek(0)
    printed = output.read()
    output.seek(0)
    output.truncate()
    return printed.strip()


@contextmanager
def _limit_time(hook: str) -> Iterator[None]:
    """Interrupt a hook that runs longer than `HOOK_TIMEOUT`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, __: object) -> None:
        fail(f"{hook} took longer than {HOOK_TIMEOUT:g} s. {PURE}.")

    previous_handler = signal.signal(signal.SIGALRM, interrupt)
    previous_timer = signal.setitimer(signal.ITIMER_REAL, HOOK_TIMEOUT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *previous_timer)
        signal.signal(signal.SIGALRM, previous_handler)
