"""The provider base class, with the default hooks, and the types of the hooks' arguments and results.

A provider converts conversations to HTTP requests and parses responses. Except in `provider_send`, it does no I/O of
its own: ask sends the requests, retries, splits streams into events and runs the tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ask.errors import ProviderError, RetryAction
from ask.messages import EMPTY_MAPPING, Message, ModelResponse, ToolCall, ToolSpec
from ask.parsing import (
    choose_retry_action,
    extract_error_text,
    find_error,
    format_error_message,
    get_model_family,
    parse_json,
    read_dict,
    read_int,
    read_str,
)
from ask.profiles import UNKNOWN_MODEL, ModelProfile, find_profile
from ask.records import NamedTuple

if TYPE_CHECKING:
    from ask.plugin_api.batches import BatchApi

API_VERSION = 2
"""The version of the plugin API."""
DEFAULT_STALL_TIMEOUT = 300.0
PLAIN_NAME_PATTERN = re.compile("[a-z_]{1,64}")
"""Names of parameters that certainly all services accept."""


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


LOADING_DELAY = 10.0
"""Seconds until the next try while a server loads a model, which takes much longer than an overload."""
COMMON_ERROR_RULES: tuple[tuple[str, RetryAction, str], ...] = (
    # Other services than OpenAI also use 429 for this: https://github.com/openai/codex/pull/6340
    (
        "^429 .*(?i:insufficient.?(?:quota|balance|credit)|余额不足|billing.?(?:hard.?)?limit|please recharge)",
        RetryAction.NEXT_KEY,
        "add credit to the account, or use another key or service",
    ),
    # llama-server: https://github.com/mostlygeek/llama-swap/issues/146
    ("^503 .*(?i:loading model|model .{0,100}is (?:currently |still )?loading)", RetryAction.retry(LOADING_DELAY), ""),
)
"""Rules for all services, after those of the provider."""

REQUIRED_HOOKS = ("provider_build_request", "provider_stream_reader", "provider_parse_response")
"""The hooks without a default implementation."""
MODULE_HOOKS = ("provider_info", "provider_supports_tools")
"""The hooks that a module must define, too; an instance inherits them."""
TOOL_HOOKS = ("provider_parse_tool_calls", "provider_format_tool_result")
"""The hooks that a provider must define if any of its models supports tools."""


class Provider:
    """The base class of providers: the specification of every hook, with the default where there is one.

    An implementation is any callable attribute of an instance of this class, or of a module, whose name begins with
    `provider_`. Required are `provider_build_request`, `provider_stream_reader` and `provider_parse_response`; in a
    module also `provider_info` and `provider_supports_tools`. A provider whose `provider_supports_tools` returns True
    also needs `provider_parse_tool_calls` and `provider_format_tool_result`. For any other hook that a module omits,
    the default applies.

    Hooks are called with keywords, and only on the selected provider. All except `provider_send` must be pure: no I/O,
    no waiting, no printing. Results of the wrong type, any exception other than an `ask.AskError`, and hooks that take
    longer than `--timeout` are reported as a bug in the plugin (exit code 4).
    """

    error_rules: Sequence[tuple[str, RetryAction | None, str]] = ()
    """Rules that the default `provider_parse_error` applies; the first that matches counts.

    Each is a tuple: a regular expression, searched for in the status, the message and the body (separated by spaces);
    the retry action, or None for the default; the hint for the user.
    """

    profiles: Sequence[ModelProfile] = ()
    """What is known about the models: a row of `ask.profiles.ModelProfile` for each family, a specific one first.

    ask reads them before the hooks run, and adapts the user's options to them. A module defines them, too.
    """

    def __init__(self, info: ProviderInfo) -> None:
        self.info = info

    def provider_info(self) -> ProviderInfo:
        """Return the provider's description. Runs at any time, also to list providers."""
        return self.info

    def provider_send(self, request: HttpRequest, timeout: float) -> Iterator[RawEvent] | None:
        """Send a request without HTTP, and yield the events of the answer as they arrive.

        For a provider that runs a program, calls an SDK or answers by itself. Runs after `provider_build_request` in
        place of ask's own transport, also for the models list, whose JSON is the data of the events. The end of the
        events is the end of the answer. ask interrupts an event that takes longer than `timeout` seconds, and closes
        the iterator when the run is interrupted. The default, None, sends requests over HTTP.

        Raises:
            ask.ProviderError: the request failed; the part of the answer before it is kept.
            FileNotFoundError, PermissionError: a program cannot be run (exit code 3).
        """
        return None

    def provider_supports_tools(self, model: str) -> bool:
        """Check whether the model accepts tools. The default is True.

        Runs once per run, before the first request that would contain tools.
        """
        return True

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        """Check whether a message to this model may contain a file of this MIME type.

        Runs before a request whose messages contain such files, and to list what the user can attach, unless the
        model's profile has its attachments. The default is what `profiles` say, and False if they say nothing. Return
        False only if the type is known to be unsupported: the user then gets an error before anything is
        sent, and files attached earlier in the conversation are replaced by a note. So `provider_build_request` finds
        only accepted types in `Message.attachments`, and only in messages with the role "user".
        """
        return media_type in (find_profile(self.profiles, model).attachments or ())

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Return the tools in the provider's own format.

        Runs once for each request that carries tools; the result becomes `ChatRequest.tools`. The default is the format
        of the Chat Completions API.
        """
        return [self.normalize_tool(tool).to_function() for tool in tools]

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        """Return the tool calls in a response, in the model's order and with unique ids.

        Runs after `provider_parse_response`. Must generate ids if the provider sends none. Arguments are returned
        exactly as the model wrote them, even if they are not valid JSON. The default, for a provider without tools, is
        [].
        """
        return []

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        """Return a tool result in the provider's own format: a message, or a block of one.

        Runs once per request for each tool result in the conversation; the dict becomes the `formatted_result` of the
        result's message in `ChatRequest.messages`. The default is the format of the Chat Completions API. It is for a
        provider without tools that continues a conversation in which another provider called some.
        """
        return {"role": "tool", "tool_call_id": tool_call_id, "content": result}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        """Return the HTTP request, including authentication headers.

        Runs once per tool round, and again for a retry. `key` is the API key, or "" if there is none; it belongs in
        the headers only. The same messages must produce the same bytes, except for cache markers, because providers
        cache by prefix.
        """
        raise NotImplementedError

    def provider_stream_reader(self) -> StreamReader:
        """Return a new stream reader. Runs before each streamed answer is read."""
        raise NotImplementedError

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        """Parse the answer in a response, or in what `StreamReader.response` returned.

        Runs once per answer. Raises `ask.ProviderError`, preferably made by `provider_parse_error`, if the response is
        or contains an error. Any text that came before the error belongs in the error's `answer`.
        """
        raise NotImplementedError

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        """Return (do not raise) the error for an HTTP response, with its retry_action.

        Runs for each response with an error status, and for a response with status 200 that cannot be parsed, such
        as an HTML page.
        """
        error = find_error(parse_json(body))
        provider_error = ProviderError(
            format_error_message(error) or extract_error_text(body) or "no explanation",
            None if status == 200 else status,
            choose_retry_action(status, headers),
            parameter=read_str(read_dict(error).get("param")) or None,
        )
        for pattern, retry_action, hint in (*self.error_rules, *COMMON_ERROR_RULES):
            if re.search(pattern, f"{status} {provider_error.message} {body}", re.DOTALL):
                provider_error.retry_action = retry_action or provider_error.retry_action
                provider_error.hint = hint
                break
        return provider_error

    def parse_embedded_error(self, error: Any) -> ProviderError:
        """Return the error for an `error` object (or string) inside a response with status 200.

        Its `code` or `status` counts as the HTTP status if it is one of an error.
        """
        code = read_int(read_dict(error).get("code") or read_dict(error).get("status"))
        status = code if code and 400 <= code <= 599 else 200
        return self.provider_parse_error(status, {}, json.dumps({"error": error}))

    @staticmethod
    def check_answer(answer: ModelResponse, error: ProviderError | None) -> ModelResponse:
        """Return a parsed answer, or raise the error in its response, with the answer as its partial response."""
        if error is None:
            return answer
        error.partial_response = answer
        raise error

    def provider_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        """Return a one-line notice for the user about an answer; "" for none.

        Runs after each answer, even an empty one. It reports what is not an error. The default is "".
        """
        return ""

    def provider_models_request(self, key: str) -> HttpRequest | None:
        """Return the request for the models list; None, the default, if there is none.

        Runs whenever ask needs the list: for `ask models`, `ask doctor`, or to choose a model.
        """
        return None

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        """Parse the response to the models request; `body` is its JSON.

        Runs once for each such response.
        """
        return []

    def provider_batch(self) -> BatchApi | None:
        """Return the service's batch API, an `ask.batches.BatchApi`; None, the default, if there is none.

        Runs for `ask map --batch`. The bodies of the requests in a batch are those of `provider_build_request`, and
        the responses are parsed with `provider_parse_response`.
        """
        return None

    @staticmethod
    def normalize_tool(tool: ToolSpec, *, inline_references: bool = False) -> ToolSpec:
        """Return a tool whose schema uses only what all services accept, for `provider_format_tools`.

        `inline_references` replaces each `$ref` with its definition.
        """
        if has_plain_schema(tool):
            return tool
        from ask.plugin_api.tool_schemas import normalize_tool

        return normalize_tool(tool, inline_references=inline_references)

    def find_provider_state(self, message: Message, model: str) -> Mapping[str, Any]:
        """Return the provider-specific parts of a message to send back to a model.

        Parts from another provider, or that the model cannot read, are not sent back: the result is then {}.
        """
        state = message.provider_state
        if state and state.provider == self.state_owner and self.can_read_state(state.model, model):
            return state.data
        return {}

    @property
    def state_owner(self) -> str:
        """The `ProviderState.provider` of this provider's answers."""
        return self.info.name

    def can_read_state(self, author: str, model: str) -> bool:
        """Check whether a model can read the provider-specific parts of a message that the model `author` wrote.

        By default it can if both are of one family, which is the vendor in names such as "vendor/model".
        """
        return get_model_family(author) == get_model_family(model)


