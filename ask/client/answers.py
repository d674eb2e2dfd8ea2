"""An answer: its deltas on their way to the user, and the error about what it lacks."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

from ask.config.redaction import Redactor, StreamRedactor
from ask.errors import IncompleteResponseError, RefusedQuestionsError
from ask.messages import (
    Delta,
    FinishReason,
    Message,
    ModelResponse,
    ReasoningDelta,
    ServerToolCall,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from ask.parsing import FAST_TIER, parse_json, read_service_tier
from ask.plugin_api.types import ChatRequest
from ask.text import repair_surrogates

MAX_COUNT = 10**12
"""More tokens, or dollars, than any request can have. SQLite cannot store integers of more than 64 bits."""
MAX_REASON_CHARACTERS = 300
"""The limit for a provider's explanation of an incomplete answer."""

INCOMPLETE_MESSAGES = {
    FinishReason.LENGTH: (
        "the answer stopped at the token limit",
        "raise it with -o max_tokens=N, or shorten the conversation",
    ),
    FinishReason.CONTENT_FILTER: ("the model refused, or a content filter stopped the answer", ""),
    FinishReason.EMPTY: ("the model returned an empty answer", "try again, or use another model"),
}
ONLY_REASONING_MESSAGE = (
    "the model returned an empty answer after its reasoning",
    "try again, or use another model (ask -v shows the reasoning)",
)
UNFINISHED_REASONING_MESSAGE = (
    "the model was still reasoning at the token limit",
    "raise it with -o max_tokens=N, or lower --effort",
)


class DeltaRedactor:
    """Forwards the deltas of an answer without secrets; characters and secrets may be split between two deltas."""

    def __init__(self, redactor: Redactor, on_delta: Callable[[Delta], None]) -> None:
        self._redact = redactor.redact
        self._redactor = redactor
        self._on_delta = on_delta
        self._redactors: dict[type[ReasoningDelta | TextDelta], StreamRedactor] = {}
        self._last_type: type[Delta] | None = None
        if on_delta is discard_delta:
            return
        create_decoder = getincrementaldecoder("utf-16-le")  # joins surrogate pairs, and replaces lone surrogates
        self._decoders = {ReasoningDelta: create_decoder("replace"), TextDelta: create_decoder("replace")}
        self._redactors = {ReasoningDelta: StreamRedactor(redactor), TextDelta: StreamRedactor(redactor)}

    def feed(self, delta: Delta) -> None:
        """Forward as much of the text as cannot be part of a secret.

        What is held back of the reasoning comes before the text that follows it, if that is safe.
        """
        if not self._redactors:
            return
        if type(delta) is not self._last_type:
            if self._last_type in self._redactors and (released := self._redactors[self._last_type].release()):
                self._on_delta(self._last_type(released))
            self._last_type = type(delta)
        if isinstance(delta, ToolCallDelta):
            self._on_delta(ToolCallDelta(delta.index, self._redact(delta.name)))
        elif isinstance(delta, ServerToolDelta):
            from ask.client.citations import clean_server_calls

            for call in clean_server_calls([delta.call]):
                self._on_delta(ServerToolDelta(_redact_server_call(self._redactor, call)))
        else:
            text = self._decoders[type(delta)].decode(delta.text.encode("utf-16-le", "surrogatepass"))
            self._on_delta(type(delta)(self._redactors[type(delta)].feed(text)))

    def finish(self) -> None:
        """Forward the text that was held back."""
        for delta_type, redactor in self._redactors.items():
            if text := redactor.feed(self._decoders[delta_type].decode(b"", final=True), is_last=True):
                self._on_delta(delta_type(text))


def merge_deltas(deltas: Iterable[Delta]) -> Iterator[Delta]:
    """Merge consecutive deltas of the same type."""
    for delta_type, group in groupby(deltas, type):
        if delta_type in (ToolCallDelta, ServerToolDelta):
            yield from group
        else:
            yield delta_type("".join(map(attrgetter("text"), group)))


def discard_delta(_: Delta) -> None:
    """Ignore a delta of an answer that is shown once it is complete."""


def emit_answer(answer: ModelResponse, on_delta: Callable[[Delta], None]) -> None:
    """Emit a complete answer as deltas."""
    if answer.reasoning:
        on_delta(ReasoningDelta(answer.reasoning))
    for call in answer.server_calls:
        on_delta(ServerToolDelta(call))
    if answer.text:
        on_delta(TextDelta(answer.text))


