"""Reads the requests that the model server received, and checks what must be true for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tests import wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY

Json = dict[str, Any]


def check_sent_requests(server: ModelServer) -> list[Json]:
    """Check all requests and return their bodies; each must extend the previous one."""
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
    """Check for one system prompt at the start, and results in order right after their calls."""
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


def list_roles(body: Json) -> list[str]:
    return [message["role"] for message in body["messages"]]


def read_tool_results(body: Json) -> list[str]:
    """Return the tool results at the end of a request."""
    from_end = itertools.takewhile(lambda message: message["role"] == "tool", reversed(body["messages"]))
    return [message["content"] for message in from_end][::-1]


def list_offered_tools(body: Json) -> list[str]:
    """Return the names of the tools in a request."""
    return [tool["function"]["name"] for tool in body.get("tools", [])]
