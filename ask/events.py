"""Events that a run emits for display and recording, in addition to the deltas of `ask.plugin_api.types`."""

from __future__ import annotations

from ask.messages import Attachment, Message, ModelResponse, ToolCall
from ask.plugin_api.types import ReasoningDelta, TextDelta, ToolCallDelta
from ask.records import NamedTuple


class MessageAdded(NamedTuple):
    """A message was added to the conversation."""

    message: Message
    complete: bool = True
    """False for an answer that was cut off."""
    answer: ModelResponse | None = None
    """The answer that the message was made from, if the model wrote it."""


class RequestStarted(NamedTuple):
    """A request to the model is about to be sent; waiting for its answer begins."""


class FallbackStarted(NamedTuple):
    """Another model answers from now on, because the previous one cannot."""

    provider: str
    model: str


class ToolCallRequested(NamedTuple):
    """The model has requested a tool call, which may still need approval."""

    call: ToolCall


class ToolCallStarted(NamedTuple):
    """A tool call was approved, if it had to be, and is now running."""

    call: ToolCall


class ToolCallOutput(NamedTuple):
    """A piece of output from a running command."""

    text: str


class ToolCallFinished(NamedTuple):
    """A tool call has finished, or was rejected.

    `verdict` is the approval decision, `rule` the policy rule or answer behind it, and `seconds` how long the tool ran.
    `attachments` are the files in the result.
    """

    call: ToolCall
    result: str
    failed: bool
    verdict: str
    rule: str
    exit_status: int | None
    seconds: float
    attachments: tuple[Attachment, ...] = ()


class Notice(NamedTuple):
    """A one-line message for the user that is not an error."""

    text: str


Event = (
    TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | RequestStarted
    | FallbackStarted
    | MessageAdded
    | ToolCallRequested
    | ToolCallStarted
    | ToolCallOutput
    | ToolCallFinished
    | Notice
)
