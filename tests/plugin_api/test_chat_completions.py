"""Requests and responses of OpenAI's Chat Completions API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from ask import (
    ChatCompletions,
    ChatRequest,
    FinishReason,
    Message,
    ModelInfo,
    ModelResponse,
    ProviderError,
    ProviderState,
    ToolCall,
    ToolSpec,
    Usage,
)
from tests import wire
from tests.host_requests import prepare_request
from tests.recordings import Recording, recordings

CHAT = ChatCompletions(name="test", base_url="http://test/v1", key_env="TEST_API_KEY", default_model="test/model")
READ_TOOL = ToolSpec(
    "read_file",
    "Read a file",
    {"type": "object", "properties": {"filepath": {"type": "string"}}, "required": ["filepath"]},
)
QUESTION = (Message("system", "You are ask."), Message("user", "What is in config.json?"))
CALL = ToolCall("call_1", "read_file", '{"filepath": "config.json"}')
CALL_MESSAGE = Message("assistant", "Let me see.", tool_calls=(CALL,))
RESULT_MESSAGE = Message("tool", '{"port": 80}', tool_call_id="call_1", tool_name="read_file")


class ReasoningService(ChatCompletions):
    """A service that needs the model's reasoning in later requests."""

    state_fields = ("reasoning_details",)


def body(*messages: Message, **request: Any) -> Mapping[str, Any]:
    sent = CHAT.provider_build_request(prepare_request(CHAT, "test/model", messages, **request), "sk-key").body
    assert sent is not None
    return sent


def parse_failure(response: wire.Json) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        CHAT.provider_parse_response(response)
    return caught.value


# Requests


def test_request_has_the_path_and_the_key_as_bearer_token() -> None:
    request = CHAT.provider_build_request(ChatRequest("test/model", QUESTION), "sk-key")
    assert (request.method, request.path) == ("POST", "/chat/completions")
    assert request.headers["Authorization"] == "Bearer sk-key"
    assert "Authorization" not in CHAT.provider_build_request(ChatRequest("test/model", QUESTION), "").headers


def test_the_system_message_comes_first() -> None:
    assert body(*QUESTION)["messages"] == [
        {"role": "system", "content": "You are ask."},
        {"role": "user", "content": "What is in config.json?"},
    ]


def test_tools_are_sent_with_tool_choice_auto() -> None:
    sent = body(*QUESTION, tools=[READ_TOOL])
    assert sent["tools"] == [
        {
            "type": "function",
            "function": {"name": "read_file", "description": "Read a file", "parameters": READ_TOOL.parameters},
        }
    ]
    assert sent["tool_choice"] == "auto"


def test_tools_are_sent_with_tool_choice_none() -> None:
    sent = body(*QUESTION, CALL_MESSAGE, RESULT_MESSAGE, tools=[READ_TOOL], tool_choice="none")
    assert (len(sent["tools"]), sent["tool_choice"]) == (1, "none")


def test_request_without_tools_has_no_tool_fields() -> None:
    assert not {"tools", "tool_choice"} & set(body(*QUESTION))


def test_streams_are_requested_with_usage() -> None:
    assert body(*QUESTION)["stream"] is True
    assert body(*QUESTION)["stream_options"] == {"include_usage": True}
    assert not {"stream", "stream_options"} & set(body(*QUESTION, stream=False))


def test_options_are_added_to_the_body() -> None:
    sent = body(*QUESTION, options={"temperature": 0.5, "provider": {"order": ["x"]}})
    assert (sent["temperature"], sent["provider"]) == (0.5, {"order": ["x"]})


def test_tool_calls_and_results_keep_their_id() -> None:
    assert body(*QUESTION, CALL_MESSAGE, RESULT_MESSAGE)["messages"][2:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"filepath": "config.json"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"port": 80}'},
    ]


class StrictChat(ChatCompletions):
    """A service like Mistral's."""

    call_id_pattern = "[a-zA-Z0-9]{9}"
    state_fields = ("content",)
    requests_usage = False


STRICT = StrictChat(name="strict", base_url="http://test/v1")


