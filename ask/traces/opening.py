"""Whether traces are sent, and the end of the process, which waits for the last of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ask.config.installation import format_install_command
from ask.config.settings import Settings

if TYPE_CHECKING:
    from ask.traces.tracer import Tracer

FLUSH_SECONDS, INTERRUPTED_FLUSH_SECONDS = 2.0, 0.2
"""How long the end of the process may wait for the collector, and how long if a signal ends it."""
POLL_SECONDS = 0.005
FIRST_SIGNAL_EXIT_CODE = 128
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT_VALUES = ("true", "span_only", "span_and_event")

_lock = threading.Lock()
_tracers: list[Tracer | None] = []
"""The tracer of the process, once it was asked for; None if it could not be opened."""


def open_tracer(settings: Settings, notify: Callable[[str], None]) -> Tracer | None:
    """Return the tracer of this process; None if traces are off. If they cannot be sent, the user is notified once."""
    if not settings.traces or _is_disabled():
        return None
    with _lock:
        if not _tracers:
            _tracers.append(_create_tracer(settings, notify))
        return _tracers[0]


def _is_disabled() -> bool:
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter == "none" or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _create_tracer(settings: Settings, notify: Callable[[str], None]) -> Tracer | None:
    try:
        from ask.traces.tracer import Tracer
    except ImportError as error:
        notify(f"no traces are sent: {error.name} is not installed; {format_install_command('otel')} installs it")
        return None
    content = os.environ.get(CONTENT_VARIABLE, "").strip().lower()
    captures_content = content in CONTENT_VALUES if content else settings.trace_content
    try:
        return Tracer(os.environ, partial(_report_problem, notify), captures_content=captures_content)
    except Exception as error:  # noqa: BLE001 - an invalid variable of the SDK must not prevent an answer
        notify(f"no traces are sent: {type(error).__name__}: {error}")
        return None


def _report_problem(notify: Callable[[str], None], problem: str) -> None:
    with suppress(OSError, ValueError):  # standard error may be closed
        notify(f"traces were not sent: {problem}")


def flush_traces(exit_code: int) -> None:
    """Send the last spans before the process exits, for a limited time; a problem is reported in one line.

    It does not wait longer once the collector has refused spans, or on a signal.
    """
    tracer = next(filter(None, _tracers), None)
    if tracer is None:
        return
    is_interrupted = exit_code >= FIRST_SIGNAL_EXIT_CODE
    deadline = time.monotonic() + (INTERRUPTED_FLUSH_SECONDS if is_interrupted else FLUSH_SECONDS)
    sender = threading.Thread(target=tracer.shut_down, daemon=True)
    failure_count = tracer.failure_count
    sender.start()
    with suppress(KeyboardInterrupt, SystemExit):
        while sender.is_alive() and tracer.failure_count == failure_count and time.monotonic() < deadline:
            sender.join(POLL_SECONDS)
        if not is_interrupted:
            tracer.report_problem(is_late=sender.is_alive())
