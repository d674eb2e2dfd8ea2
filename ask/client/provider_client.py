"""Requests to one provider: hooks, retries, key rotation, streaming and redaction."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from ask.client.transport import HttpResponse, Transport
from ask.errors import (
    AskError,
    IncompleteResponseError,
    IncompleteStreamError,
    NetworkError,
    ProviderError,
    Remedy,
    RunInterruptedError,
)
from ask.messages import Answer, Finish, Message, Native, ToolCall, ToolSpec
from ask.plugin_api.chat_stream import find_error
from ask.plugin_api.loader import LoadedProvider
from ask.plugin_api.provider import (
    CallDelta,
    ChatRequest,
    Delta,
    HttpRequest,
    ModelInfo,
    ReasoningDelta,
    ServerEvent,
    StreamReader,
    TextDelta,
)
from ask.redaction import NO_SECRETS, Redactor
from ask.text import SurrogateJoiner, format_one_line, repair_surrogates


def redact_request(redactor: Redactor, request: ChatRequest) -> ChatRequest:
    """Replace the secrets in the messages and tools of a request."""
    tools = [
        ToolSpec(tool.name, redactor.redact(tool.description), redactor.redact_value(tool.parameters))
        for tool in request.tools
    ]
    return request._replace(messages=tuple(map(redactor.redact_message, request.messages)), tools=tools)


def redact_answer(redactor: Redactor, answer: Answer) -> Answer:
    """Replace the secrets in an answer."""
    message = redactor.redact_message(Message("assistant", answer.text, native=answer.native))
    return answer._replace(
        text=message.content,
        reasoning=redactor.redact(answer.reasoning),
        native=message.native,
        reason=redactor.redact(answer.reason),
    )


class DeltaRedactor:
    """Shows the deltas of an answer without secrets, also those that two deltas share."""

    def __init__(self, redactor: Redactor, on_delta: Callable[[Delta], None]) -> None:
        self._redact = redactor.redact
        self._on_delta = on_delta
        self._text_redactor, self._reasoning_redactor = redactor.open_stream(), redactor.open_stream()

    def feed(self, delta: Delta) -> None:
        """Show as much of a delta as is certain to be no part of a secret."""
        match delta:
            case TextDelta(text):
                self._on_delta(TextDelta(self._text_redactor.feed(text)))
            case ReasoningDelta(text):
                self._on_delta(ReasoningDelta(self._reasoning_redactor.feed(text)))
            case CallDelta():
                self._on_delta(CallDelta(delta.index, self._redact(delta.name)))

    def finish(self) -> None:
        """Show what was held back."""
        if text := self._reasoning_redactor.finish():
            self._on_delta(ReasoningDelta(text))
        if text := self._text_redactor.finish():
            self._on_delta(TextDelta(text))


T = TypeVar("T")

RETRY_HINT = "ask again"

NEXT_KEY_STATUSES = (401, 402, 429)
"""After these another key may work: it is not valid, or its account is used up."""

MAX_ANSWER_CHARACTERS = 24_000_000
"""Limit for what a streamed answer holds, in characters: text, reasoning and the arguments of tool calls."""
MAX_NON_ASCII_CHARACTERS = 6_000_000
"""The same where not all of its text is ASCII: a single emoji makes Python take four bytes for each character."""

MAX_RETRY_WAIT = 60.0
"""Seconds: a provider that asks for a longer pause gets none, and the user is told."""

MAX_EXCERPT_LENGTH = 200
"""Characters that are shown of what came in place of an answer."""

MAX_REASON_LENGTH = 300
"""Characters of a provider's own words on why an answer is not whole."""

INCOMPLETE_MESSAGES = {
    Finish.LENGTH: ("the answer stopped at the token limit", "raise it with -o max_tokens=N"),
    Finish.FILTER: ("the model refused, or a content filter stopped the answer", ""),
    Finish.EMPTY: ("the model answered with nothing", "ask again, or try another model"),
}


class RequestResult(NamedTuple):
    """What one request came to.

    Attributes:
        answer: what the model said, as far as it got.
        tool_calls: the tool calls in it; none unless the answer is whole.
        error: why the answer is not whole; None where it is.
    """

    answer: Answer
    tool_calls: tuple[ToolCall, ...] = ()
    error: AskError | None = None


