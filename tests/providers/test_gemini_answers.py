"""Gemini's responses: finish reasons, errors and their remedies, usage, and calls in fragments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import (
    AskError,
    ChatRequest,
    FinishReason,
    Message,
    ModelResponse,
    ProviderError,
    RawEvent,
    RetryAction,
    ToolCallDelta,
    Usage,
)
from ask.parsing import AUDIO_NOTICE
from providers.gemini import provider as gemini
from providers.gemini_finish import KNOWN_REASONS
from tests import recorded_exchanges
from tests.json_strategies import any_json, replace_any_part
from tests.model_server import ModelServer, Reply
from tests.providers import gemini_wire as wire
from tests.recorded_exchanges import ExchangeResult

QUESTION = ChatRequest(wire.MODEL, [Message("user", "hi")])
FILTERS = [
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY", "ESCALATION"),
    *("MODEL_ARMOR", "IMAGE_RECITATION", "IMAGE_PROHIBITED_CONTENT"),
]
FAILURES = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "OTHER"]


def put(server: ModelServer, *replies: Reply, tries: int = 3, stream: bool = True) -> ExchangeResult:
    server.reply(*replies)
    return recorded_exchanges.send_request(gemini, server, QUESTION._replace(stream=stream), tries=tries)


def json_reply(body: Any, status: int = 200, content_type: str = "application/json; charset=UTF-8") -> Reply:
    return Reply((json.dumps(body).encode(),), status=status, content_type=content_type)


def error(status: int, message: str = "No.", *details: Any) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": "X", "details": list(details)}}


def parse_error(status: int, body: Any) -> ProviderError:
    return gemini.provider_parse_error(status, {}, json.dumps(body))


HELLO = wire.streamed(*wire.chunks(wire.text("Hello.")))


# Finish reasons


@pytest.mark.parametrize(
    ("finish", "parts", "expected"),
    [
        ("STOP", [wire.text("a")], FinishReason.STOP),
        ("STOP", [wire.call()], FinishReason.TOOL_CALLS),
        ("FINISH_REASON_UNSPECIFIED", [wire.text("a")], FinishReason.STOP),
        ("SOMETHING_NEW", [wire.text("a")], FinishReason.STOP),
        ("MAX_TOKENS", [wire.call()], FinishReason.LENGTH),
        ("CONTINUATION", [wire.text("a")], FinishReason.LENGTH),
        *((reason, [], FinishReason.CONTENT_FILTER) for reason in FILTERS),
        (1, [wire.text("a")], FinishReason.STOP),
        (2, [wire.text("a")], FinishReason.LENGTH),
        (3, [], FinishReason.CONTENT_FILTER),
        (99, [wire.text("a")], FinishReason.STOP),
    ],
)
def test_each_finish_reason_has_its_meaning(finish: Any, parts: list[Any], expected: FinishReason) -> None:
    assert gemini.provider_parse_response(wire.whole(*parts, finish=finish)).finish_reason is expected


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "PROHIBITED_CONTENT"])
@pytest.mark.parametrize("stream", [True, False])
def test_blocked_prompt_is_filtered_and_not_retried(server: ModelServer, reason: str, stream: bool) -> None:
    blocked = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 3}}
    exchange = put(server, wire.streamed(blocked) if stream else json_reply(blocked), stream=stream)
    assert (exchange.outcome, exchange.notices, exchange.result.answer.usage.input_tokens) == ("filter", [], 3)


@pytest.mark.parametrize("reason", [*FAILURES, 10])
def test_failed_response_is_retried(server: ModelServer, reason: Any) -> None:
    exchange = put(server, wire.streamed(*wire.chunks(finish=reason)), HELLO)
    assert (exchange.outcome, exchange.streamed_text, len(exchange.notices)) == ("ok", "Hello.", 1)


@pytest.mark.parametrize("reason", ["NO_IMAGE", "IMAGE_OTHER", "PUP_LIMITED_DISABLED", "MISSING_THOUGHT_SIGNATURE"])
def test_failure_that_would_repeat_is_not_retried(server: ModelServer, reason: str) -> None:
    exchange = put(server, wire.streamed(*wire.chunks(finish=reason)), HELLO)
    assert (exchange.outcome, len(server.requests), exchange.notices) == ("error", 1, [])
    assert exchange.result.error is not None
    assert exchange.result.error.hint


def test_every_finish_reason_of_google_s_sdk_is_known() -> None:
    from google.genai.types import FinishReason as GoogleReason

    assert {reason.value for reason in GoogleReason} <= KNOWN_REASONS


def test_calls_of_a_failed_response_are_not_made(server: ModelServer) -> None:
    exchange = put(server, wire.streamed(*wire.chunks(wire.text("So."), wire.call(), finish="MALFORMED_FUNCTION_CALL")))
    assert (exchange.outcome, exchange.result.tool_calls, exchange.result.answer.text, exchange.notices) == (
        "error",
        (),
        "So.",
        [],
    )
    assert "a tool call that cannot be read (gemini)" in str(exchange.result.error)


@pytest.mark.parametrize("stream", [True, False])
def test_call_of_a_tool_that_was_not_offered_is_answered(server: ModelServer, stream: bool) -> None:
    """Gemini 3 then continues: https://github.com/pydantic/pydantic-ai/tree/main/tests/models/cassettes"""
    parts = (wire.thought("Hm."), wire.call("list_files", signature="c2ln"))
    reason = "UNEXPECTED_TOOL_CALL"
    whole = wire.whole(*parts, finish=reason, finishMessage="Model tried to call an undeclared function: list_files")
    reply = wire.streamed(*wire.chunks(*parts, finish=reason)) if stream else json_reply(whole)
    exchange = put(server, reply, stream=stream)
    assert (exchange.outcome, exchange.calls, exchange.notices) == ("ok", (("list_files", {}),), [])
    assert exchange.result.answer.finish_reason is FinishReason.TOOL_CALLS


