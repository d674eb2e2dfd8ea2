"""What Gemini answers: why it ended, what failed and what then helps, what it used, and calls in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import Answer, AskError, CallDelta, ChatRequest, Finish, Message, ProviderError, Remedy, ServerEvent, Usage
from providers.gemini import provider as gemini
from tests import exchanges
from tests.any_json import any_json, with_any_part
from tests.exchanges import Came
from tests.model_server import ModelServer, Reply
from tests.providers import gemini_wire as wire

QUESTION = ChatRequest(wire.MODEL, [Message("user", "hi")])
FILTERS = ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY", "ESCALATION"]
FAILURES = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "OTHER"]


def put(server: ModelServer, *replies: Reply, tries: int = 3, stream: bool = True) -> Came:
    server.reply(*replies)
    return exchanges.put(gemini, server, QUESTION._replace(stream=stream), tries=tries)


def json_reply(body: Any, status: int = 200, content_type: str = "application/json; charset=UTF-8") -> Reply:
    return Reply((json.dumps(body).encode(),), status=status, content_type=content_type)


def error(status: int, message: str = "No.", *details: Any) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": "X", "details": list(details)}}


def parse_error(status: int, body: Any) -> ProviderError:
    return gemini.provider_parse_error(status, {}, json.dumps(body))


HELLO = wire.streamed(*wire.chunks(wire.text("Hello.")))


# Why it ended


@pytest.mark.parametrize(
    ("finish", "parts", "expected"),
    [
        ("STOP", [wire.text("a")], Finish.STOP),
        ("STOP", [wire.call()], Finish.TOOL_CALLS),
        ("FINISH_REASON_UNSPECIFIED", [wire.text("a")], Finish.STOP),
        ("SOMETHING_NEW", [wire.text("a")], Finish.STOP),
        ("MAX_TOKENS", [wire.call()], Finish.LENGTH),
        ("CONTINUATION", [wire.text("a")], Finish.LENGTH),
        *((reason, [], Finish.FILTER) for reason in FILTERS),
        (1, [wire.text("a")], Finish.STOP),
        (2, [wire.text("a")], Finish.LENGTH),
        (3, [], Finish.FILTER),
        (99, [wire.text("a")], Finish.STOP),
    ],
)
def test_each_finish_reason_has_its_meaning(finish: Any, parts: list[Any], expected: Finish) -> None:
    assert gemini.provider_parse_response(wire.whole(*parts, finish=finish)).finish is expected


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "PROHIBITED_CONTENT"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_blocked_prompt_is_filtered_and_not_asked_again(server: ModelServer, reason: str, stream: bool) -> None:
    blocked = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 3}}
    came = put(server, wire.streamed(blocked) if stream else json_reply(blocked), stream=stream)
    assert (came.outcome, came.notices, came.turn.answer.usage.input_tokens) == ("filter", [], 3)


@pytest.mark.parametrize("reason", [*FAILURES, 10])
def test_an_answer_that_failed_is_asked_for_again(server: ModelServer, reason: Any) -> None:
    came = put(server, wire.streamed(*wire.chunks(finish=reason)), HELLO)
    assert (came.outcome, came.shown, len(came.notices)) == ("ok", "Hello.", 1)


def test_calls_of_an_answer_that_failed_are_not_made(server: ModelServer) -> None:
    came = put(server, wire.streamed(*wire.chunks(wire.text("So."), wire.call(), finish="MALFORMED_FUNCTION_CALL")))
    assert (came.outcome, came.turn.tool_calls, came.turn.answer.text, came.notices) == ("error", (), "So.", [])
    assert "a tool call that cannot be read (gemini)" in str(came.turn.error)


def test_a_stream_without_a_finish_reason_was_cut(server: ModelServer) -> None:
    came = put(server, wire.streamed(*wire.chunks(wire.text("Hel"), wire.call(), finish=None)))
    assert (came.outcome, came.shown, came.turn.tool_calls) == ("cut", "Hel", ())


def test_a_finish_reason_beside_the_last_text_is_the_end(server: ModelServer) -> None:
    first, second = wire.chunks(wire.text("Hel"), wire.text("lo."), finish=None)
    second["candidates"][0]["finishReason"] = "STOP"
    came = put(server, wire.streamed(first, second))
    assert (came.outcome, came.shown) == ("ok", "Hello.")


def test_further_candidates_are_no_part_of_the_answer() -> None:
    both = wire.whole(wire.text("one"))
    both["candidates"] += [{"content": {"parts": [wire.text("two")]}, "index": 1, "finishReason": "MAX_TOKENS"}]
    reader = gemini.provider_stream_reader()
    reader.feed(*wire.events(both))
    for response in (both, reader.response()):
        answer = gemini.provider_parse_response(response)
        assert (answer.text, answer.finish) == ("one", Finish.STOP)


def test_thoughts_and_the_cache_are_counted() -> None:
    assert gemini.provider_parse_response(wire.whole(wire.text("a"))).usage == Usage(12, 7, 4)
    thoughts_alone = wire.whole(finish="MAX_TOKENS") | {"usageMetadata": {"thoughtsTokenCount": 9}}
    assert gemini.provider_parse_response(thoughts_alone).usage == Usage(None, 9, None)
    assert gemini.provider_parse_response({}).usage == Usage()


def test_usage_that_comes_shortly_after_the_finish_reason_is_read(server: ModelServer) -> None:
    first, last = wire.chunks(wire.text("hi"))
    del first["usageMetadata"], last["usageMetadata"]
    parts = [f"data: {json.dumps(part)}\n\n".encode() for part in (first, last, {"usageMetadata": wire.USAGE})]
    came = put(server, Reply((*parts[:2], 0.3, parts[2]), content_type="text/event-stream"))
    assert came.turn.answer.usage.input_tokens == wire.USAGE["promptTokenCount"]


# Errors


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("as_list", [True, False])
def test_a_bare_error_in_place_of_a_stream_is_tried_again(
    server: ModelServer, content_type: str, status: int, as_list: bool
) -> None:
    body: Any = error(503, "The model is overloaded.")
    came = put(server, json_reply([body] if as_list else body, status, content_type), HELLO)
    assert (came.shown, len(came.notices)) == ("Hello.", 1)
    assert came.notices[0].startswith("The model is overloaded")
    assert "(gemini, 503)" in came.notices[0]


def test_an_error_in_the_middle_keeps_what_was_said(server: ModelServer) -> None:
    came = put(server, wire.streamed(*wire.chunks(wire.text("Hel"), finish=None), error(500, "Internal.")))
    assert (came.outcome, came.shown, came.turn.answer.text, came.notices) == ("error", "Hel", "Hel", [])


def test_a_bad_key_is_a_400_and_told_as_a_bad_key() -> None:
    failure = parse_error(400, error(400, "API key not valid.", {"reason": "API_KEY_INVALID"}))
    assert (failure.status, failure.remedy) == (400, Remedy.NEXT_KEY)
    assert "ask keys set gemini" in failure.advice


@pytest.mark.parametrize(("delay", "after"), [("17s", 17), ("34.4s", 34.4), ("0s", 0), ("soon", None), (None, None)])
def test_a_quota_says_when_to_try_again(delay: Any, after: float | None) -> None:
    for body in (error(429, "Quota.", {"retryDelay": delay}), [error(429, "Quota.", {}, {"retryDelay": delay})]):
        assert parse_error(429, body).remedy == Remedy.RETRY(after)
    assert gemini.provider_parse_error(
        429, {"Retry-After": "3"}, json.dumps(error(429, "Quota.", {"retryDelay": delay}))
    ).remedy == Remedy.RETRY(3)


def test_a_quota_of_the_day_is_not_tried_again() -> None:
    exceeded = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    failure = parse_error(429, error(429, "Quota.", exceeded, {"retryDelay": "17s"}))
    assert failure.remedy == Remedy.NEXT_KEY
    assert "day" in failure.advice


def test_a_page_in_place_of_an_error_is_told_by_its_title() -> None:
    page = "<html><title>Error 404 (Not Found)!!1</title><p>The requested URL was not found.</html>"
    assert gemini.provider_parse_error(404, {}, page).message == "Error 404 (Not Found)!!1"


def test_a_model_without_tools_is_asked_without() -> None:
    failure = parse_error(400, error(400, "Function calling is not enabled for models/gemma-3-27b-it"))
    assert failure.remedy == Remedy.WITHOUT_TOOLS
    assert "--no-tools" in failure.advice


@pytest.mark.parametrize(
    ("message", "parameter"),
    [
        ("max_output_tokens must be positive", "max_tokens"),
        ("it has a maxOutputTokens value of 999999", "max_tokens"),
        ("Invalid value at 'generation_config.top_p'", "top_p"),
        ("the model stopped", None),
    ],
)
def test_a_refused_parameter_is_named_as_the_user_named_it(message: str, parameter: str | None) -> None:
    assert parse_error(400, error(400, message)).parameter == parameter


# Calls


def test_ids_are_invented_where_there_are_none_or_twice_the_same() -> None:
    response = wire.whole(wire.call(), wire.call(), wire.call(id="a"), wire.call(id="a"))
    ids = [call.id for call in gemini.provider_parse_tool_calls(response)]
    assert len(set(ids)) == 4
    assert ids[2] == "a"


@pytest.mark.parametrize(
    ("args", "text"), [(None, "{}"), ({"a": "é"}, '{"a": "é"}'), ([1], "[1]"), ('{"a": 1}', '{"a": 1}'), (0, "0")]
)
def test_arguments_are_passed_on_as_they_came(args: Any, text: str) -> None:
    response = wire.whole({"functionCall": {"name": "x", "args": args}})
    assert gemini.provider_parse_tool_calls(response)[0].arguments == text


def pieces(*calls: dict[str, Any], finish: str = "STOP") -> tuple[list[Any], list[Any]]:
    """The deltas of a stream of calls, and each call's arguments: None where they are not JSON."""
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


