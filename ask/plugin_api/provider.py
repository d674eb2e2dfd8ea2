"""The base classes of providers and their batch APIs, with the default hooks.

A provider converts conversations to HTTP requests and parses responses. Except in `provider_send`, it does no I/O of
its own: ask sends the requests, retries, splits streams into events and runs the tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any, Literal
from urllib.parse import quote

from ask.errors import ProviderError, RetryAction
from ask.messages import DecisionQuestion, Message, ModelResponse, RawEvent, ToolCall, ToolSpec
from ask.parsing import (
    choose_retry_action,
    extract_error_text,
    find_error,
    format_error_message,
    get_model_family,
    parse_duration,
    parse_json,
    read_dict,
    read_int,
    read_list,
    read_number,
    read_str,
)
from ask.plugin_api.types import (
    Batch,
    BatchPage,
    BatchRequest,
    BatchResult,
    ChatRequest,
    DecisionRequest,
    DecisionResponse,
    HttpRequest,
    ModelInfo,
    ProviderInfo,
    ResultsRequest,
    StreamReader,
)
from ask.profiles import ModelProfile, find_profile

PLAIN_NAME_PATTERN = re.compile("[a-z_]{1,64}")
"""Names of parameters that certainly all services accept."""

STATED_WAIT_PATTERN = r"(?i)(?:try again in|retry (?:in|after)|please wait) (\d[\d.]*) ?([a-z][\w.]*)"
"""How services state in the text of an error when to send a request again."""
_QUOTATION_START = r""""(?:flagged_input|previous_errors)":\s*|"msg":\s*"(?:[^"\\]|\\.)*",\s*"input":\s*"""
"""How errors of OpenRouter and FastAPI begin to quote the request or the errors of earlier attempts, as JSON."""
_QUOTED_REQUEST = r""", 'input': (?:[^"\\]|\\[\s\S]?)*?(?=\}, \{'type': '\w+', 'loc': \(|\}{,9}\]?"|\Z)"""
"""How errors of vLLM quote the request: https://github.com/vllm-project/vllm/issues/49239."""
MAX_MESSAGE_START_CHARACTERS, MAX_MESSAGE_END_CHARACTERS = 1_500, 500
"""The parts that are kept of the message of an error. vLLM and FastAPI list every invalid value of a request, possibly
thousands. LiteLLM has the reason after a traceback: https://github.com/BerriAI/litellm/issues/30948"""

HOOK_PREFIX = "provider_"
REQUIRED_HOOKS = ("provider_build_request", "provider_stream_reader", "provider_parse_response")
"""The hooks without a default implementation."""
MODULE_HOOKS = ("provider_info", "provider_supports_tools")
"""The hooks that a module must define, too; an instance inherits them."""
TEMPORARY_ERRORS = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "server_error": 500,
    "api_error": 500,
    "service_unavailable_error": 503,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "vector_store_timeout": 504,
    "overloaded_error": 529,
    "Some resource has been exhausted": 429,
    "The service is currently unavailable": 503,
    "Deadline expired before operation could complete": 504,
}
"""HTTP statuses by the code or type of an error inside a response, of those that may be temporary.

The sentences are xAI's codes. https://github.com/router-for-me/CLIProxyAPI/issues/2712
"""
TOOL_HOOKS = ("provider_parse_tool_calls", "provider_format_tool_result")
"""The hooks that a provider must define if any of its models supports tools."""


