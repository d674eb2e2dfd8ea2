"""What a run tells while it happens, for whoever shows or records it. Immutable values, no I/O.

Beside these, the deltas of `ask.plugin_api.provider` are events.
"""

from __future__ import annotations

from typing import NamedTuple

from ask.messages import Answer, Message, ToolCall
from ask.plugin_api.provider import CallDelta, ReasoningDelta, TextDelta


class MessageAdded(NamedTuple):
    """A message became part of the conversation.

    Attributes:
        message: the message.
        complete: whether it is; False for an answer that was cut.
        answer: the model's answer, where it is one.
    """

    message: Message
    complete: bool = True
    answer: Answer | None = None


class RequestStarted(NamedTuple):
    """The model is about to be asked; until anything of its answer comes, it is waited for."""


class ToolCallRequested(NamedTuple):
    """A tool call is about to be carried out."""

    call: ToolCall


class ToolCallStarted(NamedTuple):
    """A call may run, and now does; whoever had to be asked about it was."""

    call: ToolCall


class ToolCallOutput(NamedTuple):
    """A piece of a running command's output."""

    text: str


class ToolCallFinished(NamedTuple):
    """A call has its result. `verdict` is the decision that was made about it, `seconds` how long it ran."""

    call: ToolCall
    result: str
    failed: bool
    verdict: str
    rule: str
    exit_status: int | None
    seconds: float


class Notice(NamedTuple):
    """Something that the user should know though it is no error, one line."""

    text: str


Event = (
    TextDelta
    | ReasoningDelta
    | CallDelta
    | RequestStarted
    | MessageAdded
    | ToolCallRequested
    | ToolCallStarted
    | ToolCallOutput
    | ToolCallFinished
    | Notice
)
