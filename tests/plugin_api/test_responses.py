"""The Responses API: requests, answers, streams and errors; requests are checked with the types of the `openai` SDK."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import (
    AskError,
    Attachment,
    ChatCompletions,
    ChatRequest,
    FinishReason,
    Message,
    ProviderState,
    RawEvent,
    ReasoningDelta,
    Responses,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.testing import ProviderContract
from tests import responses_wire, wire
from tests.host_requests import prepare_request
from tests.json_strategies import any_json, replace_any_part
from tests.model_server import DROP, ModelServer
from tests.recorded_exchanges import send_request
from tests.responses_wire import call, message, reasoning, response, to_server_event

CHAT = ChatCompletions(
    name="test", base_url="http://test/v1", attachments=("image/png", "application/pdf", "audio/wav")
)
SERVICE = Responses(CHAT)
TALK = (Message("system", "Be kind."), Message("user", "What is in a.txt?"))
TOOLS = [ToolSpec("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})]
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


class TestResponses(ProviderContract):
    provider = SERVICE
    test_values_of_wrong_types_in_a_stream_are_handled = pytest.mark.slow(
        ProviderContract.test_values_of_wrong_types_in_a_stream_are_handled
    )
    """`test_any_stream_is_read_or_is_an_error` damages the same events at random."""


def build(*messages: Message, model: str = "model-1", **fields: Any) -> Any:
    """Build a request body for a conversation that starts with a question, and check its types."""
    request = prepare_request(SERVICE, model, (*TALK, *messages), **fields)
    body = json.loads(json.dumps(SERVICE.provider_build_request(request, "key").body))
    responses_wire.check_request(body)
    return body


def read_stream(events: list[Any]) -> tuple[Any, list[Any]]:
    """Feed events to a reader; return the reader and the deltas."""
    reader = SERVICE.provider_stream_reader()
    return reader, [delta for event in events for delta in reader.feed(to_server_event(event))]


def to_message(answer: Any) -> Message:
    """Return the message that is stored for a response."""
    parsed = SERVICE.provider_parse_response(answer)
    return Message(
        "assistant", parsed.text, tuple(SERVICE.provider_parse_tool_calls(answer)), provider_state=parsed.provider_state
    )


# Requests


def test_requests_are_stateless_and_ask_for_encrypted_reasoning() -> None:
    http = SERVICE.provider_build_request(ChatRequest("model-1", TALK, stream=False), "key")
    assert (http.path, http.headers) == ("/responses", {"Authorization": "Bearer key"})
    assert http.body == {
        "model": "model-1",
        "input": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "What is in a.txt?"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest", "ft:gpt-4o:a::b", "openai/gpt-4o"]
)
def test_no_reasoning_is_requested_from_models_without(model: str) -> None:
    body = build(model=model, show_reasoning=True)
    assert not {"include", "reasoning"} & body.keys()


@pytest.mark.parametrize("model", ["gpt-5", "gpt-6-sol", "o4-mini", "gpt-5.2-codex", "grok-4.3"])
def test_summaries_are_requested_only_to_be_shown(model: str) -> None:
    assert "reasoning" not in build(model=model)
    assert build(model=model, show_reasoning=True)["reasoning"] == {"summary": "auto"}


def test_cache_key_is_the_conversations_id() -> None:
    assert build(conversation_id="c-1")["prompt_cache_key"] == "c-1"
    assert "prompt_cache_key" not in build()


def test_tools_are_flat_and_not_strict() -> None:
    body = build(tools=TOOLS)
    (tool,) = body["tools"]
    assert tool == {
        "type": "function",
        "name": "read_file",
        "description": "Reads.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        "strict": False,
    }
    assert body["tool_choice"] == "auto"
    assert build(tools=TOOLS, tool_choice="none")["tool_choice"] == "none"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_tokens": 99}, {"max_output_tokens": 99}),
        ({"max_completion_tokens": 98, "max_tokens": 99}, {"max_output_tokens": 98}),
        ({"max_output_tokens": 97, "max_tokens": 99}, {"max_output_tokens": 97}),
        ({"reasoning_effort": "low"}, {"reasoning": {"summary": "auto", "effort": "low"}}),
        ({"reasoning": {"summary": "detailed"}}, {"reasoning": {"summary": "detailed"}}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"parallel_tool_calls": False, "temperature": 0.5}, {"parallel_tool_calls": False, "temperature": 0.5}),
    ],
)
def test_options_get_the_names_of_this_api(options: dict[str, Any], expected: dict[str, Any]) -> None:
    body = build(options=options, show_reasoning=True)
    assert {name: body[name] for name in expected} == expected
    assert not {"max_tokens", "max_completion_tokens", "reasoning_effort", "verbosity"} & body.keys()


def test_schema_is_the_text_format() -> None:
    body = build(schema=SCHEMA, options={"verbosity": "low"})
    text_format = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
    assert body["text"] == {"format": text_format, "verbosity": "low"}


def test_files_are_parts_of_the_message() -> None:
    files = (Attachment("a.png", "image/png", b"image"), Attachment("b.pdf", "application/pdf", b"paper"))
    body = build(Message("user", "", attachments=files))
    assert body["input"][-1]["content"] == [
        {"type": "input_image", "image_url": "data:image/png;base64,aW1hZ2U=", "detail": "auto"},
        {"type": "input_file", "filename": "b.pdf", "file_data": "data:application/pdf;base64,cGFwZXI="},
    ]
    assert not SERVICE.provider_supports_attachment("model-1", "audio/wav")


# Conversations


def test_items_go_back_verbatim_and_before_the_results() -> None:
    items = [
        reasoning("Hm.", encrypted="c2VjcmV0", content=[]),
        message("Let me see.", phase="commentary"),
        call("read_file", {"path": "ĝ"}, "call_1"),
        call("read_file", '{"path":  "b"}', "call_2"),
    ]
    sent = build(
        to_message(response(*items)),
        Message("tool", "one", (), "call_1", "read_file"),
        Message("tool", "two", (), "call_2", "read_file"),
        tools=TOOLS,
    )["input"]
    assert sent[2:6] == items
    assert sent[6:] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "one"},
        {"type": "function_call_output", "call_id": "call_2", "output": "two"},
    ]


@pytest.mark.parametrize(
    "item",
    [reasoning("Hm.", encrypted=None), reasoning("Hm.", encrypted=""), reasoning(encrypted=None, content=[])],
)
def test_reasoning_known_by_its_id_alone_does_not_go_back(item: Any) -> None:
    stored = to_message(response(item, call("read_file", {})))
    assert stored.provider_state is None
    kept = stored._replace(
        provider_state=ProviderState("test:responses", "model-1", {"output": [item, call("read_file", {})]})
    )
    for sent in (build(stored), build(kept)):
        assert [entry.get("type") for entry in sent["input"][2:]] == ["function_call"]


def test_items_that_were_stored_as_they_came_go_back_clean() -> None:
    action = {"type": "search", "query": "sky"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action | {"sources": []}}
    said = message("It is blue.", id="msg_1")
    stored = to_message(response(said))._replace(
        provider_state=ProviderState("test:responses", "model-1", {"output": [search, said | {"phase": None}]})
    )
    assert build(stored)["input"][2:] == [search | {"action": action}, said]


def test_items_whose_reasoning_is_lost_do_not_go_back() -> None:
    answer = response(reasoning("Hm.", encrypted=None), message("Let me see.", phase="commentary"), call("a", {}))
    assert to_message(answer).provider_state is None
    assert to_message(response(message("Let me see.", phase="commentary"), call("a", {}))).provider_state


def test_plain_reasoning_goes_back() -> None:
    item = reasoning(encrypted=None, content=[{"type": "reasoning_text", "text": "Hm."}])
    assert build(to_message(response(item, call("read_file", {}))))["input"][2] == item


def test_incomplete_answers_leave_only_their_text() -> None:
    cut = response(reasoning(), message("It is sh"), status="incomplete", reason="max_output_tokens")
    stored = to_message(cut)
    assert stored.provider_state is None
    assert build(stored)["input"][2:] == [{"role": "assistant", "content": "It is sh"}]


def test_edited_arguments_replace_the_original_ones() -> None:
    stored = to_message(response(reasoning(), call("bash", {"command": "rm a"})))
    edited = stored._replace(tool_calls=(stored.tool_calls[0]._replace(arguments='{"command": "ls"}'),))
    sent = build(edited)["input"]
    assert (sent[2]["type"], sent[3]["arguments"]) == ("reasoning", '{"command": "ls"}')


def test_a_message_whose_calls_were_dropped_is_built_from_its_text() -> None:
    stored = to_message(response(reasoning(), message("Enough."), call("bash", {})))._replace(tool_calls=())
    assert build(stored)["input"][2:] == [{"role": "assistant", "content": "Enough."}]


def test_other_models_and_providers_get_no_reasoning() -> None:
    answer = response(reasoning("Private."), message("Hm."), call("read_file", {}), model="alpha/one")
    stored = to_message(answer)
    assert stored.provider_state
    assert "Private." in json.dumps(build(stored, model="alpha/two"))
    for sent in (
        build(stored, model="beta/one"),
        build(stored._replace(provider_state=stored.provider_state._replace(provider="other")), model="alpha/one"),
    ):
        assert "Private." not in json.dumps(sent)
        assert [entry.get("type") for entry in sent["input"][2:]] == [None, "function_call"]


def test_call_ids_are_short_and_used_once() -> None:
    calls = tuple(ToolCall(call_id, "read_file", "{}") for call_id in ("call_1", "x" * 99, "y" * 64))
    turn = [Message("assistant", "", calls), *(Message("tool", c.id[:9], (), c.id, "read_file") for c in calls)]
    items = build(*turn, *turn)["input"][2:]
    made = [item["call_id"] for item in items if item["type"] == "function_call"]
    answered = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert made == answered
    assert len(set(made)) == 6
    assert max(map(len, made)) <= 64
    assert (made[0], made[2]) == ("call_1", "y" * 64)


def test_chat_and_responses_of_one_provider_continue_each_other() -> None:
    """Both have the same name, so each must leave the other's reasoning out."""

    class Chat(ChatCompletions):
        state_fields = ("reasoning_content",)

    chat = Chat(name="test", base_url="http://test/v1")
    mine = to_message(response(reasoning("Private."), message("Let me see."), call("read_file", {})))
    whole = wire.answer("Let me see.", [("read_file", {})], reasoning_content="Private.") | {"model": "model-1"}
    parsed = chat.provider_parse_response(whole)
    theirs = Message(
        "assistant", parsed.text, tuple(chat.provider_parse_tool_calls(whole)), provider_state=parsed.provider_state
    )
    assert mine.provider_state
    assert theirs.provider_state
    for stored in (mine, theirs):
        result = Message("tool", "contents", (), stored.tool_calls[0].id, "read_file")
        chat_body = chat.build_body(prepare_request(chat, "model-1", (*TALK, stored, result), TOOLS))
        body = build(stored, result, tools=TOOLS)
        assert ("Private." in json.dumps(chat_body)) == (stored is theirs)
        assert ("Private." in json.dumps(body)) == (stored is mine)
        plain = wire.without_fields(chat_body, {"reasoning_content"})
        assert wire.read_by_openai(plain) == plain


