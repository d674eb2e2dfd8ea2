"""What a provider is: the base class with the hooks' defaults, and the values that pass through them.

A provider turns conversations into requests and answers into values. It does no I/O of its own: the host
sends, retries, splits the stream into events and runs the tools.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ask.errors import ProviderError, Remedy
from ask.messages import EMPTY_MAPPING, Answer, Message, ToolCall, ToolSpec

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

CONTRACT = 1
"""The version of everything a provider plugin relies on."""

RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""HTTP statuses after which the same request may work a moment later."""


class ProviderInfo(NamedTuple):
    """Who a provider is and where it lives.

    Attributes:
        name: what `-p` takes; also gives the names of its environment variables.
        title: how people write its name.
        base_url: where its requests go unless the user says otherwise, in the form its own SDK takes.
        default_model: the model to ask where none is named; "" for none.
        key_env: the environment variables that may hold its key, the first the one to advise.
        needs_key: whether it refuses to work without a key.
        framing: how its streams are framed.
        docs: the address of its API's documentation.
        tells_cost: whether its answers tell what they cost.
        base_url_env: environment variables beside `<NAME>_BASE_URL` that may hold its address, also one
            without scheme and port.
        offline_advice: what to do where it does not answer; "" for the usual.
        no_model_advice: what to do where it lists no model; "" for the usual.
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


class ChatRequest(NamedTuple):
    """One request to a model.

    Attributes:
        messages: the conversation, the system message first.
        tools: the tools on offer; also present where `tool_choice` is "none", since a history that holds
            calls needs their definitions with some providers.
        tool_choice: "auto" leaves the choice to the model; "none" asks for an answer without calls.
        options: model parameters by the names the user gave (`-o`).
        stream: whether to ask for a stream.
        schema: the JSON Schema that the answer must fit; None for free text. The system message tells of it in
            words, and the host checks the answer: a request carries it too where the API has a means for it that
            lets the tools on offer be called.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    options: Mapping[str, Any] = EMPTY_MAPPING
    stream: bool = True
    schema: Mapping[str, Any] | None = None


class HttpRequest(NamedTuple):
    """An HTTP request for the host to send.

    Attributes:
        path: joined to the base URL.
        body: JSON values; None for no body.
        headers: authentication included; content type and accept are the host's.
    """

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = EMPTY_MAPPING
    method: str = "POST"


class ServerEvent(NamedTuple):
    """One SSE event, or one line of NDJSON (`event` is None there)."""

    event: str | None
    data: str


class _Delta:
    """A value that is known by its fields, which `__match_args__` names; a dataclass would take longer to make."""

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
    """A piece of the answer's text, as it comes."""

    __slots__ = __match_args__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class ReasoningDelta(_Delta):
    """A piece of the model's reasoning, as it comes."""

    __slots__ = __match_args__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class CallDelta(_Delta):
    """The model began a tool call. `index` counts the calls of one answer from 0.

    It is told again, under the same index, where a service sends the name in parts and more of it has come.
    """

    __slots__ = __match_args__ = ("index", "name")

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name


Delta = TextDelta | ReasoningDelta | CallDelta


class ModelInfo(NamedTuple):
    """One entry of a provider's models list; None where the provider does not tell.

    `context_length` is in tokens, prices are in US dollars per million tokens.
    """

    id: str
    title: str = ""
    context_length: int | None = None
    tools: bool | None = None
    input_price: float | None = None
    output_price: float | None = None


class StreamReader(Protocol):
    """Reads one stream. What it has read is there at any time, so a cut keeps what came.

    A reader may also have these attributes:

    - `over`, a bool: whether nothing can follow any more, not even the usage. After that the host waits no longer for
      the end of the connection.
    - `size`, an int: how many characters the answer has so far, with its reasoning and the arguments of its calls. The
      host limits it, and gives up when it has not grown for `--timeout` seconds. Without it, every event counts in
      full.
    """

    ended: bool
    """Whether the provider's end marker was seen."""

    def feed(self, event: ServerEvent) -> list[Delta]:
        """Take one event; return what a user should see of it at once."""
        ...

    def response(self) -> dict[str, Any]:
        """The answer so far, in the shape that the non-streaming API returns."""
        ...


REQUIRED_HOOKS = (
    "provider_parse_tool_calls",
    "provider_format_tool_result",
    "provider_build_request",
    "provider_stream_reader",
    "provider_parse_response",
)
"""The hooks for which no default would do."""
OPTIONAL_HOOKS = ("provider_adapter", "provider_takes_attachment")
"""The hooks that a module may lack: it answers then as the default does."""


class Provider:
    """The base of every provider: the hooks with their defaults. `ask.plugin_api.hookspecs` says when each runs."""

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
        """Any HTTP error: its body as one line, and a retry for the statuses that may pass."""
        return ProviderError(" ".join(body.split())[:300] or "no explanation", status, default_remedy(status, headers))

    def provider_notice(self, request: ChatRequest, answer: Answer) -> str:
        return ""

    def provider_models_request(self, key: str) -> HttpRequest | None:
        return None

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        return []

    def native_for(self, message: Message, model: str) -> Mapping[str, Any]:
        """The native parts of a message that may go back: this provider's, of this model's family; else {}."""
        native = message.native
        if native and native.provider == self.info.name and model_family(native.model) == model_family(model):
            return native.data
        return {}


def model_family(model: str) -> str:
    """The vendor's part of a model's name: "anthropic" of "anthropic/claude-x"; "" where there is none."""
    vendor, slash, _ = model.partition("/")
    return vendor.lstrip("~") if slash else ""


def default_remedy(status: int, headers: Mapping[str, str]) -> Remedy:
    """A retry for the statuses that may pass, as soon as `Retry-After` allows; else none."""
    return Remedy.RETRY(retry_after(headers)) if status in RETRY_STATUSES else Remedy.NONE


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the `Retry-After` header, given in seconds or as a date; None without one.

    OpenAI's `retry-after-ms` goes first, as in its own SDK: it is the same time, told more closely.
    """
    told = {name.lower(): value.strip() for name, value in headers.items()}
    value = told.get("retry-after", "")
    for number, per_second in ((told.get("retry-after-ms", ""), 1000), (value, 1)):
        try:
            seconds = float(number) / per_second
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
