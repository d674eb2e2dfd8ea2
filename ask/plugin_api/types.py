"""The types of the arguments and results of a provider's hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from ask.messages import EMPTY_MAPPING, DecisionAnswer, DecisionQuestion, Delta, Message, RawEvent, Usage
from ask.profiles import UNKNOWN_MODEL, ModelProfile
from ask.records import NamedTuple

SERVER_CALL_DETAIL = "reasoning.server_tool_call"
"""How OpenRouter reports a call of its own tools, among the details of the reasoning."""
EXECUTED_TOOLS = "executed_tools"
"""The field of a message in which Groq reports the calls of its own tools."""
DEFAULT_STALL_SECONDS = 300.0


class ProviderInfo(NamedTuple):
    """The description of a provider.

    Attributes:
        name: the name, as passed to `-p`; the same as the name of the entry point. The environment variable
            `<NAME>_BASE_URL` overrides the base URL.
        title: the display name.
        base_url: the URL to which `HttpRequest.path` is appended, in the format that the provider's own SDK uses; ""
            for a provider that implements `provider_send`.
        default_model: the model to use unless the user names one; "" for the first in the models list.
        key_env: the environment variables that may contain the API key; the first is the one named in hints.
        needs_key: whether the provider refuses requests without a key.
        stream_format: the format of its streams: "sse" for server-sent events, "ndjson" for one JSON value per line.
        reports_cost: whether answers report their cost; see `Usage.cost`.
        base_url_env: environment variables besides `<NAME>_BASE_URL` that may contain the base URL, or a host
            without a scheme or port.
        offline_hint: the hint to show if the provider cannot be reached; "" for the default.
        no_models_hint: the hint to show if the provider lists no models; "" for the default.
        stall_timeout: the default of `--timeout` in seconds; longer if models may be silent for longer than usual.
        key_path: the path of a GET request that is refused if the key is invalid, for a service whose models list is
            public; `ask doctor` sends it.
    """

    name: str
    title: str
    base_url: str
    default_model: str = ""
    key_env: tuple[str, ...] = ()
    needs_key: bool = True
    stream_format: Literal["sse", "ndjson"] = "sse"
    reports_cost: bool = False
    base_url_env: tuple[str, ...] = ()
    offline_hint: str = ""
    no_models_hint: str = ""
    stall_timeout: float = DEFAULT_STALL_SECONDS
    key_path: str = ""


class PromptTemplate(NamedTuple):
    """A template that a loader returns for `-t PREFIX:REST`.

    Attributes:
        prompt: the text to send, in which {{input}} and other placeholders are replaced.
        system: an addition to the system prompt.
        description: a short description.
    """

    prompt: str
    system: str = ""
    description: str = ""


class ChatRequest(NamedTuple):
    """One request to a model.

    Attributes:
        model: the model's name in the provider's API.
        messages: the conversation, beginning with the system message. Each tool result has `formatted_result`, as
            `provider_format_tool_result` returned it.
        tools: the tools, as `provider_format_tools` returned them; also set if `tool_choice` is "none", because some
            services reject a conversation with calls of undefined tools. Empty for a run without tools, even if the
            conversation contains calls from an earlier run. If the service rejects those, the provider sends them and
            their results as text, or adds definitions of the tools that they name.
        tool_choice: "auto" lets the model decide. With "none", it must not call tools; if the API has no such choice,
            leave the tools out of this request.
        options: the model parameters that the user set with `-o`, in the form that `profile` asks for. Add them to the
            body last, so that they override everything else.
        stream: whether to request a stream.
        schema: the JSON Schema that the answer must match; None for free text. The system message describes the
            schema and ask validates the answer, so send it only if the API supports that together with callable tools.
        conversation_id: an id that is the same for all requests of a conversation, and "" if there is none or the base
            URL is not the service's own; services that cache prompts by such a key find them again.
        show_reasoning: whether the user wants to see the model's reasoning.
        profile: what is known about the model, from the configuration, the models list and `Provider.profiles`.
        is_own_url: whether the base URL is the service's own. At any other, which may be a proxy to other services,
            leave out the fields and headers that only the service itself knows.
        continuation_token: the `ModelResponse.continuation_token` of the part of the answer that this request
            continues; "" for the first request. All else is as in that.
        server_tools: the service's own tools that the user wants, as `provider_server_tools` returned them. Add them
            to the tools of the body, also if `tool_choice` is "none": earlier answers may contain calls of them.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    options: Mapping[str, Any] = EMPTY_MAPPING
    stream: bool = True
    schema: Mapping[str, Any] | None = None
    conversation_id: str = ""
    show_reasoning: bool = False
    profile: ModelProfile = UNKNOWN_MODEL
    is_own_url: bool = True
    continuation_token: str = ""
    server_tools: Mapping[str, Mapping[str, Any]] = EMPTY_MAPPING