# Answers


def test_usage_counts_cached_tokens_and_reasoning_as_output() -> None:
    usage = SERVICE.provider_parse_response(response(message("Hi."))).usage
    assert usage == Usage(12, 7, 4, 5, cache_write_tokens=0)


@pytest.mark.parametrize(
    ("answer", "finish"),
    [
        (response(message("Hi.")), FinishReason.STOP),
        (response(message("Hi."), call("a", {})), FinishReason.TOOL_CALLS),
        (response(message(refusal="No.")), FinishReason.CONTENT_FILTER),
        (response(message("Hi"), status="incomplete", reason="max_output_tokens"), FinishReason.LENGTH),
        (response(message("Hi"), status="incomplete", reason="content_filter"), FinishReason.CONTENT_FILTER),
        (response(message("Hi"), status="incomplete"), FinishReason.LENGTH),
        (response(call("a", '{"b', status="incomplete")), FinishReason.LENGTH),
        (response(message("Hi"), status="cancelled"), FinishReason.ERROR),
    ],
)
def test_finish_reason(answer: Any, finish: FinishReason) -> None:
    assert SERVICE.provider_parse_response(answer).finish_reason is finish


def test_an_empty_answer_names_what_the_service_waits_for() -> None:
    """Tools of `-o tools=[...]` can need the client: a shell, or by default the approval of each MCP call."""
    approval = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "shorten", "arguments": "{}"}
    shell = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}, "status": "completed"}
    custom = {"type": "custom_tool_call", "call_id": "call_2", "name": "math_exp", "input": "4 + 4"}
    output = {"type": "shell_call_output", "call_id": "call_1", "output": []}
    for items, expected in (
        ([reasoning("Hm."), approval], "the approval of shorten"),
        ([shell], "the model called shell_call, which"),
        ([shell, output, custom], "the model called math_exp, which"),
        ([shell, message("Done.")], ""),
        ([shell, output], ""),
        ([call("a", {})], ""),
    ):
        found = SERVICE.provider_parse_response(response(*items)).finish_message
        assert (expected in found, bool(found)) == (True, bool(expected))


