"""Recorded answers, read in this process through everything between a request and its turn, however they are cut.

Speaks no wire of its own: what a request body must look like is for each provider's tests to say.
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
from ask.plugin_api.loader import check_provider
from ask.plugin_api.provider import Delta
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.recordings import Recording

QUESTION = Message("user", "hi")


class Came(NamedTuple):
    """What came of a request: the turn, the text that was shown as it came, and the notices of further tries."""

    turn: RequestResult
    shown: str
    notices: list[str]

    @property
    def outcome(self) -> str:
        """What became of it, in the recordings' words."""
        return outcome(self.turn)

    @property
    def calls(self) -> tuple[tuple[str, Any], ...]:
        """Name and arguments of each call, as a recording has them."""
        return tuple((call.name, json.loads(call.arguments)) for call in self.turn.tool_calls)


def put(
    provider: Provider | ModuleType, server: ModelServer, request: ChatRequest, *, tries: int = 1, key: str = "key"
) -> Came:
    """Send a request through a provider's hooks, the exchange and the transport."""
    shown: list[Delta] = []
    notices: list[str] = []
    loaded = check_provider(provider, provider.provider_info().name, "ask-gents")
    transport = Transport(server.base_url, 10)
    exchange = ProviderClient(loaded, transport, key, tries=tries, backoff=0.001, on_notice=notices.append)
    turn = exchange.send(request, shown.append)
    return Came(turn, "".join(delta.text for delta in shown if isinstance(delta, TextDelta)), notices)


def put_recording(
    provider: Provider | ModuleType, server: ModelServer, recording: Recording, pieces: Sequence[bytes] = ()
) -> Came:
    """Ask a question that the recording answers, in such pieces; whole where there are none."""
    server.reply(served(recording, pieces))
    return put(provider, server, request_for(recording))


def put_results(provider: Provider | ModuleType, server: ModelServer, recording: Recording, came: Came) -> Any:
    """The body of the request that follows a recording with calls: with a result for each, `result_of` its call."""
    said = Message("assistant", came.turn.answer.text, came.turn.tool_calls, native=came.turn.answer.native)
    results = [Message("tool", result_of(call), (), call.id, call.name) for call in came.turn.tool_calls]
    server.reply(served(recording))
    put(provider, server, request_for(recording)._replace(messages=[QUESTION, said, *results]))
    return server.requests[-1].json


def result_of(call: ToolCall) -> str:
    """A text that nothing else in a request holds."""
    return f"the result of {call.name} {call.id}"


def request_for(recording: Recording) -> ChatRequest:
    """A question with the tools that the recording calls."""
    tools = [ToolSpec(name, "A tool", {"type": "object"}) for name in dict(recording.calls)]
    return ChatRequest(recording.model or wire.MODEL, [QUESTION], tools, stream=recording.streaming)


def served(recording: Recording, pieces: Sequence[bytes] = ()) -> Reply:
    return Reply(pieces or [recording.body], recording.status, recording.content_type)


def outcome(turn: RequestResult) -> str:
    """What became of a request, in the recordings' words."""
    match turn.error:
        case None:
            return "ok"
        case IncompleteResponseError():
            return turn.answer.finish
        case IncompleteStreamError():
            return "cut"
        case ProviderError():
            return "error"
        case failure:
            raise failure


# How the bytes come


def cuts(recording: Recording) -> dict[str, list[bytes]]:
    """The ways to cut a body, by name: single bytes, and where they apply, inside characters and as recorded."""
    body = recording.body
    ways = {"bytes": wire.chop(body)}
    if not body.isascii():
        ways["characters"] = inside_characters(body)
    if recording.piece_sizes:
        ways["as recorded"] = cut_at(body, list(accumulate(recording.piece_sizes))[:-1])
    return ways


def cut_at(body: bytes, places: Sequence[int]) -> list[bytes]:
    return [body[start:end] for start, end in pairwise([0, *places, len(body)])]


def inside_characters(body: bytes) -> list[bytes]:
    """The body cut at every place inside a character of more than one byte."""
    return cut_at(body, [place for place, byte in enumerate(body) if byte & 0xC0 == 0x80])