def test_a_call_in_pieces_is_put_together() -> None:
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
    assert deltas == [CallDelta(0, "x"), CallDelta(1, "y")]
    assert read == [{"a": "one two", "b": [{"c": 3}, {"d e": {"f.g": True}, "h": None}]}, {"z": 1}]


@pytest.mark.parametrize(
    "path", ["", "$", "a", "$.a.", "$[1]", "$.b[7]", "$.a.b", "$.b['x", "$..a", None, "$.b[99999999]"]
)
def test_a_piece_without_a_place_leaves_the_call_unreadable(path: Any) -> None:
    _, read = pieces(
        BEGIN, piece("$.a", stringValue="s"), piece("$.b[0]", numberValue=1), piece(path, boolValue=True), {}
    )
    assert read == [None]


def test_a_call_that_never_became_whole_is_unreadable() -> None:
    whole = [BEGIN, piece("$.a", stringValue="rm -rf /", more=True), piece("$.a", stringValue="tmp"), {}]
    assert [pieces(*whole[:count])[1] for count in range(5)] == [[], [None], [None], [None], [{"a": "rm -rf /tmp"}]]
    assert pieces(BEGIN, {"name": "y"})[1] == [None, {}]


@pytest.mark.parametrize("stream", [True, False])
def test_an_unfinished_call_goes_back_without_its_streaming_fields(server: ModelServer, stream: bool) -> None:
    part = {"functionCall": dict(BEGIN), "thoughtSignature": wire.SIGNATURE}
    server.reply(wire.streamed(*wire.chunks(part)) if stream else json_reply(wire.whole(part)))
    request = QUESTION._replace(stream=stream)
    turn = exchanges.put(gemini, server, request).turn
    [call] = turn.tool_calls
    said = Message("assistant", "", turn.tool_calls, native=turn.answer.native)
    result = Message("tool", "Error: no JSON", (), call.id, call.name)
    exchanges.put(gemini, server, request._replace(messages=[*QUESTION.messages, said, result]))
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