def test_calls_have_unique_ids() -> None:
    answer = response(call("a", {}, "same"), call("b", {}, "same"), {"type": "function_call", "arguments": {"b": 1}})
    calls = SERVICE.provider_parse_tool_calls(answer)
    assert [(one.name, one.arguments) for one in calls] == [("a", "{}"), ("b", "{}"), ("unnamed", '{"b": 1}')]
    assert len({one.id for one in calls}) == 3


def test_a_chat_response_is_read_too() -> None:
    whole = wire.answer("Hello.", [("read_file", {"path": "a"})])
    assert SERVICE.provider_parse_response(whole).text == "Hello."
    assert [one.name for one in SERVICE.provider_parse_tool_calls(whole)] == ["read_file"]
    reader = SERVICE.provider_stream_reader()
    for event in wire.events(wire.sse(*wire.stream("Hello.", [("read_file", {"path": "a"})]))):
        reader.feed(event)
    assert reader.complete
    assert SERVICE.provider_parse_response(reader.response()).text == "Hello."


# Streams


def test_our_sample_events_match_the_sdk_s_types() -> None:
    whole = response(reasoning("A.", "B."), message("Hello."), message(refusal="No."), call("a", {"b": 1}))
    responses_wire.check_events(responses_wire.events(whole))


def test_parts_of_a_summary_are_paragraphs() -> None:
    whole = response(reasoning("**One**", "**Two**"), reasoning("**Three**", id="rs_2"), message("Hello."))
    reader, deltas = read_stream(responses_wire.events(whole))
    shown = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    assert shown == "**One**\n\n**Two**\n\n**Three**"
    assert SERVICE.provider_parse_response(reader.response()).reasoning == shown
    assert SERVICE.provider_parse_response(whole).reasoning == shown