def test_audio_in_the_answer_is_mentioned(server: ModelServer) -> None:
    audio = {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAAA"}}
    exchange = put(server, wire.streamed(*wire.chunks(wire.text("Here."), audio)))
    assert (exchange.outcome, exchange.streamed_text, exchange.notices) == ("ok", "Here.", [AUDIO_NOTICE])


def test_stream_without_a_finish_reason_is_incomplete(server: ModelServer) -> None:
    exchange = put(server, wire.streamed(*wire.chunks(wire.text("Hel"), wire.call(), finish=None)))
    assert (exchange.outcome, exchange.streamed_text, exchange.result.tool_calls) == ("cut", "Hel", ())


def test_finish_reason_with_the_last_text_ends_the_stream(server: ModelServer) -> None:
    first, second = wire.chunks(wire.text("Hel"), wire.text("lo."), finish=None)
    second["candidates"][0]["finishReason"] = "STOP"
    exchange = put(server, wire.streamed(first, second))
    assert (exchange.outcome, exchange.streamed_text) == ("ok", "Hello.")


def test_finish_reason_before_the_result_of_code_does_not_end_the_stream() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}}
    reader = gemini.provider_stream_reader()
    for event in wire.stream(code):
        reader.feed(event)
    assert not reader.complete
    for event in wire.stream(result, wire.text("42.")):
        reader.feed(event)
    assert reader.complete
    assert gemini.provider_parse_response(reader.response()).text == "42."


def test_null_is_no_part(server: ModelServer) -> None:
    """Gateways that rebuild the answer send null for every kind of part."""
    kinds = ("text", "functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData")
    nulls = dict.fromkeys(kinds)
    parts = [
        nulls | wire.text("Hello."),
        nulls | {"thoughtSignature": wire.SIGNATURE, "text": ""},
        nulls,
        {},
    ]
    chunk = {"web": None, "retrievedContext": {"uri": "https://a.example/", "title": "A"}}
    sources = {"groundingMetadata": {"groundingChunks": [chunk]}}
    for stream in (True, False):
        whole = wire.whole(*parts, **sources)
        result = put(server, wire.streamed(whole) if stream else json_reply(whole), stream=stream).result
        answer = result.answer
        assert (answer.text, answer.server_calls, result.tool_calls, result.error) == ("Hello.", (), (), None)
        assert [citation.url for citation in answer.citations] == ["https://a.example/"]
        assert answer.provider_state
        assert answer.provider_state.data["parts"] == [
            {"text": "Hello."},
            {"text": "", "thoughtSignature": wire.SIGNATURE},
        ]