def correct_usage(usage: Usage, options: Mapping[str, Any], *, has_content: bool, is_cut_off: bool) -> Usage:
    """Return the usage without impossible counts: every request has tokens, and so does an answer with content.

    What was counted of an answer before it was cut off is not all that has to be paid. If the answer does not report
    its service tier, that of the request's options counts.
    """
    for name, value in zip(Usage._fields, usage, strict=True):
        if not (isinstance(value, str) or 0 <= (value or 0) < MAX_COUNT):
            usage = usage._replace(**{name: None})
    is_unknown = is_cut_off or (has_content and not usage.output_tokens)
    usage = usage._replace(
        input_tokens=usage.input_tokens or None,
        output_tokens=None if is_unknown else usage.output_tokens,
        reasoning_tokens=None if is_unknown else usage.reasoning_tokens,
    )
    if usage._replace(service_tier=None) == Usage():  # nothing was reported, so there is no tier either
        return Usage()
    return usage._replace(service_tier=usage.service_tier or find_requested_tier(options)) if options else usage


def find_requested_tier(options: Mapping[str, Any]) -> str | None:
    """Return the service tier that the options of a request select; None if they leave it to the service."""
    if options.get("speed") == FAST_TIER:
        return FAST_TIER
    return read_service_tier(options.get("service_tier"), options.get("serviceTier"))


def redact_answer(redactor: Redactor, answer: ModelResponse) -> ModelResponse:
    """Replace the secrets in an answer."""
    message = redactor.redact_message(Message("assistant", answer.text, provider_state=answer.provider_state))
    if answer.citations or answer.server_calls:
        answer = _redact_sources(redactor, answer, is_text_changed=message.content != answer.text)
    return answer._replace(
        text=message.content,
        commentary=redactor.redact(answer.commentary),
        reasoning=redactor.redact(answer.reasoning),
        provider_state=message.provider_state,
        finish_message=redactor.redact(answer.finish_message),
    )


def _redact_sources(redactor: Redactor, answer: ModelResponse, *, is_text_changed: bool) -> ModelResponse:
    """Replace the secrets in the sources of an answer, and in the calls that the service ran itself."""
    citations = answer.citations
    if is_text_changed:  # the positions are no longer valid
        from ask.client.citations import remove_positions

        citations = remove_positions(citations)
    return answer._replace(
        citations=tuple(
            citation._replace(
                url=redactor.redact(citation.url),
                title=redactor.redact(citation.title),
                cited_text=redactor.redact(citation.cited_text),
            )
            for citation in citations
        ),
        server_calls=tuple(_redact_server_call(redactor, call) for call in answer.server_calls),
        decisions=tuple(each._replace(refusal=redactor.redact(each.refusal)) for each in answer.decisions),
    )


def _redact_server_call(redactor: Redactor, call: ServerToolCall) -> ServerToolCall:
    """Replace the secrets in a call that the service ran itself."""
    return call._replace(
        name=redactor.redact(call.name),
        arguments=redactor.redact_json(call.arguments),
        result=redactor.redact(call.result),
    )


def clean_answer(answer: ModelResponse, original_text: str) -> ModelResponse:
    """Make the citations and the service's own calls of an answer safe.

    `original_text` is the text to which positions refer, before reasoning was removed from its beginning.
    """
    if not (answer.citations or answer.server_calls):
        return answer
    from ask.client.citations import clean_citations, clean_server_calls

    removed = len(original_text) - len(answer.text) if original_text.endswith(answer.text) else len(original_text)
    return answer._replace(
        citations=clean_citations(answer.citations, answer.text, removed),
        server_calls=clean_server_calls(answer.server_calls),
    )


def move_json_from_reasoning(answer: ModelResponse) -> ModelResponse:
    """Return an answer with its JSON as the text: for requests with a schema, some servers take it for reasoning.

    https://github.com/vllm-project/vllm/issues/17609, https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1602
    """
    is_complete = answer.finish_reason is FinishReason.STOP
    if is_complete and not answer.text.strip() and isinstance(parse_json(answer.reasoning), (dict, list)):
        return answer._replace(text=answer.reasoning, reasoning="")
    return answer


def repair_call(call: ToolCall) -> ToolCall:
    """Return a call whose arguments can be encoded."""
    return call._replace(arguments=repair_surrogates(call.arguments))


def is_continuation(request: ChatRequest) -> bool:
    """Check whether the model continues an answer, so that its text does not begin at the start of one."""
    return bool(request.continuation_token) or (bool(request.messages) and request.messages[-1].role == "assistant")


def make_incomplete_error(answer: ModelResponse, reason: str) -> IncompleteResponseError:
    """Return the error for an answer with a finish reason of `INCOMPLETE_MESSAGES`. `reason` is the provider's."""
    if answer.decisions and answer.finish_reason is FinishReason.CONTENT_FILTER:
        return RefusedQuestionsError(f"no decision on {reason}")
    message, hint = INCOMPLETE_MESSAGES[answer.finish_reason]
    if answer.finish_reason is FinishReason.LENGTH and answer.reasoning.strip() and not answer.text.strip():
        message, hint = UNFINISHED_REASONING_MESSAGE
    elif answer.finish_reason is FinishReason.EMPTY and answer.reasoning.strip():
        message, hint = ONLY_REASONING_MESSAGE
    return IncompleteResponseError(f"{message} ({reason})" if reason else message, hint)
