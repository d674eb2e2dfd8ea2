"""The types of the arguments and results of a provider's hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from ask.messages import EMPTY_MAPPING, Message
from ask.profiles import UNKNOWN_MODEL, ModelProfile
from ask.records import NamedTuple

DEFAULT_STALL_TIMEOUT = 300.0


class ProviderInfo(NamedTuple):
    """The description of a provider.

    Attributes:
        name: the name, as passed to `-p`; environment variables such as `<NAME>_BASE_URL` are derived from it.
        title: the display name.
        base_url: the default base URL, in the format that the provider's own SDK uses; "" for a provider that
            implements `provider_send`.
        default_model: the model to use unless the user names one; "" for none.
        key_env: the environment variables that may contain the API key; the first is the one named in hints.
        needs_key: whether the provider refuses requests without a key.
        stream_format: the format of its streams: "sse" for server-sent events, "ndjson" for one JSON value per line.
        docs: the URL of the API documentation.
        reports_cost: whether answers report their cost.
        base_url_env: environment variables besides `<NAME>_BASE_URL` that may contain the base URL, or a host
            without a scheme or port.
        offline_hint: the hint to show if the provider cannot be reached; "" for the default.
        no_models_hint: the hint to show if the provider lists no models; "" for the default.
        stall_timeout: the default of `--timeout` in seconds; longer if models may be silent for longer than usual.
    """

    name: str
    title: str
    base_url: str
    default_model: str = ""
    key_env: tuple[str, ...] = ()
    needs_key: bool = True
    stream_format: Literal["sse", "ndjson"] = "sse"
    docs: str = ""
    reports_cost: bool = False
    base_url_env: tuple[str, ...] = ()
    offline_hint: str = ""
    no_models_hint: str = ""
    stall_timeout: float = DEFAULT_STALL_TIMEOUT


class ChatRequest(NamedTuple):
    """One request to a model.

    Attributes:
        model: the model's name in the provider's API.
        messages: the conversation, beginning with the system message. Each tool result has `formatted_result`, as
            `provider_format_tool_result` returned it.
        tools: the tools the model may call, as `provider_format_tools` returned them; also set if `tool_choice` is
            "none", because some providers reject a conversation that contains calls of undefined tools.
        tool_choice: "auto" lets the model decide; "none" forbids tool calls.
        options: the model parameters that the user set with `-o`, in the form that `profile` asks for.
        stream: whether to request a stream.
        schema: the JSON Schema that the answer must match; None for free text. The system message describes the
            schema and ask validates the answer, so send it only if the API supports that together with callable tools.
        conversation: an id that is the same for all requests of a conversation, and "" if there is none; services
            that cache prompts by such a key find them again.
        show_reasoning: whether the user wants to see the model's reasoning.
        profile: what is known about the model, from the configuration, the models list and `Provider.profiles`.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    options: Mapping[str, Any] = EMPTY_MAPPING
    stream: bool = True
    schema: Mapping[str, Any] | None = None
    conversation: str = ""
    show_reasoning: bool = False
    profile: ModelProfile = UNKNOWN_MODEL


class HttpRequest(NamedTuple):
    """An HTTP request for ask to send.

    Attributes:
        path: the path to append to the base URL.
        body: the JSON body; None for no body.
        headers: the headers, including authentication; ask adds the content type.
        method: the HTTP method.
        content: the raw body, in place of `body`, for an API that takes something other than JSON; its type is in the
            headers.
    """

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = EMPTY_MAPPING
    method: str = "POST"
    content: bytes = b""


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
    """A streamed piece of the answer's text."""

    __slots__ = ()


class ReasoningDelta(_BaseTextDelta):
    """A streamed piece of the model's reasoning."""

    __slots__ = ()


class ToolCallDelta(_Delta):
    """The start of a streamed tool call.

    If a service sends the name in parts, each part produces another delta with the same index and the name so far.

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


Delta = TextDelta | ReasoningDelta | ToolCallDelta
"""What a stream reader returns for an event."""


class ModelInfo(NamedTuple):
    """One entry of a provider's models list; None for what the provider does not report.

    Attributes:
        id: the model's name in the API, as passed to `-m`.
        title: the display name.
        context_length: the size of the context window, in tokens.
        tools: whether the model supports tools.
        input_price: the price of input, in US dollars per million tokens.
        output_price: the price of output, in US dollars per million tokens.
        cached_input_price: the price of input that the provider reads from its prompt cache.
        output_limit: the limit for an answer, in tokens.
        efforts: the reasoning efforts, as in `ask.profiles.ModelProfile`.
    """

    id: str
    title: str = ""
    context_length: int | None = None
    tools: bool | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_input_price: float | None = None
    output_limit: int | None = None
    efforts: tuple[str, ...] | None = None


class StreamReader(Protocol):
    """The protocol of the object that reads one stream and collects the answer.

    The answer so far is available at any time, so an interrupted stream is not lost. A reader may also have these
    attributes:

    - `size`, an int: the number of characters in the answer so far, including reasoning and tool call arguments. It is
      limited, and the stream times out if it has not grown for `--timeout` seconds. Without this attribute, the size
      of every event counts.
    - `notice`, a str: a line for the user about the stream, shown once it has ended; "" for none.
    - `may_end`, a bool: whether a stream that ends now, although no end marker was seen, contains the whole answer. The
      user gets a notice then. Otherwise the answer was cut off.
    """

    @property
    def complete(self) -> bool:
        """Whether the answer is complete: the provider's end marker, or an error, was seen.

        The host then waits at most two seconds for further events, such as one with the usage; if they continue the
        answer, it reads on. An event with the data "[DONE]" is not fed to the reader; the host takes it as the end.
        """
        ...

    def feed(self, event: RawEvent) -> list[Delta]:
        """Process one event and return the deltas to show to the user; [] for none.

        An error event must not raise: add it to the response, for which `provider_parse_response` raises the error.
        """
        ...

    def response(self) -> dict[str, Any]:
        """Return the answer so far, in the format of the non-streaming API: a dict of JSON values."""
        ...


class BatchRequest(NamedTuple):
    """One request of a batch.

    Attributes:
        custom_id: its id, which the result has, too: at most 64 letters, digits, "_" and "-".
        path: the path of the `HttpRequest` that `provider_build_request` returned.
        body: its body.
    """

    custom_id: str
    path: str
    body: Mapping[str, Any]


class Batch(NamedTuple):
    """The state of a batch.

    Attributes:
        id: the service's id.
        is_complete: whether no further request will be answered: all are, or the batch has expired, failed or was
            canceled.
        tag: the tag that it was created with; "" if the service does not return it.
        created: when it was created, in seconds since 1970; None if it is not reported.
        request_count: the number of requests; None if it is not reported.
        finished_count: how many of them are finished.
        error: why the service rejected the whole batch; "" if it did not.
        result_files: the ids of the files with the results, for services that have such files.
    """

    id: str
    is_complete: bool
    tag: str = ""
    created: float | None = None
    request_count: int | None = None
    finished_count: int = 0
    error: str = ""
    result_files: tuple[str, ...] = ()


class BatchPage(NamedTuple):
    """One page of a list of batches; `cursor` is "" on the last one."""

    batches: Sequence[Batch]
    cursor: str = ""


class BatchResult(NamedTuple):
    """The result of one request: a response for `provider_parse_response`, or an error message."""

    custom_id: str
    response: Mapping[str, Any] | None = None
    error: str = ""


class ResultsRequest(NamedTuple):
    """A request for results. With `is_jsonl`, each line of the response is a JSON value, else the whole response is."""

    request: HttpRequest
    is_jsonl: bool = False
