"""The provider base class, with the default hooks, and the types of the hooks' arguments and results.

A provider converts conversations to HTTP requests and parses responses. It does no I/O of its own: ask sends the
requests, retries, splits streams into events and runs the tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ask.errors import ProviderError
from ask.messages import EMPTY_MAPPING, Answer, Message, ToolCall, ToolSpec
from ask.retries import default_remedy

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

CONTRACT = 1
"""The version of the plugin API."""


class ProviderInfo(NamedTuple):
    """The description of a provider.

    Attributes:
        name: the name, as passed to `-p`; environment variables such as `<NAME>_BASE_URL` are derived from it.
        title: the display name.
        base_url: the default base URL, in the format that the provider's own SDK uses.
        default_model: the model to use unless the user names one; "" for none.
        key_env: the environment variables that may contain the API key; the first is the one named in hints.
        needs_key: whether the provider refuses requests without a key.
        framing: the format of its streams.
        docs: the URL of the API documentation.
        tells_cost: whether answers report their cost.
        base_url_env: environment variables besides `<NAME>_BASE_URL` that may contain the base URL, or a host
            without a scheme or port.
        offline_advice: the hint to show if the provider cannot be reached; "" for the default.
        no_model_advice: the hint to show if the provider lists no models; "" for the default.
        stall_timeout: the default of `--timeout` in seconds, if models may be silent for longer than usual.
    """

    name: str
    title: str
    base_url: str
    default_model: str = ""
    key_env: tuple[str, ...] = ()
    needs_key: bool = True
    framing: Literal["sse", "ndjson"] = "sse"
    docs: str = ""
    tells_cost: bool = False
    base_url_env: tuple[str, ...] = ()
    offline_advice: str = ""
    no_model_advice: str = ""
    stall_timeout: float | None = None


class ChatRequest(NamedTuple):
    """One request to a model.

    Attributes:
        model: the model's name in the provider's API.
        messages: the conversation, beginning with the system message.
        tools: the tools the model may call; also set if `tool_choice` is "none", because some providers reject
            a conversation that contains calls of undefined tools.
        tool_choice: "auto" lets the model decide; "none" forbids tool calls.
        options: the model parameters that the user set with `-o`.
        stream: whether to request a stream.
        schema: the JSON Schema that the answer must match; None for free text. The system message describes the
            schema and ask validates the answer, so send it only if the API supports that together with callable tools.
        conversation: an id that is the same for all requests of a conversation, and "" if there is none; services
            that cache prompts by such a key find them again.
        show_reasoning: whether the user wants to see the model's reasoning.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    options: Mapping[str, Any] = EMPTY_MAPPING
    stream: bool = True
    schema: Mapping[str, Any] | None = None
    conversation: str = ""
    show_reasoning: bool = False


class HttpRequest(NamedTuple):
    """An HTTP request for ask to send.

    Attributes:
        path: the path to append to the base URL.
        body: the JSON body; None for no body.
        headers: the headers, including authentication; ask adds the content type.
        method: the HTTP method.
    """

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = EMPTY_MAPPING
    method: str = "POST"


class ServerEvent(NamedTuple):
    """One server-sent event, or one line of NDJSON, for which `event` is None."""

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


class TextDelta(_Delta):
    """A streamed piece of the answer's text."""

    __slots__ = __match_args__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class ReasoningDelta(_Delta):
    """A streamed piece of the model's reasoning."""

    __slots__ = __match_args__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class CallDelta(_Delta):
    """The start of a tool call. `index` is its position among the answer's calls, from 0.

    If a service sends the name in parts, each part produces another delta with the same index and the name so far.
    """

    __slots__ = __match_args__ = ("index", "name")

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name


Delta = TextDelta | ReasoningDelta | CallDelta


class ModelInfo(NamedTuple):
    """One entry of a provider's models list; None for what the provider does not report.

    `context_length` is in tokens, `tools` is whether the model supports tools, and prices are in US dollars per
    million tokens.
    """

    id: str
    title: str = ""
    context_length: int | None = None
    tools: bool | None = None
    input_price: float | None = None
    output_price: float | None = None


class StreamReader(Protocol):
    """Assembles one stream. The answer so far is available at any time, so an interrupted stream is not lost.

    A reader may also have these attributes:

    - `over`, a bool: whether nothing more can follow, not even the usage. Then ask stops waiting for the connection to
      end.
    - `size`, an int: the number of characters in the answer so far, including reasoning and tool call arguments. It is
      limited, and the stream times out if it has not grown for `--timeout` seconds. Without this attribute, the size
      of every event counts.
    - `notice`, a str: a line for the user about the stream, shown once it has ended; "" for none.
    """

    ended: bool
    """Whether the provider's end marker was seen."""

    def feed(self, event: ServerEvent) -> list[Delta]:
        """Process one event and return the deltas to show to the user."""
        ...

    def response(self) -> dict[str, Any]:
        """Return the answer so far, in the format of the non-streaming API."""
        ...


REQUIRED_HOOKS = (
    "provider_parse_tool_calls",
    "provider_format_tool_result",
    "provider_build_request",
    "provider_stream_reader",
    "provider_parse_response",
)
"""The hooks without a default implementation."""
OPTIONAL_HOOKS = ("provider_adapter", "provider_takes_attachment")
"""The hooks that a module may omit; the default then applies."""


class Provider:
    """The base class of providers, with the default hooks. `ask.plugin_api.hookspecs` documents when each runs."""

    def __init__(self, info: ProviderInfo) -> None:
        self.info = info

    def provider_info(self) -> ProviderInfo:
        return self.info

    def provider_adapter(self) -> BaseAdapter | None:
        return None

    def provider_supports_tools(self, model: str) -> bool:
        return True

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        return False

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        from ask.plugin_api.tool_schemas import normalize_tool

        return [normalize_tool(tool).as_function() for tool in tools]

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        raise NotImplementedError

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        raise NotImplementedError

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        raise NotImplementedError

    def provider_stream_reader(self) -> StreamReader:
        raise NotImplementedError

    def provider_parse_response(self, response: Mapping[str, Any]) -> Answer:
        raise NotImplementedError

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        """Return an error with the body as one line and the default remedy."""
        return ProviderError(" ".join(body.split())[:300] or "no explanation", status, default_remedy(status, headers))

    def provider_notice(self, request: ChatRequest, answer: Answer) -> str:
        return ""

    def provider_models_request(self, key: str) -> HttpRequest | None:
        return None

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        return []

    def native_for(self, message: Message, model: str) -> Mapping[str, Any]:
        """Return the provider-specific parts of a message to send back to a model.

        Parts from another provider or model family are not sent back: the result is then {}.
        """
        native = message.native
        if native and native.provider == self.info.name and model_family(native.model) == model_family(model):
            return native.data
        return {}


def model_family(model: str) -> str:
    """Return the vendor in a model's name: "anthropic" for "anthropic/claude-x".

    A name without a vendor returns "".
    """
    vendor, slash, _ = model.partition("/")
    return vendor.lstrip("~") if slash else ""
