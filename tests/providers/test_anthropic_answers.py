"""Anthropic's answers and errors, made up and recorded, read through the exchange from a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import (
    CallDelta,
    ChatRequest,
    Finish,
    Message,
    ProviderError,
    ReasoningDelta,
    Remedy,
    TextDelta,
    ToolSpec,
    Usage,
)
from ask.errors import ParameterError
from providers.anthropic import provider as anthropic
from tests.exchanges import Came, cuts, put, put_recording, put_results, result_of
from tests.model_server import ModelServer, Reply
from tests.providers import anthropic_wire as wire
from tests.recordings import Recording, recordings
from tests.wire import whole_reply

RECORDED = recordings("anthropic")
GLUED = ("anthropic-027", "anthropic-028")
"""Several whole answers, of requests that followed each other, in one body; what they say mixes their blocks.

A response is one message, so the first one is read.
"""
CUT = [(recording, way) for recording in RECORDED for way in ("whole", *cuts(recording))]
REQUEST = ChatRequest("m", [Message("user", "hi")], [ToolSpec("bash", "Runs a command.", {"type": "object"})])


def ask(server: ModelServer, *replies: Reply, tries: int = 1, **options: Any) -> Came:
    server.reply(*replies)
    return put(anthropic, server, REQUEST._replace(options=options), tries=tries)


# Streams


@pytest.mark.parametrize("pieces", [(), ("",), ("", "  "), ("{}",), ("", "{", " }")])
def test_a_call_without_arguments_has_an_empty_object(server: ModelServer, pieces: tuple[str, ...]) -> None:
    came = ask(server, wire.streams(wire.begins(), wire.call(0, "bash", *pieces), wire.ends("tool_use")))
    assert came.calls == (("bash", {}),)


def test_what_the_stream_shows_comes_as_it_is_said() -> None:
    reader = anthropic.provider_stream_reader()
    parts = [
        wire.begins(),
        wire.thinking(0, "Hm."),
        wire.text(1, "A", "", "B"),
        wire.call(2, "x", "{}"),
        wire.call(3, "y"),
    ]
    deltas = [delta for event in wire.events(*parts) for delta in reader.feed(event)]
    assert deltas == [ReasoningDelta("Hm."), TextDelta("A"), TextDelta("B"), CallDelta(0, "x"), CallDelta(1, "y")]


def test_calls_whose_arguments_are_not_whole_keep_their_text(server: ModelServer) -> None:
    came = ask(server, wire.streams(wire.begins(), wire.call(0, "bash", '{"command": "rm'), wire.ends("tool_use")))
    assert [call.arguments for call in came.turn.tool_calls] == ['{"command": "rm']


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_calls_of_an_answer_that_was_too_long_are_withheld(server: ModelServer, reason: str) -> None:
    came = ask(server, wire.streams(wire.begins(), wire.call(0, "bash", '{"command": "rm'), wire.ends(reason)))
    assert (came.turn.tool_calls, came.outcome) == ((), "length")


@pytest.mark.parametrize("parts", [[], [wire.ends()[:1]]], ids=["no end", "only a reason"])
def test_without_its_end_an_answer_is_cut(server: ModelServer, parts: list[list[dict[str, Any]]]) -> None:
    call = wire.call(1, "bash", "{}")
    came = ask(server, wire.streams(wire.begins(), wire.text(0, "Hel"), call, *parts), wire.says("Hello."), tries=2)
    assert (came.outcome, came.turn.answer.text, came.turn.tool_calls) == ("cut", "Hel", ())
    assert len(server.requests) == 1


def test_a_message_that_begins_anew_replaces_the_one_that_broke_off(server: ModelServer) -> None:
    first = [*wire.begins(), *wire.thinking(0, "No."), *wire.call(1, "bash", '{"command": "l')[:-1]]
    came = ask(
        server, wire.streams(first, wire.begins(), wire.call(0, "bash", '{"command": "ls"}'), wire.ends("tool_use"))
    )
    assert (came.calls, came.turn.answer.reasoning) == ((("bash", {"command": "ls"}),), "")


def test_text_whose_block_never_began_is_not_lost(server: ModelServer) -> None:
    came = ask(server, wire.streams(wire.begins(), wire.text(0, "Hello.")[1:], wire.ends()))
    assert (came.turn.answer.text, came.shown) == ("Hello.", "Hello.")


def test_citations_and_unknown_events_do_no_harm(server: ModelServer) -> None:
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
    assert ask(server, wire.streams(wire.begins(), unknown, parts, wire.ends())).turn.answer.text == "Hello."


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("future_reason", Finish.STOP),
        ("tool_use", Finish.TOOL_CALLS),
        ("pause_turn", Finish.CONTINUE),
        ("max_tokens", Finish.LENGTH),
        ("model_context_window_exceeded", Finish.LENGTH),
        ("refusal", Finish.FILTER),
    ],
)
def test_reasons_to_stop(reason: str, finish: Finish) -> None:
    assert anthropic.provider_parse_response(wire.message_of(reason=reason)).finish is finish


def test_usage_counts_all_that_was_read(server: ModelServer) -> None:
    """Numbers in the end replace those in the begin, and count from the start."""
    came = ask(server, wire.streams(wire.begins(), wire.text(0, "Hi."), wire.ends(output_tokens=42)))
    assert came.turn.answer.usage == Usage(12, 42, 4)
    came = ask(server, wire.streams(wire.begins(), wire.text(0, "Hi."), wire.ends(input_tokens=1000)))
    assert came.turn.answer.usage == Usage(1009, 7, 4)
    assert anthropic.provider_parse_response({"content": []}).usage == Usage()


# Errors


def failure(status: int, kind: str, message: str, **more: Any) -> ProviderError:
    error = {"type": kind, "message": message, **more}
    return anthropic.provider_parse_error(status, {}, json.dumps({"type": "error", "error": error}))


def test_an_overload_after_200_is_tried_again_while_nothing_was_shown(server: ModelServer) -> None:
    overloaded = [wire.error("overloaded_error", "Overloaded")]
    came = ask(server, wire.streams(wire.begins(), overloaded), wire.says("Hello."), tries=2)
    assert (came.turn.answer.text, came.outcome) == ("Hello.", "ok")
    assert "Overloaded (anthropic, 529)" in came.notices[0]
    came = ask(server, wire.streams(wire.begins(), wire.text(0, "Hel"), overloaded), wire.says("No."), tries=2)
    assert (came.turn.answer.text, came.outcome, len(came.notices)) == ("Hel", "error", 0)


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
    for told in (status, 200):
        error = failure(told, kind, "It failed.")
        assert (error.status, error.remedy.action == "retry") == (status, retried)


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
def test_missing_money_is_for_another_key_and_says_where_to_pay(status: int, kind: str, message: str) -> None:
    error = failure(status, kind, message)
    assert error.remedy is Remedy.NEXT_KEY
    assert "https://platform.claude.com/settings/billing" in str(error)
    spent = failure(429, "rate_limit_error", "Limit.", details={"error_code": "enforced_spend_limit_reached"})
    assert spent.remedy is Remedy.NEXT_KEY


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (413, "request_too_large", "Request exceeds the maximum size"),
        (400, "invalid_request_error", "prompt is too long: 1000300 tokens > 1000000 maximum"),
    ],
)
def test_what_is_too_long_says_to_send_less(status: int, kind: str, message: str) -> None:
    assert str(failure(status, kind, message)).startswith(f"{message} ({status}): ")


def test_a_model_that_is_not_there_is_said_to_be_not_found(server: ModelServer) -> None:
    came = ask(server, whole_reply(wire.error("not_found_error", "model: claude-x"), 404))
    assert str(came.turn.error) == (
        "not found: model: claude-x (anthropic, 404): ask models -p anthropic lists the models"
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("stop", "", "stop_sequences: each stop sequence must contain non-whitespace"),
        ("reasoning_effort", "huge", "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"),
        ("temperature", 5, "`temperature` is deprecated for this model."),
        ("max_tokens", 999999, "max_tokens: 999999 > 128000, which is the maximum allowed"),
        ("seed", 1, "seed: Extra inputs are not permitted"),
    ],
)
def test_a_refused_option_is_named_as_the_user_gave_it(
    server: ModelServer, option: str, value: Any, message: str
) -> None:
    came = ask(server, whole_reply(wire.error("invalid_request_error", message), 400), **{option: value})
    assert isinstance(came.turn.error, ParameterError)
    assert came.turn.error.advice.endswith(f" {option}")


def test_an_event_that_is_not_json_is_an_error(server: ModelServer) -> None:
    came = ask(server, Reply((b"event: message_start\ndata: upstream died\n\n",), content_type="text/event-stream"))
    assert "upstream died" in str(came.turn.error)


# Models


def test_models_are_listed_with_their_context_and_without_the_retired() -> None:
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


# Recordings


@pytest.mark.parametrize(("recording", "way"), [one for one in CUT if one[0].name not in GLUED], ids=str)
def test_recorded_answer_says_what_it_says_however_its_bytes_are_cut(
    server: ModelServer, recording: Recording, way: str
) -> None:
    pieces = [] if way == "whole" else cuts(recording)[way]
    came = put_recording(anthropic, server, recording, pieces)
    assert (came.turn.answer.text, came.calls, came.outcome) == (recording.text, recording.calls, recording.outcome)
    assert came.shown == recording.text


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.name in GLUED], ids=str)
def test_of_recorded_answers_in_one_body_the_first_is_read(server: ModelServer, recording: Recording) -> None:
    last = b'data: {"type":"message_stop"}\n\n'
    first, found, rest = recording.body.partition(last)
    assert found
    assert b"message_start" in rest
    came = put_recording(anthropic, server, recording)
    alone = put_recording(anthropic, server, recording, [first + found])
    assert came.calls == alone.calls
    assert came.turn.answer == alone.turn.answer
    assert (len(came.calls), came.outcome) == (1, "ok")


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.calls], ids=str)
def test_recorded_calls_are_answered_once_each_in_the_next_request(server: ModelServer, recording: Recording) -> None:
    came = put_recording(anthropic, server, recording)
    body = put_results(anthropic, server, recording, came)
    assert wire.read_by_anthropic(body) == body
    _, said, answered = body["messages"]
    used = [block for block in said["content"] if block["type"] == "tool_use"]
    assert [(block["name"], block["input"]) for block in used] == list(came.calls)
    results = [(block["tool_use_id"], block["content"]) for block in answered["content"]]
    assert results == [(call.id, result_of(call)) for call in came.turn.tool_calls]
    assert [block["id"] for block in used] == [call.id for call in came.turn.tool_calls]


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome == "error"], ids=str)
def test_recorded_error_is_one_plain_line(server: ModelServer, recording: Recording) -> None:
    line = str(put_recording(anthropic, server, recording).turn.error)
    assert f"(anthropic, {recording.status}): " in line
    assert json.loads(recording.body)["error"]["message"].rstrip(".") in line
    assert "{" not in line
