"""Replays recorded responses through the provider client and transport, in chunks of any size.

Independent of the wire format: the tests of each provider check the request bodies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from types import ModuleType
from typing import Any, NamedTuple

from ask import ChatRequest, Message, Provider, TextDelta, ToolCall, ToolSpec
from ask.client.provider_client import ProviderClient, RequestResult
from ask.client.transport import Transport
from ask.errors import IncompleteResponseError, IncompleteStreamError, ProviderError
from ask.messages import Delta
from ask.plugin_api.provider_loading import check_provider
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.recordings import Recording

QUESTION = Message("user", "hi")


class ExchangeResult(NamedTuple):
    """The result of a request, the text that was streamed, and the retry notices."""

    result: RequestResult
    streamed_text: str
    notices: list[str]

    @property
    def outcome(self) -> str:
        """Return the outcome in the terms of `Recording.outcome`."""
        return classify_outcome(self.result)

    @property
    def calls(self) -> tuple[tuple[str, Any], ...]:
        """Return name and parsed arguments of each call, as in `Recording.calls`."""
        return tuple((call.name, json.loads(call.arguments)) for call in self.result.tool_calls)

    @property
    def message(self) -> Message:
        """Return the answer as a message of later requests."""
        answer = self.result.answer
        return Message("assistant", answer.text, self.result.tool_calls, provider_state=answer.provider_state)


def send_request(
    provider: Provider | ModuleType,
    server: ModelServer,
    request: ChatRequest,
    tools: Sequence[ToolSpec] = (),
    *,
    tries: int = 1,
    key: str = "key",
) -> ExchangeResult:
    """Send a request with these tools through a provider's hooks, `ProviderClient` and the transport."""
    shown: list[Delta] = []
    notices: list[str] = []
    loaded = check_provider(provider, provider.provider_info().name, "ask-gents")
    transport = Transport(server.base_url, 10)
    exchange = ProviderClient(loaded, lambda: transport, key, tries=tries, backoff=0.001, on_notice=notices.append)
    turn = exchange.send(request, shown.append, tools)
    return ExchangeResult(turn, "".join(delta.text for delta in shown if isinstance(delta, TextDelta)), notices)


def replay_recording(
    provider: Provider | ModuleType, server: ModelServer, recording: Recording, pieces: Sequence[bytes] = ()
) -> ExchangeResult:
    """Send a prompt that is answered by the recording, in the given chunks or at once."""
    server.reply(make_reply(recording, pieces))
    return send_request(provider, server, make_request(recording), make_tools(recording))


def check_turn(came: ExchangeResult, recording: Recording) -> None:
    """Check a result against the recording; incomplete answers must have no calls to run."""
    calls = recording.calls if recording.outcome == "ok" else ()
    assert (came.result.answer.text, came.calls, came.outcome) == (recording.text, calls, recording.outcome)
    assert came.streamed_text == recording.text


def send_tool_results(
    provider: Provider | ModuleType, server: ModelServer, recording: Recording, came: ExchangeResult
) -> Any:
    """Send a result for each call of a recorded answer; return the body of that request."""
    results = [Message("tool", make_tool_result(call), (), call.id, call.name) for call in came.result.tool_calls]
    server.reply(make_reply(recording))
    request = make_request(recording)._replace(messages=[QUESTION, came.message, *results])
    send_request(provider, server, request, make_tools(recording))
    return server.requests[-1].json


def make_tool_result(call: ToolCall) -> str:
    """Return a text that occurs nowhere else in a request."""
    return f"the result of {call.name} {call.id}"


def make_request(recording: Recording) -> ChatRequest:
    return ChatRequest(recording.model or wire.MODEL, [QUESTION], stream=recording.streaming)


def make_tools(recording: Recording) -> list[ToolSpec]:
    """Create the tools called in a recording."""
    return [ToolSpec(name, "A tool", {"type": "object"}) for name in dict(recording.calls)]


def make_reply(recording: Recording, pieces: Sequence[bytes] = ()) -> Reply:
    responses_api = recording.wire == "openai-responses"
    return Reply(pieces or [recording.body], recording.status, recording.content_type, responses_api=responses_api)


def classify_outcome(turn: RequestResult) -> str:
    """Return the outcome in the terms of `Recording.outcome`."""
    match turn.error:
        case None:
            return "ok"
        case IncompleteResponseError():
            return turn.answer.finish_reason
        case IncompleteStreamError():
            return "cut"
        case ProviderError():
            return "error"
        case failure:
            raise failure


# Chunking


def list_chunkings(recording: Recording) -> dict[str, list[bytes]]:
    """Return the body as single bytes, split inside characters, and split as recorded, where applicable."""
    body = recording.body
    ways = {"bytes": wire.chop(body)}
    if not body.isascii():
        ways["characters"] = split_inside_characters(body)
    if recording.piece_sizes:
        ways["as recorded"] = split_at(body, list(accumulate(recording.piece_sizes))[:-1])
    return ways


def split_at(body: bytes, places: Sequence[int]) -> list[bytes]:
    return [body[start:end] for start, end in pairwise([0, *places, len(body)])]


def split_inside_characters(body: bytes) -> list[bytes]:
    """Split the body inside every multibyte character."""
    return split_at(body, [place for place, byte in enumerate(body) if byte & 0xC0 == 0x80])