@pytest.mark.parametrize("call_id", ["call_1", "toolu_01A09q90qw90lq917835lq9", "functions.bash:0", "", "\ud800"])
def test_call_ids_of_other_services_are_replaced_in_calls_and_results_alike(call_id: str) -> None:
    messages = []
    for each in (call_id, "abcDEF123"):
        messages += [Message("assistant", tool_calls=(ToolCall(each, "read_file", "{}"),))]
        messages += [RESULT_MESSAGE._replace(tool_call_id=each)]
    request = prepare_request(STRICT, "test/model", messages)
    first, first_result, second, second_result = STRICT.build_body(request)["messages"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", first["tool_calls"][0]["id"])
    assert first["tool_calls"][0]["id"] == first_result["tool_call_id"]
    assert second["tool_calls"][0]["id"] == second_result["tool_call_id"] == "abcDEF123"


def test_stream_options_can_be_left_out() -> None:
    sent = STRICT.build_body(ChatRequest("test/model", QUESTION))
    assert sent["stream"] is True
    assert "stream_options" not in sent


THINKING = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
    {"type": "text", "text": "Let me see."},
]


@pytest.mark.parametrize(
    ("content", "text", "sent"),
    [
        (THINKING, "Let me see.", THINKING),
        (THINKING, "Something else.", "Something else."),
        ([{"type": "text", "text": "Let me see."}], "Let me see.", "Let me see."),
        ("Let me see.", "Let me see.", "Let me see."),
    ],
)
def test_thinking_in_the_content_is_sent_back_with_its_text(content: Any, text: str, sent: Any) -> None:
    answer = STRICT.provider_parse_response(wire.answer(content))
    assert answer.text == "Let me see."
    message = CALL_MESSAGE._replace(content=text, provider_state=answer.provider_state)
    (formatted,) = STRICT.build_body(ChatRequest("test/model", [message]))["messages"]
    assert formatted["content"] == sent
    assert len(formatted["tool_calls"]) == 1
    assert CHAT.provider_parse_response(wire.answer(content)).provider_state is None


@pytest.mark.parametrize(("call_id", "is_kept"), [("call_1__thought__" + "A" * 200, True), ("x" * 41, False)])
def test_long_call_id_is_kept_if_it_contains_a_signature(call_id: str, is_kept: bool) -> None:
    call = Message("assistant", tool_calls=(ToolCall(call_id, "read_file", "{}"),))
    _, _, assistant, result = body(*QUESTION, call, RESULT_MESSAGE._replace(tool_call_id=call_id))["messages"]
    assert assistant["tool_calls"][0]["id"] == result["tool_call_id"]
    assert (result["tool_call_id"] == call_id) is is_kept


@pytest.mark.parametrize(
    "arguments", ["", '{"filepath": "con', '{"a": 1}{"a": 2}', "[]", "null", "not JSON", "[" * 9999]
)
def test_invalid_arguments_are_sent_as_an_empty_object(arguments: str) -> None:
    malformed = Message("assistant", tool_calls=(ToolCall("call_1", "read_file", arguments),))
    assert body(*QUESTION, malformed, RESULT_MESSAGE)["messages"][2]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_same_messages_produce_the_same_bytes() -> None:
    first = json.dumps(body(*QUESTION, tools=[READ_TOOL]))
    longer = json.dumps(body(*QUESTION, CALL_MESSAGE, RESULT_MESSAGE, tools=[READ_TOOL]))
    prefix = first.partition("]")[0]
    assert longer.startswith(prefix)
    assert json.dumps(body(*QUESTION, tools=[READ_TOOL])) == first


@pytest.mark.parametrize(
    ("native_provider", "native_model", "model", "goes_back"),
    [
        ("thinking", "anthropic/claude-a", "anthropic/claude-b", True),
        ("thinking", "anthropic/claude-a", "google/gemini-c", False),
        ("other", "anthropic/claude-a", "anthropic/claude-a", False),
    ],
)
def test_native_parts_are_sent_only_to_the_same_provider_and_family(
    native_provider: str, native_model: str, model: str, goes_back: bool
) -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": "hm", "signature": "sig"}]
    message = Message(
        "assistant", "Yes.", provider_state=ProviderState(native_provider, native_model, {"reasoning_details": details})
    )
    thinking = ReasoningService(name="thinking", base_url="http://test/v1")
    request = thinking.provider_build_request(ChatRequest(model, (*QUESTION, message)), "")
    assert request.body is not None
    assert request.body["messages"][2].get("reasoning_details") == (details if goes_back else None)
    assert request.body["messages"][2]["content"] == "Yes."