def has_plain_schema(tool: ToolSpec) -> bool:
    """Check whether a tool's parameters have only a type and a description, as those of the built-in tools do.

    All services accept such a schema: `ask.plugin_api.tool_schemas` would not change it.
    """
    match tool.parameters:
        case {"type": "object", "properties": dict(properties), "required": [_, *_] as required, **others}:
            return (
                others == {"additionalProperties": False}
                and required == [*properties][: len(required)]
                and all(map(PLAIN_NAME_PATTERN.fullmatch, properties))
                and all(map(is_plain_parameter, properties.values()))
            )
    return False


def is_plain_parameter(schema: Any) -> bool:
    """Check whether a schema consists of a simple type and perhaps a description."""
    match schema:
        case {"type": "string" | "integer" | "number" | "boolean", **others}:
            return not others or (others.keys() == {"description"} and isinstance(others["description"], str))
    return False


def format_tool_results(messages: Iterable[Message], hooks: Provider) -> list[Message]:
    """Return messages whose tool results have the `formatted_result` that a provider's hook returns for them."""

    def format_result(message: Message) -> Message:
        result = hooks.provider_format_tool_result(
            tool_call_id=message.tool_call_id, tool_name=message.tool_name, result=message.content
        )
        return message._replace(formatted_result=result)

    return [format_result(message) if message.role == "tool" else message for message in messages]
