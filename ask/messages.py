"""Provider-independent messages, tool calls and answers, and the pieces in which answers arrive.

These, like the other types that every run needs, are named tuples: creating dataclasses would add 10% to startup time.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from ask.records import COST_DECIMALS, NamedTuple

SUMMARY_PREFIX = "[This summary replaces the conversation so far.]\n\n"
"""The beginning of a summary, which is a user message."""
DECLINED_REASON = "declined by the user"
INTERRUPTED_REASON = "interrupted; it may or may not have run"
NOT_RUN_REASON = "not run: the run was interrupted first"
"""The reasons in the results of calls that have no other result."""

Role = Literal["system", "user", "assistant", "tool"]

EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})
"""An immutable empty mapping, for use as a default value."""

MAX_GENERATED_IMAGES = 100
"""The limit for the images in an answer."""


class FinishReason(StrEnum):
    """The reason why an answer ended.

    Attributes:
        STOP: the model finished. With an unknown reason, `ModelResponse.finish_message` must name it; see
            `ask.parsing.format_unknown_reason`.
        TOOL_CALLS: the model stopped to wait for the results of its tool calls; `STOP` is accepted, too.
        LENGTH: the token limit was reached.
        CONTENT_FILTER: the model refused, or a filter stopped it; `ModelResponse.finish_message` may explain why.
        ERROR: the model stopped with an error. Raise a `ProviderError` instead if the provider sent a message.
        CONTINUE: the provider paused a long turn; ask sends the conversation again, with this answer at its end, so
            that the model continues. See also `ModelResponse.continuation_token`.
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
        is_deferred: whether the model sees the tool only after the service's own `tool_search` has found it. Services
            without one never get such a tool.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    is_deferred: bool = False

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
        refused_by: the models whose service refused an earlier request with the file, as `provider:model`. Set by ask,
            which sends them a note in its place.
    """

    name: str
    media_type: str
    data: bytes
    refused_by: tuple[str, ...] = ()

    @property
    def base64(self) -> str:
        """The data encoded in Base64, without line breaks."""
        return b2a_base64(self.data, newline=False).decode("ascii")

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the data in hexadecimal."""
        from hashlib import sha256

        return sha256(self.data).hexdigest()

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
            signatures that cover the message's position. Set by ask.
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
        attachments: the files in a message. In a `ChatRequest`, they are only of types that
            `provider_supports_attachment` accepts, and a user message after the tool results contains the files of
            these results, unless `provider_supports_result_attachment` returns True for them. In an assistant message,
            they are the images that the model generated, which the next user message of a `ChatRequest` contains,
            unless `provider_supports_answer_attachment` returns True for them.
        provider_state: the provider-specific parts of an assistant message; read it with
            `Provider.find_provider_state`.
        formatted_result: for a tool result in a `ChatRequest`, the dict that `provider_format_tool_result` returned.
        is_error: for a tool result, whether the call failed. The text says so, too.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    tool_name: str = ""
    attachments: tuple[Attachment, ...] = ()
    provider_state: ProviderState | None = None
    formatted_result: Mapping[str, Any] | None = None
    is_error: bool = False


MIXED_TIERS = "mixed"