@pytest.mark.slow
def test_answer_that_continues_after_its_finish_reason_is_read_to_its_end(server: ModelServer) -> None:
    bodies = [body for text in ("One. ", "Two. ", "Three.") for body in wire.chunks(wire.text(text))]
    events = [f"data: {json.dumps(body)}\n\n".encode() for body in bodies]
    server.reply(Reply([*events[:3], 2.5, *events[3:]], content_type="text/event-stream"))
    assert put(server).streamed_text == "One. Two. Three."


def test_further_candidates_are_ignored() -> None:
    both = wire.whole(wire.text("one"))
    both["candidates"] += [{"content": {"parts": [wire.text("two")]}, "index": 1, "finishReason": "MAX_TOKENS"}]
    reader = gemini.provider_stream_reader()
    reader.feed(*wire.events(both))
    for response in (both, reader.response()):
        answer = gemini.provider_parse_response(response)
        assert (answer.text, answer.finish_reason) == ("one", FinishReason.STOP)


def test_thoughts_tool_use_and_the_cache_are_counted() -> None:
    assert gemini.provider_parse_response(wire.whole(wire.text("a"))).usage == Usage(12, 7, 4, 2)
    thoughts_alone = wire.whole(finish="MAX_TOKENS") | {"usageMetadata": {"thoughtsTokenCount": 9}}
    assert gemini.provider_parse_response(thoughts_alone).usage == Usage(None, 9, reasoning_tokens=9)
    tool_use = wire.whole(wire.text("a")) | {"usageMetadata": {"promptTokenCount": 5, "toolUsePromptTokenCount": 20}}
    assert gemini.provider_parse_response(tool_use).usage == Usage(25)
    assert gemini.provider_parse_response({}).usage == Usage()


def test_usage_shortly_after_the_finish_reason_is_read(server: ModelServer) -> None:
    first, last = wire.chunks(wire.text("hi"))
    del first["usageMetadata"], last["usageMetadata"]
    parts = [f"data: {json.dumps(part)}\n\n".encode() for part in (first, last, {"usageMetadata": wire.USAGE})]
    exchange = put(server, Reply((*parts[:2], 0.3, parts[2]), content_type="text/event-stream"))
    assert exchange.result.answer.usage.input_tokens == wire.USAGE["promptTokenCount"]


# Errors


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("as_list", [True, False])
def test_bare_error_instead_of_a_stream_is_retried(
    server: ModelServer, content_type: str, status: int, as_list: bool
) -> None:
    body: Any = error(503, "The model is overloaded.")
    exchange = put(server, json_reply([body] if as_list else body, status, content_type), HELLO)
    assert (exchange.streamed_text, len(exchange.notices)) == ("Hello.", 1)
    assert exchange.notices[0].startswith("The model is overloaded")
    assert "(gemini, 503)" in exchange.notices[0]


def test_error_in_mid_stream_keeps_the_text(server: ModelServer) -> None:
    exchange = put(server, wire.streamed(*wire.chunks(wire.text("Hel"), finish=None), error(500, "Internal.")))
    assert (exchange.outcome, exchange.streamed_text, exchange.result.answer.text, exchange.notices) == (
        "error",
        "Hel",
        "Hel",
        [],
    )


def test_invalid_key_with_status_400_is_recognized() -> None:
    failure = parse_error(400, error(400, "API key not valid.", {"reason": "API_KEY_INVALID"}))
    assert (failure.status, failure.retry_action) == (400, RetryAction.NEXT_KEY)
    assert "ask keys" in failure.hint
    leaked = parse_error(403, error(403, "Your API key was reported as leaked. Please use another API key."))
    assert (leaked.retry_action, leaked.hint) == (RetryAction.NEXT_KEY, failure.hint)


@pytest.mark.parametrize(("delay", "after"), [("17s", 17), ("34.4s", 34.4), ("0s", 0), ("soon", None), (None, None)])
def test_quota_error_has_a_retry_delay(delay: Any, after: float | None) -> None:
    for body in (error(429, "Quota.", {"retryDelay": delay}), [error(429, "Quota.", {}, {"retryDelay": delay})]):
        assert parse_error(429, body).retry_action == RetryAction.retry(after)
    assert gemini.provider_parse_error(
        429, {"Retry-After": "3"}, json.dumps(error(429, "Quota.", {"retryDelay": delay}))
    ).retry_action == RetryAction.retry(3)


