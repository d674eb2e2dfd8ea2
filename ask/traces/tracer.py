"""Spans of runs, model requests and tool calls, by OpenTelemetry's conventions for generative AI.

The conventions are those of version 1.41.0, the last one before they moved to a repository of their own:
https://github.com/open-telemetry/semantic-conventions/tree/v1.41.0/docs/gen-ai
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from requests import Session

from ask import __version__
from ask.config.redaction import Redactor
from ask.errors import AskError, ProviderError, to_ask_error
from ask.events import ToolCallFinished
from ask.messages import Delta, FinishReason, Message, ModelResponse, ToolCall, Usage
from ask.plugin_api.types import ChatRequest
from ask.traces.content import format_answer, format_instructions, format_messages

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
PROVIDER_NAMES = {"gemini": "gcp.gemini", "xai": "x_ai", "mistral": "mistral_ai", "chatgpt": "openai"}
"""The conventions' names of providers that have another one here."""
REQUEST_OPTIONS = {
    **{name: name for name in ("temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")},
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
}
"""The model parameters that have an attribute, which begins with gen_ai.request."""
FINISH_REASONS = {FinishReason.CONTENT_FILTER: "content_filter", FinishReason.STREAM_INCOMPLETE: "incomplete"}
TOOL_FAILED, TOOL_DENIED = "tool_error", "denied"


class RequestResultLike(Protocol):
    """The parts of `ask.client.provider_client.RequestResult` that a span describes."""

    @property
    def answer(self) -> ModelResponse: ...
    @property
    def tool_calls(self) -> tuple[ToolCall, ...]: ...
    @property
    def error(self) -> AskError | None: ...
    @property
    def response(self) -> Mapping[str, Any]: ...


ResultT = TypeVar("ResultT", bound=RequestResultLike)


class _LogCollector(logging.Handler):
    """Collects what the SDK logs, which would otherwise be printed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.problem = ""
        self.failure_count = 0

    def emit(self, record: logging.LogRecord) -> None:
        reason = next(filter(None, map(_find_reason, record.args if isinstance(record.args, tuple) else ())), "")
        text = f"the collector could not be reached ({reason})" if reason else record.getMessage()
        self.problem = " ".join(text.split())[:300]
        self.failure_count += record.name.startswith("opentelemetry.exporter")


def _find_reason(value: object) -> str:
    """Return the reason of the operating system for a network error; "" for anything else."""
    reason = ""
    while isinstance(value, BaseException):
        if isinstance(value, OSError) and value.strerror:
            reason = value.strerror
        value = value.__cause__ or value.__context__
    return reason


class Tracer:
    """Creates the spans of this process and sends them in the background.

    Args:
        environment: may contain the trace to continue, in TRACEPARENT and TRACESTATE.
        report: is called with the problem if spans could not be sent.
        captures_content: whether spans contain messages, arguments and results.
    """

    def __init__(
        self, environment: Mapping[str, str], report: Callable[[str], None], *, captures_content: bool
    ) -> None:
        self._report = report
        self._captures_content = captures_content
        self._log = _LogCollector()
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self._log)
        logger.propagate = False
        given = OTELResourceDetector().detect().attributes  # those of the environment come first
        attributes = {"service.name": "ask", "service.version": __version__, **given}
        session = Session()
        session.max_redirects = 0  # the headers may contain a key of the collector
        # `flush_traces` shuts it down: at the exit of Python, the SDK would wait for up to 30 seconds.
        self._provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(session=session)))
        self._tracer = self._provider.get_tracer("ask", __version__, schema_url=SCHEMA_URL)
        carrier = {name: environment.get(name.upper(), "") for name in ("traceparent", "tracestate")}
        self._parent = TraceContextTextMapPropagator().extract(carrier)

    @property
    def failure_count(self) -> int:
        """How many problems the exporter has reported."""
        return self._log.failure_count

    def shut_down(self) -> None:
        """Send what has not been sent yet."""
        self._provider.shutdown()

    def report_problem(self, *, is_late: bool) -> None:
        """Report why spans were not sent, if any were not."""
        if self._log.problem or is_late:
            self._report(self._log.problem or "the collector did not answer in time")

    @contextmanager
    def _open_span(self, name: str, kind: SpanKind, attributes: Mapping[str, Any]) -> Iterator[Span]:
        """Return a context with a new span. Exceptions are not recorded: their texts may quote messages."""
        context = None if get_current_span().get_span_context().is_valid else self._parent
        span = self._tracer.start_span(name, context, kind, {key: value for key, value in attributes.items() if value})
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException as error:
            _set_error(span, _find_error_type(to_ask_error(error)))
            raise
        finally:
            span.end()

    @contextmanager
    def trace_run(self, provider: str, model: str, conversation_id: str, redactor: Redactor) -> Iterator[RunSpan]:
        """Return a context with the span of a run."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "ask",
            "gen_ai.agent.version": __version__,
            "gen_ai.provider.name": PROVIDER_NAMES.get(provider, provider),
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": conversation_id,
        }
        with self._open_span("invoke_agent ask", SpanKind.INTERNAL, attributes) as span:
            yield RunSpan(span, redactor, captures_content=self._captures_content)

    def trace_request(
        self,
        request: ChatRequest,
        send: Callable[[Callable[[Delta], None]], ResultT],
        on_delta: Callable[[Delta], None],
        *,
        provider: str,
        base_url: str,
        redactor: Redactor,
    ) -> ResultT:
        """Send a request once with `send`, in a span."""
        start_time, first_delta_times = time.monotonic(), list[float]()

        def handle_delta(delta: Delta) -> None:
            if not first_delta_times:
                first_delta_times.append(time.monotonic())
            on_delta(delta)

        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER_NAMES.get(provider, provider),
            "gen_ai.request.model": request.model,
            "gen_ai.request.stream": request.stream,
            "gen_ai.output.type": "json" if request.schema else "text",
            **_describe_server(base_url),
        }
        with self._open_span(f"chat {request.model}", SpanKind.CLIENT, attributes) as span:
            for option, value in request.options.items():
                if option in REQUEST_OPTIONS and isinstance(value, int | float):
                    span.set_attribute(f"gen_ai.request.{REQUEST_OPTIONS[option]}", value)
            if self._captures_content:
                _set_text(span, "gen_ai.system_instructions", redactor.redact(format_instructions(request.messages)))
                _set_text(span, "gen_ai.input.messages", redactor.redact_json(format_messages(request.messages)))
            result = send(handle_delta)
            if first_delta_times and request.stream:
                span.set_attribute("gen_ai.response.time_to_first_chunk", first_delta_times[0] - start_time)
            self._describe_result(span, redactor, result)
        return result

    def _describe_result(self, span: Span, redactor: Redactor, result: RequestResultLike) -> None:
        answer, response = result.answer, result.response
        finish_reason = str(FINISH_REASONS.get(answer.finish_reason, answer.finish_reason))
        if result.tool_calls:
            finish_reason = "tool_calls"
        span.set_attribute("gen_ai.response.finish_reasons", [finish_reason])
        for attribute, names in (("id", ("id", "responseId")), ("model", ("model", "modelVersion"))):
            value = next((response[name] for name in names if isinstance(response.get(name), str)), "")
            _set_text(span, f"gen_ai.response.{attribute}", redactor.redact(value))
        _set_usage(span, answer.usage)
        if self._captures_content:
            text = redactor.redact_json(format_answer(answer, result.tool_calls, finish_reason))
            _set_text(span, "gen_ai.output.messages", text)
        if result.error is not None:
            _set_error(span, _find_error_type(result.error))

    def trace_tool_call(
        self, redactor: Redactor, call: ToolCall, execute: Callable[[ToolCall], ToolCallFinished]
    ) -> ToolCallFinished:
        """Execute a tool call in a span, which includes the wait for the user's approval."""
        name = redactor.redact(call.name)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": redactor.redact(call.id),
        }
        with self._open_span(f"execute_tool {name}", SpanKind.INTERNAL, attributes) as span:
            finished = execute(call)
            if self._captures_content:
                _set_text(span, "gen_ai.tool.call.arguments", finished.call.arguments)
                _set_text(span, "gen_ai.tool.call.result", finished.result)
            if finished.failed:
                _set_error(span, TOOL_DENIED if finished.verdict == "deny" else TOOL_FAILED)
        return finished


