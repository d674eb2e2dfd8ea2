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

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ask import __version__
from ask.config.redaction import Redactor
from ask.errors import AskError, ProviderError, to_ask_error
from ask.events import INTERRUPTED_RULE, NOT_OFFERED_RULE, REPEATED_RULE, UNREADABLE_RULE, ToolCallFinished
from ask.messages import Delta, FinishReason, Message, ModelResponse, ToolCall, Usage
from ask.plugin_api.types import ChatRequest
from ask.text import repair_surrogates
from ask.traces.content import format_answer, format_instructions, format_messages
from ask.traces.exporter import CollectorExporter, ProblemLog

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
PROVIDER_NAMES = {"gemini": "gcp.gemini", "xai": "x_ai", "mistral": "mistral_ai", "chatgpt": "openai"}
"""The conventions' names of providers that have another one here."""
REQUEST_OPTIONS = {
    **{name: name for name in ("temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")},
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
}
"""The model parameters that have an attribute, which begins with gen_ai.request."""
INTEGER_LIMIT = 2**63
"""Larger numbers cannot be sent."""
CONVERSATION_ID = "gen_ai.conversation.id"
FINISH_REASONS: dict[str, str] = {
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.STREAM_INCOMPLETE: "incomplete",
}
REJECTIONS = {
    INTERRUPTED_RULE: "interrupted",
    NOT_OFFERED_RULE: "unknown_tool",
    REPEATED_RULE: "repeated_call",
    UNREADABLE_RULE: "invalid_arguments",
}
"""The errors of calls that were rejected by no decision of the user or the policy, by their rule."""


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


class Tracer:
    """Creates the spans of this process and sends them in the background.

    Args:
        environment: may contain the trace to continue, in TRACEPARENT and TRACESTATE.
        report: reports to the user why spans were not sent.
        captures_content: whether spans contain messages, arguments and results.

    Attributes:
        log: the problems.
    """

    def __init__(
        self, environment: Mapping[str, str], report: Callable[[str], None], *, captures_content: bool
    ) -> None:
        self.report = report
        self._captures_content = captures_content
        self.log = ProblemLog()
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self.log)
        logger.propagate = False
        given = OTELResourceDetector().detect().attributes  # those of the environment come first
        attributes = {"service.name": "ask", "service.version": __version__, **given}
        # `flush_traces` shuts it down: at the exit of Python, the SDK would wait for up to 30 seconds.
        self._provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(CollectorExporter(self.log)))
        self._tracer = self._provider.get_tracer("ask", __version__, schema_url=SCHEMA_URL)
        carrier = {name: environment.get(name.upper(), "") for name in ("traceparent", "tracestate")}
        self._parent = TraceContextTextMapPropagator().extract(carrier)
        self.log.is_set_up = True

    def flush(self) -> None:
        """Send what has not been sent yet."""
        self._provider.force_flush()

    def shut_down(self) -> None:
        """Send what has not been sent yet. Later spans are not sent."""
        self._provider.shutdown()

    @contextmanager
    def _open_span(self, name: str, kind: SpanKind, attributes: Mapping[str, Any]) -> Iterator[Span]:
        """Return a context with a new span. Exceptions are not recorded: their texts may quote messages."""
        context = None if get_current_span().get_span_context().is_valid else self._parent
        given = {key: value for key, value in attributes.items() if value}
        texts = {key: repair_surrogates(value) for key, value in given.items() if isinstance(value, str)}
        span = self._tracer.start_span(repair_surrogates(name), context, kind, {**given, **texts})
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
            "gen_ai.request.model": redactor.redact(model),
            CONVERSATION_ID: conversation_id,
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

        model = redactor.redact(request.model)
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER_NAMES.get(provider, provider),
            "gen_ai.request.model": model,
            CONVERSATION_ID: _find_conversation_id(),
            "gen_ai.request.stream": request.stream,
            "gen_ai.output.type": "json" if request.schema else "text",
            **_describe_server(base_url),
        }
        with self._open_span(f"chat {model}", SpanKind.CLIENT, attributes) as span:
            for option, value in request.options.items():
                if option in REQUEST_OPTIONS and isinstance(value, int | float) and abs(value) < INTEGER_LIMIT:
                    span.set_attribute(f"gen_ai.request.{REQUEST_OPTIONS[option]}", value)
            if self._captures_content and span.is_recording():
                _set_text(span, "gen_ai.system_instructions", redactor.redact(format_instructions(request.messages)))
                _set_text(span, "gen_ai.input.messages", redactor.redact_json(format_messages(request.messages)))
            result = send(handle_delta)
            if first_delta_times and request.stream:
                span.set_attribute("gen_ai.response.time_to_first_chunk", first_delta_times[0] - start_time)
            self._describe_result(span, redactor, result)
        return result

    def _describe_result(self, span: Span, redactor: Redactor, result: RequestResultLike) -> None:
        answer, response = result.answer, result.response
        finish_reason = "tool_calls" if result.tool_calls else _name_finish_reason(answer.finish_reason)
        span.set_attribute("gen_ai.response.finish_reasons", [finish_reason])
        for attribute, names in (("id", ("id", "responseId")), ("model", ("model", "modelVersion"))):
            value = next((response[name] for name in names if isinstance(response.get(name), str)), "")
            _set_text(span, f"gen_ai.response.{attribute}", redactor.redact(value))
        _set_usage(span, answer.usage)
        if self._captures_content and span.is_recording():
            text = redactor.redact_json(format_answer(answer.text, answer.reasoning, result.tool_calls, finish_reason))
            _set_text(span, "gen_ai.output.messages", text)
        if result.error is not None:
            _set_error(span, _find_error_type(result.error))

    def trace_tool_call(
        self, redactor: Redactor, call: ToolCall, execute: Callable[..., ToolCallFinished]
    ) -> ToolCallFinished:
        """Execute a tool call in a span, which includes the wait for the user's approval.

        `execute` gets the call, and the environment variables with which a command continues the trace.
        """
        name = redactor.redact(call.name)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": redactor.redact(call.id),
        }
        with self._open_span(f"execute_tool {name}", SpanKind.INTERNAL, attributes) as span:
            carrier = dict[str, str]()
            TraceContextTextMapPropagator().inject(carrier)
            finished = execute(call, variables={name.upper(): value for name, value in carrier.items()})
            if self._captures_content:
                _set_text(span, "gen_ai.tool.call.arguments", finished.call.arguments)
                _set_text(span, "gen_ai.tool.call.result", finished.result)
            if finished.failed:
                is_rejected = finished.verdict == "deny"
                _set_error(span, REJECTIONS.get(finished.rule, "denied") if is_rejected else "tool_error")
        return finished


