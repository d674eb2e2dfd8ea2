"""DeepSeek: the contract, its recorded answers, and its reasoning, which has to go back."""

from __future__ import annotations

from typing import Any

import pytest

from ask import ChatRequest, Message, Native, ProviderError, ToolCall
from ask.testing import ProviderContract
from providers.deepseek import provider as deepseek
from tests import wire
from tests.exchanges import QUESTION, Came, put
from tests.model_server import ModelServer, Reply
from tests.recording_tests import RecordingTests

LIST = ("list_dir", {"dirpath": "."})


class TestDeepSeek(ProviderContract):
    provider = deepseek


class TestRecordings(RecordingTests):
    provider = deepseek


def ask(server: ModelServer, *replies: Reply, tries: int = 1) -> Came:
    server.reply(*replies)
    return put(deepseek, server, ChatRequest(wire.MODEL, [QUESTION]), tries=tries)


def sent_back(came: Came) -> dict[str, Any]:
    """An answer, as the requests after it hold it."""
    said = Message("assistant", came.turn.answer.text, came.turn.tool_calls, native=came.turn.answer.native)
    return deepseek.format_message(said, wire.MODEL)


# Reasoning


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("reasoning", ["I have to look.", ""])
def test_reasoning_goes_back_with_its_calls_also_if_it_is_empty(
    server: ModelServer, reasoning: str, whole: bool
) -> None:
    whole_answer = wire.whole_reply(wire.answer(None, [LIST], reasoning_content=reasoning))
    streamed = wire.streams(wire.reasoning(reasoning, "reasoning_content"), *wire.stream(None, [LIST]))
    came = ask(server, whole_answer if whole else streamed)
    assert came.turn.answer.native is not None
    assert sent_back(came)["reasoning_content"] == reasoning
    assert came.turn.answer.reasoning == reasoning


def test_reasoning_goes_back_with_the_text_that_ends_a_turn_of_calls(server: ModelServer) -> None:
    came = ask(server, wire.streams(wire.reasoning("Now I know.", "reasoning_content"), *wire.stream("Done.")))
    assert sent_back(came) == {"role": "assistant", "content": "Done.", "reasoning_content": "Now I know."}


@pytest.mark.parametrize("native", [None, Native("anthropic", "claude", {"content": []})])
def test_calls_without_reasoning_of_its_own_get_an_empty_one(native: Native | None) -> None:
    said = Message("assistant", "", (ToolCall("1", "bash", "{}"),), native=native)
    assert deepseek.format_message(said, "deepseek-flash")["reasoning_content"] == ""


def test_text_without_reasoning_gets_none() -> None:
    assert deepseek.format_message(Message("assistant", "Hello."), "deepseek-flash") == {
        "role": "assistant",
        "content": "Hello.",
    }


# Failures


@pytest.mark.parametrize("whole", [True, False])
def test_service_that_runs_out_of_resources_is_asked_again(server: ModelServer, whole: bool) -> None:
    reason = "insufficient_system_resource"
    failed = wire.whole_reply(wire.answer("", finish=reason)) if whole else wire.streams(wire.finish(reason))
    came = ask(server, failed, wire.says("Hello."), tries=2)
    assert (came.shown, came.outcome, len(came.notices)) == ("Hello.", "ok", 1)


def test_service_that_runs_out_of_resources_behind_some_text_keeps_it(server: ModelServer) -> None:
    came = ask(server, wire.says("Hello, w", finish="insufficient_system_resource"), tries=2)
    assert (came.shown, came.outcome, came.notices) == ("Hello, w", "error", [])
    assert came.turn.answer.text == "Hello, w"
    assert "ran out of resources" in str(came.turn.error)
    assert came.turn.tool_calls == ()


def test_empty_account_says_where_to_pay(server: ModelServer) -> None:
    body = {"error": {"message": "Insufficient Balance", "type": "unknown_error", "param": None}}
    failure = ask(server, wire.whole_reply(body, 402), tries=4).turn.error
    assert isinstance(failure, ProviderError)
    assert str(failure).startswith("Insufficient Balance (deepseek, 402): ")
    assert "https://platform.deepseek.com/top_up" in str(failure)
    assert len(server.requests) == 1


# The rest


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


def test_schema_is_asked_for_as_json() -> None:
    """It takes no schema, and JSON only where a message speaks of it, as the system message does."""
    body = deepseek.body(ChatRequest("deepseek-flash", [QUESTION], schema={"type": "object", "title": "An answer"}))
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_nothing_is_told_of_a_schema_where_there_is_none() -> None:
    assert deepseek.body(ChatRequest("deepseek-flash", [QUESTION], stream=False)) == {
        "model": "deepseek-flash",
        "messages": [{"role": "user", "content": "hi"}],
    }
