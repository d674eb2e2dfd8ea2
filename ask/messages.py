"""Provider-independent messages, tool calls and answers.

These, like the other types that every run needs, are named tuples: creating dataclasses would add 10% to startup time.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

SUMMARY_PREFIX = "[This summary stands for the conversation until here.]\n\n"
"""The beginning of a summary, which is a user message."""


Role = Literal["system", "user", "assistant", "tool"]
Number = TypeVar("Number", int, float)

EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})
"""An immutable empty mapping, for use as a default value."""


class FinishReason(StrEnum):
    """The reason why an answer ended.

    Providers never return `STREAM_INCOMPLETE` (the stream ended early) or `EMPTY` (no text and no calls): ask itself
    detects these.
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
    """A tool call requested by the model. `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolSpec(NamedTuple):
    """A tool as the model sees it. `parameters` is a JSON Schema of type object."""

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
    """A file attached to a message. `media_type` is a MIME type."""

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
        provider: the name of the provider that returned the message.
        model: the model that wrote the message.
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

    A tool result has the role "tool" and gives the id of its call in `tool_call_id`. In a `ChatRequest` it also has
    `formatted_result`, as the provider's own hook formatted it.
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
    """The tokens that an answer used, and its cost in US dollars; None for what the provider does not report.

    `cached_tokens` are part of `input_tokens`, and `reasoning_tokens` of `output_tokens`.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:  # type: ignore[override]
        return Usage(
            _add_optional(self.input_tokens, other.input_tokens),
            _add_optional(self.output_tokens, other.output_tokens),
            _add_optional(self.cached_tokens, other.cached_tokens),
            _add_optional(self.reasoning_tokens, other.reasoning_tokens),
            _add_optional(self.cost, other.cost),
        )


def _add_optional(a: Number | None, b: Number | None) -> Number | None:
    return b if a is None else a if b is None else a + b


class ModelResponse(NamedTuple):
    """A model's answer, as returned by `provider_parse_response`.

    `finish_message` is the provider's own explanation of why a filter stopped the answer, to show to the user; "" for
    none.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    provider_state: ProviderState | None = None
    finish_message: str = ""


class ReportedUsage(NamedTuple):
    """The token count that a provider reported for a request.

    The request contained the oldest `message_count` messages.
    """

    tokens: int = 0
    message_count: int = 0
