"""Requests to one provider: hooks, retries, key rotation, streaming and redaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ask.client.answers import (
    INCOMPLETE_MESSAGES,
    MAX_REASON_CHARACTERS,
    DeltaRedactor,
    clean_answer,
    correct_usage,
    discard_delta,
    emit_answer,
    is_continuation,
    make_incomplete_error,
    merge_deltas,
    move_json_from_reasoning,
    redact_answer,
    repair_call,
)
from ask.client.reasoning_tags import ReasoningSplitter, separate_reasoning
from ask.config.redaction import NO_SECRETS, Redactor
from ask.errors import (
    AskError,
    IncompleteStreamError,
    NetworkError,
    ProviderError,
    RetryAction,
    RunInterruptedError,
)
from ask.messages import (
    EMPTY_MAPPING,
    MAX_GENERATED_IMAGES,
    Delta,
    FinishReason,
    Message,
    ModelResponse,
    ProviderState,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
)
from ask.parsing import DONE_DATA, find_error, get_model_family, parse_event, parse_json
from ask.plugin_api.loaded_provider import LoadedProvider, PluginResponse
from ask.plugin_api.provider import format_tool_results
from ask.plugin_api.types import ChatRequest, HttpRequest, ModelInfo, StreamReader
from ask.profiles import ModelProfile, adapt_options
from ask.records import NamedTuple
from ask.text import repair_surrogates

if TYPE_CHECKING:
    from ask.client.adjustments import RequestAdjustments
    from ask.client.chat_fallback import ChatFallback
    from ask.client.response_bodies import BodyReader, Response
    from ask.client.transport import Transport


T = TypeVar("T")

MAX_ADJUSTMENTS = 2
"""How often a request is sent again with other options."""

MAX_ANSWER_CHARACTERS = 24_000_000
"""The limit for a streamed answer, in characters of text, reasoning and tool call arguments."""
MAX_NON_ASCII_CHARACTERS = 6_000_000
"""The limit if the text is not all ASCII: a single emoji makes Python use four bytes for every character."""

SUCCESS_STATUSES = range(200, 300)
"""NestJS, for one, answers every POST with 201: https://docs.nestjs.com/controllers#status-code"""

TOOL_SEARCH = "tool_search"
"""The service's own tool that needs other tools."""
MISSING_END_NOTICE = "the service did not report why the answer ended, so it may be incomplete"


