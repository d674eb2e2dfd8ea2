"""Reports a hook's mistakes as test failures: those that ask finds, and network access, processes and output."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from types import ModuleType
from typing import Any, NoReturn

import pytest

from ask import Provider
from ask.errors import PluginError
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.loader import check_provider
from ask.testing.conversation import KEY

HOOK_TIMEOUT = 5.0
"""The time limit for one call of a hook, in seconds."""
MAX_WAIT = 0.05
"""Seconds that a hook may wait."""
PROCESS_AUDIT_EVENTS = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn")
BLOCKED_AUDIT_EVENTS = {
    "socket.": "used the network",
    **dict.fromkeys(PROCESS_AUDIT_EVENTS, "started a process"),
    "time.sleep": "called time.sleep",
}
"""What a hook has done, by the prefix of the audit event (https://docs.python.org/3/library/audit_events.html)."""
HARMLESS_AUDIT_EVENTS = frozenset({"socket.__new__", "socket.gethostname"})
PURE = "Hooks must not do I/O, wait or print: ask sends the requests and shows the output"

_running_hook: str = ""
_violations: list[str] = []
_notices: list[str] = []


def fail(message: str) -> NoReturn:
    """Fail the test with a message, without the traceback of the kit."""
    __tracebackhide__ = True
    pytest.fail(message, pytrace=False)


@cache
def load_provider(provider: Provider | ModuleType) -> LoadedProvider:
    """Load a provider as ask does.

    Raises:
        ConfigError: it is not valid.
    """
    return check_provider(provider, "to test", "").with_limits(HOOK_TIMEOUT, _notices.append)


@contextmanager
def guard_hook(hook: str, input_data: object = None) -> Iterator[None]:
    """Call a hook of a loaded provider in the block, and fail the test if it makes a mistake.

    Any `AskError` that the hook may raise passes through. `input_data` is shown with a mistake.
    """
    __tracebackhide__ = True
    global _running_hook  # noqa: PLW0603 - read by the audit hook, which cannot be removed
    _install_audit_hook()
    _violations.clear()
    _notices.clear()
    mistake: PluginError | None = None
    _running_hook = hook
    try:
        # ask captures what is written to file descriptors 1 and 2; pytest's own streams do not write there.
        with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
            yield
    except PluginError as error:
        mistake = error
    finally:
        _running_hook = ""
        if _violations:
            fail(f"{hook} {_violations[0]}. {PURE}.")
        if any(KEY in notice for notice in _notices):
            fail(f"{hook} printed the API key. Remove the output: the key must not reach any log.")
        if _notices:
            fail(f"{_notices[0]}. {PURE}, so remove the output.")
    if mistake:
        shown = "" if input_data is None else f" for {str(input_data)[:500]!r}"
        raise AssertionError(f"{mistake.message}{shown}") from mistake.__cause__


def measure_waiting(function: Callable[[], Any]) -> float:
    """Return the seconds that a function spends waiting, the shortest of several calls if the first one waits."""
    shortest = math.inf
    for _ in range(10):  # a busy machine may delay some of them
        start, cpu_start = time.monotonic(), time.thread_time()
        function()
        shortest = min(shortest, time.monotonic() - start - (time.thread_time() - cpu_start))
        if shortest <= MAX_WAIT:
            break
    return shortest


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
