"""Answers that take several requests: each continues where the answer ended or broke off before.

Services limit what one request can return, and send a token with which another request continues the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ask.client.retries import choose_retry_delay
from ask.errors import AskError, IncompleteResponseError, IncompleteStreamError, ProviderError, RunInterruptedError
from ask.messages import Delta, FinishReason, ModelResponse, ReasoningDelta, ServerToolDelta, TextDelta, ToolCallDelta
from ask.plugin_api.types import ChatRequest

if TYPE_CHECKING:
    from ask.client.provider_client import ProviderClient, RequestResult

MAX_FAILURES = 3
"""How many requests in a row may bring no new token. Google's SDK gives up after as many."""
MAX_REQUESTS = 100
"""The limit for one answer. A million tokens, in pieces of 32,768, take 32 requests."""


class RepeatFilter:
    """Forwards deltas, except for text that repeats what was shown after the point where the answer continues.

    Args:
        on_delta: called with the others.
        shown: what was shown.
        kept: the beginning of it that the continuation does not repeat.
    """

    def __init__(self, on_delta: Callable[[Delta], None], shown: ModelResponse, kept: ModelResponse) -> None:
        self._on_delta = on_delta
        self._expected = {
            TextDelta: _find_rest(shown.text, kept.text),
            ReasoningDelta: _find_rest(shown.reasoning, kept.reasoning),
        }
        self._repeated = {TextDelta: "", ReasoningDelta: ""}

    def feed(self, delta: Delta) -> None:
        if isinstance(delta, ToolCallDelta | ServerToolDelta):
            self._on_delta(delta)
            return
        expected, text = self._expected[type(delta)], self._repeated[type(delta)] + delta.text
        if expected.startswith(text):
            self._repeated[type(delta)] = text
            return
        # Text that was written anew is shown from its beginning, after what it replaces.
        self._expected[type(delta)] = self._repeated[type(delta)] = ""
        if text := text.removeprefix(expected):
            self._on_delta(type(delta)(text))


def _find_rest(shown: str, kept: str) -> str:
    return shown[len(kept) :] if shown.startswith(kept) else ""


class AnswerContinuation:
    """Completes an answer with further requests.

    An answer that ended at the limit of a request is continued with a new token only, because the same one would bring
    the same again. A stream that broke off is continued from the last token, even if that is the one before.

    Args:
        client: sends the requests.
        request: the request for the first part.
        first: its result, which has a token.
        on_delta: called with the further deltas.
        on_notice: called with a line for the user when an answer that broke off is continued.
        backoff: the seconds before the second attempt, doubled for each further one.
    """

    def __init__(
        self,
        client: ProviderClient,
        request: ChatRequest,
        first: RequestResult,
        *,
        on_delta: Callable[[Delta], None],
        on_notice: Callable[[str], None],
        backoff: float,
    ) -> None:
        self._client = client
        self._request = request
        self._result = first
        self._on_delta = on_delta
        self._on_notice = on_notice
        self._backoff = backoff
        self._usages = [first.answer.usage]
        self._shown = first.answer
        self._failures = 0
        """How many requests in a row have brought no new token."""

    def run(self) -> RequestResult:
        """Return the complete answer, or as much of it as arrived, with the error."""
        try:
            while (token := self._result.answer.continuation_token) and self._wait():
                self._send(token)
        except (KeyboardInterrupt, SystemExit) as exc:
            self._stop(RunInterruptedError.from_exception(exc))
        return self._add_up_usage()

    def _wait(self) -> bool:
        """Wait as long as necessary before the next request; return whether there should be one."""
        error, failures = self._result.error, self._failures
        if failures == MAX_FAILURES or len(self._usages) == MAX_REQUESTS:
            return False
        if isinstance(error, IncompleteResponseError) or error is None:
            return failures == 0
        is_broken = isinstance(error, IncompleteStreamError) and not error.retryable
        if is_broken:
            delay = self._backoff * 2.0 ** (failures - 1) if failures else 0.0
        else:
            chosen = choose_retry_delay(error, failures + 1, self._backoff)
            if chosen is None:
                return False
            delay = chosen
        self._on_notice(f"{error.summary}; continuing the answer where it broke off")
        time.sleep(delay)
        self._client.use_next_server()
        return True

    def _send(self, token: str) -> None:
        client, request, result = self._client, self._request, self._result
        join = client.provider.hooks.provider_join_responses
        is_limit = isinstance(result.error, IncompleteResponseError) or result.error is None
        kept = result if is_limit else client.parse_parts(request, join(response=result.response, continuation={}))
        repeat_filter = RepeatFilter(self._on_delta, self._shown, kept.answer)
        self._failures += 1
        try:
            further_request = request._replace(continuation_token=token)
            part = client.retry(partial(client.send_once, further_request, repeat_filter.feed), tries=1)
        except AskError as error:
            self._stop(error)
            return
        self._usages.append(part.answer.usage)
        response = join(response=result.response, continuation=part.response)
        is_cut = part.answer.finish_reason is FinishReason.STREAM_INCOMPLETE
        self._result = client.parse_parts(request, response, part.error if is_cut else None)
        if self._result.answer.continuation_token != token:
            self._failures = 0
        elif self._result.error is None:
            self._stop(IncompleteStreamError("no answer arrived", "ask again"))
        answer = self._result.answer
        if len(answer.text) + len(answer.reasoning) >= len(self._shown.text) + len(self._shown.reasoning):
            self._shown = answer

    def _stop(self, error: AskError) -> None:
        """Keep what arrived before an error."""
        reason = FinishReason.ERROR if isinstance(error, ProviderError) else FinishReason.STREAM_INCOMPLETE
        answer = self._result.answer._replace(finish_reason=reason)
        self._result = self._result._replace(answer=answer, tool_calls=(), error=error)

    def _add_up_usage(self) -> RequestResult:
        """Return the result with the usage of each request.

        The input of the answer is that of the first request, which is the size of the conversation: each further one
        counts what was generated before.
        """
        total = sum(self._usages[1:], self._usages[0])
        first = self._usages[0]
        usage = total._replace(
            input_tokens=first.input_tokens,
            cached_tokens=first.cached_tokens,
            cache_write_tokens=first.cache_write_tokens,
            cache_write_1h_tokens=first.cache_write_1h_tokens,
        )
        answer = self._result.answer._replace(usage=usage)
        return self._result._replace(answer=answer, usages=tuple(self._usages))
