"""DeepSeek: the provider contract, recorded responses, and reasoning that must be sent back."""

from __future__ import annotations

from typing import Any

import pytest

from ask import ChatRequest, Message, ProviderError, ProviderState, ToolCall
from providers.deepseek import provider as deepseek
from tests import wire
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply
from tests.recorded_exchanges import QUESTION, ExchangeResult, send_request
from tests.recording_tests import RecordingTests
from tests.shared_reader_contract import SharedReaderContract

LIST = ("list_dir", {"dirpath": "."})


class TestDeepSeek(SharedReaderContract):
    provider = deepseek


class TestRecordings(RecordingTests):
    provider = deepseek


def ask(server: ModelServer, *replies: Reply, tries: int = 1) -> ExchangeResult:
    server.reply(*replies)
    return send_request(deepseek, server, ChatRequest(wire.MODEL, [QUESTION]), tries=tries)


def sent_back(exchange: ExchangeResult) -> dict[str, Any]:
    """Return a response as later requests contain it."""
    return deepseek.format_message(exchange.message, wire.MODEL)


# Reasoning


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("reasoning", ["I have to look.", ""])
def test_reasoning_is_sent_back_with_its_calls_even_if_empty(server: ModelServer, reasoning: str, whole: bool) -> None:
    whole_answer = wire.whole_reply(wire.answer(None, [LIST], reasoning_content=reasoning))
    streamed = wire.streams(wire.reasoning(reasoning, "reasoning_content"), *wire.stream(None, [LIST]))
    exchange = ask(server, whole_answer if whole else streamed)
    assert exchange.result.answer.provider_state is not None
    assert sent_back(exchange)["reasoning_content"] == reasoning
    assert exchange.result.answer.reasoning == reasoning


def test_reasoning_is_sent_back_with_the_text_after_calls(server: ModelServer) -> None:
    exchange = ask(server, wire.streams(wire.reasoning("Now I know.", "reasoning_content"), *wire.stream("Done.")))
    assert sent_back(exchange) == {"role": "assistant", "content": "Done.", "reasoning_content": "Now I know."}


@pytest.mark.parametrize("state", [None, ProviderState("anthropic", "claude", {"content": []})])
@pytest.mark.parametrize(("text", "calls"), [("", (ToolCall("1", "bash", "{}"),)), ("Hello.", ())])
def test_assistant_messages_without_reasoning_get_an_empty_one(
    text: str, calls: tuple[ToolCall, ...], state: ProviderState | None
) -> None:
    message = Message("assistant", text, calls, provider_state=state)
    assert deepseek.format_message(message, "deepseek-flash")["reasoning_content"] == ""


def test_repeated_call_ids_of_other_services_are_sent_once() -> None:
    """https://github.com/craft-ai-agents/craft-agents-oss/issues/630"""
    turn = Message("assistant", "", (ToolCall("functions.bash:0", "bash", "{}"),))
    results = [Message("tool", text, (), "functions.bash:0", "bash") for text in ("a", "b")]
    request = prepare_request(deepseek, "m", [QUESTION, turn, results[0], turn, results[1]], ())
    _, first, result, second, other = deepseek.build_body(request)["messages"]
    assert (first["tool_calls"][0]["id"], result["tool_call_id"]) == ("functions.bash:0",) * 2
    assert second["tool_calls"][0]["id"] == other["tool_call_id"] != "functions.bash:0"
    assert (result["content"], other["content"]) == ("a", "b")


def test_other_messages_have_no_reasoning() -> None:
    assert deepseek.format_message(QUESTION, "deepseek-flash").keys() == {"role", "content"}


# Failures


@pytest.mark.parametrize("whole", [True, False])
def test_service_without_resources_is_retried(server: ModelServer, whole: bool) -> None:
    reason = "insufficient_system_resource"
    failed = wire.whole_reply(wire.answer("", finish=reason)) if whole else wire.streams(wire.finish(reason))
    exchange = ask(server, failed, wire.says("Hello."), tries=2)
    assert (exchange.streamed_text, exchange.outcome, len(exchange.notices)) == ("Hello.", "ok", 1)


def test_text_before_the_service_ran_out_of_resources_is_kept(server: ModelServer) -> None:
    exchange = ask(server, wire.says("Hello, w", finish="insufficient_system_resource"), tries=2)
    assert (exchange.streamed_text, exchange.outcome, exchange.notices) == ("Hello, w", "error", [])
    assert exchange.result.answer.text == "Hello, w"
    assert "ran out of resources" in str(exchange.result.error)
    assert exchange.result.tool_calls == ()


def test_empty_account_has_a_top_up_hint(server: ModelServer) -> None:
    body = {"error": {"message": "Insufficient Balance", "type": "unknown_error", "param": None}}
    failure = ask(server, wire.whole_reply(body, 402), tries=4).result.error
    assert isinstance(failure, ProviderError)
    assert str(failure).startswith("Insufficient Balance (deepseek, 402): ")
    assert "https://platform.deepseek.com/top_up" in str(failure)
    assert len(server.requests) == 1


# Other


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_cache_hit_tokens": 768, "prompt_cache_miss_tokens": 32}, 768),
        ({"prompt_cache_hit_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}, 0),
        ({"prompt_tokens_details": {"cached_tokens": 5}}, 5),
        ({}, None),
    ],
)
def test_cached_tokens_are_the_hits(usage: dict[str, Any], cached: int | None) -> None:
    read = deepseek.parse_usage({"prompt_tokens": 800, "completion_tokens": 7} | usage)
    assert (read.input_tokens, read.output_tokens, read.cached_tokens) == (800, 7, cached)


def test_schema_requests_json_mode() -> None:
    """DeepSeek accepts no schema, and JSON mode only if a message mentions JSON, as the system prompt does."""
    body = deepseek.build_body(
        ChatRequest("deepseek-flash", [QUESTION], schema={"type": "object", "title": "An answer"})
    )
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_no_response_format_without_a_schema() -> None:
    assert deepseek.build_body(ChatRequest("deepseek-flash", [QUESTION], stream=False)) == {
        "model": "deepseek-flash",
        "messages": [{"role": "user", "content": "hi"}],
    }
