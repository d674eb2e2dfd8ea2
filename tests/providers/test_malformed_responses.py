"""Malformed Chat Completions responses: the result is always an answer or an `AskError`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import AskError, ChatCompletions, ModelResponse, RawEvent, ToolCall
from tests import wire
from tests.json_strategies import any_json, replace_any_part

CHAT = ChatCompletions(name="test", base_url="http://test/v1")


@given(
    st.one_of(
        any_json(), replace_any_part(wire.answer("text", [("bash", {})], reasoning="r")), replace_any_part(wire.error())
    )
)
def test_any_response_is_read_or_is_an_error(response: Any) -> None:
    if not isinstance(response, dict):
        response = {"choices": response}
    before = json.dumps(response)
    for call in CHAT.provider_parse_tool_calls(response):
        assert isinstance(call, ToolCall)
        assert call.id
    try:
        answer = CHAT.provider_parse_response(response)
    except AskError as error:
        assert str(error)
    else:
        assert isinstance(answer, ModelResponse)
    assert json.dumps(response) == before


@given(st.lists(st.one_of(any_json(), *map(replace_any_part, wire.stream("two words", [("bash", {})]))), max_size=6))
def test_any_stream_is_read_or_is_an_error(chunks: list[Any]) -> None:
    reader = CHAT.provider_stream_reader()
    for chunk in chunks:
        reader.feed(RawEvent(None, json.dumps(chunk)))
        json.dumps(reader.response())
    CHAT.provider_parse_tool_calls(reader.response())
    try:
        CHAT.provider_parse_response(reader.response())
    except AskError as error:
        assert error.message


@given(st.sampled_from([None, "", "error", "message"]), st.text())
def test_any_event_text_is_read(kind: str | None, data: str) -> None:
    CHAT.provider_stream_reader().feed(RawEvent(kind, data))


@given(
    st.integers(200, 599),
    st.one_of(st.text(), any_json().map(json.dumps), replace_any_part(wire.error()).map(json.dumps)),
)
def test_any_http_error_text_is_one_line(status: int, body: str) -> None:
    error = CHAT.provider_parse_error(status, {}, body)
    assert error.message
    assert "\n" not in error.message


@given(st.binary())
def test_any_http_error_bytes_are_one_line(body: bytes) -> None:
    assert "\n" not in CHAT.provider_parse_error(500, {}, body.decode(errors="replace")).message


@given(any_json())
def test_any_models_list_is_read(body: Any) -> None:
    assert all(model.id for model in CHAT.provider_parse_models(body))


@pytest.mark.parametrize("depth", [100, 400, 900])
@pytest.mark.parametrize(
    "nest",
    [
        lambda depth: "[" * depth + "]" * depth,
        lambda depth: '{"error":' * depth + "1" + "}" * depth,
        lambda depth: (
            '{"choices":[{"delta":{"content":' + '[{"text":' * (depth // 2) + '""' + "}]" * (depth // 2) + "}}]}"
        ),
        lambda depth: '{"error":{"metadata":{"raw":' + '{"error":' * depth + "1" + "}" * depth + "}}}",
    ],
    ids=["arrays", "errors", "parts", "raw"],
)
def test_deep_nesting_is_read_or_is_an_error(nest: Any, depth: int) -> None:
    reader = CHAT.provider_stream_reader()
    reader.feed(RawEvent(None, nest(depth)))
    try:
        CHAT.provider_parse_response(reader.response())
    except AskError as error:
        assert error.message
    assert CHAT.provider_parse_error(500, {}, nest(depth)).message
