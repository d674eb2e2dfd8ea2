"""Anthropic's responses and errors, synthetic and recorded, read through the client from a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import (
    ChatRequest,
    FinishReason,
    Message,
    ProviderError,
    ReasoningDelta,
    RetryAction,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.errors import ParameterError
from providers.anthropic import provider as anthropic
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply
from tests.providers import anthropic_wire as wire
from tests.recorded_exchanges import (
    ExchangeResult,
    check_turn,
    list_chunkings,
    make_tool_result,
    replay_recording,
    send_request,
    send_tool_results,
)
from tests.recordings import Recording, recordings
from tests.wire import whole_reply

RECORDED = recordings("anthropic")
GLUED = ("anthropic-027", "anthropic-028")
"""Recordings with several complete responses, of consecutive requests, in one body; their expected text mixes their
blocks.

A response is one message, so only the first one is read.
"""
CUT = [(recording, way) for recording in RECORDED for way in ("whole", *list_chunkings(recording))]
REQUEST = ChatRequest("m", [Message("user", "hi")])
TOOL = ToolSpec("bash", "Runs a command.", {"type": "object"})


def ask(server: ModelServer, *replies: Reply, tries: int = 1, **options: Any) -> ExchangeResult:
    server.reply(*replies)
    return send_request(anthropic, server, REQUEST._replace(options=options), [TOOL], tries=tries)


# Streams


def test_text_after_a_server_tool_is_a_paragraph_and_cited_text_is_none(server: ModelServer) -> None:
    """A citation is a block of its own in the middle of a sentence."""
    source = {"type": "web_search_result_location", "url": "https://a.example", "title": "A", "cited_text": "so"}
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    cited = ({"type": "text_delta", "text": "so"}, {"type": "citations_delta", "citation": source})
    parts = [wire.text(0, "", "I will", " look."), wire.block(1, search), wire.block(2, found), wire.text(3, "")]
    parts += [wire.text(4, "It is "), wire.block(5, {"type": "text", "text": "", "citations": []}, *cited)]
    parts += [wire.text(6, "."), wire.block(7, search), wire.text(8, "\nSure", ".")]
    exchange = ask(server, wire.streams(wire.begins(), *parts, wire.ends()))
    answer = exchange.result.answer
    assert exchange.streamed_text == answer.text == "I will look.\n\nIt is so.\nSure."
    assert [answer.text[each.start : each.end] for each in answer.citations] == ["so"]
    history = Message("assistant", answer.text, provider_state=answer.provider_state)
    request = prepare_request(anthropic, "m", (*REQUEST.messages, history, Message("user", "Sure?")))
    body = anthropic.provider_build_request(request, "key").body or {}
    assert [block["type"] for block in body["messages"][1]["content"]][:3] == ["text", "server_tool_use", found["type"]]


@pytest.mark.parametrize("pieces", [(), ("",), ("", "  "), ("{}",), ("", "{", " }")])
def test_a_call_without_arguments_has_an_empty_object(server: ModelServer, pieces: tuple[str, ...]) -> None:
    exchange = ask(server, wire.streams(wire.begins(), wire.call(0, "bash", *pieces), wire.ends("tool_use")))
    assert exchange.calls == (("bash", {}),)


def test_stream_deltas_arrive_in_order() -> None:
    reader = anthropic.provider_stream_reader()
    parts = [
        wire.begins(),
        wire.thinking(0, "Hm."),
        wire.text(1, "A", "", "B"),
        wire.call(2, "x", "{}"),
        wire.call(3, "y"),
    ]
    deltas = [delta for event in wire.events(*parts) for delta in reader.feed(event)]
    assert deltas == [
        ReasoningDelta("Hm."),
        TextDelta("A"),
        TextDelta("B"),
        ToolCallDelta(0, "x"),
        ToolCallDelta(1, "y"),
    ]


def test_calls_with_incomplete_arguments_keep_their_text(server: ModelServer) -> None:
    exchange = ask(server, wire.streams(wire.begins(), wire.call(0, "bash", '{"command": "rm'), wire.ends("tool_use")))
    assert [call.arguments for call in exchange.result.tool_calls] == ['{"command": "rm']


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_calls_of_a_truncated_response_are_withheld(server: ModelServer, reason: str) -> None:
    exchange = ask(server, wire.streams(wire.begins(), wire.call(0, "bash", '{"command": "rm'), wire.ends(reason)))
    assert (exchange.result.tool_calls, exchange.outcome) == ((), "length")


def test_response_without_its_end_is_incomplete(server: ModelServer) -> None:
    call = wire.call(1, "bash", "{}")
    exchange = ask(server, wire.streams(wire.begins(), wire.text(0, "Hel"), call), wire.says("Hello."), tries=2)
    assert (exchange.outcome, exchange.result.answer.text, exchange.result.tool_calls) == ("cut", "Hel", ())
    assert len(server.requests) == 1


def test_blocks_with_one_index_are_all_kept(server: ModelServer) -> None:
    """https://github.com/anthropics/anthropic-sdk-typescript/issues/879"""
    blocks = [wire.text(0, "Hel"), wire.text(0, "lo."), wire.call(0, "bash", "{}"), wire.call(0, "bash", '{"a": 1}')]
    exchange = ask(server, wire.streams(wire.begins(), *blocks, wire.ends("tool_use")))
    assert exchange.result.answer.text == exchange.streamed_text == "Hello."
    assert exchange.calls == (("bash", {}), ("bash", {"a": 1}))


