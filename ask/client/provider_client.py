"""Requests to one provider: hooks, retries, key rotation, streaming and redaction."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from ask.client.transport import Reply, Transport
from ask.errors import (
    AskError,
    IncompleteAnswer,
    Interrupted,
    NetworkError,
    ProviderError,
    Remedy,
    StreamCut,
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
from ask.text import PairJoiner, mend, one_line


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


class RedactedDeltas:
    """Shows the deltas of an answer without secrets, also those that two deltas share."""

    def __init__(self, redactor: Redactor, show: Callable[[Delta], None]) -> None:
        self._redact = redactor.redact
        self._show = show
        self._texts, self._thoughts = redactor.open_stream(), redactor.open_stream()

    def show(self, delta: Delta) -> None:
        """Show as much of a delta as is certain to be no part of a secret."""
        match delta:
            case TextDelta(text):
                self._show(TextDelta(self._texts.feed(text)))
            case ReasoningDelta(text):
                self._show(ReasoningDelta(self._thoughts.feed(text)))
            case CallDelta():
                self._show(CallDelta(delta.index, self._redact(delta.name)))

    def finish(self) -> None:
        """Show what was held back."""
        if text := self._thoughts.finish():
            self._show(ReasoningDelta(text))
        if text := self._texts.finish():
            self._show(TextDelta(text))


T = TypeVar("T")

ASK_AGAIN = "ask again"

OTHER_KEY_STATUSES = (401, 402, 429)
"""After these another key may work: it is not valid, or its account is used up."""

ANSWER_SIZE = 24_000_000
"""Limit for what a streamed answer holds, in characters: text, reasoning and the arguments of tool calls."""
WIDE_ANSWER_SIZE = 6_000_000
"""The same where not all of its text is ASCII: a single emoji makes Python take four bytes for each character."""

LONGEST_WAIT = 60.0
"""Seconds: a provider that asks for a longer pause gets none, and the user is told."""

LONGEST_STRAY = 200
"""Characters that are shown of what came in place of an answer."""

LONGEST_REASON = 300
"""Characters of a provider's own words on why an answer is not whole."""

INCOMPLETE = {
    Finish.LENGTH: ("the answer stopped at the token limit", "raise it with -o max_tokens=N"),
    Finish.FILTER: ("the model refused, or a content filter stopped the answer", ""),
    Finish.EMPTY: ("the model answered with nothing", "ask again, or try another model"),
}


class Turn(NamedTuple):
    """What one request came to.

    Attributes:
        answer: what the model said, as far as it got.
        calls: the tool calls in it; none unless the answer is whole.
        failure: why the answer is not whole; None where it is.
    """

    answer: Answer
    calls: tuple[ToolCall, ...] = ()
    failure: AskError | None = None