def test_daily_quota_is_not_retried() -> None:
    exceeded = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    failure = parse_error(429, error(429, "Quota.", exceeded, {"retryDelay": "17s"}))
    assert failure.retry_action == RetryAction.NEXT_KEY
    assert "daily" in failure.hint


def test_html_error_page_is_reported_by_its_title() -> None:
    page = "<html><title>Error 404 (Not Found)!!1</title><p>The requested URL was not found.</html>"
    assert gemini.provider_parse_error(404, {}, page).message == "Error 404 (Not Found)!!1"


def test_model_without_tools_is_retried_without_them() -> None:
    failure = parse_error(400, error(400, "Function calling is not enabled for models/gemma-3-27b-it"))
    assert failure.retry_action == RetryAction.WITHOUT_TOOLS
    assert "--no-tools" in failure.hint


@pytest.mark.parametrize(
    ("message", "parameter"),
    [
        ("max_output_tokens must be positive", "max_tokens"),
        ("it has a maxOutputTokens value of 999999", "max_tokens"),
        ("Invalid value at 'generation_config.top_p'", "top_p"),
        # https://github.com/RooCodeInc/Roo-Code/issues/10700
        ("Thinking level MEDIUM is not supported for this model.", "reasoning_effort"),
        ("Unable to submit request because thinking_level is not supported by this model.", "reasoning_effort"),
        ("the model stopped", None),
    ],
)
def test_refused_parameter_has_the_user_s_name(message: str, parameter: str | None) -> None:
    assert parse_error(400, error(400, message)).parameter == parameter


# Calls


def test_missing_and_duplicate_ids_are_generated() -> None:
    response = wire.whole(wire.call(), wire.call(), wire.call(id="a"), wire.call("other", id="a"))
    ids = [call.id for call in gemini.provider_parse_tool_calls(response)]
    assert len(set(ids)) == 4
    assert ids[2] == "a"


@pytest.mark.parametrize(
    ("args", "text"), [(None, "{}"), ({"a": "é"}, '{"a": "é"}'), ([1], "[1]"), ('{"a": 1}', '{"a": 1}'), (0, "0")]
)
def test_arguments_are_passed_on_unchanged(args: Any, text: str) -> None:
    response = wire.whole({"functionCall": {"name": "x", "args": args}})
    assert gemini.provider_parse_tool_calls(response)[0].arguments == text


def pieces(*calls: dict[str, Any], finish: str = "STOP") -> tuple[list[Any], list[Any]]:
    """Read a stream of calls; return the deltas and each call's arguments (None if they are not JSON)."""
    reader = gemini.provider_stream_reader()
    deltas = [d for e in wire.stream(*({"functionCall": c} for c in calls), finish=finish) for d in reader.feed(e)]
    read: list[Any] = []
    for call in gemini.provider_parse_tool_calls(reader.response()):
        try:
            read.append(json.loads(call.arguments))
        except ValueError:
            read.append(None)
    return deltas, read


def piece(path: Any, *, more: bool = False, **value: Any) -> dict[str, Any]:
    return {"partialArgs": [{"jsonPath": path, **value, "willContinue": more}], "willContinue": True}


BEGIN = {"name": "x", "willContinue": True}


def test_call_in_fragments_is_assembled() -> None:
    deltas, read = pieces(
        BEGIN,
        piece("$.a", stringValue="one ", more=True),
        piece("$.a", stringValue="two", more=True),
        piece("$.a", stringValue=""),
        piece("$.b[0].c", numberValue=3),
        piece("$.b[1]['d e'][\"f.g\"]", boolValue=True),
        piece("$.b[1].h", nullValue="NULL_VALUE"),
        {},
        {"name": "y", "args": {"z": 1}},
    )
    assert deltas == [ToolCallDelta(0, "x"), ToolCallDelta(1, "y")]
    assert read == [{"a": "one two", "b": [{"c": 3}, {"d e": {"f.g": True}, "h": None}]}, {"z": 1}]


def test_call_in_fragments_is_assembled_despite_nulls_and_other_parts() -> None:
    fragments: list[dict[str, Any]] = [
        BEGIN | {"args": None, "partialArgs": None},
        {"name": None, "args": None} | piece("$.a", stringValue=None, numberValue=3, boolValue=None),
        {"name": None, "args": None, "partialArgs": None, "willContinue": None},
    ]
    parts = [part for call in fragments for part in ({"functionCall": call}, {"newPart": {"text": "x"}})]
    reader = gemini.provider_stream_reader()
    for event in wire.stream(*parts):
        reader.feed(event)
    [call] = gemini.provider_parse_tool_calls(reader.response())
    assert (call.name, json.loads(call.arguments)) == ("x", {"a": 3})