def test_usage_after_the_reason_is_read(server: ModelServer) -> None:
    reason, stop = wire.ends()
    late = reason | {"delta": {}, "usage": {"output_tokens": 21}}
    exchange = ask(server, wire.streams(wire.begins(), wire.text(0, "Hello."), [reason, late, stop]))
    assert exchange.result.answer.usage.output_tokens == 21


def test_restarted_message_replaces_the_interrupted_one(server: ModelServer) -> None:
    first = [*wire.begins(), *wire.thinking(0, "No."), *wire.call(1, "bash", '{"command": "l')[:-1]]
    exchange = ask(
        server, wire.streams(first, wire.begins(), wire.call(0, "bash", '{"command": "ls"}'), wire.ends("tool_use"))
    )
    assert (exchange.calls, exchange.result.answer.reasoning) == ((("bash", {"command": "ls"}),), "")


def test_citations_and_unknown_events_are_accepted(server: ModelServer) -> None:
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    start: dict[str, Any] = {"type": "text", "text": "", "citations": []}
    parts = wire.block(
        0,
        start,
        {"type": "citations_delta", "citation": cited},
        {"type": "text_delta", "text": "Hello."},
        {"type": "future_delta", "future": 1},
    )
    unknown: list[dict[str, Any]] = [wire.PING, {"type": "future_event", "future": 1}]
    block = wire.block(1, {"type": "future_block", "text": "No. "}, {"type": "future_delta", "text": "No."})
    exchange = ask(server, wire.streams(wire.begins(), unknown, parts, block, wire.ends()))
    assert (exchange.result.answer.text, exchange.streamed_text) == ("Hello.", "Hello.")


def test_deltas_of_an_unknown_type_extend_their_blocks(server: ModelServer) -> None:
    thinking = wire.block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking", "thinking": "Hm."})
    deltas = [{"type": "text", "text": "Hel"}, {"type": "text_delta", "text": "lo"}, {"type": "text", "text": "."}]
    text = wire.block(1, {"type": "text", "text": ""}, *deltas)
    call = wire.block(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}},
        {"type": "tool_use", "partial_json": '{"command": "ls"}'},
    )
    not_begun = wire.block(3, {}, {"type": "text", "text": " More."})[1:]
    exchange = ask(server, wire.streams(wire.begins(), thinking, text, call, not_begun, wire.ends("tool_use")))
    answer = exchange.result.answer
    assert (answer.text, exchange.streamed_text, answer.reasoning) == ("Hello. More.", "Hello. More.", "Hm.")
    assert exchange.calls == (("bash", {"command": "ls"}),)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("future_reason", FinishReason.STOP),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("pause_turn", FinishReason.CONTINUE),
        ("compaction", FinishReason.CONTINUE),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
    ],
)
def test_stop_reasons(reason: str, finish: FinishReason) -> None:
    assert anthropic.provider_parse_response(wire.message_of(reason=reason)).finish_reason is finish


