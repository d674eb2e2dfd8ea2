"""Ollama's requests: checked with its SDK's types, fields in their right places, and a large enough context."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from ask import ChatRequest, Message, ModelResponse, ProviderState, ToolCall, ToolSpec, Usage
from ask.tools.definitions import BUILTIN_TOOLS
from providers.ollama import provider as ollama
from tests import wire
from tests.host_requests import prepare_request
from tests.model_server import ModelServer
from tests.recorded_exchanges import replay_recording
from tests.recordings import Recording, recordings

MODEL = "qwen3:4b"
NEWER = {"id", "tool_call_id"}
"""Fields that the server supports but the SDK's types do not know yet."""
TALK = (Message("system", "Be kind."), Message("user", "hi"))
LIST = ToolSpec("list_dir", "Lists a folder.", {"type": "object", "properties": {"dirpath": {"type": "string"}}})


def read_by_ollama(body: Any) -> Any:
    """Parse a request body with the SDK's types; the result equals the body if every field is known.

    The SDK is given images as values, and writes Base64. It is slow to import.
    """
    from ollama._types import ChatRequest as OllamaRequest
    from ollama._types import Message as OllamaMessage
    from ollama._types import Options as OllamaOptions

    read = OllamaRequest.model_validate(body).model_dump(exclude_unset=True)
    given = [{**one, "images": [{"value": data} for data in one.get("images", [])]} for one in body["messages"]]
    messages = [OllamaMessage.model_validate(one).model_dump(exclude_unset=True) for one in given]
    messages = [{name: value for name, value in one.items() if name != "images" or value} for one in messages]
    options = OllamaOptions.model_validate(body["options"]).model_dump(exclude_unset=True)
    return read | {"messages": messages, "options": options}


def without_newer(body: Any) -> Any:
    """Remove what the SDK's types lack: they know fewer schema keywords than the server."""
    body = wire.without_fields(body, NEWER)
    for tool in body.get("tools", []):
        properties = tool["function"]["parameters"]["properties"]
        for name, part in properties.items():
            properties[name] = {key: part[key] for key in ("type", "items", "description", "enum") if key in part}
    return body


def round_of(*texts: str, state: ProviderState | None = None) -> list[Message]:
    """Build a conversation with one round of calls, one for each result."""
    calls = tuple(ToolCall(f"call_{i}", "list_dir", '{"dirpath": "."}') for i in range(len(texts)))
    results = [Message("tool", text, (), call.id, call.name) for call, text in zip(calls, texts, strict=True)]
    return [*TALK, Message("assistant", "Let me see.", calls, provider_state=state), *results]


@pytest.mark.parametrize("stream", [True, False])
def test_both_requests_of_a_round_match_the_sdk_s_types(stream: bool) -> None:
    options = {"temperature": 0.5, "max_tokens": 99, "stop": "END", "think": "high", "keep_alive": "10m", "seed": 3}
    thinking = ProviderState("ollama", MODEL, {"thinking": "Hm."})
    for messages in (TALK, round_of("a.txt", "Error: there is no such folder", state=thinking)):
        request = prepare_request(
            ollama, MODEL, messages, [LIST], options=options, stream=stream, schema={"type": "object"}
        )
        body = ollama.build_body(request)
        assert read_by_ollama(body) == without_newer(body)
        assert body["stream"] is stream


def test_built_in_tools_match_the_sdk_s_types() -> None:
    tools = [tool.spec for tool in BUILTIN_TOOLS]
    body = ollama.build_body(prepare_request(ollama, MODEL, TALK, tools))
    assert read_by_ollama(body) == body


def test_calls_and_results_of_a_round_are_objects_in_order() -> None:
    request = prepare_request(ollama, MODEL, round_of("a.txt", "b.txt"), [LIST])
    message, *results = ollama.build_body(request)["messages"][2:]
    function = {"name": "list_dir", "arguments": {"dirpath": "."}}
    assert message["tool_calls"] == [{"id": "call_0", "function": function}, {"id": "call_1", "function": function}]
    assert results[1] == {"role": "tool", "tool_name": "list_dir", "tool_call_id": "call_1", "content": "b.txt"}


@pytest.mark.parametrize("written", ['{"a": 1e999}', '{"a": NaN}', "[1]", '{"a": ', "", '"x"'])
def test_invalid_arguments_are_sent_back_as_an_empty_object(written: str) -> None:
    message = Message("assistant", "", (ToolCall("call_1", "list_dir", written),))
    body = ollama.build_body(ChatRequest(MODEL, [*TALK, message]))
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == {}