class HttpRequest(NamedTuple):
    """An HTTP request for ask to send.

    Attributes:
        path: the path to append to the base URL.
        body: the JSON body; None for no body.
        headers: the headers, including authentication; ask adds the content type.
        method: the HTTP method.
        content: the raw body, in place of `body`, for an API that takes something other than JSON; its type is in the
            headers.
        fallback_path: for the models list, the path to request if the server has no such list at `path`; "" for none.
        list_headers: the names of headers whose value is a list, to which ask adds the user's values. The user's other
            headers replace those of the request.
    """

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = EMPTY_MAPPING
    method: str = "POST"
    content: bytes = b""
    fallback_path: str = ""
    list_headers: Sequence[str] = ()


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
        cache_write_price: the price of input that the provider writes to its prompt cache.
        retirement_date: the date from which on the model no longer answers, as YYYY-MM-DD; `ask.parsing.read_date`
            converts what services send. From 30 days before, ask tells the user once a day.
        deprecation_date: the date since which the model is deprecated.
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
    cache_write_price: float | None = None
    retirement_date: str | None = None
    deprecation_date: str | None = None


class StreamReader(Protocol):
    """The protocol of the object that reads one stream and collects the answer.

    The answer so far is available at any time, so an interrupted stream is not lost. Any class with these members is
    one; `ask.parsing.AnswerAccumulator` is a base class that collects the answer. Without streaming, ask creates no
    reader.

    A reader may also have these attributes:

    - `size`, an int: the number of characters in the answer so far, including reasoning and tool call arguments. At
      most 24 million are accepted, or 6 million if the answer contains non-ASCII characters, and the stream times out
      if it has not grown for `--timeout` seconds. Without this attribute, the size of every event counts, so that
      keep-alives also keep the stream open.
    - `notice`, a str: a line for the user about the stream, shown once it has ended; "" for none.
    - `may_end`, a bool: whether a stream that ends now, although no end marker was seen, contains the complete answer.
      The user gets a notice then. Otherwise the answer was cut off.
    """

    @property
    def complete(self) -> bool:
        """Whether the answer is complete: the provider's end marker, or an error, was seen.

        ask then waits at most two seconds for further events, such as one with the usage; if they continue the answer,
        it reads on. A stream that ends before is reported as incomplete (exit code 10), unless `may_end` is set.
        """
        ...

    def feed(self, event: RawEvent) -> list[Delta]:
        """Process one event and return the deltas to show to the user; [] for none.

        The data "[DONE]" is never passed: it ends the stream. Keep-alives, such as empty data or "ping", are passed;
        `ask.parsing.parse_event` returns {} for them. Skip events that you do not know. An error event must not raise:
        add it to the response, for which `provider_parse_response` raises the error.
        """
        ...

    def response(self) -> dict[str, Any]:
        """Return the answer so far, in the format of the non-streaming API: a dict of JSON values.

        It may be called at any time, so that an interrupted answer is not lost.
        """
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
    """One page of a list of batches.

    Attributes:
        batches: the batches on the page.
        cursor: what `BatchApi.build_list_request` gets for the next page; "" on the last page.
    """

    batches: Sequence[Batch]
    cursor: str = ""


class BatchResult(NamedTuple):
    """The result of one request of a batch: a response or an error.

    Attributes:
        custom_id: the `BatchRequest.custom_id` of the request.
        response: the response, which `provider_parse_response` parses; None if there is none.
        error: the error message; "" if there is a response.
        is_unavailable: whether the request failed because of the service, so that the next run of the job sends it
            again.
    """

    custom_id: str
    response: Mapping[str, Any] | None = None
    error: str = ""
    is_unavailable: bool = False


class ResultsRequest(NamedTuple):
    """A request for the results of a batch.

    Attributes:
        request: the HTTP request.
        is_jsonl: whether each line of the response is a JSON value; otherwise the complete response is one.
    """

    request: HttpRequest
    is_jsonl: bool = False


class DecisionRequest(NamedTuple):
    """One request to a decisions API: questions about a conversation.

    Attributes:
        model: the model's name in the provider's API.
        messages: the input of all questions, beginning with the system message. Files are only of types that
            `provider_supports_attachment` accepts. There are no tool calls.
        questions: the questions, at most `DecisionApi.max_questions`, with unique names.
        options: the parameters that the user set with `-o`. Add them to the body last.
        profile: what is known about the model.
        is_own_url: whether the base URL is the service's own; see `ChatRequest.is_own_url`.
    """

    model: str
    messages: Sequence[Message]
    questions: Sequence[DecisionQuestion]
    options: Mapping[str, Any] = EMPTY_MAPPING
    profile: ModelProfile = UNKNOWN_MODEL
    is_own_url: bool = True


class DecisionResponse(NamedTuple):
    """The response of a decisions API.

    Attributes:
        answers: one answer for each question, in the order of `DecisionRequest.questions`.
        usage: the tokens and the cost.
        model: the model that answered, as the service names it; "" if it does not.
    """

    answers: tuple[DecisionAnswer, ...]
    usage: Usage = Usage()
    model: str = ""