@pytest.mark.parametrize("kept", ["response.completed", "response.output_item.done"])
def test_text_and_calls_without_deltas_are_shown(kept: str) -> None:
    whole = response(reasoning("Hm."), message("Hello."), call("a", {}))
    stream = [event for event in responses_wire.events(whole) if event["type"] in (kept, "response.completed")]
    reader, deltas = read_stream(stream)
    assert deltas == [ReasoningDelta("Hm."), TextDelta("Hello."), ToolCallDelta(0, "a")]
    assert reader.response() == whole


def test_the_rest_of_a_truncated_text_is_shown() -> None:
    whole = response(message("Hello, world."))
    *begun, _, last = responses_wire.events(whole)
    _, deltas = read_stream([*begun[:-1], last])
    assert "".join(delta.text for delta in deltas) == "Hello, world."


def test_the_final_response_replaces_different_text_with_a_notice(server: ModelServer) -> None:
    events = responses_wire.events(response(message("Hello, world.")))
    lost = [event for event in events if event.get("delta") != "Hello, "]
    assert len(lost) == len(events) - 1
    server.reply(responses_wire.streams(*lost))
    exchange = send_request(SERVICE, server, ChatRequest("model-1", TALK))
    assert exchange.result.answer.text == "Hello, world."
    assert "differs" in exchange.notices[0]


@pytest.mark.parametrize("last_type", ["response.completed", "response.done"])
def test_items_of_a_final_response_without_any_are_those_of_the_stream(last_type: str) -> None:
    *begun, last = responses_wire.events(response(reasoning(), message("Hello."), call("a", {"b": 1})))
    last |= {"type": last_type, "response": last["response"] | {"output": []}}
    reader, _ = read_stream([*begun, last])
    assert reader.complete
    assert SERVICE.provider_parse_response(reader.response()).text == "Hello."
    assert SERVICE.provider_parse_tool_calls(reader.response()) == [ToolCall("call_1", "a", '{"b": 1}')]


def test_reasoning_that_the_final_response_lacks_is_that_of_the_stream() -> None:
    """As from Bifrost: https://github.com/maximhq/bifrost/issues/5149"""
    thought, made = reasoning("Hm."), call("a", {"b": 1})
    *begun, last = responses_wire.events(response(thought, made))
    last |= {"response": last["response"] | {"output": [made]}}
    reader, _ = read_stream([*begun, last])
    answer = SERVICE.provider_parse_response(reader.response())
    assert answer.reasoning == "Hm."
    assert answer.provider_state is not None
    assert answer.provider_state.data["output"] == [thought, made]