class Usage(NamedTuple):
    """The tokens that an answer used, and its cost; None for what the provider does not report.

    Attributes:
        input_tokens: the tokens in the request, including those read from the provider's cache or written to it.
        output_tokens: the tokens in the answer, including reasoning.
        cached_tokens: the part of `input_tokens` that was read from the provider's cache.
        reasoning_tokens: the part of `output_tokens` that the model's reasoning used.
        cost: the cost in US dollars.
        cache_write_tokens: the part of `input_tokens` that was written to the provider's cache and not read from it.
        cache_write_1h_tokens: the part of `cache_write_tokens` that stays in the cache for an hour.
        cache_write_12h_tokens: the part of `cache_write_tokens` that stays in the cache for twelve hours.
        service_tier: the tier that served the request and decides its price: "standard", "flex", "priority", "fast",
            "batch", "decisions" or the provider's own word, as `ask.parsing.read_service_tier` returns it; None if it
            is not reported, "mixed" for a sum over several.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    cache_write_12h_tokens: int | None = None
    service_tier: str | None = None

    def __add__(self, other: Usage) -> Usage:  # type: ignore[override]
        tiers = {self.service_tier, other.service_tier} - {None}
        tier = MIXED_TIERS if len(tiers) > 1 else next(iter(tiers), None)
        return Usage._make((*map(_add_optional, self[:-1], other[:-1]), tier))


def _add_optional(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else round(a + b, COST_DECIMALS)  # does not change token counts


class Citation(NamedTuple):
    """A source that a service names for a part of an answer.

    Everything in it is untrusted text from the web.

    Attributes:
        url: the address of the source.
        title: its title; "" if the service does not report one.
        cited_text: the passage of the source; "" if it is not reported.
        start: where the part of the answer begins that the source supports, in characters of `ModelResponse.text`; None
            if the service does not report a position.
        end: where that part ends, exclusive.
    """

    url: str
    title: str = ""
    cited_text: str = ""
    start: int | None = None
    end: int | None = None


class ServerToolCall(NamedTuple):
    """A call of a tool that the service ran itself, with its result.

    Attributes:
        name: ask's name of the tool (see `Provider.provider_server_tools`), or else the service's.
        arguments: the arguments as JSON text, such as {"query": ...} of a `web_search`, {"url": ...} of a `web_fetch`
            and {"code": ...} of a `code_execution`.
        result: the result as text to show; "" if the service does not return it.
        failed: whether the call failed.
    """

    name: str
    arguments: str
    result: str = ""
    failed: bool = False


DecisionValue = str | bool | int | float | None
"""A value that an answer to a question of a decision can have."""
DecisionKind = Literal["predicate", "choice", "score"]


class DecisionQuestion(NamedTuple):
    """A question with a fixed set of answers, for a decisions API.

    Attributes:
        name: the name of the field of the schema.
        kind: "predicate" for a statement that is true or false, "choice" for one of several values, "score" for one
            of the levels of a scale.
        values: the possible values, of which there are at least two: (True, False) of a predicate, the values of a
            choice, or the levels of a score in ascending order.
        instructions: what to decide, such as the description of the field; never empty.
        descriptions: what each value means, in the order of `values`, "" for a value without a description; () if no
            value has one.
    """

    name: str
    kind: DecisionKind
    values: tuple[DecisionValue, ...]
    instructions: str
    descriptions: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as texts, which are unique: strings unchanged, and others as JSON."""
        return tuple(value if isinstance(value, str) else json.dumps(value) for value in self.values)

    def redact(self, redact: Callable[[str], str]) -> DecisionQuestion:
        """Return the question with secrets removed from its instructions and descriptions."""
        descriptions = tuple(map(redact, self.descriptions))
        return self._replace(instructions=redact(self.instructions), descriptions=descriptions)

    def describe_values(self) -> tuple[str, ...]:
        """Return a description for each value, "" for a value without one."""
        return self.descriptions or ("",) * len(self.values)

    def make_answer(self, probabilities: Sequence[float]) -> DecisionAnswer:
        """Return the answer for the probabilities of the values, in their order.

        Its value is the one with the highest probability, the first of several: a predicate is true if its probability
        is at least 0.5.
        """
        index = max(range(len(self.values)), key=lambda i: probabilities[i])
        return DecisionAnswer(self.name, self.values[index], probabilities[index], tuple(probabilities))


