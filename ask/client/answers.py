"""An answer: its deltas on their way to the user, and the notice or error about what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from ask.config.secrets import Redactor
from ask.errors import IncompleteResponseError
from ask.messages import FinishReason, Message, ModelResponse, ToolSpec
from ask.plugin_api.types import ChatRequest, Delta, ReasoningDelta, TextDelta, ToolCallDelta
from ask.text import SurrogateJoiner

MAX_REASON_LENGTH = 300
"""The limit for a provider's explanation of an incomplete answer, in characters."""

INCOMPLETE_MESSAGES = {
    FinishReason.LENGTH: (
        "the answer stopped at the token limit",
        "raise it with -o max_tokens=N, or shorten the conversation",
    ),
    FinishReason.CONTENT_FILTER: ("the model refused, or a content filter stopped the answer", ""),
    FinishReason.EMPTY: ("the model returned an empty answer", "try again, or use another model"),
}
UNFINISHED_REASONING_MESSAGE = (
    "the model was still reasoning at the token limit",
    "raise it with -o max_tokens=N, or lower -o reasoning_effort",
)
TEXT_CALL_MARKERS = ("<tool_call", "<|tool_call", "<function=", "<invoke ", "[TOOL_REQUEST]", "to=functions.")
"""What the tool calls of various models begin with if their server does not recognize them; others are bare JSON.

https://github.com/NousResearch/hermes-agent/pull/83023, https://github.com/NousResearch/hermes-agent/pull/84231
"""


class DeltaRedactor:
    """Forwards the deltas of an answer without secrets; characters and secrets may be split between two deltas."""

    def __init__(self, redactor: Redactor, on_delta: Callable[[Delta], None]) -> None:
        self._redact = redactor.redact
        self._on_delta = on_delta
        text_types: tuple[type[ReasoningDelta | TextDelta], ...] = (ReasoningDelta, TextDelta)
        self._joiners = {delta_type: SurrogateJoiner() for delta_type in text_types}
        self._redactors = {delta_type: redactor.open_stream() for delta_type in text_types}
        self._last_type: type[Delta] | None = None

    def feed(self, delta: Delta) -> None:
        """Forward as much of the text as cannot be part of a secret.

        What is held back of the reasoning comes before the text that follows it, if that is safe.
        """
        if type(delta) is not self._last_type:
            if self._last_type in self._redactors and (released := self._redactors[self._last_type].release()):
                self._on_delta(self._last_type(released))
            self._last_type = type(delta)
        if isinstance(delta, ToolCallDelta):
            self._on_delta(ToolCallDelta(delta.index, self._redact(delta.name)))
        else:
            text = self._joiners[type(delta)].feed(delta.text)
            self._on_delta(type(delta)(self._redactors[type(delta)].feed(text)))

    def finish(self) -> None:
        """Forward the text that was held back."""
        for delta_type, redactor in self._redactors.items():
            if text := redactor.feed(self._joiners[delta_type].finish()) + redactor.finish():
                self._on_delta(delta_type(text))


def merge_deltas(deltas: Iterable[Delta]) -> Iterator[Delta]:
    """Merge consecutive deltas of the same type."""
    for delta_type, group in groupby(deltas, type):
        if delta_type is ToolCallDelta:
            yield from group
        else:
            yield delta_type("".join(delta.text for delta in group))  # type: ignore[union-attr]  # not a ToolCallDelta


def discard_delta(_: Delta) -> None:
    """Ignore a delta of an answer that is shown once it is complete."""


def emit_answer(answer: ModelResponse, on_delta: Callable[[Delta], None]) -> None:
    """Emit a complete answer as deltas."""
    if answer.reasoning:
        on_delta(ReasoningDelta(answer.reasoning))
    if answer.text:
        on_delta(TextDelta(answer.text))


def redact_answer(redactor: Redactor, answer: ModelResponse) -> ModelResponse:
    """Replace the secrets in an answer."""
    message = redactor.redact_message(Message("assistant", answer.text, provider_state=answer.provider_state))
    return answer._replace(
        text=message.content,
        reasoning=redactor.redact(answer.reasoning),
        provider_state=message.provider_state,
        finish_message=redactor.redact(answer.finish_message),
    )


def is_continuation(request: ChatRequest) -> bool:
    """Check whether the model continues an answer, so that its text does not begin at the start of one."""
    return bool(request.messages) and request.messages[-1].role == "assistant"


def explain_incomplete_answer(answer: ModelResponse, reason: str) -> IncompleteResponseError | None:
    """Return the error for an answer that the model did not complete; None if it did. `reason` is the provider's."""
    if answer.finish_reason not in INCOMPLETE_MESSAGES:
        return None
    message, hint = INCOMPLETE_MESSAGES[answer.finish_reason]
    if answer.finish_reason is FinishReason.LENGTH and answer.reasoning.strip() and not answer.text.strip():
        message, hint = UNFINISHED_REASONING_MESSAGE
    return IncompleteResponseError(f"{message} ({reason})" if reason else message, hint)


def describe_missing_call(answer: ModelResponse, tools: Sequence[ToolSpec]) -> str:
    """Return a notice if an answer without calls seems to be one that should have had some; "" otherwise.

    A call in the text is not run, because the text may be an example, or quote what a tool returned.
    """
    text = answer.text
    is_json_call = text.lstrip().startswith("{") and '"name"' in text and '"arguments"' in text
    is_call = is_json_call or any(marker in text for marker in TEXT_CALL_MARKERS)
    if is_call and any(tool.name in text for tool in tools):
        return "this model wrote a tool call as text, so nothing was run; use a model that is trained to call tools"
    if tools and answer.finish_reason is FinishReason.TOOL_CALLS:
        return "the model stopped to call a tool, but its answer contains no call"
    return ""