def test_restored_reasoning_stays_before_its_item() -> None:
    items = [
        reasoning("One."),
        message("Hm.", phase="commentary"),
        reasoning("Two."),
        call("a", {"b": 1}),
        reasoning("Three."),
        call("b", {"b": 1}, "call_2"),
    ]
    for kept in ([1, 3, 5], [5], [3, 1]):
        *begun, last = responses_wire.events(response(*items))
        last |= {"response": last["response"] | {"output": [items[index] for index in kept]}}
        reader, _ = read_stream([*begun, last])
        assert reader.response()["output"] == items


@pytest.mark.parametrize(
    "search",
    [
        {"type": "tool_search_call", "execution": "server", "call_id": None, "arguments": {"paths": ["crm"]}},
        {"type": "mcp_call", "server_label": "s", "name": "t", "arguments": "{}", "output": "x", "error": None},
    ],
)
def test_a_call_of_the_service_replaces_no_other_item(search: dict[str, Any]) -> None:
    found: dict[str, Any] = {
        "type": "tool_search_output",
        "id": "tso_1",
        "call_id": None,
        "execution": "server",
        "tools": [],
    }
    items = [reasoning("Hm."), search, found, message("Let me see."), call("read_file", {"path": "a"})]
    done = [{"type": "response.output_item.done", "output_index": i, "item": item} for i, item in enumerate(items)]
    reader, _ = read_stream([*done, {"type": "response.completed", "response": response(*items)}])
    assert reader.response()["output"] == items


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("types", ["response.output_item.done", ""])
def test_messages_of_one_answer_are_paragraphs(types: str, listed: bool) -> None:
    """As of https://github.com/microsoft/vscode/issues/312163: the answer began in the middle of a line."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    source = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
    part = {"type": "output_text", "text": "It is.", "annotations": [source]}
    said = message("I will look.", phase="commentary"), search, message(id="msg_2", content=[part])
    whole = response(*said)
    *begun, last = responses_wire.events(whole)
    if not listed:
        last |= {"response": whole | {"output": []}}
    reader, deltas = read_stream([*(event for event in begun if not types or event["type"] == types), last])
    shown = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    answer = SERVICE.provider_parse_response(reader.response())
    assert shown == answer.text == SERVICE.provider_parse_response(whole).text == "I will look.\n\nIt is."
    assert [answer.text[cited.start : cited.end] for cited in answer.citations] == ["It"]
    assert build(to_message(whole), Message("user", "Sure?"))["input"][2:-1] == list(said)
    assert not reader.notice


def test_a_stream_without_its_end_is_incomplete_and_runs_no_calls(server: ModelServer) -> None:
    events = responses_wire.events(response(message("Let me see."), call("a", {"b": 1})))[:-1]
    for ending in ([], [DROP]):
        server.reply(responses_wire.streams(*events, *ending))
        result = send_request(SERVICE, server, ChatRequest("model-1", TALK)).result
        assert (result.answer.text, result.answer.finish_reason, result.tool_calls) == (
            "Let me see.",
            FinishReason.STREAM_INCOMPLETE,
            (),
        )


def test_items_of_a_cut_stream_are_kept_as_far_as_they_came() -> None:
    whole = response(reasoning("Hm.", "Well."), message("Let", refusal="No"), call("a", '{"b": 1}'))
    reader, _ = read_stream([one for one in responses_wire.events(whole)[:-1] if not one["type"].endswith("done")])
    read = SERVICE.provider_parse_response(reader.response())
    assert (read.text, read.reasoning) == ("LetNo", "Hm.\n\nWell.")
    assert SERVICE.provider_parse_tool_calls(reader.response()) == [ToolCall("call_1", "a", '{"b": 1}')]


def test_growth_is_counted_and_keep_alive_events_are_not() -> None:
    whole = response(reasoning("Hm."), message("Hello."), call("a", {"b": 1}))
    reader = SERVICE.provider_stream_reader()
    for event in responses_wire.events(whole):
        before = reader.size
        reader.feed(to_server_event(event))
        assert (reader.size > before) == ("delta" in event or "item" in event), event
        reader.feed(to_server_event({"type": "response.in_progress", "response": response(status="in_progress")}))
        reader.feed(to_server_event({"type": "keepalive"}))
        assert reader.size == before or "delta" in event or "item" in event


# Errors


def test_failed_response_is_read_after_an_error_event() -> None:
    begun = responses_wire.events(response(message("Hello, w")))[:-2]
    reader, _ = read_stream([*begun, responses_wire.error("It is overloaded.")])
    assert reader.complete
    failed = response(status="failed", error={"code": "server_error", "message": "It is overloaded."})
    reader.feed(to_server_event({"type": "response.failed", "response": failed}))
    with pytest.raises(AskError) as caught:
        SERVICE.provider_parse_response(reader.response())
    assert caught.value.message == "It is overloaded."


@pytest.mark.parametrize(
    ("code", "requests"),
    [("server_error", 2), ("rate_limit_exceeded", 2), ("invalid_prompt", 1), (503, 2), (400, 1), (None, 2)],
)
@pytest.mark.parametrize("stream", [True, False])
def test_temporary_errors_inside_a_response_are_retried(
    server: ModelServer, code: Any, requests: int, stream: bool
) -> None:
    # The API may give no error: https://github.com/langchain-ai/langchain/pull/39178
    failed = response(status="failed", error={"code": code, "message": "it failed"} if code else None)
    server.reply(responses_wire.replies(failed, stream=stream), responses_wire.says("Hello.", stream=stream))
    exchange = send_request(SERVICE, server, ChatRequest("model-1", TALK, stream=stream), tries=2)
    assert len(server.requests) == requests
    assert (exchange.streamed_text == "Hello.") == (requests == 2)


def test_an_error_after_text_is_not_retried(server: ModelServer) -> None:
    begun = responses_wire.events(response(message("Hello, w")))[:-2]
    server.reply(responses_wire.streams(*begun, responses_wire.error("It is overloaded.")))
    exchange = send_request(SERVICE, server, ChatRequest("model-1", TALK), tries=3)
    assert (exchange.streamed_text, exchange.outcome, len(server.requests)) == ("Hello, w", "error", 1)
    assert "It is overloaded" in str(exchange.result.error)


@pytest.mark.parametrize(
    ("parameter", "option"),
    [
        ("max_output_tokens", "max_tokens"),
        ("reasoning.effort", "reasoning_effort"),
        ("text.verbosity", "verbosity"),
        ("temperature", "temperature"),
    ],
)
def test_rejected_parameter_has_the_user_s_name(parameter: str, option: str) -> None:
    body = json.dumps({"error": {"message": "Unsupported value.", "param": parameter, "code": "unsupported_value"}})
    assert SERVICE.provider_parse_error(400, {}, body).parameter == option


def test_rejected_summary_names_the_option_that_asks_for_it() -> None:
    text = "Your organization must be verified to generate reasoning summaries."
    body = json.dumps({"error": {"message": text, "param": "reasoning.summary", "code": "unsupported_value"}})
    assert "-v" in SERVICE.provider_parse_error(400, {}, body).hint


# Malformed answers

SAMPLE = response(reasoning("Hm."), message("Hello."), message(refusal="No."), call("a", {"b": 1}))
EVENTS = [*responses_wire.events(SAMPLE), responses_wire.error()]


@given(st.one_of(any_json(), replace_any_part(SAMPLE)))
def test_any_response_is_read_or_is_an_error(answer: Any) -> None:
    answer = answer if isinstance(answer, dict) else {"output": answer}
    before = json.dumps(answer)
    for one in SERVICE.provider_parse_tool_calls(answer):
        assert isinstance(one, ToolCall)
        assert one.id
    with suppress(AskError):
        SERVICE.provider_parse_response(answer)
    assert json.dumps(answer) == before


@given(st.lists(st.one_of(any_json(), *map(replace_any_part, EVENTS)), max_size=6))
def test_any_stream_is_read_or_is_an_error(events: list[Any]) -> None:
    reader = SERVICE.provider_stream_reader()
    for event in events:
        reader.feed(RawEvent(None, json.dumps(event)))
        json.dumps(reader.response())
    SERVICE.provider_parse_tool_calls(reader.response())
    with suppress(AskError):
        SERVICE.provider_parse_response(reader.response())


@given(st.sampled_from([None, "", "error", "response.completed"]), st.text())
def test_any_event_text_is_read(kind: str | None, data: str) -> None:
    SERVICE.provider_stream_reader().feed(RawEvent(kind, data))


@given(any_json())
def test_any_stored_items_are_sent_or_left_out(items: Any) -> None:
    stored = Message(
        "assistant", "Hi.", (), provider_state=ProviderState("test:responses", "model-1", {"output": items})
    )
    json.dumps(SERVICE.build_body(ChatRequest("model-1", (*TALK, stored))))