def test_native_parts_are_read_from_a_response() -> None:
    details = [{"type": "reasoning.encrypted", "index": 0, "data": "AAA="}]
    answer = ReasoningService(name="thinking", base_url="http://test/v1").provider_parse_response(
        wire.answer("Yes.", reasoning_details=details)
    )
    assert answer.provider_state == ProviderState("thinking", wire.MODEL, {"reasoning_details": details})
    assert CHAT.provider_parse_response(wire.answer("Yes.", reasoning_details=details)).provider_state is None


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "messages",
    [
        QUESTION,
        (*QUESTION, CALL_MESSAGE, RESULT_MESSAGE),
        (*QUESTION, Message("assistant", tool_calls=(CALL,)), RESULT_MESSAGE),
        (*QUESTION, CALL_MESSAGE, RESULT_MESSAGE, Message("assistant", "Port 80."), Message("user", "Why?")),
    ],
    ids=["first request", "second request", "a call without text", "a later question"],
)
def test_requests_match_the_types_of_the_openai_sdk(messages: tuple[Message, ...], stream: bool) -> None:
    sent = body(*messages, tools=[READ_TOOL], stream=stream, options={"temperature": 0.5})
    assert wire.read_by_openai(sent) == sent


def test_the_openai_sdk_rejects_a_malformed_request() -> None:
    sent = json.loads(json.dumps(body(*QUESTION, CALL_MESSAGE, RESULT_MESSAGE, tools=[READ_TOOL])))
    del sent["messages"][3]["tool_call_id"]
    with pytest.raises(ValueError, match="tool_call_id"):
        assert wire.read_by_openai(sent) == sent


# Answers


def test_response_is_parsed() -> None:
    response = wire.answer("Hello", reasoning="hm")
    response["usage"] |= {"prompt_tokens_details": {"cached_tokens": 7}, "cost": 0.25}
    response["usage"]["completion_tokens_details"] = {"reasoning_tokens": 3}
    assert CHAT.provider_parse_response(response) == ModelResponse(
        "Hello", "hm", FinishReason.STOP, Usage(10, 5, 7, 3, 0.25), model=wire.MODEL
    )


def test_cached_tokens_have_a_name_for_each_service() -> None:
    """The names are those of Mistral, Moonshot, DeepSeek and Anthropic, whose gateways pass them on."""
    for name in ("num_cached_tokens", "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"):
        assert CHAT.parse_usage({"prompt_tokens": 10, name: 7}).cached_tokens == 7
        assert CHAT.parse_usage({name: 7, "prompt_tokens_details": {"cached_tokens": 0}}).cached_tokens == 0
    assert CHAT.parse_usage({"num_cached_tokens": None}).cached_tokens is None
    litellm = {"prompt_tokens_details": {"cached_tokens": 0}, "cache_creation_input_tokens": 7}
    assert CHAT.parse_usage(litellm).cache_write_tokens == 7


