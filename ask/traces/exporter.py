"""Sends spans to a collector, and finds out why it did not take them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_ENDPOINT
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from requests import PreparedRequest, RequestException, Response, Session
from requests.auth import HTTPBasicAuth
from requests.utils import get_auth_from_url

MAX_PROBLEM_CHARACTERS = 300


class ProblemLog(logging.Handler):
    """Finds out what goes wrong, from what the SDK logs, which would otherwise be printed.

    Attributes:
        ignored_variable: what is wrong with a variable, if the SDK is being set up.
        lost: why spans were lost; "" if none were.
        current: why the request that is being sent has failed so far.
        failure_count: how many requests have failed, whether or not they are sent again.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.is_set_up = False
        self.ignored_variable = ""
        self.lost = ""
        self.current = ""
        self.failure_count = 0

    def take_problem(self) -> str:
        """Return why spans were not sent, "" if all were, and forget it."""
        problem, self.lost = self.lost or self.current, ""
        return problem

    def emit(self, record: logging.LogRecord) -> None:
        message = " ".join(record.getMessage().split())[:MAX_PROBLEM_CHARACTERS]
        if not self.is_set_up:
            self.ignored_variable = message
        elif record.name.startswith("opentelemetry.exporter.otlp.proto.http"):
            arguments = record.args if isinstance(record.args, tuple) else ()
            errors = [value for value in arguments if isinstance(value, RequestException)]
            if errors:
                message = _describe_failure(errors[0])
            self.current = self.current or message
            self.failure_count += 1
        elif record.name.startswith("opentelemetry.sdk"):  # the queue is full; others report attributes
            self.lost = message


def _describe_failure(error: RequestException) -> str:
    """Describe why there is no connection to the collector, without credentials in its address."""
    url = error.request.url if error.request else None
    address = urlsplit(url or "").netloc.rpartition("@")[2]
    collector = f"the collector at {address}" if address else "the collector"
    return f"no connection to {collector} ({_find_reason(error)}): start it, or set {OTEL_EXPORTER_OTLP_ENDPOINT}"


def _find_reason(error: BaseException) -> str:
    """Return the reason of the operating system for a network error, or else of the innermost exception."""
    reason = ""
    cause: BaseException | None = error
    while cause is not None:
        error = cause
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        cause = error.__cause__ or error.__context__
    return reason or " ".join(str(error).split())[:MAX_PROBLEM_CHARACTERS]


class CollectorExporter(OTLPSpanExporter):
    """Sends spans to the collector that the environment names. Problems are recorded in a log."""

    def __init__(self, log: ProblemLog) -> None:
        self._log = log
        session = Session()
        session.max_redirects = 0  # the headers may contain a key of the collector
        session.auth = _authenticate
        session.hooks["response"].append(self._check_response)
        super().__init__(session=session)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans, if necessary several times."""
        self._log.current = ""
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._log.lost = self._log.current
        self._log.current = ""
        return result

    def _check_response(self, response: Response, *_: object, **__: Any) -> None:
        if response.status_code >= 300:
            self._log.current = f"the collector answered {response.status_code} {response.reason}"
            return
        content = response.content
        try:
            rejection = ExportTraceServiceResponse.FromString(content).partial_success
        except Exception:  # noqa: BLE001 - some collectors answer with JSON or text
            return
        if count := rejection.rejected_spans:
            spans = "1 span" if count == 1 else f"{count:,} spans"
            self._log.lost = f"the collector rejected {spans} ({rejection.error_message or 'without a reason'})"


def _authenticate(request: PreparedRequest) -> PreparedRequest:
    """Use the user name and password in a URL, but not those in ~/.netrc, which would replace a header."""
    user, password = get_auth_from_url(request.url or "")
    return HTTPBasicAuth(user, password)(request) if user or password else request
