"""Ollama: the provider contract, recorded responses, and what is special in its API."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from ask import ChatCompletions, ChatRequest, FinishReason, Message, RawEvent, RetryAction, ToolSpec, Usage
from ask.testing import ProviderContract
from providers.ollama import provider as ollama
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.providers.test_ollama_requests import read_by_ollama, without_newer
from tests.recorded_exchanges import (
    check_turn,
    list_chunkings,
    make_tool_result,
    replay_recording,
    send_request,
    send_tool_results,
)
from tests.recordings import Recording, recordings

MODEL = "qwen3:4b"
TALK = (Message("system", "Be kind."), Message("user", "hi"))
LIST = ToolSpec("list_dir", "Lists a folder.", {"type": "object", "properties": {"dirpath": {"type": "string"}}})


# What it sends


def line(**fields: Any) -> dict[str, Any]:
    """Build one line of a stream; a `message` gets the assistant's role."""
    if "message" in fields:
        fields["message"] = {"role": "assistant", "content": ""} | fields["message"]
    return {"model": MODEL, "created_at": "2026-08-04T19:59:02Z", "done": False} | fields


def text_line(text: str) -> dict[str, Any]:
    return line(message={"content": text})


def thinking_line(text: str) -> dict[str, Any]:
    return line(message={"thinking": text})


def call_line(name: str, arguments: Any, **call: Any) -> dict[str, Any]:
    return line(message={"tool_calls": [{"function": {"name": name, "arguments": arguments}} | call]})


def done(reason: str = "stop", **fields: Any) -> dict[str, Any]:
    counts = {"prompt_eval_count": 12, "prompt_eval_cached_count": 4, "eval_count": 7}
    return line(message={}, done=True, done_reason=reason) | counts | fields


