"""LM Studio: the provider contract, recorded responses, and its own kinds of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import Message, ModelInfo, ModelResponse, ProviderState, ToolCall, ToolSpec, Usage
from providers.lmstudio import provider as lmstudio
from tests import wire
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.recorded_exchanges import send_request
from tests.recording_tests import RecordingTests
from tests.shared_reader_contract import SharedReaderContract

MODEL = "qwen/qwen3-4b-2507"
TALK = (Message("system", "Be kind."), Message("user", "hi"))
LIST = ToolSpec("list_dir", "Lists a folder.", {"type": "object", "properties": {"dirpath": {"type": "string"}}})
REQUEST = prepare_request(lmstudio, MODEL, TALK, [LIST])
OVERFLOW = "The number of tokens to keep from the initial prompt is greater than the context length"


class TestLMStudio(SharedReaderContract):
    provider = lmstudio


class TestRecordings(RecordingTests):
    provider = lmstudio


# Requests


@pytest.mark.parametrize("stream", [True, False])
def test_both_requests_of_a_round_match_openais_types(stream: bool) -> None:
    calls = (ToolCall("1", "list_dir", '{"dirpath": "."}'), ToolCall("2", "list_dir", '{"dirpath": '))
    message = Message(
        "assistant", "", calls, provider_state=ProviderState("deepseek", MODEL, {"reasoning_content": "Hm."})
    )
    results = [Message("tool", text, (), text[0], "list_dir") for text in ("1.txt", "2: Error: no valid JSON")]
    for messages in (TALK, [*TALK, message, *results]):
        request = prepare_request(lmstudio, MODEL, messages, [LIST], stream=stream, schema={"type": "object"})
        body = lmstudio.build_body(request)
        assert wire.read_by_openai(body) == body


def test_key_is_optional_but_sent_if_set() -> None:
    assert not lmstudio.info.needs_key
    assert lmstudio.provider_build_request(REQUEST, "").headers == {}
    assert lmstudio.provider_models_request("k").headers == {"Authorization": "Bearer k"}


# Answers


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_shown_but_not_sent_back(server: ModelServer, field: str) -> None:
    server.reply(wire.streams(wire.reasoning("Hm.", field), wire.text("Hello."), wire.finish(), wire.usage()))
    answer = send_request(lmstudio, server, REQUEST, [LIST]).result.answer
    assert (answer.reasoning, answer.text, answer.provider_state) == ("Hm.", "Hello.", None)


@pytest.mark.parametrize(
    "error", [{"error": {"message": OVERFLOW}}, {"error": OVERFLOW}, {"message": OVERFLOW}, OVERFLOW]
)
@pytest.mark.parametrize("before", ["", "Hel"])
def test_an_error_event_in_a_stream_is_an_error(server: ModelServer, error: Any, before: str) -> None:
    event = f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    server.reply(wire.streams(*([wire.text(before)] if before else []), event, done=False))
    exchange = send_request(lmstudio, server, REQUEST, [LIST])
    assert (exchange.outcome, exchange.streamed_text, exchange.result.answer.text) == ("error", before, before)
    assert getattr(exchange.result.error, "message", "") == OVERFLOW


@pytest.mark.parametrize("chunks", [[], [wire.finish()], [wire.chunk({"role": "assistant"}), wire.finish()]])
def test_empty_stream_is_explained(server: ModelServer, chunks: list[Any]) -> None:
    server.reply(wire.streams(*chunks, wire.sse(), done=False))
    exchange = send_request(lmstudio, server, REQUEST, [LIST])
    assert exchange.outcome == "empty"
    assert "--context-length" in lmstudio.provider_notice(REQUEST, exchange.result.answer)


def test_other_responses_cause_no_notice() -> None:
    assert lmstudio.provider_notice(REQUEST, ModelResponse("Hello.", usage=Usage(10, 5))) == ""
    assert lmstudio.provider_notice(REQUEST, ModelResponse(usage=Usage(10, 20))) == "", "it called a tool"
    assert lmstudio.provider_notice(REQUEST, ModelResponse()) == "", "it called one, and told no usage"


@pytest.mark.parametrize("reason", ["tool_calls", "stop"])
def test_call_without_text_is_not_empty(server: ModelServer, reason: str) -> None:
    call = wire.call(0, id="1", name="list_dir", arguments='{"dirpath": "."}')
    server.reply(wire.streams(call, wire.finish(reason)))
    exchange = send_request(lmstudio, server, REQUEST, [LIST])
    assert (exchange.outcome, exchange.notices, len(exchange.result.tool_calls)) == ("ok", [], 1)


@pytest.mark.parametrize(
    "error", ["No models loaded.", {"message": "No models loaded.", "type": "invalid_request_error", "param": "model"}]
)
def test_error_message_is_shown(server: ModelServer, error: Any) -> None:
    server.reply(Reply([json.dumps({"error": error}).encode()], 404))
    message = str(send_request(lmstudio, server, REQUEST, [LIST]).result.error)
    assert message.startswith("No models loaded")
    assert "(lmstudio, 404): load one with lms load MODEL" in message


# Models


def test_embedding_models_are_not_listed() -> None:
    listed = [{"id": "text-embedding-nomic-embed-text-v1.5", "object": "model"}, {"id": MODEL, "object": "model"}]
    for body in ({"object": "list", "data": listed}, listed):
        assert [model.id for model in lmstudio.provider_parse_models(body)] == [MODEL]


def test_loaded_models_come_first_if_known() -> None:
    listed: list[dict[str, Any]] = [
        {"id": "a", "type": "llm", "state": "not-loaded", "max_context_length": 4096},
        {"id": "b", "type": "embeddings", "state": "loaded"},
        {"id": "c", "type": "vlm", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 8192},
        {"id": "d", "type": "llm", "state": "not-loaded", "capabilities": ["tool_use"]},
    ]
    c, a, d = lmstudio.provider_parse_models({"data": listed})
    assert (c.id, c.context_length, c.tools) == ("c", 8192, None)
    assert (a.id, a.context_length) == ("a", 4096)
    assert (d.id, d.tools) == ("d", True)


V1_MODELS = [
    {"type": "llm", "key": "a", "loaded_instances": [], "max_context_length": 131_072},
    {"type": "embedding", "key": "e", "loaded_instances": [{"id": "e"}]},
    {
        "type": "llm",
        "key": "b/c",
        "display_name": "C",
        "loaded_instances": [{"id": "b/c:2", "config": {"context_length": 4096}}],
        "max_context_length": 262_144,
        "capabilities": {"vision": True, "trained_for_tool_use": True},
    },
]
"""The list at /api/v1, as in https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1659"""


def test_the_loaded_model_of_the_native_list_is_the_default(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.whole_reply({"models": V1_MODELS}), wire.says("Hello."))
    env = {"LMSTUDIO_BASE_URL": f"{server.base_url.removesuffix('/api/v1')}/v1"}
    assert ask("-p", "lmstudio", "hi", env=env).text == "Hello.\n"
    assert [request.path for request in server.requests] == ["/api/v1/models", "/v1/chat/completions"]
    assert server.requests[1].json["model"] == "b/c"
    loaded, other = lmstudio.provider_parse_models({"models": V1_MODELS})
    assert loaded == ModelInfo("b/c", "C", context_length=4096, tools=True)
    assert other == ModelInfo("a", context_length=131_072)


@pytest.mark.parametrize("reply", [Reply(status=404), wire.whole_reply({"error": "Unexpected endpoint or method."})])
def test_older_servers_have_only_openai_s_list(ask: Ask, server: ModelServer, reply: Reply) -> None:
    server.reply(reply, wire.whole_reply({"data": [{"id": "old"}]}))
    env = {"LMSTUDIO_BASE_URL": f"{server.base_url.removesuffix('/api/v1')}/v1"}
    assert ask("models", "-p", "lmstudio", env=env).text.startswith("old\t")
    assert [request.path for request in server.requests] == ["/api/v1/models", "/v1/models"]
