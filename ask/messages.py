"""The conversation in neutral form: what is said, called and answered. Immutable values, no I/O.

They are named tuples, as are the other values that every run needs: dataclasses would take a tenth of a start.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

Role = Literal["system", "user", "assistant", "tool"]
Number = TypeVar("Number", int, float)

EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})
"""The empty mapping, as a default."""


class Finish(StrEnum):
    """Why an answer ended. `CUT` and `EMPTY` are the host's findings, never a provider's."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTER = "filter"
    ERROR = "error"
    CONTINUE = "continue"
    CUT = "cut"
    EMPTY = "empty"


class ToolCall(NamedTuple):
    """A call that the model decided on. `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolSpec(NamedTuple):
    """A tool as the model sees it. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def as_function(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's Chat Completions, which most services take."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": dict(self.parameters)},
        }


class Attachment(NamedTuple):
    """A file that goes with a message. `media_type` is a MIME type."""

    name: str
    media_type: str
    data: bytes

    @property
    def base64(self) -> str:
        """The data in Base64, without line breaks."""
        return b2a_base64(self.data, newline=False).decode("ascii")

    @property
    def data_url(self) -> str:
        """The data as a URL that holds it."""
        return f"data:{self.media_type};base64,{self.base64}"


class Native(NamedTuple):
    """What the model that wrote a message needs back verbatim: thinking, signatures.

    Attributes:
        provider: the name of the provider that wrote it.
        model: the model that wrote it.
        data: JSON values in the provider's own shape.
        displaced: whether something before the message has been left out since it was written, which makes void
            what vouches for its place there.
    """

    provider: str
    model: str
    data: Mapping[str, Any]
    displaced: bool = False


class Message(NamedTuple):
    """One message. A tool's result has the role "tool", and names the call it answers."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    tool_name: str = ""
    attachments: tuple[Attachment, ...] = ()
    native: Native | None = None


class Usage(NamedTuple):
    """What an answer used: tokens, and its cost in US dollars. None where the provider does not tell."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:  # type: ignore[override]
        return Usage(
            _add_optional(self.input_tokens, other.input_tokens),
            _add_optional(self.output_tokens, other.output_tokens),
            _add_optional(self.cached_tokens, other.cached_tokens),
            _add_optional(self.cost, other.cost),
        )


def _add_optional(a: Number | None, b: Number | None) -> Number | None:
    return b if a is None else a if b is None else a + b


class Answer(NamedTuple):
    """A whole answer, as `provider_parse_response` reads it.

    `reason` is what the provider says of why a filter stopped it, in its own words, for the user; "" for nothing.
    """

    text: str = ""
    reasoning: str = ""
    finish: Finish = Finish.STOP
    usage: Usage = Usage()
    native: Native | None = None
    reason: str = ""