@pytest.mark.parametrize(
    "path", ["", "$", "a", "$.a.", "$[1]", "$.b[7]", "$.a.b", "$.b['x", "$..a", None, "$.b[99999999]"]
)
def test_fragment_with_an_invalid_path_makes_the_call_unreadable(path: Any) -> None:
    _, read = pieces(
        BEGIN, piece("$.a", stringValue="s"), piece("$.b[0]", numberValue=1), piece(path, boolValue=True), {}
    )
    assert read == [None]


def test_incomplete_call_is_unreadable() -> None:
    whole = [BEGIN, piece("$.a", stringValue="rm -rf /", more=True), piece("$.a", stringValue="tmp"), {}]
    assert [pieces(*whole[:count])[1] for count in range(5)] == [[], [None], [None], [None], [{"a": "rm -rf /tmp"}]]
    assert pieces(BEGIN, {"name": "y"})[1] == [None, {}]


@pytest.mark.parametrize("stream", [True, False])
def test_unfinished_call_is_sent_back_without_streaming_fields(server: ModelServer, stream: bool) -> None:
    part = {"functionCall": dict(BEGIN), "thoughtSignature": wire.SIGNATURE}
    server.reply(wire.streamed(*wire.chunks(part)) if stream else json_reply(wire.whole(part)))
    request = QUESTION._replace(stream=stream)
    turn = recorded_exchanges.send_request(gemini, server, request).result
    [call] = turn.tool_calls
    message = Message("assistant", "", turn.tool_calls, provider_state=turn.answer.provider_state)
    result = Message("tool", "Error: no JSON", (), call.id, call.name)
    recorded_exchanges.send_request(gemini, server, request._replace(messages=[*QUESTION.messages, message, result]))
    _, model, _ = server.requests[1].json["contents"]
    assert model["parts"] == [{"functionCall": {"name": "x"}, "thoughtSignature": wire.SIGNATURE}]


# Models


def test_models_that_can_chat_are_listed(server: ModelServer) -> None:
    listed = [
        {
            "name": "models/gemini-3.6-flash",
            "displayName": "Gemini 3.6 Flash",
            "inputTokenLimit": 1048576,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
        {"name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]},
    ]
    only, *others = gemini.provider_parse_models({"models": listed})
    assert (only.id, only.title, only.context_length, others) == ("gemini-3.6-flash", "Gemini 3.6 Flash", 1048576, [])
    request = gemini.provider_models_request("secret")
    assert (request.method, request.path) == ("GET", "/v1beta/models?pageSize=1000")
    assert request.headers == {"x-goog-api-key": "secret"}


# Any input


def read(response: Any) -> None:
    """Read a response; return the answer or the `AskError`."""
    gemini.provider_parse_tool_calls(response)
    try:
        assert isinstance(gemini.provider_parse_response(response), ModelResponse)
    except AskError as failure:
        assert failure.message


RICH = [
    wire.thought("t"),
    wire.text("a", thoughtSignature="YQ=="),
    wire.call(id="i", signature="YQ==", x=1),
    {"functionCall": BEGIN},
    {"functionCall": piece("$.b[0].c", stringValue="v", more=True)},
]


@given(
    st.one_of(
        any_json(), replace_any_part(wire.whole(*RICH)), replace_any_part(error(400, "No.", {"retryDelay": "1s"}))
    )
)
def test_any_response_is_read_or_is_an_error(response: Any) -> None:
    response = response if isinstance(response, dict) else {"candidates": response}
    before = json.dumps(response)
    read(response)
    assert json.dumps(response) == before
    gemini.provider_parse_error(400, {}, before)


@given(st.lists(st.one_of(any_json(), *map(replace_any_part, wire.chunks(*RICH))), max_size=8))
def test_any_stream_is_read_or_is_an_error(chunks: list[Any]) -> None:
    reader = gemini.provider_stream_reader()
    for chunk in chunks:
        reader.feed(RawEvent(None, json.dumps(chunk)))
        json.dumps(reader.response())
    read(reader.response())