def ndjson(*lines: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def streams(*lines: Any) -> Reply:
    return Reply([ndjson(one) for one in lines], content_type="application/x-ndjson")


def events(*lines: Any) -> list[RawEvent]:
    return [RawEvent(None, json.dumps(one)) for one in lines]


def whole(reason: str = "stop", **message: Any) -> dict[str, Any]:
    return done(reason) | {"message": {"role": "assistant", "content": ""} | message}


HELLO = (text_line("Hello, "), text_line("wörld!"))
ADD = call_line("add", {"a": 2, "b": 3}, id="call_1")
ADD_MORE = call_line("add", {"a": 4, "b": 5}, id="call_2")
OVERLOADED = {"error": "the runner is overloaded"}


class TestOllama(ProviderContract):
    provider = ollama
    unsupported = ("filter",)
    samples: ClassVar = {
        "text": events(*HELLO, done()),
        "reasoning": events(thinking_line("Let me "), thinking_line("think."), *HELLO, done()),
        "call": events(ADD, done()),
        "parallel": events(ADD, ADD_MORE, done()),
        "text_and_call": events(*HELLO, ADD, done()),
        "reasoning_and_call": events(thinking_line("Let me "), thinking_line("think."), ADD, done()),
        "length": events(text_line("Hello, w"), done("length")),
        "error": events(text_line("Hello, w"), OVERLOADED),
        "cut": events(text_line("Hello, w")),
    }
    unstreamed_samples: ClassVar = {
        "text": whole(content="Hello, wörld!"),
        "reasoning": whole(content="Hello, wörld!", thinking="Let me think."),
        "call": whole(tool_calls=ADD["message"]["tool_calls"]),
        "parallel": whole(tool_calls=ADD["message"]["tool_calls"] + ADD_MORE["message"]["tool_calls"]),
        "text_and_call": whole(content="Hello, wörld!", tool_calls=ADD["message"]["tool_calls"]),
        "reasoning_and_call": whole(thinking="Let me think.", tool_calls=ADD["message"]["tool_calls"]),
        "length": whole("length", content="Hello, w"),
        "error": OVERLOADED,
    }


# Recorded answers

RECORDED = recordings("ollama", "ollama")
COMPATIBLE = recordings("ollama", "openai-chat")
CHAT_COMPLETIONS = ChatCompletions(name="ollama-v1", base_url="http://localhost:11434/v1", needs_key=False)


def check_recording(provider: Any, server: ModelServer, recording: Recording, way: str = "") -> Any:
    exchange = replay_recording(provider, server, recording, list_chunkings(recording)[way] if way else ())
    check_turn(exchange, recording)
    return exchange


@pytest.mark.parametrize("recording", RECORDED, ids=str)
def test_recorded_response_is_read_and_its_calls_are_answered(server: ModelServer, recording: Recording) -> None:
    exchange = check_recording(ollama, server, recording)
    if not exchange.result.tool_calls:
        return
    body = send_tool_results(ollama, server, recording, exchange)
    _, assistant, *results = body["messages"]
    assert tuple((call["function"]["name"], call["function"]["arguments"]) for call in assistant["tool_calls"]) == (
        recording.calls
    )
    assert assistant["content"] == recording.text
    thinking = "" if exchange.result.tagged_text else exchange.result.answer.reasoning
    assert assistant.get("thinking", "") == thinking
    assert [(one["role"], one["tool_name"], one["content"]) for one in results] == [
        ("tool", call.name, make_tool_result(call)) for call in exchange.result.tool_calls
    ]
    assert [one["tool_call_id"] for one in results] == [call["id"] for call in assistant["tool_calls"]]
    assert read_by_ollama(body) == without_newer(body)


@pytest.mark.parametrize(
    ("recording", "way"), [(one, way) for one in (*RECORDED, *COMPATIBLE) for way in list_chunkings(one)], ids=str
)
def test_recorded_response_is_read_alike_in_any_chunks(server: ModelServer, recording: Recording, way: str) -> None:
    check_recording(ollama if recording.wire == "ollama" else CHAT_COMPLETIONS, server, recording, way)


@pytest.mark.parametrize("recording", COMPATIBLE, ids=str)
def test_its_compatible_endpoint_is_plain_chat_completions(server: ModelServer, recording: Recording) -> None:
    exchange = check_recording(CHAT_COMPLETIONS, server, recording)
    if exchange.result.tool_calls:
        body = send_tool_results(CHAT_COMPLETIONS, server, recording, exchange)
        assert [one["content"] for one in body["messages"][2:]] == [
            make_tool_result(call) for call in exchange.result.tool_calls
        ]
        assert wire.read_by_openai(body) == body


# Answers


def test_calls_without_ids_get_unique_ones(server: ModelServer) -> None:
    server.reply(
        streams(call_line("list_dir", {}), call_line("list_dir", None), call_line("list_dir", {}, id=""), done())
    )
    calls = send_request(ollama, server, ChatRequest(MODEL, TALK), [LIST]).result.tool_calls
    assert [call.arguments for call in calls] == ["{}"] * 3
    assert len({call.id for call in calls}) == 3
    assert all(call.id for call in calls)


def test_calls_with_the_same_id_stay_separate(server: ModelServer) -> None:
    server.reply(streams(call_line("list_dir", {"dirpath": "é"}, id="1"), call_line("list_dir", "{}", id="1"), done()))
    first, second = send_request(ollama, server, ChatRequest(MODEL, TALK), [LIST]).result.tool_calls
    assert (first.id, first.arguments, second.arguments) == ("1", '{"dirpath": "é"}', "{}")
    assert second.id not in ("", "1")


def test_usage_includes_cached_tokens(server: ModelServer) -> None:
    server.reply(streams(text_line("Hello."), done()))
    assert send_request(ollama, server, ChatRequest(MODEL, TALK)).result.answer.usage == Usage(12, 7, 4)


@pytest.mark.parametrize("reason", ["load", "unload", "stop"])
def test_empty_response_is_an_empty_answer(server: ModelServer, reason: str) -> None:
    server.reply(streams(done(reason)))
    assert send_request(ollama, server, ChatRequest(MODEL, TALK)).outcome == "empty"


def test_stream_without_done_is_incomplete(server: ModelServer) -> None:
    server.reply(Reply([ndjson(text_line("Hel")), b'{"message": {"content": "lo'], content_type="application/x-ndjson"))
    exchange = send_request(ollama, server, ChatRequest(MODEL, TALK))
    assert (exchange.outcome, exchange.streamed_text) == ("cut", "Hel")


@pytest.mark.parametrize(("fields", "status"), [({}, None), ({"status": 503}, 503), ({"status": "x"}, None)])
def test_error_in_a_stream_keeps_the_text(server: ModelServer, fields: Any, status: int | None) -> None:
    server.reply(streams(text_line("Hel"), call_line("list_dir", {}), OVERLOADED | fields))
    result = send_request(ollama, server, ChatRequest(MODEL, TALK), [LIST]).result
    assert (result.answer.text, result.tool_calls) == ("Hel", ())
    assert getattr(result.error, "message", "") == "the runner is overloaded"
    assert getattr(result.error, "status", 0) == status


def test_usage_after_the_reason_for_the_end_is_read(server: ModelServer) -> None:
    end = text_line("") | {"done_reason": "length"}
    usage = text_line("") | {"done": True, "prompt_eval_count": 9_999, "eval_count": 3}
    server.reply(streams(text_line("Hel"), end, {"error": "late"}, usage))
    answer = send_request(ollama, server, ChatRequest(MODEL, TALK)).result.answer
    assert (answer.text, answer.finish_reason, answer.usage.output_tokens) == ("Hel", FinishReason.LENGTH, 3)


def test_another_server_is_reported(server: ModelServer) -> None:
    server.reply(Reply([b"<!doctype html>\n<p>It works!\n"], content_type="text/html"))
    for stream in (True, False):
        failure = send_request(ollama, server, ChatRequest(MODEL, TALK, stream=stream)).result.error
        assert "It works!" in str(failure)
        assert "check the base URL" in str(failure)


# Errors


@pytest.mark.parametrize(
    ("status", "message", "retry_action", "hint"),
    [
        (404, 'model "qwen9:4b" not found, try pulling it first', RetryAction.NONE, "ollama pull qwen9:4b"),
        (404, "model 'qwen9' not found", RetryAction.NONE, "ollama pull qwen9 "),
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools", RetryAction.WITHOUT_TOOLS, "--no-tools"),
        (400, '"llama3.1:8b" does not support thinking', RetryAction.NONE, "leave out think"),
        (500, "model requires more system memory (9 GiB) than is available (3 GiB)", RetryAction.NONE, "-o num_ctx=N"),
        (500, "llama runner process has terminated: exit status 2", RetryAction.retry(), ""),
        (503, "server busy, please try again.  maximum pending requests exceeded", RetryAction.retry(), ""),
        (401, "unauthorized", RetryAction.NONE, "ollama signin"),
        # https://github.com/NousResearch/hermes-agent/pull/68832
        (429, "you (me) have reached your weekly usage limit, upgrade for higher limits", RetryAction.NEXT_KEY, "key"),
        (429, "you've reached your hourly usage limit, please wait or upgrade", RetryAction.NEXT_KEY, "key"),
    ],
)
def test_errors_have_hints(status: int, message: str, retry_action: RetryAction, hint: str) -> None:
    body = json.dumps({"error": message, "signin_url": "https://ollama.com/connect?name=x"})
    error = ollama.provider_parse_error(status, {}, body)
    assert (error.message, error.status, error.retry_action) == (" ".join(message.split()), status, retry_action)
    assert hint in error.hint


@pytest.mark.parametrize(("option", "value"), [("think", True), ("reasoning_effort", "low")])
@pytest.mark.parametrize(
    "message", ['"llama3.1:8b" does not support thinking', 'think value "low" is not supported for this model']
)
def test_refused_think_names_the_option(server: ModelServer, message: str, option: str, value: object) -> None:
    server.reply(wire.whole_reply({"error": message}, 400))
    failure = send_request(ollama, server, ChatRequest(MODEL, TALK, options={option: value})).result.error
    assert getattr(failure, "exit_code", 0) == 7
    assert option in getattr(failure, "hint", "")


# Models


def test_installed_chat_models_are_listed() -> None:
    details = {"family": "qwen3", "parameter_size": "4.0B", "quantization_level": "Q4_K_M", "context_length": 262144}
    listed = [
        {"name": "embeddinggemma:latest", "capabilities": ["embedding"], "details": {"family": "gemma3"}},
        {"name": MODEL, "model": MODEL, "details": details, "capabilities": ["completion", "tools", "thinking"]},
        {"name": "gemma3:1b", "details": {"family": "gemma3"}, "capabilities": ["completion", "vision"]},
        {"name": "nomic-embed-text:latest", "details": {"family": "nomic-bert"}},
        {"name": "all-minilm:latest", "details": {"family": "bert"}},
        {"name": "llama3.2:latest", "details": {"family": "llama"}},
    ]
    request = ollama.provider_models_request("")
    assert (request.method, request.path) == ("GET", "/api/tags")
    qwen, gemma, llama = ollama.provider_parse_models({"models": listed})
    assert (qwen.id, qwen.title, qwen.context_length, qwen.tools) == (MODEL, "4.0B Q4_K_M", 262144, True)
    assert (gemma.id, gemma.tools) == ("gemma3:1b", False)
    assert (llama.id, llama.tools) == ("llama3.2:latest", None)


def test_connection_error_says_how_to_start_it() -> None:
    info = ollama.info
    assert (info.base_url, info.base_url_env, info.needs_key) == ("http://localhost:11434", ("OLLAMA_HOST",), False)
    assert (info.default_model, info.key_env) == ("", ("OLLAMA_API_KEY",))
    assert "ollama serve" in info.offline_hint
    assert "ollama pull" in info.no_models_hint


def test_a_prompt_count_of_zero_means_that_it_was_not_counted(server: ModelServer) -> None:
    """Ollama does not count tokens of a cached prompt, so 0 does not mean a truncated prompt."""
    request = ChatRequest(MODEL, (Message("system", "Be kind. " * 1000), Message("user", "hi")))
    server.reply(streams(*HELLO, done(prompt_eval_count=0)))
    exchange = send_request(ollama, server, request)
    assert exchange.result.answer.usage.input_tokens is None
    assert exchange.notices == []
    server.reply(streams(*HELLO, done(prompt_eval_count=1)))
    assert len(send_request(ollama, server, request).notices) == 1
