"""Reports about answers: content, finish reasons and usage as servers and gateways really send them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests import responses_wire, wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Result
from tests.providers import anthropic_wire, gemini_wire
from tests.providers import test_ollama as ollama_wire

COMMAND: Mapping[str, list[str]] = {
    "openrouter": [],
    "openai": ["-p", "openai", "-m", "gpt-test"],
    "anthropic": ["-p", "anthropic", "-m", anthropic_wire.MODEL],
    "gemini": ["-p", "gemini", "-m", gemini_wire.MODEL],
    "ollama": ["-p", "ollama", "-m", ollama_wire.MODEL],
}


def answer_with(ask: Ask, server: ModelServer, service: str, reply: Reply, *options: str) -> Result:
    server.reply(reply)
    return ask(*COMMAND[service], *options, "go")


def chat_answer(content: Any = "Hello", **fields: Any) -> Reply:
    """Return a complete answer; `fields` replace those of the response."""
    answer = wire.answer("")
    answer["choices"][0]["message"]["content"] = content
    return wire.whole_reply(answer | fields)


# Content


@pytest.mark.parametrize(
    "chunk",
    [
        None,  # https://github.com/earendil-works/pi/pull/2466
        {"choices": None},  # https://github.com/RooCodeInc/Roo-Code/pull/9105
        {"choices": []},  # https://github.com/cline/cline/pull/8527
        {"choices": [None]},
        {"choices": [{"index": 0, "delta": None}]},  # https://github.com/bagofwords1/bagofwords/pull/742
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None}}]},
        {"choices": [{"index": 0, "delta": {"content": [{"type": "new"}], "annotations": [None]}}]},
    ],
)
def test_a_chunk_without_content_does_not_cost_the_answer(ask: Ask, server: ModelServer, chunk: Any) -> None:
    reply = wire.streams(wire.text("Hel"), json.dumps(chunk), wire.text("lo"), wire.finish())
    assert answer_with(ask, server, "openrouter", reply).text == "Hello\n"


@pytest.mark.parametrize(
    "chunks",
    [
        # https://github.com/abundantbeing/hermes-browser-extension/issues/11
        [wire.text("Hel"), wire.text("lo"), {"delta": {}, "message": {"content": "Hello"}}],
        [wire.text("Hel"), {"message": {"content": "Hello"}}],
        [{"message": {"content": "Hel"}}, {"message": {"content": "Hello"}}],
        # https://github.com/HybridAIOne/hybridclaw/pull/1325
        [{"delta": {"content": piece}, "message": {"content": "Hello"}} for piece in ("Hel", "lo", "")],
        [wire.text("Hello"), {"message": {"content": "Something else"}}],
        [{"message": {"content": "Hello"}}],
    ],
)
def test_the_complete_message_at_the_end_of_a_stream_is_not_repeated(
    ask: Ask, server: ModelServer, chunks: list[Any]
) -> None:
    whole = [chunk if "choices" in chunk else {"choices": [{"index": 0} | chunk]} for chunk in chunks]
    assert answer_with(ask, server, "openrouter", wire.streams(*whole, wire.finish())).text == "Hello\n"


def test_unknown_parts_of_the_content_are_left_out(ask: Ask, server: ModelServer) -> None:
    # https://github.com/mistralai/client-python/pull/621
    parts = [{"type": "text", "text": "Hel"}, {"type": "new"}, None, 5, {"type": "output_text", "text": "lo"}]
    assert answer_with(ask, server, "openrouter", chat_answer(parts), "--no-stream").text == "Hello\n"


def test_responses_items_without_content_do_not_cost_the_answer(ask: Ask, server: ModelServer) -> None:
    # https://github.com/openai/openai-python/issues/3840
    empty, unknown = responses_wire.message() | {"content": None}, {"type": "future_item", "data": 1}
    answer = responses_wire.response(empty, unknown, responses_wire.message("Hello"))
    answer["output"].append(None)
    assert answer_with(ask, server, "openai", responses_wire.whole_reply(answer), "--no-stream").text == "Hello\n"


@pytest.mark.parametrize("added", [True, False])
def test_responses_text_that_is_only_in_its_done_event_is_shown(ask: Ask, server: ModelServer, added: bool) -> None:
    place = {"output_index": 0, "item_id": "msg_1"}
    events: list[Any] = [
        *([place | {"type": "response.output_item.added", "item": responses_wire.message()}] if added else []),
        place | {"type": "response.output_text.done", "content_index": 0, "text": "Hello"},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}},
    ]
    assert answer_with(ask, server, "openai", responses_wire.streams(*events)).text == "Hello\n"


def test_unknown_anthropic_blocks_do_not_cost_the_answer(ask: Ask, server: ModelServer) -> None:
    blocks: list[Any] = [{"type": "text", "text": "Hel"}, {"type": "future_block"}, None, {"type": "text"}]
    answer = anthropic_wire.message_of(*blocks, {"type": "text", "text": "lo", "citations": None})
    assert answer_with(ask, server, "anthropic", wire.whole_reply(answer), "--no-stream").text == "Hello\n"


def test_gemini_parts_without_content_do_not_cost_the_answer(ask: Ask, server: ModelServer) -> None:
    # https://github.com/Portkey-AI/gateway/pull/1705
    parts: list[Any] = [{"text": "Hel"}, None, {"text": None}, {"futurePart": {}}, {"functionCall": None}]
    reply = gemini_wire.streamed(*gemini_wire.chunks(*parts, {"text": "lo"}))
    assert answer_with(ask, server, "gemini", reply).text == "Hello\n"


def text_delta(index: int | None, text: str) -> Any:
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return delta if index is None else delta | {"index": index}


@pytest.mark.parametrize(
    "events",
    [
        [text_delta(0, "Hel"), text_delta(0, "lo")],  # https://github.com/BerriAI/litellm/pull/24767
        [*anthropic_wire.thinking(0, "Hm.")[:-1], text_delta(0, "Hello")],
        # https://github.com/earendil-works/pi/issues/7283
        [*anthropic_wire.block(0, {"type": "text", "text": "Hel"}), text_delta(0, "lo")],
        # https://github.com/BerriAI/litellm/pull/28069
        [*anthropic_wire.block(0, {"type": "text"}), text_delta(0, "Hello")],
        [{"type": "content_block_start", "content_block": {"type": "text"}}, text_delta(None, "Hello")],
    ],
    ids=["no start", "block of another type", "text in the start", "start without text", "no index"],
)
def test_anthropic_text_is_found_in_irregular_blocks(ask: Ask, server: ModelServer, events: list[Any]) -> None:
    reply = anthropic_wire.streams(anthropic_wire.begins(), events, anthropic_wire.ends())
    result = answer_with(ask, server, "anthropic", reply, "--json")
    assert (result.code, json.loads(result.text)["text"]) == (0, "Hello")


def test_anthropic_text_in_the_block_of_a_call_costs_neither(ask: Ask, server: ModelServer) -> None:
    # https://github.com/sgl-project/sglang/issues/24293
    call = anthropic_wire.call(0, "list_dir", '{"dirpath": "."}')
    reply = anthropic_wire.streams(
        anthropic_wire.begins(), [*call[:-1], text_delta(0, "I look."), call[-1]], anthropic_wire.ends("tool_use")
    )
    server.reply(reply, anthropic_wire.says("done"))
    assert ask(*COMMAND["anthropic"], "go").text == "I look.\ndone\n"
    sent = server.requests[-1].json["messages"][-2]["content"]
    assert {block["type"] for block in sent} == {"text", "tool_use"}


# Finish reasons


@pytest.mark.parametrize(
    ("service", "reply"),
    [
        # https://github.com/QwenLM/qwen-code/issues/9882
        ("openrouter", wire.streams(wire.text("cut"), wire.finish("MAX_TOKENS"))),
        ("openrouter", wire.streams(wire.text("cut"), wire.finish("LENGTH"))),
        # https://github.com/UKGovernmentBEIS/inspect_ai/issues/5143
        ("openrouter", wire.streams(wire.text("cut"), wire.finish("model_length"))),
        # https://github.com/mozilla-ai/any-llm/pull/1204
        ("openrouter", wire.streams(wire.text("cut"), wire.finish("model_context_window_exceeded"))),
        ("gemini", gemini_wire.streamed(*gemini_wire.chunks(gemini_wire.text("cut"), finish="max_tokens"))),
        # https://github.com/BerriAI/litellm/issues/25825
        ("ollama", ollama_wire.streams(ollama_wire.text_line("cut"), ollama_wire.done("length"))),
    ],
)
def test_a_truncated_answer_is_recognized(ask: Ask, server: ModelServer, service: str, reply: Reply) -> None:
    result = answer_with(ask, server, service, reply, "--no-tools")
    assert (result.text, result.code) == ("cut\n", 10)
    assert "token limit" in result.stderr


# https://github.com/promptfoo/promptfoo/pull/9905, https://github.com/vllm-project/vllm/issues/57082
@pytest.mark.parametrize(
    ("reason", "code"), [("sensitive", 10), ("network_error", 6), ("insufficient_system_resource", 6), ("abort", 6)]
)
def test_an_answer_that_the_service_broke_off_is_no_success(
    ask: Ask, server: ModelServer, reason: str, code: int
) -> None:
    reply = wire.streams(wire.text("cut"), wire.finish(reason))
    result = answer_with(ask, server, "openrouter", reply, "--no-tools")
    assert (result.text, result.code, len(server.requests)) == ("cut\n", code, 1)


@pytest.mark.parametrize("reason", ["STOP", "eos", "end_turn", "EOS_TOKEN", "something_new"])
def test_an_unknown_finish_reason_is_an_end(ask: Ask, server: ModelServer, reason: str) -> None:
    reply = wire.streams(wire.text("Hello"), wire.finish(reason))
    result = answer_with(ask, server, "openrouter", reply)
    assert (result.text, result.code) == ("Hello\n", 0)
    assert ("something_new" in result.stderr) == (reason == "something_new")
    assert result.stderr.count("\n") == (reason == "something_new")


@pytest.mark.parametrize(
    "reply",
    [
        wire.streams(wire.text("I will look."), wire.finish("tool_calls")),
        anthropic_wire.streams(
            anthropic_wire.begins(), anthropic_wire.text(0, "I will look."), anthropic_wire.ends("tool_use")
        ),
    ],
    ids=["openrouter", "anthropic"],
)
def test_a_call_that_never_comes_is_reported(
    ask: Ask, server: ModelServer, reply: Reply, request: pytest.FixtureRequest
) -> None:
    # https://github.com/OpenRouterTeam/ai-sdk-provider/issues/166
    result = answer_with(ask, server, request.node.callspec.id, reply)
    assert (result.text, result.code) == ("I will look.\n", 0)
    assert "contains no call" in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        # https://github.com/QwenLM/qwen-code/issues/10692
        "<tool_call>\n<function=bash>\n<parameter=command>\ntouch ran\n</parameter>\n</function>\n</tool_call>",
        '<tool_call>{"name": "bash", "arguments": {"command": "touch ran"}}</tool_call>',
        # https://github.com/NousResearch/hermes-agent/pull/83023
        '{"name": "bash", "arguments": {"command": "touch ran"}}',
        # https://github.com/ollama/ollama/issues/13519
        '```json\n{"name": "bash", "parameters": {"command": "touch ran"}}\n```',
        # https://github.com/Extra-Chill/data-machine/issues/2308
        'Let me see.\n<function_calls><invoke name="bash"><parameter name="command">touch ran</parameter></invoke>',
        # https://github.com/raullenchai/Rapid-MLX/issues/480
        'commentary to=functions.bash json{"command": "touch ran"}',
        '[TOOL_REQUEST]{"name": "bash", "arguments": {"command": "touch ran"}}[END_TOOL_REQUEST]',
        '[TOOL_CALLS]bash{"command": "touch ran"}',
        '<|python_tag|>{"name": "bash", "parameters": {"command": "touch ran"}}',
        '```tool_code\nbash(command="touch ran")\n```',
        'functools[{"name": "bash", "arguments": {"command": "touch ran"}}]',
        '[{"name": "bash", "arguments": {"command": "touch ran"}}]',
        '{"type": "tool_use", "name": "bash", "input": {"command": "touch ran"}}',
        '[bash(command="touch ran")]',
    ],
)
def test_a_call_in_the_text_is_reported_and_not_run(ask: Ask, server: ModelServer, text: str) -> None:
    result = answer_with(ask, server, "openrouter", wire.says(text), "--yes")
    assert (result.text.strip(), result.code) == (text, 0)
    assert "wrote a tool call as text" in result.stderr
    assert not (ask.cwd / "ran").exists()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("<tool_call> is how some models begin.", []),
        ("The bash tool takes its command in arguments.", []),
        ('```json\n{"name": "deploy", "parameters": {}, "run": "bash deploy.sh"}\n```', []),
        ('{"name": "bash", "arguments": {}}', ["--no-tools"]),
        ("[bash(1)](https://example.com/bash) describes the shell.", []),
        ("Cache it: `functools[name]`, or use bash.", []),
    ],
)
def test_other_texts_are_not_taken_for_a_call(ask: Ask, server: ModelServer, text: str, options: list[str]) -> None:
    assert answer_with(ask, server, "openrouter", wire.says(text), *options).stderr == ""


@pytest.mark.parametrize(
    ("service", "reply"),
    [
        # https://github.com/earendil-works/pi/issues/8462
        ("openrouter", wire.streams(wire.finish())),
        # https://github.com/labring/FastGPT/pull/7517
        ("openrouter", wire.streams(wire.reasoning("Hm."), wire.finish("tool_calls"))),
        # https://github.com/BerriAI/litellm/pull/24462
        ("gemini", gemini_wire.streamed({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]})),
        # https://github.com/can1357/oh-my-pi/issues/7465
        ("ollama", ollama_wire.streams(ollama_wire.done("load"))),
        ("openai", responses_wire.whole_reply(responses_wire.response() | {"output": None})),
        # https://github.com/LiveBench/LiveBench/pull/425
        ("anthropic", wire.whole_reply(anthropic_wire.message_of({"type": "thinking", "thinking": "Hm."}))),
    ],
)
def test_an_empty_answer_is_a_failure(ask: Ask, server: ModelServer, service: str, reply: Reply) -> None:
    result = answer_with(ask, server, service, reply)
    assert (result.text, result.code) == ("", 10)
    assert "empty answer" in result.stderr


@pytest.mark.parametrize("whole", [True, False])
def test_reasoning_without_an_answer_can_be_shown(ask: Ask, server: ModelServer, whole: bool) -> None:
    # https://github.com/QwenLM/Qwen3/issues/1297
    complete = wire.whole_reply(wire.answer(None, reasoning_content="It is 4."))
    reply = complete if whole else wire.streams(wire.reasoning("It is 4."), wire.finish())
    result = answer_with(ask, server, "openrouter", reply)
    assert (result.text, result.code, "ask -v shows" in result.stderr) == ("", 10, True)
    assert "It is 4." in answer_with(ask, server, "openrouter", reply, "-v").stderr


# Usage


@pytest.mark.parametrize(
    "usage",
    [None, [], "none", 5, {"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens_details": []}, {"cost": "?"}],
)
def test_odd_usage_does_not_cost_the_answer(ask: Ask, server: ModelServer, usage: Any) -> None:
    # https://github.com/langfuse/langfuse-python/pull/840
    result = answer_with(ask, server, "openrouter", chat_answer(usage=usage, model=None), "--no-stream", "--json")
    answer = json.loads(result.text)
    assert (result.code, answer["text"], answer["usage"]["input_tokens"]) == (0, "Hello", None)


@pytest.mark.parametrize("stream", ["--no-stream", "-v"])
def test_usage_under_the_names_of_the_responses_api_is_counted(ask: Ask, server: ModelServer, stream: str) -> None:
    # mlx-vlm: https://github.com/earendil-works/pi/issues/2326
    usage = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    streamed = wire.streams(wire.text("Hello"), wire.finish(), {"choices": [], "usage": usage})
    reply = streamed if stream == "-v" else chat_answer(usage=usage)
    answer = json.loads(answer_with(ask, server, "openrouter", reply, stream, "--json").text)
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (11, 5)


# Structured output


@pytest.mark.parametrize(
    "text",
    ['```json\n{"name": "Ann"}\n```', '{"name": "Ann"}', 'Here it is:\n```\n{"name": "Ann"}\n```\n'],
)
def test_json_in_a_code_fence_matches_a_schema(ask: Ask, server: ModelServer, text: str) -> None:
    # https://github.com/laravel/ai/pull/879
    result = answer_with(ask, server, "openrouter", wire.says(text), "--schema", "name")
    assert (json.loads(result.text), result.code) == ({"name": "Ann"}, 0)


@pytest.mark.parametrize(
    "reply",
    [
        wire.whole_reply(wire.answer(None, reasoning_content='{"name": "Ann"}')),
        wire.streams(wire.reasoning('{"name": '), wire.reasoning('"Ann"}'), wire.finish()),
    ],
)
def test_json_that_a_server_takes_for_reasoning_matches_a_schema(ask: Ask, server: ModelServer, reply: Reply) -> None:
    # https://github.com/vllm-project/vllm/issues/17609, https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1602
    result = answer_with(ask, server, "openrouter", reply, "--no-tools", "--schema", "name", "--json")
    answer = json.loads(result.text)
    assert (answer["data"], answer["reasoning"], result.code) == ({"name": "Ann"}, "", 0)
