"""What a hook may not do - use the network, start a process, wait, print - and the guard that finds it in tests."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from typing import Any

import pytest

from ask.errors import PluginError
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.testing.conversation import KEY

HOOK_SECONDS = 5.0
"""The time limit for one call of a hook."""
PROCESS_AUDIT_EVENTS = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn")
BLOCKED_AUDIT_EVENTS = {
    "socket.": "used the network",
    **dict.fromkeys(PROCESS_AUDIT_EVENTS, "started a process"),
    "time.sleep": "called time.sleep",
}
"""Forbidden actions of a hook, by the prefix of their audit event (https://docs.python.org/3/library/audit_events.html)."""
HARMLESS_AUDIT_EVENTS = frozenset({"socket.__new__", "socket.gethostname"})
PURE = "Hooks must not do I/O, wait or print: ask sends the requests and shows the output"
_running_hook: str = ""
_violations: list[str] = []
_notices: list[str] = []


def limit_hooks(provider: LoadedProvider) -> LoadedProvider:
    """Return a provider whose hooks have a time limit, and whose output fails the test."""
    return provider.with_limits(HOOK_SECONDS, _notices.append)


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
    collects_garbage = gc.isenabled()
    gc.disable()  # what other code left behind may print, or do I/O, when it is collected
    _running_hook = hook
    try:
        # ask captures what is written to file descriptors 1 and 2; pytest's own streams do not write there.
        with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
            yield
    except PluginError as error:
        mistake = error
    finally:
        _running_hook = ""
        if collects_garbage:
            gc.enable()
        if _violations:
            pytest.fail(f"{hook} {_violations[0]}. {PURE}.", pytrace=False)
        if any(KEY in notice for notice in _notices):
            pytest.fail(
                f"{hook} printed the API key. Remove the output: the key must not reach any log.", pytrace=False
            )
        if _notices:
            pytest.fail(f"{_notices[0]}. {PURE}, so remove the output.", pytrace=False)
    if mistake:
        shown = "" if input_data is None else f" for {str(input_data)[:500]!r}"
        raise AssertionError(f"{mistake.message}{shown}") from mistake.__cause__


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