@pytest.mark.parametrize(
    ("wrote", "asked", "goes_back"),
    [(MODEL, MODEL, True), (MODEL, "qwen3:32b", True), (MODEL, "qwen3", True), (MODEL, "gpt-oss:20b", False)],
)
def test_thinking_is_sent_back_to_models_with_the_same_name(wrote: str, asked: str, goes_back: bool) -> None:
    for name in ("ollama", "deepseek"):
        messages = round_of("a.txt", state=ProviderState(name, wrote, {"thinking": "Hm."}))
        message = ollama.build_body(prepare_request(ollama, asked, messages))["messages"][2]
        assert message.get("thinking") == ("Hm." if goes_back and name == "ollama" else None)


def test_tool_choice_none_sends_no_tools() -> None:
    request = prepare_request(ollama, MODEL, round_of("a.txt"), [LIST], tool_choice="none")
    assert "tools" not in ollama.build_body(request)


def test_parameters_are_where_ollama_expects_them() -> None:
    given = {"temperature": 0, "top_p": 0.9, "seed": 7, "stop": "END", "max_tokens": 50, "num_gpu": 1, "num_ctx": 4096}
    options = {"temperature": 0, "top_p": 0.9, "seed": 7, "stop": ["END"], "num_predict": 50, "num_gpu": 1}
    beside = {"keep_alive": -1, "format": "json", "think": False, "truncate": False}
    body = ollama.build_body(ChatRequest(MODEL, TALK, options={**given, **beside, "options": {"top_k": 4}}))
    assert body["options"] == options | {"num_ctx": 4096, "top_k": 4}
    assert beside.items() <= body.items()


def test_schema_becomes_the_format() -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    assert ollama.build_body(ChatRequest(MODEL, TALK, schema=schema))["format"] == schema


def test_key_is_sent_if_set() -> None:
    for request in (ollama.provider_build_request(ChatRequest(MODEL, TALK), "k"), ollama.provider_models_request("k")):
        assert request.headers == {"Authorization": "Bearer k"}
    assert ollama.provider_build_request(ChatRequest(MODEL, TALK), "").headers == {}


# The context


def context(messages: Any, **fields: Any) -> int:
    size = ollama.build_body(prepare_request(ollama, MODEL, messages, **fields))["options"]["num_ctx"]
    assert isinstance(size, int)
    return size


def test_request_asks_for_a_large_enough_context() -> None:
    assert context(TALK) == 8192
    for kilobytes in (1, 10, 50, 200, 1000):
        size = context([*TALK, Message("user", "ö" * 500 * kilobytes)])
        assert size > kilobytes * 1000 / 3
        assert size & (size - 1) == 0
    assert context(TALK, options={"max_tokens": 20_000}) == 32_768
    assert context(TALK, options={"num_ctx": 2048}) == 2048


def test_context_size_rarely_changes_between_rounds() -> None:
    messages = list(TALK)
    sizes = []
    for _ in range(40):
        messages += round_of("x" * 2000)[2:]
        sizes += [context(messages, tools=[LIST], tool_choice=choice) for choice in ("auto", "none")]
    assert sizes == sorted(sizes)
    assert sum(before != size for before, size in pairwise(sizes)) <= 3
    assert sizes[-1] > 40 * 2000 / 3


def notice(messages: Any, read: int | None, tools: Sequence[ToolSpec] = (LIST,)) -> str:
    request = prepare_request(ollama, MODEL, messages, tools)
    return ollama.provider_notice(request, ModelResponse("Yes.", usage=Usage(input_tokens=read)))


def test_truncated_prompt_causes_a_notice() -> None:
    long = [*TALK, Message("user", "word " * 20_000)]
    assert "the beginning was dropped" in notice(long, 4096)
    assert "num_ctx" in notice(long, 4096)
    assert notice(long, 20_010) == ""
    assert notice(long, None) == ""
    assert notice(TALK, 60) == ""


def test_dropped_past_thinking_causes_no_notice() -> None:
    assert notice(round_of("a.txt", state=ProviderState("ollama", MODEL, {"thinking": "hm " * 9000})), 120) == ""


@pytest.mark.parametrize("recording", [one for one in recordings("ollama", "ollama") if one.request_body], ids=str)
def test_recorded_prompts_were_read_completely(server: ModelServer, recording: Recording) -> None:
    """The estimates are right for them: they fit the requested context and cause no notice."""
    read = replay_recording(ollama, server, recording).result.answer.usage.input_tokens
    sent = recording.request_body
    messages = [
        Message(
            m["role"], m["content"], provider_state=ProviderState("ollama", MODEL, {"thinking": m.get("thinking", "")})
        )
        for m in sent["messages"]
    ]
    tools = [ToolSpec(**tool["function"]) for tool in sent.get("tools", ())]
    assert read is not None
    assert read < context(messages, tools=tools)
    assert notice(messages, read, tools) == ""
