"""Whether traces are sent, and the end of the process, which waits for the last of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ask.config.installation import format_install_command
from ask.config.settings import Settings
from ask.errors import FIRST_SIGNAL_EXIT_CODE

if TYPE_CHECKING:
    from ask.traces.tracer import Tracer

FLUSH_SECONDS, INTERRUPTED_FLUSH_SECONDS = 2.0, 0.2
"""How long the end of the process may wait for the collector, and how long if a signal ends it."""
POLL_SECONDS = 0.005
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT_VALUES = ("true", "span_only", "span_and_event")

LATE_PROBLEM = "the collector did not answer in time"

_lock = threading.Lock()
_tracers: list[Tracer | None] = []
"""The tracer of the process, once it was asked for; None if it could not be opened."""


def open_tracer(settings: Settings, notify: Callable[[str], None]) -> Tracer | None:
    """Return the tracer of this process; None if traces are off. If they cannot be sent, the user is notified once."""
    if not settings.traces or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    with _lock:
        if not _tracers:
            _tracers.append(_create_tracer(settings, notify))
        return _tracers[0]


def _create_tracer(settings: Settings, notify: Callable[[str], None]) -> Tracer | None:
    exporters = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporters and "otlp" not in exporters:
        if exporters != "none":
            notify(f"no traces are sent: OTEL_TRACES_EXPORTER is {exporters!r}, and ask supports only otlp")
        return None
    content = os.environ.get(CONTENT_VARIABLE, "").strip().lower()
    captures_content = content in CONTENT_VALUES if content else settings.trace_content
    try:
        from ask.traces.tracer import Tracer

        tracer = Tracer(os.environ, partial(report_problem, notify), captures_content=captures_content)
    except ImportError as error:
        notify(f"no traces are sent: {error.name} is not installed; {format_install_command('otel')} installs it")
        return None
    except Exception as error:  # noqa: BLE001 - the SDK reads some variables at import; none must prevent an answer
        notify(f"no traces are sent: {str(error) or type(error).__name__}")
        return None
    if tracer.log.ignored_variable:
        notify(f"a variable for traces was ignored: {tracer.log.ignored_variable}")
    return tracer


def report_problem(notify: Callable[[str], None], problem: str) -> None:
    """Report to the user why spans were not sent."""
    with suppress(OSError, ValueError):  # standard error may be closed
        notify(f"traces were not sent: {problem}")


def flush_traces(exit_code: int, signals: Sequence[int]) -> None:
    """Send the last spans before the process exits, for a limited time; a problem is reported in one line.

    It does not wait longer once the collector has refused spans, or on a signal, which is added to `signals`.
    """
    tracer = next(filter(None, _tracers), None)
    if tracer is None:
        return
    is_interrupted = exit_code >= FIRST_SIGNAL_EXIT_CODE
    seconds = INTERRUPTED_FLUSH_SECONDS if is_interrupted else FLUSH_SECONDS
    problem = _send_spans(tracer, tracer.shut_down, seconds, signals)
    if problem and not is_interrupted and not signals:
        tracer.report(problem)


def send_row_spans(settings: Settings) -> str:
    """Send the spans of a row that is a process, before it writes its result; return the problem, "" for none."""
    tracer = next(filter(None, _tracers), None)
    seconds = FLUSH_SECONDS if settings.waits_for_collector else INTERRUPTED_FLUSH_SECONDS
    return _send_spans(tracer, tracer.shut_down, seconds) if tracer else ""


def send_worker_spans() -> str:
    """Send the spans of a worker, which will get other jobs; return the problem, "" for none."""
    tracer = next(filter(None, _tracers), None)
    return _send_spans(tracer, tracer.flush, FLUSH_SECONDS) if tracer else ""


def _send_spans(tracer: Tracer, send: Callable[[], None], seconds: float, signals: Sequence[int] = ()) -> str:
    """Send what has not been sent, for a limited time or until there is a signal; return the problem, "" for none."""
    deadline = time.monotonic() + seconds
    sender = threading.Thread(target=send, daemon=True)
    failure_count = tracer.log.failure_count
    sender.start()
    while sender.is_alive() and tracer.log.failure_count == failure_count and time.monotonic() < deadline:
        if signals:
            break
        sender.join(POLL_SECONDS)
    problem = tracer.log.take_problem() or (LATE_PROBLEM if sender.is_alive() else "")
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if problem and protocol == "grpc":
        problem += "; OpenTelemetry's variables ask for grpc, but only http/protobuf is supported"
    return problem
