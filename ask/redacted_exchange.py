"""Replaces secrets in the requests and answers of one exchange with a provider."""

from __future__ import annotations

from collections.abc import Callable

from ask.messages import Answer, Message, ToolSpec
from ask.provider import CallDelta, ChatRequest, Delta, ReasoningDelta, TextDelta
from ask.redaction import Redactor


def redact_request(redactor: Redactor, request: ChatRequest) -> ChatRequest:
    """Replace the secrets in the messages and tools of a request."""
    tools = [
        ToolSpec(tool.name, redactor.redact(tool.description), redactor.redact_value(tool.parameters))
        for tool in request.tools
    ]
    return request._replace(messages=tuple(map(redactor.redact_message, request.messages)), tools=tools)


def redact_answer(redactor: Redactor, answer: Answer) -> Answer:
    """Replace the secrets in an answer."""
    message = redactor.redact_message(Message("assistant", answer.text, native=answer.native))
    return answer._replace(
        text=message.content,
        reasoning=redactor.redact(answer.reasoning),
        native=message.native,
        reason=redactor.redact(answer.reason),
    )


class RedactedDeltas:
    """Shows the deltas of an answer without secrets, also those that two deltas share."""

    def __init__(self, redactor: Redactor, show: Callable[[Delta], None]) -> None:
        self._redact = redactor.redact
        self._show = show
        self._texts, self._thoughts = redactor.open_stream(), redactor.open_stream()

    def show(self, delta: Delta) -> None:
        """Show as much of a delta as is certain to be no part of a secret."""
        match delta:
            case TextDelta(text):
                self._show(TextDelta(self._texts.feed(text)))
            case ReasoningDelta(text):
                self._show(ReasoningDelta(self._thoughts.feed(text)))
            case CallDelta():
                self._show(CallDelta(delta.index, self._redact(delta.name)))

    def finish(self) -> None:
        """Show what was held back."""
        if text := self._thoughts.finish():
            self._show(ReasoningDelta(text))
        if text := self._texts.finish():
            self._show(TextDelta(text))