class RequestResult(NamedTuple):
    answer: ModelResponse
    """The model's answer, possibly incomplete."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The answer's tool calls; empty if it is incomplete."""
    error: AskError | None = None
    """The reason why the answer is incomplete; None if it is complete."""
    response: Mapping[str, Any] = EMPTY_MAPPING
    """What the answer was parsed from, with secrets; empty once the client returns the result."""
    usages: tuple[Usage, ...] = ()
    """The usage of each request, if the answer took several."""
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
        other_transports: create transports for further base URLs, to use if the server cannot be reached.
        renew_key: returns another key than a rejected one, or ""; None if there is no other.
        read_token: returns the access token to use as key in the next request; None for an unchanging key.
        trace_request: sends each request once in a span, as `Tracer.trace_request` does; None without traces.
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
        other_transports: Sequence[Callable[[], Transport]] = (),
        renew_key: Callable[[str], str] | None = None,
        read_token: Callable[[], str] | None = None,
        trace_request: Callable[..., RequestResult] | None = None,
    ) -> None:
        self.provider = chat_fallback.provider if chat_fallback and chat_fallback.is_active else provider
        self._chat_fallback = chat_fallback
        self.redactor = redactor
        self._open_transport = open_transport
        self._get_transport = cache(open_transport)
        self._other_transports = list(other_transports)
        self._renew_key = renew_key
        self._key = key
        self._keys = list(map(str.strip, key.split("|")))
        """The keys that have not failed. The first is used; it is "" without a key."""
        self._key_origin = key_origin
        self._read_token = read_token
        self._trace_request = trace_request
        self._tries = tries
        self._backoff = backoff
        self._on_notice = on_notice
        self._on_headers = on_headers
        self._shows_text = shows_text
        self._given_options = given_options
        self.adjustments = adjustments
        self._notify_once: Callable[[str], None] = cache(on_notice)  # the same text only once

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
        return result._replace(answer=answer, tagged_text=tagged_text, response=EMPTY_MAPPING)

    def _prepare(self, request: ChatRequest, tools: Sequence[ToolSpec]) -> ChatRequest:
        """Remove secrets from a request, adapt its options, and have the provider format its tools and tool results.

        Raises:
            ParameterError: the model refuses an option.
        """
        redactor, provider = self.redactor, self.provider
        profile = provider.find_profile(request.model)
        options = self._adapt_options(request, profile) if request.options or self.adjustments else request.options
        messages = request.messages if profile.can_reason else self._drop_reasoning(request.messages)
        if any(map(attrgetter("attachments"), messages)):
            from ask.client.attachment_limits import adapt_attachments

            messages = adapt_attachments(messages, provider, request.model, self._notify_once)
        messages = format_tool_results(map(redactor.redact_message, messages), provider.hooks)
        server_tools = self._select_server_tools(request, tools) if request.server_tools else EMPTY_MAPPING
        redacted_tools = [
            tool._replace(
                description=redactor.redact(tool.description),
                parameters=redactor.redact_value(tool.parameters),
                is_deferred=tool.is_deferred and TOOL_SEARCH in server_tools,
            )
            for tool in tools
        ]
        formatted_tools = provider.format_tools(redacted_tools) if redacted_tools else ()
        return request._replace(
            messages=messages, tools=formatted_tools, options=options, profile=profile, server_tools=server_tools
        )

    def _select_server_tools(self, request: ChatRequest, tools: Sequence[ToolSpec]) -> Mapping[str, Mapping[str, Any]]:
        """Return the requested tools that the service has, in its own format; report the others once."""
        available = self.provider.hooks.provider_server_tools(model=request.model)
        selected = {name: available[name] for name in request.server_tools if name in available}
        if missing := [name for name in request.server_tools if name not in available]:
            rest = "without it" if len(missing) == 1 else "without them"
            self._notify_once(f"{self.provider.info.name} has no {', '.join(missing)}; continuing {rest}")
        if TOOL_SEARCH in selected and not any(tool.is_deferred for tool in tools):
            self._notify_once("tool_search has nothing to find: all tools are built in")
            del selected[TOOL_SEARCH]
        return selected

    def _adapt_options(self, request: ChatRequest, profile: ModelProfile) -> Mapping[str, Any]:
        options, given, notify = request.options, self._given_options, self._notify_once
        if self.adjustments:
            options, notify = self.adjustments.apply(options, given), self.adjustments.notify
        return adapt_options(profile, request.model, options, notify, given) if options else options

    def _drop_reasoning(self, messages: Sequence[Message]) -> list[Message]:
        """Leave out the state that reasoning models have added to messages: other models refuse it."""
        find_profile = self.provider.find_profile
        return [
            message._replace(provider_state=None)
            if message.provider_state and find_profile(message.provider_state.model).can_reason
            else message
            for message in messages
        ]

    def _send(
        self, request: ChatRequest, on_delta: Callable[[Delta], None], tools: Sequence[ToolSpec], adjusted: int = 0
    ) -> RequestResult:
        """Send a request, again if its options were refused; `adjusted` says how often that was."""
        prepared = self._prepare(request, tools)
        try:
            result = self.retry(partial(self.send_once, prepared, on_delta), self._tries)
            if result.answer.continuation_token:
                from ask.client.continuation import AnswerContinuation

                notify, backoff = self._on_notice, self._backoff
                result = AnswerContinuation(
                    self, prepared, result, on_delta=on_delta, on_notice=notify, backoff=backoff
                ).run()
        except MissingApiError:
            return self._send(request, on_delta, tools, adjusted)
        except ProviderError as error:
            from ask.client.error_classification import explain_rejection

            received = error.partial_response or ModelResponse()
            is_shown = received.text or received.reasoning
            if adjusted < MAX_ADJUSTMENTS and not is_shown and self._adjust(error, request, prepared):
                return self._send(request, on_delta, tools, adjusted + 1)
            rejection = explain_rejection(self._bodies.classify(error), request, tools)
            answer = received._replace(finish_reason=FinishReason.ERROR)
            result = self.separate_reasoning(prepared, RequestResult(answer, error=rejection))
            emit_answer(result.answer, on_delta)
            return result
        except AskError as error:
            return RequestResult(ModelResponse(finish_reason=FinishReason.STREAM_INCOMPLETE), error=error)
        notice = self.provider.hooks.provider_notice(request=prepared, answer=result.answer)
        answer = result.answer
        may_lack_call = any(
            tool.name in answer.text or answer.finish_reason is FinishReason.TOOL_CALLS for tool in tools
        )
        if may_lack_call and not (notice or result.tool_calls):
            from ask.client.text_tool_calls import describe_missing_call

            notice = describe_missing_call(answer, tools)
        if notice:
            self._notify_once(notice)
        return result

    def parse_parts(
        self, request: ChatRequest, response: Mapping[str, Any], error: AskError | None = None
    ) -> RequestResult:
        """Parse a response, which is incomplete if there is an error. An error in it is part of the result."""
        try:
            return self._build_result(request, response, error, is_stream=True)
        except ProviderError as provider_error:
            answer = (provider_error.partial_response or ModelResponse())._replace(finish_reason=FinishReason.ERROR)
            final_error = error if isinstance(error, RunInterruptedError) else provider_error
            result = RequestResult(answer, error=final_error, response=response)
            return self.separate_reasoning(request, result, is_stream=True)

    def _adjust(self, error: ProviderError, request: ChatRequest, sent: ChatRequest) -> bool:
        """Adjust the options of the next requests after a refusal; return whether they differ from those sent."""
        self.get_adjustments().learn(error, request.options, self._given_options)
        return self._adapt_options(request, sent.profile) != sent.options

    def get_adjustments(self) -> RequestAdjustments:
        """Return what refusals have shown about the model."""
        from ask.client.adjustments import RequestAdjustments

        self.adjustments = self.adjustments or RequestAdjustments(self._notify_once)
        return self.adjustments

    def list_models(self) -> list[ModelInfo]:
        """Fetch the provider's models list; return [] if it has none."""
        return self.retry(self._fetch_models_list, self._tries)

    def build_request(self, request: ChatRequest) -> HttpRequest:
        """Build the request for a conversation without tools, without sending it."""
        return self.provider.build_request(self._prepare(request, ()), self._read_key())

    def parse_response(self, request: ChatRequest, response: Mapping[str, Any]) -> RequestResult:
        """Parse the response to a request that was sent in a batch.

        Raises:
            ProviderError: it is an error.
        """
        request = request._replace(profile=self.provider.find_profile(request.model))
        result = self._build_result(request, response, None)
        return result._replace(answer=redact_answer(self.redactor, result.answer), response=EMPTY_MAPPING)

    def fetch_document(
        self,
        build: Callable[[str], HttpRequest | None],
        *,
        may_retry: bool = True,
        final_statuses: Collection[int] = (),
    ) -> Any:
        """Send a request about a batch, and return the JSON of the response.

        Args:
            build: builds the request for a key. If it returns None, nothing is sent, and the result is None.
            may_retry: whether to send it again after a failure.
            final_statuses: the statuses after which it is not sent again.
        """
        if not may_retry:
            # On a new connection, because a transport sends a request again if the server closes a reused one.
            return self._send_document(build(self._read_key()), self._open_transport)

        def attempt() -> Any:
            try:
                return self._send_document(build(self._read_key()), self._get_transport)
            except ProviderError as error:
                if error.status in final_statuses:
                    error.retry_action = RetryAction.NONE
                raise

        return self.retry(attempt, self._tries)

    def fetch_lines(self, build: Callable[[str], HttpRequest]) -> Iterator[Any]:
        """Send a request and yield the JSON value of each line of the response; None if it is not JSON."""
        with self._get_transport().send(build(self._read_key()), "ndjson") as http_response:
            if http_response.is_page or http_response.status not in SUCCESS_STATUSES:
                raise self._bodies.parse_error(http_response, http_response.read_text())
            for events in http_response.iter_event_batches():
                http_response.mark_progress()
                for event in events:
                    yield parse_json(event.data)

    @property
    def _bodies(self) -> BodyReader:
        from ask.client.response_bodies import BodyReader

        return BodyReader(self.provider, self._keys[0], self._key_origin)

    def retry(self, attempt: Callable[[], T], tries: int) -> T:
        """Call `attempt` until it succeeds, `tries` are used up, and no other key or server can help."""
        count, unreachable, is_renewed = 1, 0, False
        while True:
            try:
                return attempt()
            except AskError as error:
                from ask.client.retries import RetryNotice, can_other_key_help, choose_retry_delay

                if len(self._keys) > 1 and can_other_key_help(error):
                    del self._keys[0]
                    self._on_notice(f"{error.summary}; trying the next key")
                    continue
                if not is_renewed and self._switch_to_new_key(error):
                    is_renewed = True
                    continue
                is_offline = isinstance(error, NetworkError) and error.offline
                if is_offline and unreachable < len(self._other_transports):
                    unreachable += 1
                    self._on_notice(f"{error.summary}; trying the next base URL")
                    self.use_next_server()
                    continue
                unreachable = 0
                seconds = choose_retry_delay(error, count, self._backoff) if count < tries else None
                if seconds is None:
                    if isinstance(error, NetworkError) and error.offline:
                        error.hint = self.provider.info.offline_hint or error.hint
                    raise
                self._on_notice(RetryNotice(error.summary, count, tries - 1, seconds))
                time.sleep(seconds)
                self.use_next_server()
                count += 1

    def _read_key(self) -> str:
        """Return the key for the next request: an access token that has not expired, or the first key."""
        if self._read_token:
            self._key = self._keys[0] = self._read_token()
        return self._keys[0]

    def _switch_to_new_key(self, error: AskError) -> bool:
        """Switch to a new key if the key has expired; return whether there is one."""
        from ask.client.retries import is_key_expired

        if self._renew_key is None or not is_key_expired(error):
            return False
        new_key = self._renew_key(self._key)
        if not new_key:
            return False
        self._on_notice(f"{error.summary}; trying a new key")
        self._key, self._keys = new_key, list(map(str.strip, new_key.split("|")))
        if self.redactor is not NO_SECRETS:
            self.redactor.add(self._keys)
        return True

    def use_next_server(self) -> None:
        """Send the next requests to the next base URL, if there are several."""
        if self._other_transports:
            self._other_transports.append(self._open_transport)
            self._open_transport = self._other_transports.pop(0)
            self._get_transport = cache(self._open_transport)

    def _fetch_models_list(self, request: HttpRequest | None = None) -> list[ModelInfo]:
        request = request or self.provider.hooks.provider_models_request(key=self._read_key())
        if request is None:
            return []
        with self._open_response(request) as http_response:
            body = http_response.read_text()
        value = parse_json(body)
        if value is None or http_response.status not in SUCCESS_STATUSES or find_error(value) is not None:
            error = self._bodies.parse_error(http_response, body)
            if not request.fallback_path or error.retry_action != RetryAction.NONE:
                raise error
            return self._fetch_models_list(request._replace(path=request.fallback_path, fallback_path=""))
        return self.provider.hooks.provider_parse_models(body=value)

    def _send_document(self, request: HttpRequest | None, get_transport: Callable[[], Transport]) -> Any:
        if request is None:
            return None
        with get_transport().send(request) as http_response:
            body = http_response.read_text()
        if http_response.status not in SUCCESS_STATUSES:
            raise self._bodies.parse_error(http_response, body)
        value = parse_json(body)
        if value is None:
            raise self._bodies.make_unexpected_body_error(http_response, body)
        return value

    def _open_response(self, request: HttpRequest) -> Response:
        events = self.provider.send(request)
        return (
            PluginResponse(events) if events else self._get_transport().send(request, self.provider.info.stream_format)
        )

    def send_once(self, request: ChatRequest, on_delta: Callable[[Delta], None]) -> RequestResult:
        """Send the request once, or again without a part that the service refuses.

        Raises:
            AskError: it failed before the first delta; later errors are part of the result.
        """
        changes = tuple(self.adjustments.changes) if self.adjustments else ()
        original_request = request
        for change in changes:
            request = change.change_request(request)
        http_request = self.provider.build_request(request, self._read_key())
        for change in changes if http_request.body else ():
            http_request = http_request._replace(body=change.change_body(http_request.body or {}))
        try:
            if self._trace_request:
                return self._trace_request(request, partial(self._exchange, request, http_request), on_delta)
            return self._exchange(request, http_request, on_delta)
        except ProviderError as error:
            from ask.client.refused_fields import find_change

            needed = find_change(error, request, http_request.body or {}, changes)
            if needed is None:
                raise
            self.get_adjustments().add_change(needed, error)
        return self.send_once(original_request, on_delta)

    def _exchange(
        self, request: ChatRequest, http_request: HttpRequest, on_delta: Callable[[Delta], None]
    ) -> RequestResult:
        """Send a request and read its response, with the errors of `send_once`."""
        with self._open_response(http_request) as http_response:
            if self._on_headers:
                self._on_headers(http_response.headers)
            if http_response.status not in SUCCESS_STATUSES:
                body = http_response.read_text()
                if self._chat_fallback and self._chat_fallback.activate(self.provider, http_response.status):
                    self.provider = self._chat_fallback.provider
                    raise MissingApiError("the server has no Responses API")
                raise self._bodies.parse_error(http_response, body)
            if self._chat_fallback and self._chat_fallback.is_active:
                self._chat_fallback.remember()
            if http_response.is_stream(request.stream):
                return self._read_stream(request, http_response, on_delta)
            response = self._bodies.parse_answer(http_response)
            result = self._build_result(request, response, None)
            if result.answer.finish_reason is FinishReason.EMPTY:
                self._bodies.check_empty_answer(http_response, result.answer, response)
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
            if not (has_deltas or self._can_continue(reader)):
                raise
            is_network_error = isinstance(error, NetworkError)
            stream_error = IncompleteStreamError(error.message, error.hint) if is_network_error else error
        result = self.parse_parts(request, self.provider.get_response(reader), stream_error)
        is_empty = not (has_deltas or stream_error or result.answer.continuation_token)
        if is_empty and isinstance(result.error, ProviderError):
            raise result.error
        if is_empty and result.answer.finish_reason is FinishReason.EMPTY:
            self._bodies.check_format(http_response, http_response.excerpt)
        return result

    def _can_continue(self, reader: StreamReader) -> bool:
        """Check whether an answer of which nothing was shown can be continued, such as one that began to reason."""
        try:
            answer = self.provider.hooks.provider_parse_response(response=self.provider.get_response(reader))
        except ProviderError as error:
            answer = error.partial_response or ModelResponse()
        except AskError:
            return False
        return bool(answer.continuation_token)

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
        commentary = text.removesuffix(answer.final_text)
        changed = answer._replace(reasoning=reasoning, text=text, commentary="" if commentary == text else commentary)
        return result._replace(answer=changed, tagged_text=answer.text)

    def _check_end(self, reader: StreamReader, http_response: Response, has_deltas: bool) -> None:
        """Raise the error for a stream that ended without its end marker, unless the reader accepts the end."""
        if getattr(reader, "may_end", False):
            if has_deltas:
                self._on_notice(MISSING_END_NOTICE)
            return
        raise self._bodies.make_missing_end_error(http_response, has_deltas)

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
                    event_size += len(event.data)
            unmerged: list[Delta] = []
            try:
                self.provider.feed(reader, events, unmerged)
            finally:  # if the plugin fails, still show what it returned before
                for delta in merge_deltas(unmerged):
                    if isinstance(delta, TextDelta | ReasoningDelta) and not delta.text.isascii():
                        limit = MAX_NON_ASCII_CHARACTERS
                    yield delta
            reader_size: int | None = getattr(reader, "size", None)
            previous_size, size = size, event_size if reader_size is None else reader_size
            if size > limit and reader.complete:
                return
            if size > limit:
                raise NetworkError("the answer is implausibly long", "try again, or use another model")
            # Gateways send a finish reason with each chunk, or with the last of the reasoning.
            http_response.has_continued |= http_response.end_marker_seen and bool(unmerged)
            if size > previous_size or (reader.complete and not http_response.end_marker_seen):
                http_response.mark_progress()
            http_response.end_marker_seen = http_response.done_seen or reader.complete

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
            raise self._bodies.classify(error) from None
        has_content = not answer.decisions and bool(answer.text or answer.reasoning or calls or answer.attachments)
        if answer.attachments:
            from ask.attachments import identify_generated_files

            answer = answer._replace(attachments=identify_generated_files(answer.attachments[:MAX_GENERATED_IMAGES]))
        answer = answer._replace(
            text=repair_surrogates(answer.text),
            commentary=repair_surrogates(answer.commentary),
            reasoning=repair_surrogates(answer.reasoning),
            usage=correct_usage(
                answer.usage, request.options, has_content=has_content, is_cut_off=stream_error is not None
            ),
            provider_state=answer.provider_state and _set_author(answer.provider_state, request.model),
        )
        result = RequestResult(answer, tuple(calls), stream_error, response)
        result = self.separate_reasoning(request, result, is_stream=is_stream)
        answer = clean_answer(result.answer, answer.text)
        answer = answer if request.schema is None else move_json_from_reasoning(answer)
        result = result._replace(answer=answer)
        if stream_error is not None:
            answer = answer._replace(finish_reason=FinishReason.STREAM_INCOMPLETE)
            return result._replace(answer=answer, tool_calls=())
        if not (calls or answer.attachments or answer.text.strip()) and answer.finish_reason in (
            FinishReason.STOP,
            FinishReason.TOOL_CALLS,
        ):
            answer = answer._replace(finish_reason=FinishReason.EMPTY)
        if answer.finish_reason is FinishReason.ERROR:
            raise self._bodies.classify(ProviderError("the model stopped with an error"))
        reason = repair_surrogates(" ".join(answer.finish_message.split()))[:MAX_REASON_CHARACTERS]
        if answer.finish_reason in INCOMPLETE_MESSAGES:
            return result._replace(answer=answer, tool_calls=(), error=make_incomplete_error(answer, reason))
        if reason:
            self._notify_once(reason)
        return result._replace(answer=answer, tool_calls=tuple(map(repair_call, calls)))


def _set_author(state: ProviderState, model: str) -> ProviderState:
    """Return a state whose author is the requested model, unless the answer names a model that can be compared with it.

    A gateway may name a model with its vendor in requests and without it in answers, or the other way round.
    """
    families = {get_model_family(state.model), get_model_family(model)}
    is_comparable = state.model and (len(families) == 1 or "" not in families)
    return state if is_comparable else ProviderState(state.provider, model, state.data)
