"""Requests to one provider: hooks, retries, key rotation, streaming and redaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ask.client.answers import (
    MAX_REASON_LENGTH,
    DeltaRedactor,
    describe_missing_call,
    discard_delta,
    emit_answer,
    explain_incomplete_answer,
    is_continuation,
    merge_deltas,
    redact_answer,
)
from ask.client.reasoning_tags import ReasoningSplitter, separate_reasoning
from ask.config.secrets import NO_SECRETS, Redactor, format_key_advice
from ask.errors import (
    AskError,
    IncompleteStreamError,
    NetworkError,
    ProviderError,
    RetryAction,
    RunInterruptedError,
)
from ask.messages import FinishReason, Message, ModelResponse, ProviderState, ToolCall, ToolSpec, Usage
from ask.parsing import DONE_DATA, find_error, parse_event, parse_json
from ask.plugin_api.loaded_provider import LoadedProvider, PluginResponse
from ask.plugin_api.provider import format_tool_results
from ask.plugin_api.types import (
    ChatRequest,
    Delta,
    HttpRequest,
    ModelInfo,
    RawEvent,
    StreamReader,
    ToolCallDelta,
)
from ask.profiles import ModelProfile, adapt_options
from ask.records import NamedTuple
from ask.text import format_one_line, repair_surrogates

if TYPE_CHECKING:
    from typing import TypeAlias

    from ask.client.adjustments import RequestAdjustments
    from ask.client.chat_fallback import ChatFallback
    from ask.client.transport import HttpResponse, Transport

    Response: TypeAlias = "HttpResponse | PluginResponse"


T = TypeVar("T")

RETRY_HINT = "ask again"

NEXT_KEY_STATUSES = (401, 402, 429)
"""HTTP statuses for an invalid key or exhausted account, after which another key may work."""

MAX_ADJUSTMENTS = 2
"""How often a request is sent again with other options."""

MAX_ANSWER_CHARACTERS = 24_000_000
"""The limit for a streamed answer, in characters of text, reasoning and tool call arguments."""
MAX_NON_ASCII_CHARACTERS = 6_000_000
"""The limit if the text is not all ASCII: a single emoji makes Python use four bytes for every character."""

SUCCESS_STATUSES = (200, 201, 202)
WRONG_URL_STATUSES = (404, 405)
"""HTTP statuses that may mean a wrong base URL."""
MAX_DOCUMENT_BYTES = 200_000_000
"""The limit for a response with the results of a batch."""

ANSWER_FIELDS = {"choices", "output", "content", "candidates", "promptFeedback", "message", "id", "object", "model"}
"""The fields of which an empty answer of some API has at least one; other JSON is from another program."""
MISSING_END_NOTICE = "the service did not report why the answer ended, so it may be incomplete"

MAX_EXCERPT_LENGTH = 200
"""The limit for the excerpt of an unexpected response in an error message, in characters."""


class RequestResult(NamedTuple):
    """The result of one request."""

    answer: ModelResponse
    """The model's answer, possibly incomplete."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The answer's tool calls; empty if it is incomplete."""
    error: AskError | None = None
    """The reason why the answer is incomplete; None if it is complete."""
    tagged_text: str = ""
    """The text as the model wrote it, if it begins with reasoning in tags, which `answer.text` does not have."""


class MissingApiError(AskError):
    """The server has no Responses API; the request is sent again to Chat Completions."""


class ProviderClient:
    """Sends requests to one provider, with retries and key rotation.

    Args:
        provider: the loaded plugin.
        open_transport: creates the HTTP transport for the provider's base URL, when the first request needs it.
        key: the API key, or "" for none. Several keys, separated by "|", are tried in turn.
        key_origin: where the key is set, as messages name it.
        tries: the maximum number of attempts per request.
        backoff: the seconds before the second attempt, doubled for each further one.
        on_notice: called with a line for the user before each retry.
        redactor: removes secrets from requests and answers.
        chat_fallback: the provider on Chat Completions, for a base URL that may not have the Responses API.
        on_headers: called with the headers of each response.
        shows_text: whether the text of a streamed answer is shown while it arrives.
        given_options: the names of the options that are not left out or changed, because the command line sets them;
            None for all.
        adjustments: what refusals have shown about the model, if several clients share it.
    """

    def __init__(
        self,
        provider: LoadedProvider,
        open_transport: Callable[[], Transport],
        key: str,
        *,
        key_origin: str = "",
        tries: int,
        backoff: float,
        on_notice: Callable[[str], None],
        redactor: Redactor = NO_SECRETS,
        chat_fallback: ChatFallback | None = None,
        on_headers: Callable[[Mapping[str, str]], None] | None = None,
        shows_text: bool = True,
        given_options: Collection[str] | None = None,
        adjustments: RequestAdjustments | None = None,
    ) -> None:
        self.provider = chat_fallback.provider if chat_fallback and chat_fallback.is_active else provider
        self._chat_fallback = chat_fallback
        self.redactor = redactor
        self._open_transport = open_transport
        self._get_transport = cache(open_transport)
        self._keys = [each.strip() for each in key.split("|")]
        """The keys that have not failed. The first is used; it is "" without a key."""
        self._key_origin = key_origin
        self._tries = tries
        self._backoff = backoff
        self._on_notice = on_notice
        self._on_headers = on_headers
        self._shows_text = shows_text
        self._given_options = given_options
        self._adjustments = adjustments
        self._notices: set[str] = set()

    def send(
        self, request: ChatRequest, on_delta: Callable[[Delta], None], tools: Sequence[ToolSpec] = ()
    ) -> RequestResult:
        """Send a request with these tools and return its result; `on_delta` receives the text as it arrives.

        A request is retried only until the first delta has been emitted.

        Secrets are removed from the request and the answer, but not from the tool calls, whose arguments tools need
        unchanged.
        """
        delta_redactor = DeltaRedactor(self.redactor, on_delta)
        result = self._send(request, delta_redactor.feed, tools)
        try:
            delta_redactor.finish()
        except AskError as error:
            result = result._replace(error=result.error or error)
        answer, tagged_text = redact_answer(self.redactor, result.answer), self.redactor.redact(result.tagged_text)
        return result._replace(answer=answer, tagged_text=tagged_text)

    def _prepare(self, request: ChatRequest, tools: Sequence[ToolSpec]) -> ChatRequest:
        """Remove secrets from a request, adapt its options, and have the provider format its tools and tool results.

        Raises:
            ParameterError: the model refuses an option.
        """
        redactor, provider = self.redactor, self.provider
        profile = provider.find_profile(request.model)
        options = self._adapt_options(request, profile)
        messages = request.messages if profile.can_reason else self._drop_reasoning(request.messages)
        messages = format_tool_results(map(redactor.redact_message, messages), provider.hooks)
        redacted_tools = [
            ToolSpec(tool.name, redactor.redact(tool.description), redactor.redact_value(tool.parameters))
            for tool in tools
        ]
        formatted_tools = provider.hooks.provider_format_tools(tools=redacted_tools) if redacted_tools else ()
        return request._replace(messages=messages, tools=formatted_tools, options=options, profile=profile)

    def _adapt_options(self, request: ChatRequest, profile: ModelProfile) -> Mapping[str, Any]:
        options, given, notify = request.options, self._given_options, self._notify_once
        if self._adjustments:
            options, notify = self._adjustments.apply(options, given), self._adjustments.notify
        return adapt_options(profile, request.model, options, notify, given) if options else options

    def _drop_reasoning(self, messages: Sequence[Message]) -> list[Message]:
        """Leave out what models that reason have added to messages; models that do not refuse it."""
        find_profile = self.provider.find_profile
        return [
            message._replace(provider_state=None)
            if message.provider_state and find_profile(message.provider_state.model).can_reason
            else message
            for message in messages
        ]

    def _notify_once(self, text: str) -> None:
        if text not in self._notices:
            self._notices.add(text)
            self._on_notice(text)

    def _send(
        self, request: ChatRequest, on_delta: Callable[[Delta], None], tools: Sequence[ToolSpec], adjusted: int = 0
    ) -> RequestResult:
        """Send a request, again if its options were refused; `adjusted` says how often that was."""
        prepared = self._prepare(request, tools)
        try:
            result = self._retry(partial(self._send_once, prepared, on_delta))
        except MissingApiError:
            return self._send(request, on_delta, tools, adjusted)
        except ProviderError as error:
            from ask.client.error_classification import explain_rejection

            received = error.partial_response or ModelResponse()
            is_shown = received.text or received.reasoning
            if adjusted < MAX_ADJUSTMENTS and not is_shown and self._adjust(error, request, prepared):
                return self._send(request, on_delta, tools, adjusted + 1)
            rejection = explain_rejection(self._classify_error(error), request, tools)
            answer = received._replace(finish_reason=FinishReason.ERROR)
            result = self.separate_reasoning(prepared, RequestResult(answer, error=rejection))
            emit_answer(result.answer, on_delta)
            return result
        except AskError as error:
            return RequestResult(ModelResponse(finish_reason=FinishReason.STREAM_INCOMPLETE), error=error)
        notice = self.provider.hooks.provider_notice(request=prepared, answer=result.answer)
        if notice := notice or ("" if result.tool_calls else describe_missing_call(result.answer, tools)):
            self._on_notice(notice)
        return result

    def _adjust(self, error: ProviderError, request: ChatRequest, sent: ChatRequest) -> bool:
        """Adjust the options of the next requests after a refusal; return whether they differ from those sent."""
        self._get_adjustments().learn(error, request.options, self._given_options)
        return self._adapt_options(request, sent.profile) != sent.options

    def _get_adjustments(self) -> RequestAdjustments:
        from ask.client.adjustments import RequestAdjustments

        self._adjustments = self._adjustments or RequestAdjustments(self._notify_once)
        return self._adjustments

    def list_models(self) -> list[ModelInfo]:
        """Fetch the provider's models list; return [] if it has none."""
        return self._retry(self._fetch_models_list)

    def build_request(self, request: ChatRequest) -> HttpRequest:
        """Build the request for a conversation without tools, without sending it."""
        return self.provider.hooks.provider_build_request(request=self._prepare(request, ()), key=self._keys[0])

    def parse_response(self, request: ChatRequest, response: Mapping[str, Any]) -> RequestResult:
        """Parse the response to a request that was sent in a batch.

        Raises:
            ProviderError: it is an error.
        """
        request = request._replace(profile=self.provider.find_profile(request.model))
        result = self._build_result(request, response, None)
        return result._replace(answer=redact_answer(self.redactor, result.answer))

    def fetch_document(
        self,
        build: Callable[[str], HttpRequest | None],
        *,
        may_repeat: bool = True,
        final_statuses: Collection[int] = (),
    ) -> Any:
        """Send a request about a batch, and return the JSON of the response.

        Args:
            build: builds the request for a key. If it returns None, nothing is sent, and the result is None.
            may_repeat: whether to send it again after a failure.
            final_statuses: the statuses after which it is not sent again.
        """
        if not may_repeat:
            # On a new connection, because a transport sends a request again if the server closes a reused one.
            return self._send_document(build(self._keys[0]), self._open_transport)

        def attempt() -> Any:
            try:
                return self._send_document(build(self._keys[0]), self._get_transport)
            except ProviderError as error:
                if error.status in final_statuses:
                    error.retry_action = RetryAction.NONE
                raise

        return self._retry(attempt)

    def fetch_lines(self, build: Callable[[str], HttpRequest]) -> Iterator[Any]:
        """Send a request and yield the JSON value of each line of the response; None if it is not JSON."""
        with self._get_transport().send(build(self._keys[0]), "ndjson") as http_response:
            if http_response.status != 200:
                raise self._parse_error(http_response, http_response.read_text())
            for events in http_response.iter_event_batches():
                http_response.mark_progress()
                for event in events:
                    yield parse_json(event.data)

    def _retry(self, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds or its error does not allow a retry."""
        count = 1
        while True:
            try:
                return attempt()
            except AskError as error:
                if self._switch_key(error):
                    self._on_notice(f"{error.summary}; trying the next key")
                    continue
                from ask.client.retries import choose_retry_delay

                seconds = choose_retry_delay(error, count, self._backoff) if count < self._tries else None
                if seconds is None:
                    if isinstance(error, NetworkError) and error.offline:
                        error.hint = self.provider.info.offline_hint or error.hint
                    raise
                self._on_notice(f"{error.summary}; retrying in {seconds:.1f} s ({count} of {self._tries - 1})")
                time.sleep(seconds)
                count += 1

    def _switch_key(self, error: AskError) -> bool:
        """Switch to the next key if there is one and it may help after this error; return whether it did."""
        may_help = isinstance(error, ProviderError) and (
            error.status in NEXT_KEY_STATUSES or error.retry_action == RetryAction.NEXT_KEY
        )
        if not may_help or len(self._keys) == 1:
            return False
        del self._keys[0]
        return True

    def _fetch_models_list(self) -> list[ModelInfo]:
        request = self.provider.hooks.provider_models_request(key=self._keys[0])
        if request is None:
            return []
        with self._open_response(request) as http_response:
            body = http_response.read_text()
        value = parse_json(body)
        if value is None or http_response.status != 200 or find_error(value) is not None:
            raise self._parse_error(http_response, body)
        return self.provider.hooks.provider_parse_models(body=value)

    def _send_document(self, request: HttpRequest | None, get_transport: Callable[[], Transport]) -> Any:
        if request is None:
            return None
        with get_transport().send(request) as http_response:
            body = http_response.read_text(MAX_DOCUMENT_BYTES)
        if http_response.status not in SUCCESS_STATUSES:
            raise self._parse_error(http_response, body)
        value = parse_json(body)
        if value is None:
            raise self._make_unexpected_body_error(http_response, body)
        return value

    def _open_response(self, request: HttpRequest) -> Response:
        events = self.provider.send(request)
        return (
            PluginResponse(events) if events else self._get_transport().send(request, self.provider.info.stream_format)
        )

    def _send_once(self, request: ChatRequest, on_delta: Callable[[Delta], None]) -> RequestResult:
        """Send the request once, or again without a part that the service refuses.

        Raises:
            AskError: it failed before the first delta; later errors are part of the result.
        """
        changes = tuple(self._adjustments.changes) if self._adjustments else ()
        original_request = request
        for change in changes:
            request = change.change_request(request)
        http_request = self.provider.hooks.provider_build_request(request=request, key=self._keys[0])
        for change in changes if http_request.body else ():
            http_request = http_request._replace(body=change.change_body(http_request.body or {}))
        try:
            return self._exchange(request, http_request, on_delta)
        except ProviderError as error:
            from ask.client.request_changes import find_change

            needed = find_change(error, request, http_request.body or {}, changes)
            if needed is None:
                raise
            self._get_adjustments().add_change(needed, error)
        return self._send_once(original_request, on_delta)

    def _exchange(
        self, request: ChatRequest, http_request: HttpRequest, on_delta: Callable[[Delta], None]
    ) -> RequestResult:
        """Send a request and read its response, with the errors of `_send_once`."""
        with self._open_response(http_request) as http_response:
            if self._on_headers:
                self._on_headers(http_response.headers)
            if http_response.status != 200:
                body = http_response.read_text()
                if self._chat_fallback and self._chat_fallback.activate(http_response.status):
                    self.provider = self._chat_fallback.provider
                    raise MissingApiError("the server has no Responses API")
                raise self._parse_error(http_response, body)
            if self._chat_fallback and self._chat_fallback.is_active:
                self._chat_fallback.remember()
            if http_response.is_stream(request.stream):
                return self._read_stream(request, http_response, on_delta)
            response = self._parse_body(http_response)
            result = self._build_result(request, response, None)
            is_empty = result.answer.finish_reason is FinishReason.EMPTY and result.answer.usage == Usage()
            if is_empty and response and not ANSWER_FIELDS & response.keys():
                raise self._make_unexpected_body_error(http_response, json.dumps(response))
        try:
            emit_answer(result.answer, on_delta)
        except AskError as error:
            return result._replace(tool_calls=(), error=error)
        return result

    def _read_stream(
        self, request: ChatRequest, http_response: Response, on_delta: Callable[[Delta], None]
    ) -> RequestResult:
        """Read a stream, whose deltas are shown as they arrive unless the request asked for a complete answer."""
        show = on_delta if request.stream else discard_delta
        splitter = ReasoningSplitter(show, is_open=request.profile.begins_reasoning is True)
        forward = show if is_continuation(request) else splitter.feed
        result = self._collect_answer(request, http_response, forward)
        try:
            if request.stream:
                splitter.finish(unclosed_is_text=bool(result.answer.text))
            else:
                emit_answer(result.answer, on_delta)
        except AskError as error:
            return result._replace(tool_calls=(), error=result.error or error)
        return result

    def _collect_answer(
        self, request: ChatRequest, http_response: Response, on_delta: Callable[[Delta], None]
    ) -> RequestResult:
        reader = self.provider.hooks.provider_stream_reader()
        has_deltas = False
        stream_error: AskError | None = None
        try:
            for delta in self._read_deltas(reader, http_response):
                has_deltas = True
                on_delta(delta)
            if not (reader.complete or http_response.end_marker_seen):
                self._check_end(reader, http_response, has_deltas)
            if notice := getattr(reader, "notice", ""):
                self._on_notice(notice)
        except (KeyboardInterrupt, SystemExit) as exc:  # the caller saves the partial answer before exiting
            stream_error = RunInterruptedError.from_exception(exc)
        except AskError as error:
            if not has_deltas:
                raise
            is_network_error = isinstance(error, NetworkError)
            stream_error = IncompleteStreamError(error.message, error.hint) if is_network_error else error
        try:
            return self._build_result(request, self.provider.get_response(reader), stream_error, is_stream=True)
        except ProviderError as error:
            if not has_deltas and stream_error is None:
                raise
            answer = (error.partial_response or ModelResponse())._replace(finish_reason=FinishReason.ERROR)
            final_error = stream_error if isinstance(stream_error, RunInterruptedError) else error
            return self.separate_reasoning(request, RequestResult(answer, error=final_error), is_stream=True)

    def separate_reasoning(
        self, request: ChatRequest, result: RequestResult, *, is_stream: bool = False
    ) -> RequestResult:
        """Return a result without reasoning in its text.

        A tag that never closes is text only if the model ended its answer there: an answer that was cut off, and one
        with calls, would have gone on. A closing tag alone does not count for text that has been shown.
        """
        answer = result.answer
        if is_continuation(request):
            return result
        reasoning, text = separate_reasoning(
            answer.text,
            answer.reasoning,
            unclosed_is_text=answer.finish_reason is FinishReason.STOP and not (result.tool_calls or result.error),
            lone_end_counts=not (is_stream and request.stream and self._shows_text),
            is_open=request.profile.begins_reasoning is True,
        )
        if text == answer.text:
            return result
        return result._replace(answer=answer._replace(reasoning=reasoning, text=text), tagged_text=answer.text)

    def _check_end(self, reader: StreamReader, http_response: Response, has_deltas: bool) -> None:
        """Raise the error for a stream that ended without its end marker, unless the reader accepts the end."""
        if getattr(reader, "may_end", False):
            if has_deltas:
                self._on_notice(MISSING_END_NOTICE)
            return
        if has_deltas:
            raise IncompleteStreamError("the answer was cut off", RETRY_HINT, retryable=True)
        if unexpected_text := http_response.read_unexpected_text():
            raise self._make_unexpected_body_error(http_response, unexpected_text)
        words = format_one_line(http_response.read_words(), MAX_EXCERPT_LENGTH)
        message = f"no answer arrived, only {words!r}" if words else "no answer arrived"
        raise IncompleteStreamError(message, RETRY_HINT, retryable=True)

    def _read_deltas(self, reader: StreamReader, http_response: Response) -> Iterator[Delta]:
        """Yield the deltas of a stream as they arrive, merging those received together."""
        size, event_size, limit = 0, 0, MAX_ANSWER_CHARACTERS
        for batch in http_response.iter_event_batches():
            events = []
            for event in batch:
                if event.data.strip() == DONE_DATA:
                    http_response.done_seen = True
                elif not http_response.done_seen or find_error(parse_event(event.data, event.event)) is None:
                    events.append(event)
            unmerged: list[Delta] = []
            try:
                self.provider.feed(reader, events, unmerged)
            finally:  # if the plugin fails, still show what it returned before
                deltas = list(merge_deltas(unmerged))
                yield from deltas
            if any(not isinstance(delta, ToolCallDelta) and not delta.text.isascii() for delta in deltas):
                limit = MAX_NON_ASCII_CHARACTERS
            event_size += sum(len(event.data) for event in events)
            reader_size: int | None = getattr(reader, "size", None)
            previous_size, size = size, event_size if reader_size is None else reader_size
            if size > limit and reader.complete:
                return
            if size > limit:
                raise NetworkError("the answer is implausibly long", "try again, or use another model")
            if size > previous_size or reader.complete:
                http_response.mark_progress()
            # Gemini sends a finish reason before each run of code and continues the answer after it.
            is_continuing = http_response.end_marker_seen and bool(deltas)
            http_response.end_marker_seen = http_response.done_seen or (reader.complete and not is_continuing)

    def _build_result(
        self,
        request: ChatRequest,
        response: Mapping[str, Any],
        stream_error: AskError | None,
        *,
        is_stream: bool = False,
    ) -> RequestResult:
        """Parse a response, which is incomplete if there is a `stream_error`."""
        try:
            answer = self.provider.hooks.provider_parse_response(response=response)
            calls = self.provider.parse_tool_calls(response)
        except ProviderError as error:
            raise self._classify_error(error) from None
        has_content = bool(answer.text or answer.reasoning or calls)
        usage = answer.usage.remove_impossible(has_content=has_content, is_cut_off=stream_error is not None)
        answer = answer._replace(
            text=repair_surrogates(answer.text), reasoning=repair_surrogates(answer.reasoning), usage=usage
        )
        if answer.provider_state and not answer.provider_state.model:
            state = ProviderState(answer.provider_state.provider, request.model, answer.provider_state.data)
            answer = answer._replace(provider_state=state)
        result = RequestResult(answer, tuple(calls), stream_error)
        result = self.separate_reasoning(request, result, is_stream=is_stream)
        answer = result.answer
        if stream_error is not None:
            answer = answer._replace(finish_reason=FinishReason.STREAM_INCOMPLETE)
            return result._replace(answer=answer, tool_calls=())
        if (
            not calls
            and not answer.text.strip()
            and answer.finish_reason in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        ):
            answer = answer._replace(finish_reason=FinishReason.EMPTY)
        if answer.finish_reason is FinishReason.ERROR:
            raise self._classify_error(ProviderError("the model stopped with an error"))
        reason = repair_surrogates(" ".join(answer.finish_message.split()))[:MAX_REASON_LENGTH]
        if incomplete := explain_incomplete_answer(answer, reason):
            return result._replace(answer=answer, tool_calls=(), error=incomplete)
        if reason:
            self._notify_once(reason)
        repaired = tuple(call._replace(arguments=repair_surrogates(call.arguments)) for call in calls)
        return result._replace(answer=answer, tool_calls=repaired)

    def _parse_body(self, http_response: Response) -> Mapping[str, Any]:
        text = http_response.read_text().strip()
        if text and not text.startswith(("{", "[")):
            raise self._make_unexpected_body_error(http_response, text)
        try:
            response = json.loads(text)
        except (ValueError, RecursionError):
            lines = (line.strip() for line in text.split("\n"))
            events = [parse_json(line) for line in lines if line not in ("", DONE_DATA)]
            # Lines of JSON in place of server-sent events
            response = self._read_event_array(events) if len(events) > 1 and None not in events else None
            if not isinstance(response, dict):
                raise IncompleteStreamError("the answer was cut off", RETRY_HINT, retryable=True) from None
        if isinstance(response, list):
            response = self._read_event_array(response)
        if not isinstance(response, dict):
            raise self._parse_error(http_response, text)
        return response

    def _read_event_array(self, events: list[Any]) -> Any:
        """Convert a JSON array of stream events to a response.

        Gemini sends such an array if a proxy drops `alt=sse` from the URL.
        """
        reader = self.provider.hooks.provider_stream_reader()
        self.provider.feed(reader, [RawEvent(None, json.dumps(event)) for event in events], [])
        return self.provider.get_response(reader) if reader.complete else events

    def _parse_error(self, http_response: Response, body: str) -> ProviderError:
        """Parse the error in a response; a redirect counts as one."""
        if 300 <= http_response.status < 400:
            location = http_response.headers.get("Location", "another place")
            hint = f"update the base URL (sent to {http_response.format_shown_url()})"
            return self._classify_error(ProviderError(f"redirected to {location}", http_response.status, hint=hint))
        parse_error = self.provider.hooks.provider_parse_error
        error = parse_error(status=http_response.status, headers=http_response.headers, body=body)
        self._classify_error(error)
        if body.lstrip().startswith("<") and error.retry_action == RetryAction.NONE:
            # A login page, a filter of the network, or another program on the port
            error.message = f"a web page came instead of an answer: {error.message}"
            error.hint = f"check the base URL, the network and the proxy (sent to {http_response.format_shown_url()})"
        elif http_response.status in WRONG_URL_STATUSES and error.retry_action == RetryAction.NONE:
            error.hint = f"{error.hint} (sent to {http_response.format_shown_url()})"
        return error

    def _make_unexpected_body_error(self, http_response: Response, text: str) -> ProviderError:
        """Return the error for a response that is not from the API, such as a proxy's page."""
        if text.startswith("<"):
            return self._parse_error(http_response, text)
        error = ProviderError(f"unexpected response: {format_one_line(text, MAX_EXCERPT_LENGTH)}")
        error.hint = f"check the base URL (sent to {http_response.format_shown_url()})"
        return self._classify_error(error)

    def _classify_error(self, error: ProviderError) -> ProviderError:
        from ask.client.error_classification import KEY_REJECTED_PATTERN, classify_error

        error.provider = self.provider.info.name
        is_about_key = error.status == 401 or KEY_REJECTED_PATTERN.search(error.message)
        if is_about_key and self._keys[0] and (not error.hint or error.hint.startswith("check the key")):
            error.hint = format_key_advice(error.provider, self._keys[0], self._key_origin)
        return classify_error(error)
