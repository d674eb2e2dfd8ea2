"""Gemini: the provider contract, and requests that Google's own SDK would send unchanged."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from ask import ChatRequest, Message, ModelResponse, ProviderState, ToolCall, ToolSpec
from ask.testing import ProviderContract
from ask.testing.conversation import LONG_CONVERSATION, SHORT_CONVERSATION, TOOL_CONVERSATION, TOOLS
from ask.tools.definitions import BUILTIN_TOOLS
from providers.gemini import provider as gemini
from tests.decision_services import GEMINI_SAMPLE
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.providers import gemini_wire as wire

DUMMY = "skip_thought_signature_validator"
HELLO = (wire.text("Hello, "), wire.text("wörld!"))
CALL = wire.call(signature=wire.SIGNATURE, a=2, b=3)
SECOND = wire.call(a=4, b=5)
THOUGHTS = (wire.thought("Let me "), wire.thought("think."))
OVERLOADED = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


GROUNDING = {
    "webSearchQueries": ["hello"],
    "groundingChunks": [{"web": {"uri": "https://example.com/hello", "title": "Hello"}}],
    "groundingSupports": [{"segment": {"endIndex": 5, "text": "Hello"}, "groundingChunkIndices": [0]}],
}


class TestGemini(ProviderContract):
    provider = gemini
    decision_model = "gemini-decision-1"
    decision_response = GEMINI_SAMPLE
    models: ClassVar = {"models": [{"name": "models/gemini-3", "supportedGenerationMethods": ["generateContent"]}]}
    samples: ClassVar = {
        "text": wire.stream(*HELLO),
        "reasoning": wire.stream(*THOUGHTS, *HELLO),
        "call": wire.stream(CALL),
        "parallel": wire.stream(CALL, SECOND),
        "text_and_call": wire.stream(*HELLO, CALL),
        "reasoning_and_call": wire.stream(*THOUGHTS, CALL),
        "length": wire.events(
            *wire.chunks(wire.text("Hello, w"), finish=None),
            wire.whole(finish="CONTINUATION", continuationToken="dG9r"),
        ),
        "filter": wire.stream(wire.text("Hello, w"), finish="SAFETY"),
        "error": [*wire.stream(wire.text("Hello, w"), finish=None), *wire.events(OVERLOADED)],
        "cut": wire.stream(wire.text("Hello, w"), finish=None),
        "sources": [
            *wire.stream(*HELLO, finish=None),
            *wire.events({"candidates": [{"finishReason": "STOP", "groundingMetadata": GROUNDING}]}),
        ],
    }
    unstreamed_samples: ClassVar = {
        "text": wire.whole(wire.text("Hello, wörld!")),
        "reasoning": wire.whole(wire.thought("Let me think."), wire.text("Hello, wörld!")),
        "call": wire.whole(CALL),
        "parallel": wire.whole(CALL, SECOND),
        "text_and_call": wire.whole(wire.text("Hello, wörld!"), CALL),
        "reasoning_and_call": wire.whole(wire.thought("Let me think."), CALL),
        "length": wire.whole(wire.text("Hello, w"), finish="CONTINUATION", continuationToken="dG9r"),
        "filter": wire.whole(wire.text("Hello, w"), finish="SAFETY"),
        "error": OVERLOADED,
        "sources": wire.whole(wire.text("Hello, wörld!"), groundingMetadata=GROUNDING),
    }


def body_of(messages: Any, model: str = wire.MODEL, **fields: Any) -> dict[str, Any]:
    """Build the body of a conversation, checked with Google's SDK."""
    body = gemini.build_body(prepare_request(gemini, model, messages, **fields))
    assert wire.read_by_google(body) == wire.plain(body)
    return body


def parse_response(response: Any) -> tuple[ModelResponse, list[ToolCall]]:
    return gemini.provider_parse_response(response), gemini.provider_parse_tool_calls(response)


def assemble_stream(*parts: Any) -> dict[str, Any]:
    """Assemble a streamed response."""
    reader = gemini.provider_stream_reader()
    for event in wire.stream(*parts):
        reader.feed(event)
    return reader.response()


