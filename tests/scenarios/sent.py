"""What the model was sent, judged by what must hold for every request of every run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tests import wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY

Json = dict[str, Any]


def sent(server: ModelServer) -> list[Json]:
    """The bodies of all requests, each one whole in itself and going on from the one before it."""
    for request in server.requests:
        assert (request.method, request.path) == ("POST", "/api/v1/chat/completions")
        assert request.headers["Authorization"] == f"Bearer {TEST_KEY}"
        assert wire.read_by_openai(request.json) == request.json
    bodies = [request.json for request in server.requests]
    for body in bodies:
        check_messages(body["messages"])
    for earlier, later in itertools.pairwise(bodies):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
    return bodies


def check_messages(messages: Sequence[Json]) -> None:
    """The system prompt comes first and once; every call is answered at once, in order, under its id."""
    assert [m["role"] for m in messages].count("system") == 1
    assert messages[0]["role"] == "system"
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls
            open_calls = [call["id"] for call in message.get("tool_calls", [])]
            assert len({*open_calls}) == len(open_calls)
    assert not open_calls


def roles(body: Json) -> list[str]:
    return [message["role"] for message in body["messages"]]


def results(body: Json) -> list[str]:
    """The tool results at the end of a request."""
    from_end = itertools.takewhile(lambda message: message["role"] == "tool", reversed(body["messages"]))
    return [message["content"] for message in from_end][::-1]


def offered(body: Json) -> list[str]:
    """The names of the tools in a request."""
    return [tool["function"]["name"] for tool in body.get("tools", [])]
