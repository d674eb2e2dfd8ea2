"""Provider-independent messages, tool calls and answers.

These, like the other types that every run needs, are named tuples: creating dataclasses would add 10% to startup time.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from ask.records import NamedTuple

SUMMARY_PREFIX = "[This summary replaces the conversation so far.]\n\n"
"""The beginning of a summary, which is a user message."""


Role = Literal["system", "user", "assistant", "tool"]

EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})
"""An immutable empty mapping, for use as a default value."""


class FinishReason(StrEnum):
    """The reason why an answer ended.

    Attributes:
        STOP: the model finished; also for reasons that no other value covers.
        TOOL_CALLS: the model stopped to wait for the results of its tool calls; `STOP` is accepted, too.
        LENGTH: the token limit was reached.
        CONTENT_FILTER: the model refused, or a filter stopped it; `ModelResponse.finish_message` may explain why.
        ERROR: the model stopped with an error. Raise a `ProviderError` instead if the provider sent a message.
        CONTINUE: the provider paused a long turn; ask sends the conversation again so that the model continues.
        STREAM_INCOMPLETE: the stream ended early. Set by ask; providers never return it.
        EMPTY: the answer has no text and no calls. Set by ask; providers never return it.
    """

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "filter"
    ERROR = "error"
    CONTINUE = "continue"
    STREAM_INCOMPLETE = "cut"
    EMPTY = "empty"


class ToolCall(NamedTuple):
    """A tool call requested by the model.

    Attributes:
        id: the provider's id of the call, unique in the conversation; see `ask.parsing.generate_call_id`.
        name: the tool's name, as the model wrote it.
        arguments: the arguments as JSON text, exactly as the model wrote it and therefore possibly invalid.
    """

    id: str
    name: str
    arguments: str


class ToolSpec(NamedTuple):
    """A tool as the model sees it.

    Attributes:
        name: the tool's name.
        description: when and how to use the tool.
        parameters: the JSON Schema of its arguments, of type "object".
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    def to_function(self) -> dict[str, Any]:
        """Return the tool in OpenAI's Chat Completions format, which most services accept."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": dict(self.parameters)},
        }


class Attachment(NamedTuple):
    """A file attached to a message.

    Attributes:
        name: the file's name, without a folder.
        media_type: the MIME type, such as "image/png".
        data: the file's content.
    """

    name: str
    media_type: str
    data: bytes

    @property
    def base64(self) -> str:
        """The data encoded in Base64, without line breaks."""
        return b2a_base64(self.data, newline=False).decode("ascii")

    @property
    def data_url(self) -> str:
        """The data encoded as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.base64}"


class ProviderState(NamedTuple):
    """Provider-specific parts of a message, such as thinking and signatures, to send back verbatim to the same model.

    Attributes:
        provider: the name of the provider that returned the message, which is `ProviderInfo.name`.
        model: the model that wrote the message; "" if the response does not name it, and ask then sets the requested
            model.
        data: JSON values in the provider's own format.
        context_truncated: whether earlier messages have been removed from the conversation since, which invalidates
            signatures that cover the message's position.
    """

    provider: str
    model: str
    data: Mapping[str, Any]
    context_truncated: bool = False


class Message(NamedTuple):
    """One message of a conversation.

    Attributes:
        role: "system" for the first message; "user"; "assistant"; "tool" for the result of one tool call.
        content: the text; of a tool result, the result.
        tool_calls: the calls in an assistant message. A "tool" message follows for each, in the same order.
        tool_call_id: for a tool result, the id of its call.
        tool_name: for a tool result, the tool's name.
        attachments: the files in a user message, only of types that `provider_supports_attachment` accepts. In a
            `ChatRequest`, a user message after the tool results contains the files of these results.
        provider_state: the provider-specific parts of an assistant message; read it with
            `Provider.find_provider_state`.
        formatted_result: for a tool result in a `ChatRequest`, the dict that `provider_format_tool_result` returned.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    tool_name: str = ""
    attachments: tuple[Attachment, ...] = ()
    provider_state: ProviderState | None = None
    formatted_result: Mapping[str, Any] | None = None


class Usage(NamedTuple):
    """The tokens that an answer used, and its cost; None for what the provider does not report.

    Attributes:
        input_tokens: the tokens in the request, including cached ones.
        output_tokens: the tokens in the answer, including reasoning.
        cached_tokens: the part of `input_tokens` that was read from the provider's cache.
        reasoning_tokens: the part of `output_tokens` that the model's reasoning used.
        cost: the cost in US dollars.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:  # type: ignore[override]
        return Usage._make(map(_add_optional, self, other))

    def remove_impossible(self, *, has_content: bool, is_cut_off: bool) -> Usage:
        """Return the usage without counts that cannot be: every request has tokens, and so has an answer's content.

        What was counted of an answer before it was cut off is not all that has to be paid.
        """
        usage = Usage._make(None if amount is None or amount < 0 else amount for amount in self)
        if is_cut_off or (has_content and not usage.output_tokens):
            usage = usage._replace(output_tokens=None, reasoning_tokens=None)
        return usage._replace(input_tokens=usage.input_tokens or None)


def _add_optional(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


class ModelResponse(NamedTuple):
    """A model's answer, as returned by `provider_parse_response`. Tool calls have their own hook.

    Attributes:
        text: the answer's text.
        reasoning: the reasoning that the provider returned as text.
        finish_reason: why the answer ended.
        usage: the tokens and the cost.
        provider_state: what later requests must send back verbatim; None for nothing.
        finish_message: what to tell the user about the end of the answer, such as the provider's explanation of why a
            filter stopped it; "" for nothing. It is part of the error, or a notice if the answer is complete.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    provider_state: ProviderState | None = None
    finish_message: str = ""


class UnansweredQuestion(NamedTuple):
    """A saved question without an answer; later requests leave it out.

    Attributes:
        message: the question.
        is_refused: whether the provider refused it, for example because of an image; it is then never sent again.
        run_number: the number of its run in the history; None if it is not saved.
    """

    message: Message
    is_refused: bool
    run_number: int | None = None


class ReportedUsage(NamedTuple):
    """The token count that a provider reported for a request.

    The request contained the oldest `message_count` messages.
    """

    tokens: int = 0
    message_count: int = 0


class ResumedConversation(NamedTuple):
    """A conversation in the form in which a new run continues it.

    Attributes:
        id: the ID of the conversation.
        last_model: the provider and the model of the last run.
        system: the user's additions to the system prompt in the last run.
        messages: the earlier messages, with a result for every tool call.
        reported_usage: the size of these messages as this model's provider last reported it.
        unanswered: the questions after the last answer.
    """

    id: str
    last_model: tuple[str, str] = ("", "")
    system: str = ""
    messages: tuple[Message, ...] = ()
    reported_usage: ReportedUsage = ReportedUsage()
    unanswered: tuple[UnansweredQuestion, ...] = ()


def merge_user_messages(messages: Sequence[Message]) -> list[Message]:
    """Merge consecutive user messages, which some models reject."""
    merged: list[Message] = []
    for message in messages:
        if message.role == "user" and merged and merged[-1].role == "user":
            previous = merged[-1]
            content = f"{previous.content}\n\n{message.content}"
            merged[-1] = previous._replace(content=content, attachments=(*previous.attachments, *message.attachments))
        else:
            merged.append(message)
    return merged