def round_of(response: Any, *results: str) -> list[Message]:
    """Build a question, the assistant message from a response, and results for its calls."""
    answer, calls = parse_response(response)
    state = answer.provider_state
    model_turn = Message("assistant", answer.text, tuple(calls), provider_state=state)
    returned = [Message("tool", text, (), call.id, call.name) for text, call in zip(results, calls, strict=True)]
    return [Message("user", "Add."), model_turn, *returned]


def result(output: str, name: str = "add", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}, **more}}


# Requests


@pytest.mark.parametrize(
    ("stream", "path"),
    [(True, "/v1beta/models/m:streamGenerateContent?alt=sse"), (False, "/v1beta/models/m:generateContent")],
)
@pytest.mark.parametrize("model", ["m", "models/m"])
def test_the_path_names_model_and_method_and_the_key_has_its_own_header(stream: bool, path: str, model: str) -> None:
    http = gemini.provider_build_request(ChatRequest(model, SHORT_CONVERSATION, stream=stream), "secret")
    assert (http.path, http.headers) == (path, {"x-goog-api-key": "secret"})


def test_model_name_cannot_escape_its_path_segment() -> None:
    path = gemini.provider_build_request(ChatRequest("a?b#c \udcff", SHORT_CONVERSATION), "").path
    assert path == "/v1beta/models/a%3Fb%23c%20%3F:streamGenerateContent?alt=sse"


def test_system_prompt_is_separate_and_there_is_no_empty_config() -> None:
    assert body_of([Message("system", "Be kind."), Message("user", "Hi.")]) == {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi."}]}],
    }


def test_turns_alternate_and_empty_texts_are_left_out() -> None:
    messages = [Message("user", "a"), Message("user", "b"), Message("assistant", "c"), Message("assistant", "")]
    assert body_of([*messages, Message("assistant", "d"), Message("user", "e")])["contents"] == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
        {"role": "user", "parts": [{"text": "e"}]},
    ]


def test_tools_are_declared_like_google_does() -> None:
    tools = [tool.spec for tool in BUILTIN_TOOLS]
    body = body_of(SHORT_CONVERSATION, tools=tools)
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == [tool.name for tool in tools]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


def test_tool_choice_none_keeps_the_tools_and_an_empty_list_is_never_sent() -> None:
    assert body_of(TOOL_CONVERSATION, tools=TOOLS, tool_choice="none")["toolConfig"] == {
        "functionCallingConfig": {"mode": "NONE"}
    }
    assert not {"tools", "toolConfig"} & body_of(TOOL_CONVERSATION).keys()
    assert gemini.provider_format_tools([]) == []


@pytest.mark.parametrize(
    ("name", "sent"), [("a/b c", "a_b_c"), ("2do", "_2do"), ("x" * 70, "x" * 64), ("9" * 70, "_" + "9" * 63), ("", "_")]
)
def test_invalid_tool_names_are_replaced_everywhere(name: str, sent: str) -> None:
    spec = ToolSpec(name, "d", {"type": "object", "properties": {}})
    call = ToolCall("c", name, "{}")
    messages = [Message("user", "x"), Message("assistant", "", (call,)), Message("tool", "r", (), "c", name)]
    body = body_of(messages, tools=[spec])
    assert body["tools"] == [{"functionDeclarations": [{"name": sent, "description": "d"}]}]
    assert body["contents"][1]["parts"][0]["functionCall"]["name"] == sent
    assert body["contents"][2]["parts"] == [result("r", sent)]


def test_options_are_renamed_for_gemini_and_unknown_ones_pass() -> None:
    options = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 100,
        "stop": "END",
        "seed": 7,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "candidateCount": 1,
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    }
    body = gemini.build_body(ChatRequest(wire.MODEL, SHORT_CONVERSATION, options=options))
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "seed": 7,
        "frequencyPenalty": 0.1,
        "presencePenalty": 0.2,
        "candidateCount": 1,
    }
    assert body["safetySettings"] == options["safetySettings"]
    assert wire.read_by_google(body)["generationConfig"] == body["generationConfig"]
    assert body_of(SHORT_CONVERSATION, options={"stop": ["a", "b"]})["generationConfig"] == {
        "stopSequences": ["a", "b"]
    }


def test_schema_is_sent_unchanged() -> None:
    schema = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}, "additionalProperties": False}
    config = body_of(SHORT_CONVERSATION, schema=schema)["generationConfig"]
    assert config == {"responseMimeType": "application/json", "responseJsonSchema": schema}


