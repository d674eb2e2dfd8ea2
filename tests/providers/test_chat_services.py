"""All Chat Completions services: a tool round matches OpenAI's types, and no response breaks the reader."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import AskError, ChatCompletions, Message, ProviderState, RawEvent, ToolCall, ToolSpec
from providers.deepseek import provider as deepseek
from providers.moonshot import provider as moonshot
from providers.openai import provider as openai
from providers.xai import provider as xai
from tests import wire
from tests.host_requests import prepare_request
from tests.json_strategies import replace_any_part
from tests.recording_tests import check_types

SERVICES: dict[str, ChatCompletions] = {one.info.name: one for one in (openai.chat, deepseek, moonshot, xai.chat)}
NEED_REASONING = {"deepseek", "moonshot"}
TOOLS = (
    ToolSpec("list_dir", "List a folder", {"type": "object", "properties": {"dirpath": {"type": "string"}}}),
    ToolSpec("clock", "Tell the time", {"type": "object", "properties": {}}),
)
CALLS = (ToolCall("functions.list_dir:0", "list_dir", '{"dirpath": "."}'), ToolCall("call_2", "clock", '{"oops'))


def build(name: str, *messages: Message, model: str = "", **fields: Any) -> dict[str, Any]:
    """Build the request body for a conversation that starts with a question."""
    asked = (Message("system", "Be kind."), Message("user", "Which files, and when?"))
    service = SERVICES[name]
    return service.build_body(
        prepare_request(service, model or service.info.default_model, (*asked, *messages), **fields)
    )


def tool_round(state: ProviderState | None = None, text: str = "") -> tuple[Message, ...]:
    """Build two parallel calls, one with invalid arguments, and their results."""
    message = Message("assistant", text, CALLS, provider_state=state)
    return (
        message,
        Message("tool", "a.txt", (), CALLS[0].id, "list_dir"),
        Message("tool", "error", (), "call_2", "clock"),
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", SERVICES)
def test_first_and_second_request_of_a_round_match_openais_types(name: str, stream: bool) -> None:
    check_types(build(name, tools=TOOLS, stream=stream))
    body = build(name, *tool_round(), tools=TOOLS, stream=stream, options={"max_tokens": 100, "seed": 5})
    check_types(body)
    message, *results = body["messages"][2:]
    assert [call["id"] for call in message["tool_calls"]] == ["functions.list_dir:0", "call_2"]
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"dirpath": "."}', "{}"]
    assert [result["content"] for result in results] == ["a.txt", "error"]
    assert body["seed"] == 5


@given(
    st.sampled_from(list(SERVICES.values())), replace_any_part(wire.answer("<think>Hm.</think>Yes", [("clock", {})]))
)
def test_any_response_is_read_or_is_an_error(service: ChatCompletions, response: Any) -> None:
    response = response if isinstance(response, dict) else {"choices": response}
    before = json.dumps(response)
    service.provider_parse_tool_calls(response)
    with suppress(AskError):
        service.provider_parse_response(response)
    assert json.dumps(response) == before


CHUNKS = [*wire.stream("◁think▷Hm.◁/think▷Yes", [("clock", {})]), wire.error()]


@given(st.sampled_from(list(SERVICES.values())), st.lists(st.one_of(*map(replace_any_part, CHUNKS)), max_size=6))
def test_any_stream_is_read_or_is_an_error(service: ChatCompletions, chunks: list[Any]) -> None:
    reader = service.provider_stream_reader()
    for chunk in chunks:
        reader.feed(RawEvent(None, json.dumps(chunk)))
    with suppress(AskError):
        service.provider_parse_response(reader.response())


@pytest.mark.parametrize("name", SERVICES)
def test_schema_matches_openais_types(name: str) -> None:
    check_types(build(name, schema={"type": "object", "properties": {"n": {"type": "integer"}}}))


@pytest.mark.parametrize(("first", "second"), list(permutations(SERVICES, 2)))
def test_reasoning_is_not_sent_to_another_service(first: str, second: str) -> None:
    theirs = ProviderState(first, SERVICES[first].info.default_model, {"reasoning_content": "what I thought"})
    body = build(
        second, *tool_round(theirs, "Let me see."), Message("assistant", "One.", provider_state=theirs), tools=TOOLS
    )
    check_types(body)
    assert "what I thought" not in str(body)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert ("reasoning_content" in body["messages"][2]) == (second in NEED_REASONING)