class Provider:
    """The base class of providers: the specification of every hook, with the default where there is one.

    A hook is a method whose name begins with `provider_`. Required are `provider_build_request`,
    `provider_stream_reader` and `provider_parse_response`. A provider whose `provider_supports_tools` returns True also
    needs `provider_parse_tool_calls` and `provider_format_tool_result`.

    The entry point can also name a module that defines the hooks as functions. It must define `provider_info` and
    `provider_supports_tools`, too; the default applies to any other hook that it omits. Its functions may leave out
    parameters that they do not need. Methods may do so, too, but type checkers object to that in a subclass.

    Hooks are called with keyword arguments, so parameters must not be renamed, and only on the selected provider. All
    except `provider_send` must be pure: no I/O, no waiting, no printing. Results of the wrong type, any exception other
    than an `ask.AskError`, and hooks that take longer than `--timeout` are reported as a bug in the plugin (exit code
    4).

    ask removes API keys from everything that it shows, saves or sends in a conversation.

    Args:
        info: the description of the provider.
    """

    error_rules: Sequence[tuple[str, RetryAction | None, str]] = ()
    """Rules that the default `provider_parse_error` applies; the first that matches counts.

    Each is a tuple: a regular expression, searched for in the status, the message and the body (separated by spaces);
    the retry action, or None for the default; the hint for the user.
    """

    openai_api: Literal["chat", "responses", ""] = ""
    """Which of OpenAI's APIs the provider speaks, as the setting `api` names them; "" for neither."""

    profiles: Sequence[ModelProfile] = ()
    """What is known about the models: a row of `ask.profiles.ModelProfile` for each family, a specific one first.

    ask reads them before the hooks run, and adapts the user's options to them. A module defines them, too.
    """

    key_header = "Authorization"
    """The header that contains the API key, for the base classes that ask has; Authorization contains `Bearer KEY`."""

    def __init__(self, info: ProviderInfo) -> None:
        self.info = info

    def build_key_header(self, key: str) -> dict[str, str]:
        """Return the header with the API key; {} without one. It is no hook."""
        if not key:
            return {}
        return {self.key_header: f"Bearer {key}" if self.key_header.lower() == "authorization" else key}

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
            OSError: with a `filename`, a program or file cannot be used (exit code 3). With an HTTP status, as the
                `HTTPError` of requests and urllib, the service refused the request (6). Otherwise the connection
                failed (5), and the request is retried if nothing came before.
        """
        return None

    def provider_supports_tools(self, model: str) -> bool:
        """Check whether the model accepts tools. The default is True.

        Runs once per run, before the first request that would contain tools.
        """
        return True

    def provider_server_tools(self, model: str) -> dict[str, dict[str, Any]]:
        """Return the tools that the service itself runs for this model, each by ask's name, as the API wants them.

        Runs before anything is sent if the user asks for such a tool with `-T` or the setting `server_tools`. The tools
        that the user named become `ChatRequest.server_tools`. The names are the same for all services where the tools
        do the same: `web_search`, `web_fetch`, `code_execution`, and `tool_search`, which finds those of the offered
        tools that have `ToolSpec.is_deferred`. A service may have others. What the tools did belongs in
        `ModelResponse.server_calls`, and what they found in `ModelResponse.citations`; what the service wants back in
        later requests belongs in `ModelResponse.provider_state`. The default is {}, for no such tools.
        """
        return {}

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        """Check whether a message to this model may contain a file of this MIME type.

        Runs before a request whose messages contain such files, and to describe to the user and to the model what it
        reads, unless the model's profile has its attachments. The default is what `profiles` say, and False if they say
        nothing. Return False only if the type is known to be unsupported: the user then gets an error before anything
        is sent, and files attached earlier in the conversation, or returned by a tool, are replaced by a note. So
        `provider_build_request` finds only accepted types in `Message.attachments`. If the hook fails, the model does
        not get files of that type: a notice says so, and only a file that the user attaches to the question is an
        error.
        """
        return media_type in (find_profile(self.profiles, model).attachments or ())

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        """Check whether the format has a place for a file of this MIME type inside a tool result.

        Runs before a request in which a tool result has such a file, if `provider_supports_attachment` returns True
        for it. The default is False: a user message after the results contains the file then, and nothing else needs
        to be done. With True, the file stays in `Message.attachments` of the result, a message with the role "tool",
        and `provider_build_request` adds it to the message's `formatted_result`, as `ChatCompletions` does.
        """
        return False

    def provider_supports_answer_attachment(self, model: str, media_type: str) -> bool:
        """Check whether the format has a place for an image of this MIME type that the model generated, in its answer.

        Runs before a request with such an answer, if `provider_supports_attachment` returns True for the type. The
        default is False: the next user message contains the image then, and nothing else needs to be done. With True,
        it stays in `Message.attachments` of the answer, and `provider_build_request` adds it to the answer.
        """
        return False

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Return the tools in the provider's own format.

        Runs once for each request that carries tools; the result becomes `ChatRequest.tools`. The default is the format
        of the Chat Completions API.
        """
        return [self.normalize_tool(tool).to_function() for tool in tools]

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        """Return the tool calls in a response, in the model's order and with unique ids.

        Runs after `provider_parse_response`. Must generate ids if the service sends none, with
        `ask.parsing.generate_call_id`. Arguments are returned exactly as the model wrote them, even if they are not
        valid JSON: ask reports the error to the model. The default, for a provider without tools, is [].
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

        Runs once per tool round, and again for a retry. `key` is one API key, or "" if there is none; it belongs in the
        headers only. The same messages must produce the same bytes, except for cache markers, because services cache by
        prefix.
        """
        raise NotImplementedError

    def provider_stream_reader(self) -> StreamReader:
        """Return a new stream reader, such as an `ask.parsing.AnswerAccumulator`.

        Runs before each streamed answer is read.
        """
        raise NotImplementedError

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        """Parse the answer in a response, or in what `StreamReader.response` returned.

        Runs once per answer. Text may begin with reasoning in tags such as `<think>`, which ask separates.

        Raises:
            ask.ProviderError: the response is or contains an error. `parse_embedded_error` creates it. Its
                `partial_response` must be the part of the answer before the error, which `check_answer` sets: otherwise
                what the user has seen of the answer is not saved.
        """
        raise NotImplementedError

    def provider_join_responses(self, response: Mapping[str, Any], continuation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the responses to a request and to the one that continued it as one response.

        Runs only for an answer with a `ModelResponse.continuation_token`. Both are in the format of the non-streaming
        API; `response` may itself be joined from several. The result has the reason for the end, and the error, of
        `continuation`, and a token as long as the answer is not complete. What arrived after the last token of
        `response` is left out, because the continuation repeats it. With {}, before the next request, the result is
        what that request continues. ask adds up the usage of the requests. The default joins the text, the reasoning
        and the calls in the format of `AnswerAccumulator.response`.
        """
        joined = {**response, **continuation}
        for name in ("text", "reasoning", "calls"):
            if response.get(name) and continuation.get(name):
                joined[name] = response[name] + continuation[name]
        return joined

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        """Return (do not raise) the error for an HTTP response, with its retry_action.

        Runs for each response with an error status, and for a response with status 200 that cannot be parsed, such
        as an HTML page.
        """
        body = remove_quotations(body)
        error = find_error(parse_json(body))
        message = format_error_message(error) or extract_error_text(body) or "no explanation"
        if len(message) > MAX_MESSAGE_START_CHARACTERS + MAX_MESSAGE_END_CHARACTERS:
            message = f"{message[:MAX_MESSAGE_START_CHARACTERS]} … {message[-MAX_MESSAGE_END_CHARACTERS:]}"
        provider_error = ProviderError(
            message,
            None if status == 200 else status,
            choose_retry_action(status, headers),
            parameter=read_str(read_dict(error).get("param")) or None,
        )
        from ask.plugin_api.error_rules import COMMON_ERROR_RULES, USED_UP_PATTERN, USED_UP_STATUSES

        text = f"{provider_error.message} {body}"
        for pattern, retry_action, hint in (*self.error_rules, *COMMON_ERROR_RULES):
            if re.search(pattern, f"{status} {text}", re.DOTALL):
                provider_error.retry_action = retry_action or provider_error.retry_action
                provider_error.hint = hint
                break
        # Azure and errors in a stream have no Retry-After: https://github.com/openai/openai-python/issues/937. What the
        # page of an overloaded proxy advises is for people.
        wait = re.search(STATED_WAIT_PATTERN, provider_error.message) if status == 429 else None
        if wait and provider_error.retry_action == RetryAction.retry():
            provider_error.retry_action = RetryAction.retry(parse_duration("".join(wait.groups())))
        has_default_action = provider_error.retry_action in (RetryAction.retry(), RetryAction.NONE)
        if has_default_action and status in USED_UP_STATUSES and re.search(USED_UP_PATTERN, text):
            provider_error.retry_action = RetryAction.NEXT_KEY
            provider_error.hint = provider_error.hint or "wait, or use another key or model"
        return provider_error

    def parse_embedded_error(self, error: Any) -> ProviderError:
        """Return the error for an `error` object (or string) inside a response with status 200.

        Its `code`, `status`, `status_code`, `http_status` or `type` counts as the HTTP status if it is one of an error,
        or names a temporary one. `provider_parse_error` then chooses the message, the retry action and the hint.
        """
        fields = read_dict(error)
        values = map(fields.get, ("code", "status", "status_code", "http_status", "type"))
        codes = (read_int(value) or TEMPORARY_ERRORS.get(read_str(value)) for value in values)
        status = next((code for code in codes if code and 400 <= code <= 599), 200)
        return self.provider_parse_error(status, {}, json.dumps({"error": error}))

    @staticmethod
    def check_answer(answer: ModelResponse, error: ProviderError | None) -> ModelResponse:
        """Return a parsed answer, or raise the error in its response with the answer as its `partial_response`.

        For the end of `provider_parse_response`.
        """
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
        """Return the service's batch API, a `BatchApi`; None, the default, if there is none.

        Runs for `ask map --batch`. The bodies of the requests in a batch are those of `provider_build_request`, and
        the responses are parsed with `provider_parse_response`.
        """
        return None

    def provider_decisions(self) -> DecisionApi | None:
        """Return the service's decisions API, a `DecisionApi`; None, the default, if there is none.

        Runs for `--decide`. Only models whose profile has `decisions` are asked through it.
        """
        return None

    def provider_logprob_options(self) -> dict[str, Any]:
        """Return the model parameters that request the logprobs of an answer's tokens; {}, the default, if none do.

        Runs for `--decide` with a model that is not asked through a decisions API. The parameters are added to
        `ChatRequest.options`, in which the user's own come last. Request as many alternative tokens as possible.
        """
        return {}

    def provider_parse_logprobs(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the tokens of the answer in a response with their logprobs, in order; [], the default, for none.

        Runs for each response to a request with the `provider_logprob_options`. Each token is a dict as in the
        `logprobs.content` of Chat Completions: its text `token`, its UTF-8 `bytes` or None, its natural `logprob`, and
        `top_logprobs`, a list of such dicts for the most likely tokens at its position.
        """
        return []

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
        """Return the `ProviderState.data` of an assistant message that may be sent back to a model.

        It is {} if there is none, if another provider wrote it, or if the model cannot read it (`can_read_state`).
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


def list_hook_names() -> list[str]:
    return list(filter(methodcaller("startswith", HOOK_PREFIX), vars(Provider)))


FINAL_BATCH_STATUSES = ("completed", "failed", "expired", "cancelled")
"""The statuses of complete batches in OpenAI's format."""


class BatchApi:
    """The batch API of a service: builds its requests and parses its responses. It does no I/O.

    ask creates a batch with `build_create_request`, after `build_upload_request` if that returns a request. It asks for
    the state with `build_poll_request` until the batch is complete, and then for the results.

    With `build_list_request`, it finds a batch that was created just before a crash by its tag or, if the service does
    not return the tag, by its time, its number of requests and the `custom_id`s in its results.

    `providers/batch_apis.py` in the repository of ask has the batch APIs of five services.

    Args:
        build_headers: returns the headers of a request for an API key.

    Attributes:
        max_requests: the limit for the requests of one batch; `ask map` puts further rows into further batches.
        max_bytes: the limit for their size as JSON, in bytes.
        path: the path to which a batch's id is appended.
        list_path: the path of the list of batches, with a query.
        cursor_parameter: the parameter for the cursor of a page of the list.
        tag_field: the field of a batch's metadata that contains the tag, if the service stores metadata.
        cancel_suffix: what is appended to a batch's path to cancel it; "" if the service cannot.
    """

    max_requests = 50_000
    max_bytes = 100_000_000
    path = "/batches"
    list_path = "/batches?limit=100"
    cursor_parameter = "after"
    tag_field = "ask_batch"
    cancel_suffix = ""

    def __init__(self, build_headers: Callable[[str], Mapping[str, str]]) -> None:
        self.build_headers = build_headers

    def build_upload_request(self, requests: Sequence[BatchRequest], tag: str, key: str) -> HttpRequest | None:
        """Return the request that uploads the requests as a file; None, the default, if the create request has them."""
        return None

    def parse_upload(self, body: Any) -> str:
        """Return the id of the uploaded file."""
        raise NotImplementedError

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        """Return the request that creates a batch.

        Args:
            requests: its requests.
            tag: identifies it: it is found again by this tag in the list of batches. Include it if the API can store
                it.
            file_id: the id of the uploaded file with the requests; "" without one.
            key: the API key.
        """
        raise NotImplementedError

    def build_get_request(self, path: str, key: str) -> HttpRequest:
        """Return a GET request."""
        return HttpRequest(path, None, self.build_headers(key), "GET")

    def build_poll_request(self, batch_id: str, key: str) -> HttpRequest:
        """Return the request for the state of a batch."""
        return self.build_get_request(f"{self.path}/{quote(batch_id)}", key)

    def parse_batch(self, body: Any) -> Batch:
        """Parse the response to a create, poll or cancel request, by default in OpenAI's format."""
        batch = read_dict(body)
        counts = read_dict(batch.get("request_counts"))
        errors = [batch.get("error"), *read_list(read_dict(batch.get("errors")).get("data"))]
        files = (read_str(batch.get(name)) for name in ("output_file_id", "error_file_id"))
        return Batch(
            read_str(batch.get("id")),
            batch.get("status") in FINAL_BATCH_STATUSES,
            read_str(read_dict(batch.get("metadata")).get(self.tag_field)),
            read_number(batch.get("created_at")),
            read_int(counts.get("total")) or None,  # 0 until the file is validated
            (read_int(counts.get("completed")) or 0) + (read_int(counts.get("failed")) or 0),
            "; ".join(filter(None, dict.fromkeys(map(format_error_message, errors)))),
            tuple(filter(None, files)),
        )

    def build_list_request(self, cursor: str, key: str) -> HttpRequest:
        """Return the request for a page of the list of batches; `cursor` is "" for the first one."""
        page = f"&{self.cursor_parameter}={quote(cursor, safe='')}" if cursor else ""
        return self.build_get_request(self.list_path + page, key)

    def parse_list(self, body: Any) -> BatchPage:
        """Parse a page of the list of batches, by default in OpenAI's format."""
        page = read_dict(body)
        batches = [self.parse_batch(batch) for batch in read_list(page.get("data"))]
        return BatchPage(batches, read_str(page.get("last_id")) if page.get("has_more") else "")

    def build_cancel_request(self, batch_id: str, key: str) -> HttpRequest | None:
        """Return the request that cancels a batch; None for a service that cannot."""
        if not self.cancel_suffix:
            return None
        return HttpRequest(f"{self.path}/{quote(batch_id)}{self.cancel_suffix}", None, self.build_headers(key))

    def build_results_requests(self, batch: Batch, key: str) -> list[ResultsRequest]:
        """Return the requests for the results of a complete batch, which may come in any order.

        By default, they are in the response to the poll request.
        """
        return [ResultsRequest(self.build_poll_request(batch.id, key))]

    def build_next_results_request(self, batch: Batch, body: Any, key: str) -> HttpRequest | None:
        """Return the request for the page of results after `body`; None, the default, if there is none."""
        return None

    def parse_results(self, body: Any) -> list[BatchResult]:
        """Parse a JSON value of a response with results."""
        raise NotImplementedError


class DecisionApi:
    """The decisions API of a service: builds its requests and parses its responses. It does no I/O.

    A decisions API answers questions that have a fixed set of answers, with the probability of each, and generates no
    text. Errors are those of `Provider.provider_parse_error`.

    `providers/decision_apis.py` in the repository of ask has the decisions APIs of three services.

    Args:
        build_headers: returns the headers of a request for an API key.

    Attributes:
        max_questions: the limit for the questions of one request; more are an error before anything is sent.
        max_values: the limit for the values of a choice and the levels of a score.
        attachments: the MIME types of the files that the input may contain; None for those that messages to the model
            may contain.
    """

    max_questions = 400
    max_values = 255
    attachments: Sequence[str] | None = None

    def __init__(self, build_headers: Callable[[str], Mapping[str, str]]) -> None:
        self.build_headers = build_headers

    def build_request(self, request: DecisionRequest, key: str) -> HttpRequest:
        """Return the HTTP request, including authentication headers.

        The system message belongs at the beginning of the input.
        """
        raise NotImplementedError

    def parse_response(self, questions: Sequence[DecisionQuestion], response: Mapping[str, Any]) -> DecisionResponse:
        """Parse the response to a request with these questions.

        A question that the service refused, or did not answer, has a `DecisionAnswer.refusal`.

        Raises:
            ask.ProviderError: the response contains an error. `Provider.parse_embedded_error` creates it.
        """
        raise NotImplementedError


def remove_quotations(body: str) -> str:
    """Remove what an error quotes of the request and of other errors, whose words say nothing about the error."""
    body = re.sub(_QUOTED_REQUEST, "", body)
    parts, position = list[str](), 0
    for start in re.finditer(_QUOTATION_START, body):
        if start.end() >= position:
            parts += (body[position : start.end()], "null")
            try:
                position = json.JSONDecoder().raw_decode(body, start.end())[1]
            except (ValueError, RecursionError):  # the body ends in the middle
                position = len(body)
    return "".join(parts) + body[position:]


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
                and all(map(_is_plain_parameter, properties.values()))
            )
    return False


def _is_plain_parameter(schema: Any) -> bool:
    """Check whether a schema consists of a simple type and perhaps a description."""
    match schema:
        case {"type": "string" | "integer" | "number" | "boolean", **others}:
            return not others or (others.keys() == {"description"} and isinstance(others["description"], str))
    return False


def format_tool_results(messages: Iterable[Message], hooks: Provider) -> list[Message]:
    """Return messages whose tool results have the `formatted_result` that a provider's hook returns for them."""
    formatted = list(messages)
    for index, message in enumerate(formatted):
        if message.role == "tool":
            result = hooks.provider_format_tool_result(
                tool_call_id=message.tool_call_id, tool_name=message.tool_name, result=message.content
            )
            formatted[index] = message._replace(formatted_result=result)
    return formatted