def test_sdk_check_detects_unknown_fields() -> None:
    for place in ({"nonsense": 1}, {"generationConfig": {"max_tokens": 1}}, {"contents": [{"parts": [{"txt": "a"}]}]}):
        with pytest.raises(ValueError, match="Extra inputs are not permitted"):
            wire.read_by_google({"contents": [], **place})


# Rounds


@pytest.mark.parametrize("read", [assemble_stream, wire.whole])
def test_results_of_parallel_calls_are_one_turn_after_the_original_parts(read: Any) -> None:
    parts = [wire.text("So."), CALL, SECOND]
    messages = round_of(read(wire.thought("Hm."), *parts), "5", "Error: no")
    contents = body_of(messages, tools=TOOLS)["contents"]
    assert contents[1] == {"role": "model", "parts": parts}
    assert contents[2] == {"role": "user", "parts": [result("5"), result("Error: no")]}


@pytest.mark.parametrize("read", [assemble_stream, wire.whole])
def test_signature_stays_on_its_part_even_if_empty(read: Any) -> None:
    parts = [
        wire.text("One. ", thoughtSignature=wire.SIGNATURE),
        wire.text("Two."),
        wire.text("", thoughtSignature="Yg=="),
    ]
    answer, _ = parse_response(read(*parts))
    assert answer.text == "One. Two."
    spoken = Message("assistant", answer.text, provider_state=answer.provider_state)
    contents = body_of([Message("user", "Count."), spoken, Message("user", "More.")])["contents"]
    assert contents[1]["parts"] == parts


def test_empty_signatures_and_texts_are_not_sent_back() -> None:
    parts = [wire.text(""), wire.call(id="fc-1"), wire.text("", thoughtSignature="")]
    contents = body_of(round_of(wire.whole(*parts), "5"))["contents"]
    assert contents[1]["parts"] == [wire.call(id="fc-1", signature=DUMMY)]


def test_earlier_call_of_a_turn_keeps_its_signature() -> None:
    first = round_of(wire.whole(CALL), "5")
    second = round_of(wire.whole(wire.call(signature="Yg==", a=5, b=1)), "6")[1:]
    parts = [part for turn in body_of([*first, *second])["contents"] for part in turn["parts"]]
    assert [part.get("thoughtSignature") for part in parts] == [None, wire.SIGNATURE, None, "Yg==", None]


def test_call_ids_are_sent_back_only_if_gemini_gave_them() -> None:
    given = [wire.call(id="fc-1", signature=wire.SIGNATURE, a=1), wire.call(id="fc-2", a=2)]
    contents = body_of(round_of(wire.whole(*given), "1", "2"))["contents"]
    assert contents[1]["parts"] == given
    assert contents[2]["parts"] == [result("1", id="fc-1"), result("2", id="fc-2")]
    assert '"id"' not in json.dumps(body_of(round_of(wire.whole(CALL, SECOND), "1", "2")))
    assert '"id"' not in json.dumps(body_of(LONG_CONVERSATION))


def test_response_without_signatures_keeps_no_state() -> None:
    assert parse_response(wire.whole(wire.thought("Hm."), wire.text("Yes.")))[0].provider_state is None


@pytest.mark.parametrize(
    ("model", "is_requested"),
    [("gemini-flash-latest", True), ("gemini-3.6-flash", True), ("gemini-2.5-flash-lite", False), ("gemma-3", False)],
)
def test_thoughts_to_show_are_requested(model: str, is_requested: bool) -> None:
    expected = {"thinkingConfig": {"includeThoughts": True}} if is_requested else None
    assert body_of(SHORT_CONVERSATION, model, show_reasoning=True).get("generationConfig") == expected
    assert "generationConfig" not in body_of(SHORT_CONVERSATION, model)


# Other models' history


@pytest.mark.parametrize(
    ("model", "signatures"),
    [
        ("gemini-flash-latest", [DUMMY, None]),
        ("models/gemini-3.1-pro-preview", [DUMMY, None]),
        ("gemini-2.5-flash", [None, None]),
        ("gemma-3-27b-it", [None, None]),
    ],
)
def test_calls_of_other_providers_have_a_placeholder_signature(model: str, signatures: list[str | None]) -> None:
    model_turn = body_of(LONG_CONVERSATION, model, tools=TOOLS)["contents"][1]["parts"][1:]
    assert [part["functionCall"]["args"] for part in model_turn] == [{"word": "lundi"}, {"word": "rostungur"}]
    assert [part.get("thoughtSignature") for part in model_turn] == signatures