class Exchange:
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
        notice: Callable[[str], None],
        redactor: Redactor = NO_SECRETS,
    ) -> None:
        self.provider = provider
        self.redactor = redactor
        self._transport = transport
        self._keys = [part.strip() for part in key.split("|")]
        self._tries = tries
        self._backoff = backoff
        self._notice = notice

    def ask(self, request: ChatRequest, show: Callable[[Delta], None]) -> Turn:
        """Send a request; return its answer, or what came of it. `show` gets the text as it comes.

        A request is sent again only while nothing of its answer was shown.

        Secrets are replaced in the request and in the answer, except in the calls: their arguments are what tools
        run with.
        """
        shown = RedactedDeltas(self.redactor, show)
        turn = self._ask(redact_request(self.redactor, request), shown.show)
        try:
            shown.finish()
        except AskError as failure:
            turn = turn._replace(failure=turn.failure or failure)
        return turn._replace(answer=redact_answer(self.redactor, turn.answer))

    def _ask(self, request: ChatRequest, show: Callable[[Delta], None]) -> Turn:
        try:
            turn = self._persist(partial(self._attempt, request, show))
        except ProviderError as failure:
            from ask.client.error_classification import (
                blame_option,
                find_refused_tool,
                name_refused_tool,
                schema_is_refused,
            )

            self._named(failure)
            tool = find_refused_tool(failure, request.tools)
            if tool:
                name_refused_tool(failure, tool)
            elif request.schema is not None and schema_is_refused(failure):
                failure.remedy = Remedy.WITHOUT_SCHEMA
            said = failure.answer or Answer()
            self._show_whole(said, show)
            return Turn(
                said._replace(finish=Finish.ERROR), failure=failure if tool else blame_option(failure, request.options)
            )
        except AskError as failure:
            return Turn(Answer(finish=Finish.CUT), failure=failure)
        with self.provider.faults:
            notice = self.provider.hooks.provider_notice(request=request, answer=turn.answer)
        if notice:
            self._notice(notice)
        return turn

    def models(self) -> list[ModelInfo]:
        """The provider's models list; [] where it has none.

        Raises:
            AskError: it could not be had.
        """
        with self.provider.faults:
            request = self.provider.hooks.provider_models_request(key=self._keys[0])
        if request is None:
            return []
        body = self._persist(partial(self._fetch, request))
        with self.provider.faults:
            return self.provider.hooks.provider_parse_models(body=body)

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Run an attempt until it works, as often and after such pauses as its failures allow."""
        count = 1
        while True:
            try:
                return attempt()
            except AskError as failure:
                if self._take_next_key(failure):
                    self._notice(f"{failure.brief}; trying the next key")
                    continue
                seconds = self._pause(failure, count) if count < self._tries else None
                if seconds is None:
                    self._advise(failure)
                    raise
                self._notice(f"{failure.brief}; trying again in {seconds:.1f} s ({count} of {self._tries - 1})")
                time.sleep(seconds)
                count += 1

    def _advise(self, failure: AskError) -> None:
        """Give a failure to reach the provider its own advice, where it has any."""
        if isinstance(failure, NetworkError) and failure.offline:
            failure.advice = self.provider.info.offline_advice or failure.advice

    def _take_next_key(self, failure: AskError) -> bool:
        """Go on to the next key, where another one may help and there is one."""
        helps = isinstance(failure, ProviderError) and (
            failure.status in OTHER_KEY_STATUSES or failure.remedy is Remedy.NEXT_KEY
        )
        if helps and len(self._keys) > 1:
            del self._keys[0]
            return True
        return False

    def _pause(self, failure: AskError, count: int) -> float | None:
        """Seconds until the next try, or None where there should be none."""
        after = None
        if isinstance(failure, ProviderError):
            after = failure.remedy.after
            if failure.remedy.action != "retry":
                return None
        elif not isinstance(failure, NetworkError) or not failure.again:
            return None
        if after is not None and after > LONGEST_WAIT:
            failure.advice = f"it asks to wait {after:.0f} s"
            return None
        usual = self._backoff * 2.0 ** (count - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
        return max(after or 0.0, usual)

    def _fetch(self, request: HttpRequest) -> Any:
        with self._transport.send(request) as reply:
            body = reply.text()
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            raise self._error(reply, body) from None
        if reply.status != 200 or find_error(value) is not None:
            raise self._error(reply, body)
        return value

    def _attempt(self, request: ChatRequest, show: Callable[[Delta], None]) -> Turn:
        """Send the request once.

        Raises:
            AskError: it failed before anything of an answer was shown.
        """
        with self.provider.faults:
            http = self.provider.hooks.provider_build_request(request=request, key=self._keys[0])
        with self._transport.send(http, self.provider.info.framing) as reply:
            if reply.status != 200:
                raise self._error(reply, reply.text())
            if reply.is_stream() and (request.stream or self.provider.info.framing == "sse"):
                return self._read_stream(request, reply, show)
            turn = self._finish(request, self._parse_whole(reply), None)
        try:
            self._show_whole(turn.answer, show)
        except AskError as failure:
            return Turn(turn.answer, failure=failure)
        return turn

    def _read_stream(self, request: ChatRequest, reply: Reply, show: Callable[[Delta], None]) -> Turn:
        with self.provider.faults:
            reader = self.provider.hooks.provider_stream_reader()
        shown = False
        failure: AskError | None = None
        try:
            for delta in self._deltas(reader, reply):
                shown = True
                show(delta)
            if not reader.ended:
                if not shown and (stray := reply.stray()):
                    raise self._no_answer(reply, stray)
                message = "the answer was cut off in the middle" if shown else "the answer never came"
                raise StreamCut(message, ASK_AGAIN, again=True)
        except (KeyboardInterrupt, SystemExit) as ending:  # what was said is to be kept before the end
            failure = Interrupted.by(ending)
        except AskError as fault:
            if not shown:
                raise
            failure = StreamCut(fault.message, fault.advice) if isinstance(fault, NetworkError) else fault
        with self.provider.faults:
            response = reader.response()
        try:
            return self._finish(request, response, failure)
        except ProviderError as error:
            if not shown and failure is None:
                raise
            said = error.answer or Answer()
            failure = failure if isinstance(failure, Interrupted) else error
            return Turn(said._replace(finish=Finish.ERROR), failure=failure)

    def _deltas(self, reader: StreamReader, reply: Reply) -> Iterator[Delta]:
        """What there is to show of a stream, as it comes; of what came together, each kind in one piece."""
        joiners: Mapping[type, PairJoiner] = {TextDelta: PairJoiner(), ReasoningDelta: PairJoiner()}
        size, fed, limit = 0, 0, ANSWER_SIZE
        for events in reply.batches():
            seen: list[Delta] = []
            try:
                with self.provider.faults:
                    for event in events:
                        seen += reader.feed(event)
            finally:  # what came before a fault, too
                deltas = list(joined(seen, joiners))
                yield from deltas
            if any(not isinstance(delta, CallDelta) and not delta.text.isascii() for delta in deltas):
                limit = WIDE_ANSWER_SIZE
            fed += sum(len(event.data) for event in events)
            before, size = size, getattr(reader, "size", fed)
            if size > limit and reader.ended:
                return
            if size > limit:
                raise NetworkError("the answer is longer than any model's", "ask again, or use another model")
            if size > before or reader.ended:
                reply.mark_progress()
            reply.ending, reply.over = reader.ended, getattr(reader, "over", False)

    def _finish(self, request: ChatRequest, response: Mapping[str, Any], failure: AskError | None) -> Turn:
        """Read a response, whole or as far as it came."""
        try:
            with self.provider.faults:
                answer = self.provider.hooks.provider_parse_response(response=response)
                calls = self.provider.hooks.provider_parse_tool_calls(response=response)
                nonsense = (name for name, amount in answer.usage._asdict().items() if (amount or 0) < 0)
                usage = answer.usage._replace(**dict.fromkeys(nonsense))
        except ProviderError as error:
            raise self._named(error) from None
        answer = answer._replace(text=mend(answer.text), reasoning=mend(answer.reasoning), usage=usage)
        if answer.native and not answer.native.model:
            native = Native(answer.native.provider, request.model, answer.native.data)
            answer = answer._replace(native=native)
        if failure is not None:
            return Turn(answer._replace(finish=Finish.CUT), failure=failure)
        if not calls and not answer.text.strip() and answer.finish in (Finish.STOP, Finish.TOOL_CALLS):
            answer = answer._replace(finish=Finish.EMPTY)
        if answer.finish is Finish.ERROR:
            raise self._named(ProviderError("the model stopped with an error"))
        if answer.finish in INCOMPLETE:
            message, advice = INCOMPLETE[answer.finish]
            reason = mend(" ".join(answer.reason.split()))[:LONGEST_REASON]
            return Turn(answer, failure=IncompleteAnswer(f"{message} ({reason})" if reason else message, advice))
        return Turn(answer, tuple(call._replace(arguments=mend(call.arguments)) for call in calls))

    def _parse_whole(self, reply: Reply) -> Mapping[str, Any]:
        text = reply.text().strip()
        if text and not text.startswith(("{", "[")):
            raise self._no_answer(reply, text)
        try:
            response = json.loads(text)
        except (ValueError, RecursionError):
            raise StreamCut("the answer was cut off in the middle", ASK_AGAIN, again=True) from None
        if isinstance(response, list):
            response = self._gather(response)
        if not isinstance(response, dict):
            raise self._error(reply, text)
        return response

    def _gather(self, events: list[Any]) -> Any:
        """What a stream's events in one array say, as Gemini sends them where a proxy lost its `alt=sse`."""
        with self.provider.faults:
            reader = self.provider.hooks.provider_stream_reader()
            for event in events:
                reader.feed(ServerEvent(None, json.dumps(event)))
            return reader.response() if reader.ended else events

    def _show_whole(self, answer: Answer, show: Callable[[Delta], None]) -> None:
        if answer.reasoning:
            show(ReasoningDelta(answer.reasoning))
        if answer.text:
            show(TextDelta(answer.text))

    def _error(self, reply: Reply, body: str) -> ProviderError:
        """What the provider says in place of an answer."""
        if 300 <= reply.status < 400:
            place = reply.headers.get("Location", "another place")
            error = ProviderError(f"redirected to {place}", reply.status, advice="set the base URL to where it moved")
            return self._named(error)
        with self.provider.faults:
            hooks = self.provider.hooks
            return self._named(hooks.provider_parse_error(status=reply.status, headers=reply.headers, body=body))

    def _no_answer(self, reply: Reply, text: str) -> ProviderError:
        """The error for what answers in the provider's place, such as another program or a proxy's page."""
        if text.startswith("<"):
            error = self._error(reply, text)
        else:
            error = self._named(ProviderError(f"what came is no answer of its API: {one_line(text, LONGEST_STRAY)}"))
        error.advice = "check the base URL"
        return error

    def _named(self, error: ProviderError) -> ProviderError:
        """The error with its provider's name, and what its words tell."""
        from ask.client.error_classification import recognise

        error.provider = self.provider.info.name
        return recognise(error)


def joined(deltas: Iterable[Delta], joiners: Mapping[type, PairJoiner]) -> Iterator[Delta]:
    """The deltas, pieces of one text made one, as far as no character in it is torn."""
    for kind, pieces in groupby(deltas, type):
        if kind is CallDelta:
            yield from pieces
        else:
            text = "".join(piece.text for piece in pieces)  # type: ignore[union-attr]  # CallDelta is behind us
            yield kind(joiners[kind].feed(text))