class DecisionAnswer(NamedTuple):
    """The answer to one question of a decision.

    Attributes:
        name: the name of the question.
        value: the value that was chosen; None if the question was refused.
        probability: the probability of `value`, from 0 to 1; None if it is not reported or the question was refused.
        probabilities: the probability of each value, in the order of `DecisionQuestion.values`; () if they are not
            reported.
        refusal: why the question was refused, as a text for the user; "" for an answer.
    """

    name: str
    value: DecisionValue = None
    probability: float | None = None
    probabilities: tuple[float, ...] = ()
    refusal: str = ""


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
        continuation_token: what the service sent so that another request can continue the answer, whose
            `finish_reason` is then `LENGTH`, or whose stream broke off; "" if nothing can or need be continued. ask
            sends such requests, with the token in `ChatRequest.continuation_token`, and joins the responses with
            `provider_join_responses`.
        attachments: the images that the model generated. ask finds their types in their data, and names them.
        citations: the sources of the answer, in the order in which it names them.
        server_calls: the calls that the service ran itself, in their order.
        decisions: the answers of a decisions API, of which `text` is the JSON. Set by ask.
        model: the model that answered, as the service names it; "" if it is unknown.
        commentary: the beginning of `text` that the service marks as commentary before the final answer, with the
            separator after it; "" for none. It is shown, but is no part of the value of an answer, such as the JSON of
            `--schema`, the code of `--code` and the answer of a row.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = Usage()
    provider_state: ProviderState | None = None
    finish_message: str = ""
    continuation_token: str = ""
    attachments: tuple[Attachment, ...] = ()
    citations: tuple[Citation, ...] = ()
    server_calls: tuple[ServerToolCall, ...] = ()
    decisions: tuple[DecisionAnswer, ...] = ()
    model: str = ""
    commentary: str = ""

    @property
    def final_text(self) -> str:
        """The text without the commentary before the final answer."""
        return self.text.removeprefix(self.commentary)


class UnansweredQuestion(NamedTuple):
    """A saved question without an answer; later requests leave it out.

    Attributes:
        message: the question.
        is_refused: whether the provider refused it, for example because of an image; it is then never sent again.
        run_number: the number of its run in the history; None if it is not saved.
        has_ended: whether its run has; otherwise it was killed, or is still answering the question.
    """

    message: Message
    is_refused: bool
    run_number: int | None = None
    has_ended: bool = True


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
            content = "\n\n".join(filter(None, (previous.content, message.content)))
            merged[-1] = previous._replace(content=content, attachments=(*previous.attachments, *message.attachments))
        else:
            merged.append(message)
    return merged


class RawEvent(NamedTuple):
    """One event of a stream: a server-sent event, a line of NDJSON, or what `provider_send` yields.

    Attributes:
        event: the type of a server-sent event; None if it has none, and for NDJSON.
        data: the event's text, usually JSON.
    """

    event: str | None
    data: str


class _Delta:
    """A value type with the fields in `__match_args__`; creating dataclasses would slow down startup."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Delta) and type(other) is type(self) and other._fields() == self._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._fields()}"


class _BaseTextDelta(_Delta):
    __slots__ = __match_args__ = ("text",)
    text: str

    def __init__(self, text: str) -> None:
        self.text = text


class TextDelta(_BaseTextDelta):
    """A streamed piece of the answer's text.

    Attributes:
        text: the piece, with all its spaces and line breaks.
    """

    __slots__ = ()


class ReasoningDelta(_BaseTextDelta):
    """A streamed piece of the model's reasoning.

    Attributes:
        text: the piece, with all its spaces and line breaks.
    """

    __slots__ = ()


class ToolCallDelta(_Delta):
    """The start of a streamed tool call.

    It announces a call as soon as its name is known; arguments are not shown as they arrive. If a service sends the
    name in parts, each part produces another delta with the same index and the name so far.

    Attributes:
        index: the call's position among the answer's calls, from 0.
        name: the tool's name.
    """

    __slots__ = __match_args__ = ("index", "name")
    index: int
    name: str

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name


class ServerToolDelta(_Delta):
    """A finished call of a tool that the service ran itself, to show between the pieces of the answer.

    Attributes:
        call: the call, which is also in `ModelResponse.server_calls`.
    """

    __slots__ = __match_args__ = ("call",)
    call: ServerToolCall

    def __init__(self, call: ServerToolCall) -> None:
        self.call = call


Delta = TextDelta | ReasoningDelta | ToolCallDelta | ServerToolDelta
"""What a stream reader returns for an event: one of these four."""
