"""Events that a run emits for display and recording, in addition to the deltas of `ask.messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ask.messages import (
    Attachment,
    Message,
    ModelResponse,
    ReasoningDelta,
    ServerToolCall,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from ask.records import NamedTuple

if TYPE_CHECKING:
    from ask.text_diff import TextDiff


class MessageAdded(NamedTuple):
    """A message was added to the conversation."""

    message: Message
    complete: bool = True
    """False for an answer that was cut off."""
    answer: ModelResponse | None = None
    """The answer that the message was made from, if the model wrote it."""
    refused_files: tuple[str, ...] = ()
    """The digests of files without which the service answered, after it had refused a request with them."""


INTERRUPTED_RULE = "interrupted"
"""The rule of a call that was not run because the user interrupted the run."""
NOT_OFFERED_RULE, REPEATED_RULE, UNREADABLE_RULE = "not offered", "repeated", "unreadable"
"""The rules of calls that were not run because the model is at fault."""


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
    """A tool call was approved, if it had to be, and is now running.

    `was_shown` is whether the user has seen it, with its changes, in a question.
    """

    call: ToolCall
    was_shown: bool = False


class ToolCallOutput(NamedTuple):
    """A piece of output from a running command."""

    text: str


class ToolCallFinished(NamedTuple):
    """A tool call has finished, or was rejected.

    `verdict` is the approval decision, `rule` the policy rule or answer behind it, and `seconds` how long the tool ran.
    `attachments` are the files in the result, and `diff` is how the call has changed a file. `was_shown` is as in
    `ToolCallStarted`. `has_side_effects` says whether the tool can change something.
    """

    call: ToolCall
    result: str
    failed: bool
    verdict: str
    rule: str
    exit_status: int | None
    seconds: float
    attachments: tuple[Attachment, ...] = ()
    has_side_effects: bool = False
    diff: TextDiff | None = None
    was_shown: bool = False


class FileSaved(NamedTuple):
    """An image that the model generated was saved; a notice follows. `size` is in bytes."""

    path: str
    media_type: str
    size: int


SERVER_VERDICT = "server"
"""The verdict of a call that the service ran itself: ask could not ask about it."""


def describe_server_call(call: ServerToolCall) -> ToolCallFinished:
    """Return a call that the service ran itself in the form of other calls."""
    tool_call = ToolCall("", call.name, call.arguments)
    return ToolCallFinished(tool_call, call.result, call.failed, SERVER_VERDICT, "", None, 0.0)


class Notice(NamedTuple):
    """A one-line message for the user that is not an error."""

    text: str


Event = (
    TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | ServerToolDelta
    | RequestStarted
    | FallbackStarted
    | MessageAdded
    | ToolCallRequested
    | ToolCallStarted
    | ToolCallOutput
    | ToolCallFinished
    | FileSaved
    | Notice
)