def test_usage_includes_cached_input(server: ModelServer) -> None:
    """Later counts replace earlier ones; they are cumulative."""
    exchange = ask(server, wire.streams(wire.begins(), wire.text(0, "Hi."), wire.ends(output_tokens=42)))
    assert exchange.result.answer.usage == Usage(12, 42, 4, cache_write_tokens=5)
    exchange = ask(server, wire.streams(wire.begins(), wire.text(0, "Hi."), wire.ends(input_tokens=1000)))
    assert exchange.result.answer.usage == Usage(1009, 7, 4, cache_write_tokens=5)
    thinking = wire.ends(output_tokens=42, output_tokens_details={"thinking_tokens": 30})
    exchange = ask(server, wire.streams(wire.begins(), wire.text(0, "Hi."), thinking))
    assert exchange.result.answer.usage == Usage(12, 42, 4, 30, cache_write_tokens=5)
    both = wire.ends(cache_creation={"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3})
    usage = ask(server, wire.streams(wire.begins(), wire.text(0, "Hi."), both)).result.answer.usage
    assert usage == Usage(12, 7, 4, cache_write_tokens=5, cache_write_1h_tokens=3)
    assert anthropic.provider_parse_response({"content": []}).usage == Usage()


# Errors


def failure(status: int, kind: str, message: str, **more: Any) -> ProviderError:
    error = {"type": kind, "message": message, **more}
    return anthropic.provider_parse_error(status, {}, json.dumps({"type": "error", "error": error}))


def test_overload_after_200_is_retried_before_any_output(server: ModelServer) -> None:
    overloaded = [wire.error("overloaded_error", "Overloaded")]
    exchange = ask(server, wire.streams(wire.begins(), overloaded), wire.says("Hello."), tries=2)
    assert (exchange.result.answer.text, exchange.outcome) == ("Hello.", "ok")
    assert "Overloaded (anthropic, 529)" in exchange.notices[0]
    exchange = ask(server, wire.streams(wire.begins(), wire.text(0, "Hel"), overloaded), wire.says("No."), tries=2)
    assert (exchange.result.answer.text, exchange.outcome, len(exchange.notices)) == ("Hel", "error", 0)


@pytest.mark.parametrize(
    ("kind", "status", "retried"),
    [
        ("invalid_request_error", 400, False),
        ("authentication_error", 401, False),
        ("permission_error", 403, False),
        ("not_found_error", 404, False),
        ("request_too_large", 413, False),
        ("rate_limit_error", 429, True),
        ("api_error", 500, True),
        ("timeout_error", 504, True),
        ("overloaded_error", 529, True),
    ],
)
def test_errors_have_the_same_remedy_with_and_without_their_status(kind: str, status: int, retried: bool) -> None:
    for sent_status in (status, 200):
        error = failure(sent_status, kind, "It failed.")
        assert (error.status, error.retry_action.kind == "retry") == (status, retried)
        assert error.is_overload == (kind == "overloaded_error")


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans",
        ),
        (400, "invalid_request_error", "You have reached your specified API usage limits. You will regain access on"),
        (402, "billing_error", "There is an issue with your billing."),
    ],
)
def test_missing_credit_switches_keys_and_says_where_to_pay(status: int, kind: str, message: str) -> None:
    error = failure(status, kind, message)
    assert error.retry_action is RetryAction.NEXT_KEY
    assert "https://platform.claude.com/settings/billing" in str(error)


@pytest.mark.parametrize(
    "code",
    [
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "linked_organization_spend_limit_reached",
        "linked_organization_billing_unavailable",
    ],
)
def test_spent_limit_of_an_organization_is_like_missing_credit(code: str) -> None:
    spent = failure(429, "rate_limit_error", "Limit.", details={"error_code": code})
    assert spent.retry_action is RetryAction.NEXT_KEY
    assert "https://platform.claude.com/settings/billing" in str(spent)
    growing = failure(429, "rate_limit_error", "Limit.", details={"error_code": "ramp_limit_exceeded"})
    assert growing.retry_action.kind == "retry"
    named = failure(400, "invalid_request_error", f'tools.0: "check_{code}" is not valid')
    assert named.retry_action is RetryAction.NONE


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (413, "request_too_large", "Request exceeds the maximum size"),
        (400, "invalid_request_error", "prompt is too long: 1000300 tokens > 1000000 maximum"),
    ],
)
def test_too_long_request_has_a_hint(status: int, kind: str, message: str) -> None:
    assert str(failure(status, kind, message)).startswith(f"{message} ({status}): ")


def test_missing_model_is_reported_as_not_found(server: ModelServer) -> None:
    exchange = ask(server, whole_reply(wire.error("not_found_error", "model: claude-x"), 404))
    assert str(exchange.result.error).startswith(
        "not found: model: claude-x (anthropic, 404): ask models -p anthropic lists the models"
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("stop", "", "stop_sequences: each stop sequence must contain non-whitespace"),
        ("reasoning_effort", "huge", "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"),
        ("reasoning_effort", "low", "This model does not support the effort parameter."),
        ("reasoning_effort", "xhigh", "This model does not support effort level 'xhigh'. Supported levels: high, low."),
        ("reasoning_effort", "low", "adaptive thinking is not supported on this model"),
        ("thinking", {"type": "enabled"}, '"thinking.type.enabled" is not supported for this model.'),
        ("thinking", {"type": "enabled"}, "`max_tokens` must be greater than `thinking.budget_tokens`."),
        ("temperature", 5, "`temperature` is deprecated for this model."),
        ("max_tokens", 999999, "max_tokens: 999999 > 128000, which is the maximum allowed"),
        ("seed", 1, "seed: Extra inputs are not permitted"),
    ],
)
def test_refused_option_has_the_user_s_name(server: ModelServer, option: str, value: Any, message: str) -> None:
    exchange = ask(server, whole_reply(wire.error("invalid_request_error", message), 400), **{option: value})
    assert isinstance(exchange.result.error, ParameterError)
    assert exchange.result.error.hint.endswith(f" {option}")