@pytest.mark.parametrize(
    ("wrote", "asked", "goes_back"),
    [
        ("gemini-3-flash-preview", "gemini-flash-latest", True),
        ("gemini-3-flash-preview", "models/gemini-3.6-flash", True),
        ("gemini-2.5-flash", "gemini-2.5-pro", True),
        ("models/gemini-2.5-flash", "gemini-2.5-flash", True),
        ("gemini-2.5-flash-lite-preview-09-2025", "gemini-flash-lite-latest", True),
        ("gemini-2.5-flash", "gemini-3.6-flash", False),
        ("gemini-3.6-flash", "gemini-2.5-flash", False),
    ],
)
def test_signature_is_sent_only_to_its_own_generation(wrote: str, asked: str, goes_back: bool) -> None:
    messages = round_of(wire.whole(CALL) | {"modelVersion": wrote}, "5")
    assert (wire.SIGNATURE in json.dumps(body_of(messages, asked))) is goes_back


def test_parts_that_differ_from_the_message_are_not_sent() -> None:
    """For example after a truncated response, whose calls were never made and have no results."""
    answer, calls = parse_response(wire.whole(wire.text("So."), CALL, SECOND))
    for content, kept in (("So.", ()), ("So!", calls), ("So.", calls[:1])):
        spoken = Message("assistant", content, tuple(kept), provider_state=answer.provider_state)
        results = [Message("tool", "r", (), call.id, call.name) for call in kept]
        body = body_of([Message("user", "Add."), spoken, *results, Message("user", "And?")])
        assert json.dumps(body).count('"functionCall"') == len(kept)
        assert wire.SIGNATURE not in json.dumps(body)


def test_any_stored_parts_are_accepted() -> None:
    shapes: list[Any] = [None, 7, "x", [None, 7, {"functionCall": 3}, {"text": []}], {"a": 1}]
    for parts in shapes:
        state = ProviderState("gemini", wire.MODEL, {"parts": parts})
        body = body_of([Message("user", "a"), Message("assistant", "b", provider_state=state), Message("user", "c")])
        assert body["contents"][1]["parts"] == [{"text": "b"}]


# Through the program


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_program_runs_a_call_and_answers_with_its_result(ask: Ask, server: ModelServer, variable: str) -> None:
    made = wire.call("list_dir", signature=wire.SIGNATURE, dirpath=".")
    server.reply(
        wire.streamed(*wire.chunks(wire.thought("Hm."), wire.text("Let me see."), made)),
        wire.streamed(*wire.chunks(wire.text("Nothing there."))),
    )
    env = {variable: "google-key", "GEMINI_BASE_URL": server.base_url}
    result = ask("-p", "gemini", "what is here?", env=env)
    assert (result.code, result.text) == (0, "Let me see.\nNothing there.\n")
    first, second = server.requests
    assert first.path == "/api/v1beta/models/gemini-flash-latest:streamGenerateContent?alt=sse"
    assert first.headers["x-goog-api-key"] == "google-key"
    _, model_turn, returned = second.json["contents"]
    assert model_turn["parts"] == [wire.text("Let me see."), made]
    assert [part["functionResponse"]["name"] for part in returned["parts"]] == ["list_dir"]
    for request in (first, second):
        assert wire.read_by_google(request.json) == wire.plain(request.json)


def test_signature_that_is_refused_is_replaced(ask: Ask, server: ModelServer) -> None:
    refusal = {"error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}}
    server.reply(
        wire.streamed(*wire.chunks(wire.call("list_dir", signature=wire.SIGNATURE, dirpath="."))),
        Reply((json.dumps(refusal).encode(),), status=400),
        wire.streamed(*wire.chunks(wire.text("Done."))),
    )
    env = {"GEMINI_API_KEY": "google-key", "GEMINI_BASE_URL": server.base_url}
    result = ask("-p", "gemini", "what is here?", env=env)
    assert (result.code, result.text) == (0, "Done.\n")
    signatures = [request.json["contents"][1]["parts"][0]["thoughtSignature"] for request in server.requests[1:]]
    assert signatures == [wire.SIGNATURE, DUMMY]