@pytest.mark.parametrize(("total", "input_tokens"), [(1012, 1010), (12, 10), (None, 10)])
def test_tokens_of_the_cache_that_only_the_total_includes_are_added(total: int | None, input_tokens: int) -> None:
    """Portkey passes on Anthropic's counts, in which the input tokens do not include those of the cache."""
    cache = {"cache_read_input_tokens": 300, "cache_creation_input_tokens": 700}
    usage = CHAT.parse_usage({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": total, **cache})
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (input_tokens, 300, 700)


def test_extra_content_goes_back_only_with_the_same_calls() -> None:
    signed = wire.answer(None, [("one", {}), ("two", {})])
    first, _ = signed["choices"][0]["message"]["tool_calls"]
    first["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    state = CHAT.provider_parse_response(signed).provider_state
    calls = tuple(CHAT.provider_parse_tool_calls(signed))
    for sent_calls, model, count in ((calls, wire.MODEL, 1), (calls[:1], wire.MODEL, 0), (calls, "other/model", 0)):
        formatted = CHAT.format_message(Message("assistant", tool_calls=sent_calls, provider_state=state), model)
        extras = [call["extra_content"] for call in formatted["tool_calls"] if "extra_content" in call]
        assert extras == [{"google": {"thought_signature": "c2ln"}}] * count
    assert CHAT.provider_parse_response(wire.answer(None, [("one", {})])).provider_state is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("tool_calls", FinishReason.TOOL_CALLS),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("something_new", FinishReason.STOP),
    ],
)
def test_finish_reasons_are_mapped(reason: str, finish: FinishReason) -> None:
    assert CHAT.provider_parse_response(wire.answer("Hello", finish=reason)).finish_reason is finish


def test_refusal_becomes_the_text_and_counts_as_filtered() -> None:
    answer = CHAT.provider_parse_response(wire.answer(None, refusal="I cannot."))
    assert (answer.text, answer.finish_reason) == ("I cannot.", FinishReason.CONTENT_FILTER)


def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    response = wire.answer()
    response["choices"][0]["message"]["content"] = parts
    assert CHAT.provider_parse_response(response).text == "one two"


def test_usage_inside_the_choice_is_read() -> None:
    response = wire.answer("Hello")
    response["choices"][0]["usage"] = response.pop("usage")
    assert CHAT.provider_parse_response(response).usage == Usage(10, 5)


def test_calls_are_read_in_order_for_any_finish_reason() -> None:
    response = wire.answer("text", [("one", {"x": 1}), ("two", "")], finish="stop")
    assert CHAT.provider_parse_tool_calls(response) == [
        ToolCall("call_0", "one", '{"x": 1}'),
        ToolCall("call_1", "two", ""),
    ]


def test_missing_and_duplicate_call_ids_are_replaced() -> None:
    response = wire.answer(calls=[("one", {}), ("two", {}), ("three", {}), ("four", {})])
    for call, call_id in zip(response["choices"][0]["message"]["tool_calls"], ["", None, "a", "a"], strict=True):
        call["id"] = call_id
    ids = [call.id for call in CHAT.provider_parse_tool_calls(response)]
    assert ids[2] == "a"
    assert all(ids)
    assert len(set(ids)) == 4


@pytest.mark.parametrize("arguments", ['{"a": 1}{"a": 2}', '{"path": "a', "not JSON"])
def test_invalid_arguments_are_returned_unchanged(arguments: str) -> None:
    (call,) = CHAT.provider_parse_tool_calls(wire.answer(calls=[("one", arguments)], finish="length"))
    assert call.arguments == arguments


# Errors


@pytest.mark.parametrize(
    ("response", "message", "status"),
    [
        (wire.error("it failed", 429), "it failed", 429),
        ({"error": "it failed"}, "it failed", None),
        ({"error": {"message": "it failed", "code": "bad_thing"}}, "it failed", None),
        (wire.answer("so far") | wire.error("it failed", 503), "it failed", 503),
        ({"choices": [wire.answer("so far")["choices"][0] | wire.error("it failed", 502)]}, "it failed", 502),
        (
            wire.error(
                "Provider returned error", 400, metadata={"provider_name": "Up", "raw": '{"error": "it failed"}'}
            ),
            "Up: it failed",
            400,
        ),
        (wire.error("Provider returned error", 400, metadata={"raw": "it  failed\n"}), "it failed", 400),
        (
            wire.error("Provider returned error", 400, metadata={"raw": {"error": {"message": "it failed"}}}),
            "it failed",
            400,
        ),
        (wire.error("it failed", 400, metadata={"provider_name": "Up", "raw": ""}), "it failed", 400),
        ({"object": "error", "message": "it failed"}, "it failed", None),
    ],
)
def test_error_inside_a_200_response_is_raised(response: wire.Json, message: str, status: int | None) -> None:
    error = parse_failure(response)
    assert (error.message, error.status) == (message, status)


def test_text_before_an_error_is_kept() -> None:
    error = parse_failure(wire.answer("so far") | wire.error())
    assert error.partial_response is not None
    assert error.partial_response.text == "so far"


def test_finish_reason_error_is_raised() -> None:
    response = wire.answer("so far", finish="error")
    response["choices"][0]["native_finish_reason"] = "MALFORMED_FUNCTION_CALL"
    assert "MALFORMED_FUNCTION_CALL" in parse_failure(response).message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error": {"message": "no such model"}}', "no such model"),
        ('{"error": "no such model", "code": "x"}', "no such model"),
        ('[{"error": {"message": "no such model"}}]', "no such model"),
        ('{"message": "no such model"}', "no such model"),
        ('{"detail": "no such model"}', "no such model"),
        ('{"detail": [{"loc": ["body", "top", 0], "msg": "too big"}, {"msg": "bad"}, 7]}', "top.0: too big; bad"),
        (
            '{"object": "error", "message": {"detail": [{"loc": ["body", "top"], "msg": "bad"}]}, "code": null}',
            "top: bad",
        ),
        ('{"error": {"message": {"message": "no such model"}}}', "no such model"),
        ("\n\n  no such\nmodel", "no such model"),
        ("<html><head><title>502 Bad\nGateway</title></head><body><h1>nginx</h1></body></html>", "502 Bad Gateway"),
        ("<p>it <b>failed</b></p>", "it failed"),
        ("", "no explanation"),
        ("{}", "{}"),
    ],
)
def test_http_error_has_the_message_of_its_body(body: str, message: str) -> None:
    error = CHAT.provider_parse_error(404, {}, body)
    assert (error.message, error.status, error.retry_action.kind) == (message, 404, "none")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_temporary_statuses_are_retried(status: int) -> None:
    retry_action = CHAT.provider_parse_error(status, {"retry-after": "7"}, "").retry_action
    assert (retry_action.kind, retry_action.delay) == ("retry", 7)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_permanent_statuses_are_not_retried(status: int) -> None:
    assert CHAT.provider_parse_error(status, {"Retry-After": "7"}, "").retry_action.kind == "none"