def test_an_event_that_is_not_json_is_an_error(server: ModelServer) -> None:
    exchange = ask(server, Reply((b"event: message_start\ndata: upstream died\n\n",), content_type="text/event-stream"))
    assert "upstream died" in str(exchange.result.error)


# Models


def test_models_are_listed_with_context_and_without_retired_ones() -> None:
    request = anthropic.provider_models_request("key")
    assert (request.method, request.path) == ("GET", "/v1/models?limit=1000")
    assert request.headers["x-api-key"] == "key"
    listed = [
        {"type": "model", "id": "claude-a", "display_name": "Claude A", "max_input_tokens": 1000000},
        {"type": "model", "id": "claude-b", "display_name": "Claude B", "lifecycle": "retired"},
        {"type": "model", "id": "claude-c", "lifecycle": "deprecated", "max_input_tokens": None},
    ]
    models = anthropic.provider_parse_models({"data": listed, "has_more": False})
    assert [(model.id, model.title, model.context_length) for model in models] == [
        ("claude-a", "Claude A", 1000000),
        ("claude-c", "", None),
    ]


def test_listed_efforts_and_limits_are_read() -> None:
    levels = {effort: {"supported": effort != "xhigh"} for effort in ("low", "medium", "high", "xhigh", "max")}
    types = {"adaptive": {"supported": True}, "disabled": {"supported": False}, "between_tools": {"supported": True}}
    capabilities = {"effort": {"supported": True, **levels}, "thinking": {"supported": True, "types": types}}
    listed = [
        {"id": "claude-a", "max_tokens": 128000, "capabilities": capabilities},
        {"id": "claude-b", "capabilities": capabilities | {"thinking": {"supported": True}}},
        {"id": "claude-c", "capabilities": {"effort": {"supported": False, **levels}}},
        {"id": "claude-d", "capabilities": None},
        {"id": "claude-e", "capabilities": capabilities | {"thinking": {"types": {"adaptive": {"supported": True}}}}},
    ]
    models = anthropic.provider_parse_models({"data": listed})
    assert [(model.output_limit, model.efforts) for model in models] == [
        (128000, ("none", "low", "medium", "high", "max")),
        (None, ("low", "medium", "high", "max")),
        (None, None),
        (None, None),
        (None, ("none", "low", "medium", "high", "max")),
    ]


# Recordings


@pytest.mark.parametrize(("recording", "way"), [one for one in CUT if one[0].name not in GLUED], ids=str)
def test_recorded_response_is_read_alike_in_any_chunks(server: ModelServer, recording: Recording, way: str) -> None:
    pieces = [] if way == "whole" else list_chunkings(recording)[way]
    exchange = replay_recording(anthropic, server, recording, pieces)
    check_turn(exchange, recording)


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.name in GLUED], ids=str)
def test_first_of_several_recorded_responses_is_read(server: ModelServer, recording: Recording) -> None:
    last = b'data: {"type":"message_stop"}\n\n'
    first, found, rest = recording.body.partition(last)
    assert found
    assert b"message_start" in rest
    exchange = replay_recording(anthropic, server, recording)
    alone = replay_recording(anthropic, server, recording, [first + found])
    assert exchange.calls == alone.calls
    assert exchange.result.answer == alone.result.answer
    assert (len(exchange.calls), exchange.outcome) == (1, "ok")


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.calls], ids=str)
def test_each_recorded_call_gets_one_result_in_the_next_request(server: ModelServer, recording: Recording) -> None:
    exchange = replay_recording(anthropic, server, recording)
    body = send_tool_results(anthropic, server, recording, exchange)
    assert wire.read_by_anthropic(body) == body
    _, message, answered = body["messages"]
    used = [block for block in message["content"] if block["type"] == "tool_use"]
    assert [(block["name"], block["input"]) for block in used] == list(exchange.calls)
    results = [(block["tool_use_id"], block["content"]) for block in answered["content"]]
    assert results == [(call.id, make_tool_result(call)) for call in exchange.result.tool_calls]
    assert [block["id"] for block in used] == [call.id for call in exchange.result.tool_calls]


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome == "error"], ids=str)
def test_recorded_error_is_one_plain_line(server: ModelServer, recording: Recording) -> None:
    line = str(replay_recording(anthropic, server, recording).result.error)
    assert f"(anthropic, {recording.status}): " in line
    assert json.loads(recording.body)["error"]["message"].rstrip(".") in line
    assert "{" not in line