# Anything at all


def read(response: Any) -> None:
    """Read a response: an answer, or an `AskError`."""
    gemini.provider_parse_tool_calls(response)
    try:
        assert isinstance(gemini.provider_parse_response(response), Answer)
    except AskError as failure:
        assert failure.message


RICH = [
    wire.thought("t"),
    wire.text("a", thoughtSignature="YQ=="),
    wire.call(id="i", signature="YQ==", x=1),
    {"functionCall": BEGIN},
    {"functionCall": piece("$.b[0].c", stringValue="v", more=True)},
]


@given(st.one_of(any_json(), with_any_part(wire.whole(*RICH)), with_any_part(error(400, "No.", {"retryDelay": "1s"}))))
def test_a_whole_answer_of_any_shape_is_read_or_is_an_error(response: Any) -> None:
    response = response if isinstance(response, dict) else {"candidates": response}
    before = json.dumps(response)
    read(response)
    assert json.dumps(response) == before
    gemini.provider_parse_error(400, {}, before)


@given(st.lists(st.one_of(any_json(), *map(with_any_part, wire.chunks(*RICH))), max_size=8))
def test_a_stream_of_any_shape_is_read_or_is_an_error(chunks: list[Any]) -> None:
    reader = gemini.provider_stream_reader()
    for chunk in chunks:
        reader.feed(ServerEvent(None, json.dumps(chunk)))
        json.dumps(reader.response())
    read(reader.response())