def test_rejected_parameter_is_named() -> None:
    body = '{"error": {"message": "Unsupported parameter", "param": "max_tokens"}}'
    assert CHAT.provider_parse_error(400, {}, body).parameter == "max_tokens"


# The models list


def test_models_list_is_parsed() -> None:
    request = CHAT.provider_models_request("sk-key")
    assert (request.method, request.path, request.body) == ("GET", "/models", None)
    entries = [{"id": "a/b", "name": "B", "context_length": 8000}, {"id": "c"}, {"name": "no id"}, None]
    models = [ModelInfo("a/b", "B", 8000), ModelInfo("c")]
    assert CHAT.provider_parse_models({"data": entries}) == models
    assert CHAT.provider_parse_models(entries) == models


# Recordings

OPENROUTER = ChatCompletions(name="openrouter", base_url="https://openrouter.ai/api/v1")
RECORDED = recordings("openrouter")


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.status == 200], ids=str)
def test_recorded_answer_is_parsed(recording: Recording) -> None:
    ended, response = True, {}
    if recording.streaming:
        reader = OPENROUTER.provider_stream_reader()
        for event in wire.events(recording.body):
            reader.feed(event)
        ended, response = reader.complete, reader.response()
    else:
        response = json.loads(recording.body)
    calls = tuple(
        (call.name, parse_arguments(call.arguments)) for call in OPENROUTER.provider_parse_tool_calls(response)
    )
    try:
        answer = OPENROUTER.provider_parse_response(response)
        outcome = get_outcome(answer, bool(calls), ended)
    except ProviderError as error:
        assert error.partial_response is not None
        assert error.message
        answer, outcome = error.partial_response, "error"
    assert (answer.text, calls, outcome) == (recording.text, recording.calls, recording.outcome)


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.status != 200], ids=str)
def test_recorded_error_is_one_line(recording: Recording) -> None:
    error = OPENROUTER.provider_parse_error(recording.status, {}, recording.body.decode())
    assert error.status == recording.status
    assert error.message
    assert "\n" not in error.message
    assert error.message != "Provider returned error"
    assert (error.retry_action.kind == "retry") == (recording.status == 429)


def parse_arguments(arguments: str) -> Any:
    """Parse arguments as the recordings do: invalid JSON stays a string."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def get_outcome(answer: ModelResponse, called: bool, ended: bool) -> str:
    """Return an answer's outcome by its name in the recordings."""
    if not ended:
        return "cut"
    if answer.finish_reason in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER):
        return answer.finish_reason
    return "ok" if answer.text or called else "empty"