class RunSpan:
    """The span of a run that has begun."""

    def __init__(self, span: Span, redactor: Redactor, *, captures_content: bool) -> None:
        self._span = span
        self._redactor = redactor
        self._captures_content = captures_content

    def end(self, usage: Usage, error: AskError | None, messages: Sequence[Message], question_index: int) -> None:
        """Add the result of the run, whose question is the message with this index."""
        _set_usage(self._span, usage)
        if self._captures_content:
            question, answer = messages[question_index], messages[-1]
            _set_text(self._span, "gen_ai.input.messages", self._redactor.redact_json(format_messages([question])))
            if answer is not question:
                _set_text(self._span, "gen_ai.output.messages", self._redactor.redact_json(format_messages([answer])))
        if error is not None:
            _set_error(self._span, _find_error_type(error))


def _describe_server(base_url: str) -> dict[str, Any]:
    parts = urlsplit(base_url)
    return {
        "server.address": parts.hostname,
        "server.port": parts.port or {"https": 443, "http": 80}.get(parts.scheme),
    }


def _set_text(span: Span, name: str, text: str) -> None:
    if text:
        span.set_attribute(name, text)


def _set_usage(span: Span, usage: Usage) -> None:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read.input_tokens": usage.cached_tokens,
        "cache_creation.input_tokens": usage.cache_write_tokens,
        "reasoning.output_tokens": usage.reasoning_tokens,
    }
    for name, count in counts.items():
        if count is not None:
            span.set_attribute(f"gen_ai.usage.{name}", count)


def _find_error_type(error: AskError) -> str:
    """Return the HTTP status of a provider's error, or the class of another one."""
    status = error.status if isinstance(error, ProviderError) else None
    return str(status) if status else type(error).__name__


def _set_error(span: Span, error_type: str) -> None:
    span.set_status(StatusCode.ERROR)
    span.set_attribute("error.type", error_type)