class ProviderClient:
    """A provider under one base URL and key, ready to be asked.

    Args:
        provider: the loaded plugin.
        transport: where the requests go.
        key: the API key, "" for none; several with "|" between them are tried in turn.
        tries: how often a request is sent at most.
        backoff: seconds before the second try; doubled for each further one.
        notice: takes a line for the user whenever a request is sent again.
        redactor: replaces secrets in requests and answers.
    """

    def __init__(
        self,
        provider: LoadedProvider,
        transport: Transport,
        key: str,
        *,
        tries: int,
        backoff: float,
        on_notice: Callable[[str], None],
        redactor: Redactor = NO_SECRETS,
    ) -> None:
        self.provider = provider
        self.redactor = redactor
        self._transport = transport
        self._keys = [part.strip() for part in key.split("|")]
        self._tries = tries
        self._backoff = backoff
        self._on_notice = on_notice

    def send(self, request: ChatRequest, on_delta: Callable[[Delta], None]) -> RequestResult:
        """Send a request; return its answer, or what came of it. `show` gets the text as it comes.

        A request is sent again only while nothing of its answer was shown.

        Secrets are replaced in the request and in the answer, except in the calls: their arguments are what tools
        run with.
        """
        shown = DeltaRedactor(self.redactor, on_delta)
        turn = self._send(redact_request(self.redactor, request), shown.feed)
        try:
            shown.finish()
        except AskError as failure:
            turn = turn._replace(error=turn.error or failure)
        return turn._replace(answer=redact_answer(self.redactor, turn.answer))

    def _send(self, request: ChatRequest, on_delta: Callable[[Delta], None]) -> RequestResult:
        try:
            turn = self._retry(partial(self._send_once, request, on_delta))
        except ProviderError as failure:
            from ask.client.error_classification import (
                convert_to_parameter_error,
                find_rejected_tool,
                is_schema_rejected,
                set_rejected_tool_message,
            )

            self._classify_error(failure)
            tool = find_rejected_tool(failure, request.tools)
            if tool:
                set_rejected_tool_message(failure, tool)
            elif request.schema is not None and is_schema_rejected(failure):
                failure.remedy = Remedy.WITHOUT_SCHEMA
            said = failure.answer or Answer()
            self._emit_answer(said, on_delta)
            return RequestResult(
                said._replace(finish=Finish.ERROR),
                error=failure if tool else convert_to_parameter_error(failure, request.options),
            )
        except AskError as failure:
            return RequestResult(Answer(finish=Finish.CUT), error=failure)
        with self.provider.call_guard:
            notice = self.provider.hooks.provider_notice(request=request, answer=turn.answer)
        if notice:
            self._on_notice(notice)
        return turn

    def list_models(self) -> list[ModelInfo]:
        """The provider's models list; [] where it has none.

        Raises:
            AskError: it could not be had.
        """
        with self.provider.call_guard:
            request = self.provider.hooks.provider_models_request(key=self._keys[0])
        if request is None:
            return []
        body = self._retry(partial(self._fetch_json, request))
        with self.provider.call_guard:
            return self.provider.hooks.provider_parse_models(body=body)

    def _retry(self, attempt: Callable[[], T]) -> T:
        """Run an attempt until it works, as often and after such pauses as its failures allow."""
        count = 1
        while True:
            try:
                return attempt()
            except AskError as failure:
                if self._switch_key(failure):
                    self._on_notice(f"{failure.brief}; trying the next key")
                    continue
                seconds = self._choose_delay(failure, count) if count < self._tries else None
                if seconds is None:
                    self._add_offline_hint(failure)
                    raise
                self._on_notice(f"{failure.brief}; trying again in {seconds:.1f} s ({count} of {self._tries - 1})")
                time.sleep(seconds)
                count += 1

    def _add_offline_hint(self, error: AskError) -> None:
        """Give a failure to reach the provider its own advice, where it has any."""
        if isinstance(error, NetworkError) and error.offline:
            error.advice = self.provider.info.offline_advice or error.advice

    def _switch_key(self, error: AskError) -> bool:
        """Go on to the next key, where another one may help and there is one."""
        helps = isinstance(error, ProviderError) and (
            error.status in NEXT_KEY_STATUSES or error.remedy is Remedy.NEXT_KEY
        )
        if helps and len(self._keys) > 1:
            del self._keys[0]
            return True
        return False

    def _choose_delay(self, error: AskError, attempt_number: int) -> float | None:
        """Seconds until the next try, or None where there should be none."""
        after = None
        if isinstance(error, ProviderError):
            after = error.remedy.after
            if error.remedy.action != "retry":
                return None
        elif not isinstance(error, NetworkError) or not error.retryable:
            return None
        if after is not None and after > MAX_RETRY_WAIT:
            error.advice = f"it asks to wait {after:.0f} s"
            return None
        usual = self._backoff * 2.0 ** (attempt_number - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
        return max(after or 0.0, usual)

    def _fetch_json(self, request: HttpRequest) -> Any:
        with self._transport.send(request) as reply:
            body = reply.read_text()
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            raise self._parse_error(reply, body) from None
        if reply.status != 200 or find_error(value) is not None:
            raise self._parse_error(reply, body)
        return value

    def _send_once(self, request: ChatRequest, on_delta: Callable[[Delta], None]) -> RequestResult:
        """Send the request once.

        Raises:
            AskError: it failed before anything of an answer was shown.
        """
        with self.provider.call_guard:
            http = self.provider.hooks.provider_build_request(request=request, key=self._keys[0])
        with self._transport.send(http, self.provider.info.framing) as reply:
            if reply.status != 200:
                raise self._parse_error(reply, reply.read_text())
            if reply.is_stream() and (request.stream or self.provider.info.framing == "sse"):
                return self._read_stream(request, reply, on_delta)
            turn = self._build_result(request, self._parse_body(reply), None)
        try:
            self._emit_answer(turn.answer, on_delta)
        except AskError as failure:
            return RequestResult(turn.answer, error=failure)
        return turn

    def _read_stream(
        self, request: ChatRequest, http_response: HttpResponse, on_delta: Callable[[Delta], None]
    ) -> RequestResult:
        with self.provider.call_guard:
            reader = self.provider.hooks.provider_stream_reader()
        shown = False
        failure: AskError | None = None
        try:
            for delta in self._read_deltas(reader, http_response):
                shown = True
                on_delta(delta)
            if not reader.ended:
                if not shown and (stray := http_response.read_unexpected_text()):
                    raise self._make_unexpected_body_error(http_response, stray)
                message = "the answer was cut off in the middle" if shown else "the answer never came"
                raise IncompleteStreamError(message, RETRY_HINT, retryable=True)
        except (KeyboardInterrupt, SystemExit) as ending:  # what was said is to be kept before the end
            failure = RunInterruptedError.from_exception(ending)
        except AskError as fault:
            if not shown:
                raise
            failure = IncompleteStreamError(fault.message, fault.advice) if isinstance(fault, NetworkError) else fault
        with self.provider.call_guard:
            response = reader.response()
        try:
            return self._build_result(request, response, failure)
        except ProviderError as error:
            if not shown and failure is None:
                raise
            said = error.answer or Answer()
            failure = failure if isinstance(failure, RunInterruptedError) else error
            return RequestResult(said._replace(finish=Finish.ERROR), error=failure)

    def _read_deltas(self, reader: StreamReader, http_response: HttpResponse) -> Iterator[Delta]:
        """What there is to show of a stream, as it comes; of what came together, each kind in one piece."""
        joiners: Mapping[type, SurrogateJoiner] = {TextDelta: SurrogateJoiner(), ReasoningDelta: SurrogateJoiner()}
        size, fed, limit = 0, 0, MAX_ANSWER_CHARACTERS
        for events in http_response.iter_event_batches():
            seen: list[Delta] = []
            try:
                with self.provider.call_guard:
                    for event in events:
                        seen += reader.feed(event)
            finally:  # what came before a fault, too
                deltas = list(merge_deltas(seen, joiners))
                yield from deltas
            if any(not isinstance(delta, CallDelta) and not delta.text.isascii() for delta in deltas):
                limit = MAX_NON_ASCII_CHARACTERS
            fed += sum(len(event.data) for event in events)
            before, size = size, getattr(reader, "size", fed)
            if size > limit and reader.ended:
                return
            if size > limit:
                raise NetworkError("the answer is longer than any model's", "ask again, or use another model")
            if size > before or reader.ended:
                http_response.mark_progress()
            http_response.end_marker_seen, http_response.complete = reader.ended, getattr(reader, "over", False)

    def _build_result(
        self, request: ChatRequest, response: Mapping[str, Any], stream_error: AskError | None
    ) -> RequestResult:
        """Read a response, whole or as far as it came."""
        try:
            with self.provider.call_guard:
                answer = self.provider.hooks.provider_parse_response(response=response)
                calls = self.provider.hooks.provider_parse_tool_calls(response=response)
                nonsense = (name for name, amount in answer.usage._asdict().items() if (amount or 0) < 0)
                usage = answer.usage._replace(**dict.fromkeys(nonsense))
        except ProviderError as error:
            raise self._classify_error(error) from None
        answer = answer._replace(
            text=repair_surrogates(answer.text), reasoning=repair_surrogates(answer.reasoning), usage=usage
        )
        if answer.native and not answer.native.model:
            native = Native(answer.native.provider, request.model, answer.native.data)
            answer = answer._replace(native=native)
        if stream_error is not None:
            return RequestResult(answer._replace(finish=Finish.CUT), error=stream_error)
        if not calls and not answer.text.strip() and answer.finish in (Finish.STOP, Finish.TOOL_CALLS):
            answer = answer._replace(finish=Finish.EMPTY)
        if answer.finish is Finish.ERROR:
            raise self._classify_error(ProviderError("the model stopped with an error"))
        if answer.finish in INCOMPLETE_MESSAGES:
            message, advice = INCOMPLETE_MESSAGES[answer.finish]
            reason = repair_surrogates(" ".join(answer.reason.split()))[:MAX_REASON_LENGTH]
            return RequestResult(
                answer, error=IncompleteResponseError(f"{message} ({reason})" if reason else message, advice)
            )
        return RequestResult(
            answer, tuple(call._replace(arguments=repair_surrogates(call.arguments)) for call in calls)
        )

    def _parse_body(self, http_response: HttpResponse) -> Mapping[str, Any]:
        text = http_response.read_text().strip()
        if text and not text.startswith(("{", "[")):
            raise self._make_unexpected_body_error(http_response, text)
        try:
            response = json.loads(text)
        except (ValueError, RecursionError):
            raise IncompleteStreamError("the answer was cut off in the middle", RETRY_HINT, retryable=True) from None
        if isinstance(response, list):
            response = self._read_event_array(response)
        if not isinstance(response, dict):
            raise self._parse_error(http_response, text)
        return response

    def _read_event_array(self, events: list[Any]) -> Any:
        """What a stream's events in one array say, as Gemini sends them where a proxy lost its `alt=sse`."""
        with self.provider.call_guard:
            reader = self.provider.hooks.provider_stream_reader()
            for event in events:
                reader.feed(ServerEvent(None, json.dumps(event)))
            return reader.response() if reader.ended else events

    def _emit_answer(self, answer: Answer, on_delta: Callable[[Delta], None]) -> None:
        if answer.reasoning:
            on_delta(ReasoningDelta(answer.reasoning))
        if answer.text:
            on_delta(TextDelta(answer.text))

    def _parse_error(self, http_response: HttpResponse, body: str) -> ProviderError:
        """What the provider says in place of an answer."""
        if 300 <= http_response.status < 400:
            place = http_response.headers.get("Location", "another place")
            error = ProviderError(
                f"redirected to {place}", http_response.status, advice="set the base URL to where it moved"
            )
            return self._classify_error(error)
        with self.provider.call_guard:
            hooks = self.provider.hooks
            return self._classify_error(
                hooks.provider_parse_error(status=http_response.status, headers=http_response.headers, body=body)
            )

    def _make_unexpected_body_error(self, http_response: HttpResponse, text: str) -> ProviderError:
        """The error for what answers in the provider's place, such as another program or a proxy's page."""
        if text.startswith("<"):
            error = self._parse_error(http_response, text)
        else:
            error = self._classify_error(
                ProviderError(f"what came is no answer of its API: {format_one_line(text, MAX_EXCERPT_LENGTH)}")
            )
        error.advice = "check the base URL"
        return error

    def _classify_error(self, error: ProviderError) -> ProviderError:
        """The error with its provider's name, and what its words tell."""
        from ask.client.error_classification import classify_error

        error.provider = self.provider.info.name
        return classify_error(error)


def merge_deltas(deltas: Iterable[Delta], joiners: Mapping[type, SurrogateJoiner]) -> Iterator[Delta]:
    """The deltas, pieces of one text made one, as far as no character in it is torn."""
    for kind, pieces in groupby(deltas, type):
        if kind is CallDelta:
            yield from pieces
        else:
            text = "".join(piece.text for piece in pieces)  # type: ignore[union-attr]  # CallDelta is behind us
            yield kind(joiners[kind].feed(text))