class RunSpan:
    """The span of a run that has begun."""

    def __init__(self, span: Span, redactor: Redactor, *, captures_content: bool) -> None:
        self._span = span
        self._redactor = redactor
        self._captures_content = captures_content

    def end(
        self,
        usage: Usage,
        error: AskError | None,
        finish_reason: FinishReason,
        messages: Sequence[Message],
        question_index: int,
    ) -> None:
        """Add the result of the run, whose question is the message with this index."""
        reason = _name_finish_reason(finish_reason)
        self._span.set_attribute("gen_ai.response.finish_reasons", [reason])
        _set_usage(self._span, usage)
        if self._captures_content and self._span.is_recording():
            question, answer = messages[question_index], messages[-1]
            _set_text(self._span, "gen_ai.input.messages", self._redactor.redact_json(format_messages([question])))
            if answer.role == "assistant":
                text = format_answer(answer.content, "", answer.tool_calls, reason)
                _set_text(self._span, "gen_ai.output.messages", self._redactor.redact_json(text))
        if error is not None:
            _set_error(self._span, _find_error_type(error))


def _find_conversation_id() -> object:
    """Return the conversation of the current span, if it is that of a run."""
    span = get_current_span()
    return span.attributes.get(CONVERSATION_ID) if isinstance(span, ReadableSpan) and span.attributes else None


def _describe_server(base_url: str) -> dict[str, Any]:
    parts = urlsplit(base_url)
    return {
        "server.address": parts.hostname,
        "server.port": parts.port or {"https": 443, "http": 80}.get(parts.scheme),
    }


def _set_text(span: Span, name: str, text: str) -> None:
    if text:
        span.set_attribute(name, repair_surrogates(text))


def _name_finish_reason(reason: str) -> str:
    return str(FINISH_REASONS.get(reason, reason))


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
