"""Anthropic: the provider contract, and requests to the Messages API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from ask import Attachment, ChatRequest, FinishReason, Message, ModelResponse, ProviderState, ToolCall, ToolSpec
from ask.client.transport import Transport
from ask.testing import ProviderContract
from ask.testing.conversation import remove_cache_markers
from providers.anthropic import provider as anthropic
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.providers import anthropic_wire as wire
from tests.recorded_exchanges import ExchangeResult, send_request

Json = dict[str, Any]
HELLO = {"type": "text", "text": "Hello, wörld!"}
THINKING = {"type": "thinking", "thinking": "Let me think.", "signature": "c2ln"}
ADDS = [
    {"type": "tool_use", "id": f"toolu_{i}", "name": "add", "input": numbers}
    for i, numbers in enumerate([{"a": 2, "b": 3}, {"a": 4, "b": 5}])
]
FIRST_CALL = wire.call(0, "add", "", '{"a": 2,', ' "b": 3}')
MARKER = {"type": "ephemeral"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "hello"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
LOCATION = {
    "type": "web_search_result_location",
    "url": "https://example.com/hello",
    "title": "Hello",
    "cited_text": "",
    "encrypted_index": "ZW5j",
}
SAMPLES = {
    "sources": wire.events(
        wire.begins(),
        wire.block(0, SEARCH | {"input": {}}, {"type": "input_json_delta", "partial_json": '{"query": "hello"}'}),
        wire.block(1, FOUND),
        wire.block(
            2,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Hello"},
            {"type": "citations_delta", "citation": LOCATION},
        ),
        wire.text(3, ", wörld!"),
        wire.ends(),
    ),
    "text": wire.events(wire.begins(), [wire.PING], wire.text(0, "Hello, ", "wörld!"), wire.ends()),
    "reasoning": wire.events(
        wire.begins(), wire.thinking(0, "Let me ", "think."), wire.text(1, "Hello, wörld!"), wire.ends()
    ),
    "call": wire.events(wire.begins(), FIRST_CALL, wire.ends("tool_use")),
    "parallel": wire.events(
        wire.begins(), FIRST_CALL, wire.call(1, "add", '  {"a": 4, "b": 5}  '), wire.ends("tool_use")
    ),
    "text_and_call": wire.events(
        wire.begins(),
        wire.text(0, "Hello, wörld!"),
        wire.call(1, "add", '{"a": 2, "b": 3}', id="toolu_0"),
        wire.ends("tool_use"),
    ),
    "reasoning_and_call": wire.events(
        wire.begins(),
        wire.thinking(0, "Let me ", "think."),
        wire.call(1, "add", '{"a": 2, "b": 3}', id="toolu_0"),
        wire.ends("tool_use"),
    ),
    "length": wire.events(wire.begins(), wire.text(0, "Hello, w"), wire.ends("max_tokens")),
    "filter": wire.events(wire.begins(), wire.text(0, "Hello, w"), wire.ends("refusal")),
    "error": wire.events(wire.begins(), wire.text(0, "Hello, w"), [wire.error("overloaded_error", "Overloaded")]),
    "cut": wire.events(wire.begins(), wire.text(0, "Hello, w")),
}
WHOLE = {
    "text": wire.message_of(HELLO),
    "reasoning": wire.message_of(THINKING, HELLO),
    "call": wire.message_of(ADDS[0], reason="tool_use"),
    "parallel": wire.message_of(*ADDS, reason="tool_use"),
    "text_and_call": wire.message_of(HELLO, ADDS[0], reason="tool_use"),
    "reasoning_and_call": wire.message_of(THINKING, ADDS[0], reason="tool_use"),
    "length": wire.message_of({"type": "text", "text": "Hello, w"}, reason="max_tokens"),
    "filter": wire.message_of({"type": "text", "text": "Hello, w"}, reason="refusal"),
    "error": wire.error("overloaded_error", "Overloaded"),
}
WHOLE["sources"] = wire.message_of(
    SEARCH,
    FOUND,
    {"type": "text", "text": "Hello", "citations": [LOCATION]},
    {"type": "text", "text": ", wörld!"},
)


class TestAnthropic(ProviderContract):
    provider = anthropic
    samples = SAMPLES
    unstreamed_samples = WHOLE


TOOL = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
SYSTEM, QUESTION = Message("system", "Be kind."), Message("user", "What is here?")
CALLS = (ToolCall("toolu_1", "bash", '{"command": "ls"}'), ToolCall("toolu_2", "bash", '{"command": "pwd"}'))
THOUGHT = [
    {"type": "thinking", "thinking": "I must look — ĝi.", "signature": "EqRkLz+/=="},
    {"type": "redacted_thinking", "data": "ErDaTa+/=="},
]


def result(call: ToolCall, text: str) -> Message:
    return Message("tool", text, (), call.id, call.name)


def make_answer(text: str, calls: Sequence[ToolCall], *blocks: Json, provider: str = "anthropic") -> Message:
    """Build an assistant message with native blocks."""
    return Message(
        "assistant", text, tuple(calls), provider_state=ProviderState(provider, wire.MODEL, {"content": list(blocks)})
    )


def tool_use(call: ToolCall) -> Json:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}


def body_of(*messages: Message, tools: Sequence[ToolSpec] = (TOOL,), **more: Any) -> Json:
    return anthropic.build_body(prepare_request(anthropic, wire.MODEL, messages, tools, **more))


def messages_of(*messages: Message, **more: Any) -> list[tuple[str, list[Json]]]:
    """Return roles and blocks of the messages in the body, without cache markers."""
    body = remove_cache_markers(body_of(*messages, **more))
    return [(message["role"], message["content"]) for message in body["messages"]]


def ask(
    server: ModelServer, *replies: Reply, messages: Sequence[Message] = (QUESTION,), tries: int = 1
) -> ExchangeResult:
    server.reply(*replies)
    return send_request(anthropic, server, ChatRequest(wire.MODEL, messages), [TOOL], tries=tries)


def read_answer(*parts: Sequence[Json]) -> ModelResponse:
    """Read the response from a stream."""
    reader = anthropic.provider_stream_reader()
    for event in wire.events(*parts):
        reader.feed(event)
    return anthropic.provider_parse_response(reader.response())


# Requests


def test_requests_carry_the_key_and_the_version(server: ModelServer) -> None:
    assert ask(server, wire.says("Hello.")).result.answer.text == "Hello."
    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/api/v1/messages")
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == ("key", "2023-06-01")
    assert "Authorization" not in request.headers


def test_first_request_matches_the_sdk() -> None:
    body = body_of(SYSTEM, QUESTION)
    assert wire.read_by_anthropic(body) == body
    assert remove_cache_markers(body) == {
        "model": wire.MODEL,
        "max_tokens": 32000,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "What is here?"}]}],
        "tools": [{"name": "bash", "description": "Runs a command.", "input_schema": dict(TOOL.parameters)}],
        "tool_choice": {"type": "auto"},
        "stream": True,
    }


def test_second_request_matches_the_sdk() -> None:
    """With thinking, parallel calls, an empty result and an error result."""
    calls = (*CALLS, ToolCall("toolu_3", "bash", '{"command": '))
    blocks = [
        *THOUGHT,
        {"type": "text", "text": "Let me see."},
        *map(tool_use, CALLS),
        tool_use(calls[2]._replace(arguments="{}")),
    ]
    answered = [result(call, text) for call, text in zip(calls, ["a.txt\n", "", "Error: no JSON"], strict=True)]
    body = body_of(SYSTEM, QUESTION, make_answer("Let me see.", calls, *blocks), *answered, Message("user", "Go on."))
    assert wire.read_by_anthropic(body) == body
    extended = body | {"unknown": 1, "tools": [body["tools"][0] | {"unknown": 1}]}
    assert wire.read_by_anthropic(extended) == body, "the judge sees what the SDK does not know"


def test_results_of_a_turn_are_one_message_before_its_text() -> None:
    turn = Message("assistant", "", CALLS)
    results = [result(call, call.id) for call in CALLS]
    assert messages_of(QUESTION, turn, *results, Message("user", "And?"), Message("user", "Well?")) == [
        ("user", [{"type": "text", "text": "What is here?"}]),
        ("assistant", [tool_use(call) for call in CALLS]),
        (
            "user",
            [
                *({"type": "tool_result", "tool_use_id": call.id, "content": call.id} for call in CALLS),
                {"type": "text", "text": "And?"},
                {"type": "text", "text": "Well?"},
            ],
        ),
    ]


@pytest.mark.parametrize(
    ("text", "attachments", "is_marked"),
    [
        ("Error: no such file", (), True),
        (" ", (), False),
        ("Error: no", (Attachment("a.png", "image/png", b"x"),), False),
    ],
)
def test_failed_results_are_marked_if_they_are_text(
    text: str, attachments: tuple[Attachment, ...], is_marked: bool
) -> None:
    failed = result(CALLS[0], text)._replace(is_error=True, attachments=attachments)
    body = body_of(QUESTION, Message("assistant", "", CALLS[:1]), failed)
    assert body["messages"][-1]["content"][0].get("is_error", False) == is_marked
    assert wire.read_by_anthropic(body) == body


def test_a_failed_result_is_marked_in_later_runs_too(ask: Ask, server: ModelServer) -> None:
    calls = [wire.call(i, "bash", json.dumps({"command": command})) for i, command in enumerate(["false", "true"])]
    server.reply(wire.streams(wire.begins(), *calls, wire.ends("tool_use")), wire.says("Hm."), wire.says("So."))
    env = {"ANTHROPIC_BASE_URL": server.base_url.removesuffix("/api/v1"), "ANTHROPIC_API_KEY": "key"}
    assert ask("-p", "anthropic", "--yes", "go", env=env).code == 0
    assert ask("-c", "and?", env=env).code == 0
    marked = [
        [
            block.get("is_error")
            for message in request.json["messages"]
            for block in message["content"]
            if "tool_use_id" in block
        ]
        for request in server.requests[1:]
    ]
    assert marked == [[True, None]] * 2


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_texts_are_never_sent_or_marked(blank: str) -> None:
    turn = Message("assistant", blank, CALLS[:1])
    body = body_of(Message("system", blank), Message("user", blank), QUESTION, turn, result(CALLS[0], blank))
    assert "system" not in body
    assert body["tools"][-1]["cache_control"] == MARKER
    assert [message["content"] for message in body["messages"]] == [
        [{"type": "text", "text": "What is here?", "cache_control": MARKER}],
        [tool_use(CALLS[0])],
        [{"type": "tool_result", "tool_use_id": "toolu_1"}],
    ]


@pytest.mark.parametrize(
    "arguments",
    ["", '{"command": ', "[1]", "null", '{"a": 1}{"a": 2}', '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}'],
)
def test_invalid_arguments_become_an_empty_object(arguments: str) -> None:
    call = CALLS[0]._replace(arguments=arguments)
    for turn in (
        Message("assistant", "", (call,)),
        make_answer("", [call], *THOUGHT, tool_use(call._replace(arguments="{}"))),
    ):
        assert messages_of(QUESTION, turn)[1][1][-1] == tool_use(CALLS[0]._replace(arguments="{}"))


def test_ids_and_names_of_other_providers_are_made_valid_and_consistent() -> None:
    """Moonshot's ids contain dots and colons, and some services repeat ids in every response."""
    messages = [QUESTION]
    for name, call_id in (("functions.bash", "functions.bash:0"), ("bash", "call_0"), ("bash", "call_0")):
        call = ToolCall(call_id, name, "{}")
        messages += [Message("assistant", "", (call,)), result(call, "done")]
    found = messages_of(*messages)
    used = [(block["id"], block["name"]) for role, blocks in found for block in blocks if role == "assistant"]
    answered = [block["tool_use_id"] for _, blocks in found[2::2] for block in blocks]
    assert used == [("functions_bash_0", "functions_bash"), ("call_0", "bash"), ("call_0_2", "bash")]
    assert answered == [call_id for call_id, _ in used]


def test_tool_choice_none_keeps_the_tools_defined() -> None:
    turn = [QUESTION, Message("assistant", "", CALLS), *(result(call, "done") for call in CALLS)]
    last = body_of(*turn, tool_choice="none")
    assert (last["tools"], last["tool_choice"]) == (body_of(*turn)["tools"], {"type": "none"})


def test_history_with_calls_defines_their_tools_even_if_none_is_offered() -> None:
    turn = [QUESTION, Message("assistant", "", CALLS), *(result(call, "done") for call in CALLS)]
    body = body_of(*turn, tools=())
    assert [tool["name"] for tool in body["tools"]] == ["bash"]
    assert body["tool_choice"] == {"type": "none"}
    assert wire.read_by_anthropic(body) == body
    assert not {"tools", "tool_choice"} & body_of(QUESTION, tools=()).keys()


def test_options_are_renamed_for_the_api() -> None:
    options = {"temperature": 0.5, "max_tokens": 5, "top_p": 0.9, "thinking": {"type": "adaptive"}}
    body = body_of(QUESTION, options={**options, "stop": "END", "reasoning_effort": "low"}, stream=False)
    assert options.items() <= body.items()
    assert (body["stop_sequences"], body["output_config"]) == (["END"], {"effort": "low"})
    assert not {"stop", "reasoning_effort", "stream"} & body.keys()
    assert body_of(QUESTION, options={"stop": ["a", "b"]})["stop_sequences"] == ["a", "b"]


def test_schema_becomes_the_output_format() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    body = body_of(QUESTION, schema=schema, options={"reasoning_effort": "high"})
    assert body["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": schema}}
    assert wire.read_by_anthropic(body) == body


# Cache markers


def test_ten_rounds_extend_one_prefix_marked_at_its_ends() -> None:
    messages, bodies = [SYSTEM, QUESTION], []
    for i in range(10):
        bodies.append(json.loads(json.dumps(body_of(*messages))))
        calls = [ToolCall(f"toolu_{i}_{j}", "bash", f'{{"command": "ls {i} {j}"}}') for j in range(1 + i % 3 * 12)]
        blocks = [*THOUGHT, *map(tool_use, calls)] if i % 2 else list(map(tool_use, calls))
        messages += [make_answer("", calls, *blocks), *(result(call, f"{call.id} done") for call in calls)]
    for before, body in pairwise(bodies):
        plain, shorter = (remove_cache_markers(one) for one in (body, before))
        assert plain["messages"][: len(shorter["messages"])] == shorter["messages"]
        assert json.dumps([plain["tools"], plain["system"]]) == json.dumps([shorter["tools"], shorter["system"]])
        assert marked(body) == [len(before["messages"]) - 1, len(body["messages"]) - 1]


def marked(body: Mapping[str, Any]) -> list[int]:
    """Return the messages that end with a marker; the only other marker is on the system prompt."""
    assert body["system"][-1]["cache_control"] == MARKER
    places = [i for i, message in enumerate(body["messages"]) if message["content"][-1].get("cache_control") == MARKER]
    assert json.dumps(body).count("cache_control") == len(places) + 1 <= 4
    return places


# Thinking


def test_thinking_is_sent_back_unchanged_before_its_calls(server: ModelServer) -> None:
    stream = [
        *wire.thinking(0, "I must ", "look — ĝi.", signature="EqRkLz+/=="),
        *wire.block(1, THOUGHT[1]),
        *wire.text(2, "Let me see."),
        *wire.call(3, "bash", '{"command": "ls"}', id="toolu_1"),
    ]
    exchange = ask(server, wire.streams(wire.begins(), stream, wire.ends("tool_use")))
    answer = exchange.result.answer
    assert answer.reasoning == "I must look — ĝi."
    assert answer.provider_state is not None
    turn = exchange.message
    found = messages_of(SYSTEM, QUESTION, turn, result(exchange.result.tool_calls[0], "a.txt"))
    assert found[1] == ("assistant", [*THOUGHT, {"type": "text", "text": "Let me see."}, tool_use(CALLS[0])])


def test_interleaved_blocks_keep_their_order_without_blank_texts_and_unsigned_thinking() -> None:
    blocks = [
        THOUGHT[0],
        {"type": "text", "text": "One."},
        {"type": "text", "text": "\n\n"},
        {"type": "thinking", "thinking": "unsigned"},
        tool_use(CALLS[0]),
        THOUGHT[1],
        tool_use(CALLS[1]),
    ]
    found = messages_of(QUESTION, make_answer("One.\n\n", CALLS, *blocks), *(result(call, "done") for call in CALLS))
    assert found[1][1] == [blocks[0], blocks[1], *blocks[4:]]


@pytest.mark.parametrize(
    ("turn", "kept"),
    [
        (make_answer("One.", CALLS, *THOUGHT, {"type": "text", "text": "One."}, *map(tool_use, CALLS)), 2),
        (make_answer("Another.", CALLS, *THOUGHT, {"type": "text", "text": "One."}, *map(tool_use, CALLS)), 0),
        (make_answer("One.", CALLS[:1], *THOUGHT, {"type": "text", "text": "One."}, *map(tool_use, CALLS)), 0),
        (make_answer("One.", (), *THOUGHT, {"type": "text", "text": "One."}, tool_use(CALLS[0])), 0),
        (
            make_answer(
                "One.", CALLS, *THOUGHT, {"type": "text", "text": "One."}, *map(tool_use, CALLS), provider="other"
            ),
            0,
        ),
    ],
    ids=["agrees", "other text", "a call less", "no calls", "other provider"],
)
def test_native_blocks_are_sent_back_only_if_they_match_the_message(turn: Message, kept: int) -> None:
    text = {"type": "text", "text": turn.content}
    results = [result(call, "done") for call in turn.tool_calls]
    assert messages_of(QUESTION, turn, *results)[1][1] == [*THOUGHT[:kept], text, *map(tool_use, turn.tool_calls)]


EARLIER = make_answer("Here.", (), *THOUGHT, {"type": "text", "text": "Here."})
DROP_BLOCK = {"prefix_mismatch_behavior": "drop_block"}


def test_thinking_of_earlier_runs_is_sent_back() -> None:
    second = make_answer("", CALLS[:1], *THOUGHT, tool_use(CALLS[0]))
    found = messages_of(QUESTION, EARLIER, QUESTION, second, result(CALLS[0], "done"))
    assert found[1] == ("assistant", [*THOUGHT, {"type": "text", "text": "Here."}])
    assert found[3] == ("assistant", [*THOUGHT, tool_use(CALLS[0])])


def test_a_model_with_a_budget_does_not_think_after_calls_without_thinking() -> None:
    second = make_answer("", CALLS[:1], *THOUGHT, tool_use(CALLS[0]))
    other = second._replace(provider_state=None)
    found = result(CALLS[0], "done")
    for messages, is_on in [
        ((QUESTION, second, found), True),
        ((QUESTION, other, found), False),  # of a model to which this one is the fallback
        ((QUESTION, other, found, EARLIER, QUESTION), True),
        ((QUESTION, other, found, second, found), True),
        ((QUESTION, second, found, other, found), True),  # a model with a budget does not think after results
        ((QUESTION, second, found, EARLIER, QUESTION, other, found), False),
        ((QUESTION,), True),
    ]:
        for kind in ("enabled", "adaptive"):
            options = {"thinking": {"type": kind, "budget_tokens": 2_048}}
            body = anthropic.build_body(prepare_request(anthropic, wire.MODEL, messages, (TOOL,), options=options))
            assert (body["thinking"] != {"type": "disabled"}) == (is_on or kind == "adaptive"), messages


def test_the_users_betas_are_added_to_that_of_thinking(server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    request = anthropic.provider_build_request(ChatRequest("claude-sonnet-5-5", [QUESTION]), "key")
    with Transport(server.base_url, 10, headers={"anthropic-beta": "context-1m"}).send(request):
        pass
    assert server.requests[0].headers["anthropic-beta"] == f"{request.headers['anthropic-beta']},context-1m"


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-opus-5"])
def test_another_base_url_gets_no_beta_header_and_no_thinking_that_needs_it(server: ModelServer, model: str) -> None:
    server.reply(wire.says("Hello."))
    assert EARLIER.provider_state is not None
    earlier = EARLIER._replace(provider_state=EARLIER.provider_state._replace(model=model))
    second = make_answer("", CALLS[:1], *THOUGHT, tool_use(CALLS[0]))
    messages = [QUESTION, earlier, QUESTION, second, result(CALLS[0], "done")]
    request = prepare_request(anthropic, model, messages, (TOOL,))
    send_request(anthropic, server, request._replace(is_own_url=False))
    sent = server.requests[0]
    assert "anthropic-beta" not in sent.headers
    assert "block_binding" not in (sent.json.get("thinking") or {})
    thinking = [block["type"] for block in sent.json["messages"][1]["content"]].count("thinking")
    assert thinking == (1 if model == "claude-opus-5" else 0)
    assert sent.json["messages"][3]["content"][0]["type"] == "thinking", "the API requires that of the same turn"


@pytest.mark.parametrize(
    ("writer", "model", "thinking"),
    [
        ("glm-5", "claude-sonnet-5-5", None),
        ("claude-sonnet-5-5", "glm-5", None),
        ("claude-sonnet-5-5", "claude-haiku-5-5", {"type": "disabled"}),
        ("claude-sonnet-5-5", "claude-sonnet-5-5", {"type": "between_tools"}),
    ],
)
def test_thinking_of_earlier_runs_is_not_sent_to_another_family_or_if_thinking_is_off(
    writer: str, model: str, thinking: Json | None
) -> None:
    assert EARLIER.provider_state is not None
    earlier = EARLIER._replace(provider_state=EARLIER.provider_state._replace(model=writer))
    options = {"thinking": thinking} if thinking else {}
    messages = [QUESTION, earlier, QUESTION]
    body = anthropic.build_body(prepare_request(anthropic, model, messages, (TOOL,), options=options))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Here."}]
    assert body.get("thinking") == thinking or "claude" in model


@pytest.mark.parametrize(
    ("model", "show", "options", "thinking"),
    [
        ("claude-sonnet-5-5", False, {}, {"type": "adaptive", "block_binding": DROP_BLOCK}),
        ("claude-sonnet-5-5", True, {}, {"type": "adaptive", "display": "summarized", "block_binding": DROP_BLOCK}),
        ("claude-fable-5-1", False, {}, {"type": "adaptive", "block_binding": DROP_BLOCK}),
        ("claude-opus-5", True, {}, {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-5", False, {}, None),
        ("claude-opus-4-8", True, {}, None),
        ("claude-opus-4-8", True, {"type": "adaptive"}, {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-4-5-20250929", True, {"type": "enabled", "budget_tokens": 2048}, "as set"),
        ("claude-sonnet-5-5", True, {"type": "between_tools"}, "as set"),
        ("claude-opus-5", True, {"type": "disabled"}, "as set"),
        ("claude-opus-5", True, {"type": "adaptive", "display": "omitted"}, "as set"),
        ("glm-5", True, {}, None),
    ],
)
def test_thinking_is_shown_and_checked_as_the_model_supports(
    server: ModelServer, model: str, show: bool, options: Json, thinking: Json | str | None
) -> None:
    server.reply(wire.says("Hello."))
    request = ChatRequest(model, [QUESTION], show_reasoning=show, options={"thinking": options} if options else {})
    send_request(anthropic, server, request)
    sent = server.requests[0]
    assert sent.json.get("thinking") == (options if thinking == "as set" else thinking)
    is_bound = "block_binding" in (sent.json.get("thinking") or {})
    assert sent.headers.get("anthropic-beta") == ("thinking-binding-controls-2026-08-01" if is_bound else None)
    assert wire.read_by_anthropic(sent.json) == sent.json


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-sonnet-5-5", 128_000),
        ("claude-fable-5", 128_000),
        ("claude-opus-4-6", 128_000),
        ("claude-haiku-4-5-20251001", 64_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-sonnet-4-20250514", 64_000),
        ("glm-5", 32_000),
    ],
)
def test_limit_of_the_answer_depends_on_the_model(model: str, limit: int) -> None:
    assert anthropic.build_body(prepare_request(anthropic, model, [QUESTION]))["max_tokens"] == limit
    options = {"max_tokens": 5}
    assert anthropic.build_body(prepare_request(anthropic, model, [QUESTION], options=options))["max_tokens"] == 5


def test_thinking_after_dropped_messages_is_not_sent() -> None:
    turn = make_answer("", CALLS[:1], *THOUGHT, tool_use(CALLS[0]))
    assert turn.provider_state is not None
    moved = turn._replace(provider_state=turn.provider_state._replace(context_truncated=True))
    found = messages_of(QUESTION, moved, result(CALLS[0], "done"))
    assert found[1] == ("assistant", [tool_use(CALLS[0])])


@pytest.mark.parametrize(
    "parts",
    [
        [wire.begins(), wire.thinking(0, "Hm."), wire.text(1, "Yes.")],
        [wire.begins(), wire.thinking(0, "Hm."), wire.text(1, "Yes."), wire.ends("max_tokens")],
        [wire.begins(), wire.thinking(0, "Hm."), wire.text(1, "Yes."), wire.ends("refusal")],
        [wire.begins(), wire.text(0, "Yes."), wire.thinking(1, "Hm."), wire.ends()],
        [wire.begins(), wire.thinking(0, "Hm."), wire.text(1, "\n"), wire.ends()],
        [wire.begins(), wire.text(0, "Yes."), wire.ends()],
    ],
    ids=["cut", "length", "refusal", "thinking last", "nothing said", "only text"],
)
def test_native_blocks_are_not_kept_if_unneeded_or_unusable(parts: list[list[Json]]) -> None:
    assert read_answer(*parts).provider_state is None


def test_paused_response_is_sent_back_unchanged_and_continued(server: ModelServer) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    query = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    paused = [*wire.text(0, "I search."), *wire.block(1, search, query), *wire.block(2, found)]
    exchange = ask(server, wire.streams(wire.begins(), paused, wire.ends("pause_turn")))
    assert (exchange.result.answer.finish_reason, exchange.result.tool_calls, exchange.outcome) == (
        FinishReason.CONTINUE,
        (),
        "ok",
    )
    message = exchange.message
    body = body_of(SYSTEM, QUESTION, message)
    content = [{"type": "text", "text": "I search."}, search | {"input": {"query": "x"}}, found]
    assert body["messages"][-1] == {"role": "assistant", "content": content}
    assert wire.read_by_anthropic(body) == body
    later = messages_of(SYSTEM, QUESTION, message, Message("assistant", "Found."), QUESTION)
    assert later[1] == ("assistant", [*content, {"type": "text", "text": "Found."}])


COMPACTED: Json = {"content": "Before.", "encrypted_content": "c2ln"}
COMPACTION = {"type": "compaction_delta"} | COMPACTED


@pytest.mark.parametrize(
    ("start", "deltas", "sent"),
    [
        ({"type": "hologram", "data": "x"}, [], [{"type": "hologram", "data": "x"}]),
        ({"type": "hologram", "data": "x"}, [{"type": "hologram_delta", "hologram": "y"}], []),
        ({"type": "compaction", "content": None}, [COMPACTION], [{"type": "compaction"} | COMPACTED]),
        ({"type": "compaction"}, [COMPACTION], [{"type": "compaction"} | COMPACTED]),
        ({}, [], []),
    ],
)
def test_a_block_that_is_not_known_is_sent_back_complete_or_not_at_all(
    start: Json, deltas: list[Json], sent: list[Json]
) -> None:
    block = wire.block(1, start, *deltas)
    answer = read_answer(wire.begins(), wire.thinking(0, "Hm."), block, wire.text(2, "Yes."), wire.ends())
    message = Message("assistant", answer.text, provider_state=answer.provider_state)
    content = messages_of(SYSTEM, QUESTION, message, QUESTION)[1][1]
    assert [block for block in content if block.get("type") not in ("thinking", "text")] == sent
    assert content[-1] == {"type": "text", "text": "Yes."}


def test_null_fields_of_blocks_are_not_sent_back() -> None:
    """The API sends them for a request with a beta header, and refuses them itself.

    https://github.com/langchain-ai/langchain/pull/34286
    """
    search: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    text: Json = {"type": "text", "text": "Found."}
    blocks = [THOUGHT[0], search, found, text, tool_use(CALLS[0])]
    nulls = [block | {"caller": None} if block["type"] != "thinking" else block for block in blocks]
    nulls[3] = text | {"citations": None}
    nulls[4] |= {"toolset_name": None}
    answer = make_answer("Found.", CALLS[:1], *nulls)
    body = body_of(SYSTEM, QUESTION, answer, result(CALLS[0], "done"))
    assert wire.read_by_anthropic(body) == body
    assert body["messages"][1]["content"] == blocks


def test_calls_of_a_model_that_declined_are_neither_run_nor_sent_back(server: ModelServer) -> None:
    """With the option `fallbacks`, or behind a proxy that sets it, another model completes the answer.

    https://github.com/code-yeongyu/senpi/pull/113 has a refusal of the call, and pull/1212 one of the block itself.
    """
    fallback = {"type": "fallback", "from": {"model": "claude-fable-5"}, "to": {"model": "claude-opus-4-8"}}
    blocks = [
        wire.thinking(0, "Hm."),
        wire.text(1, "Let me "),
        wire.call(2, "bash", '{"command": "ls"}', id="toolu_9"),
        wire.block(3, fallback | {"trigger": {"type": "refusal", "category": "cyber"}}),
        wire.thinking(4, "I look."),
        wire.text(5, "see."),
        wire.call(6, "bash", '{"command": "ls"}', id=CALLS[0].id),
    ]
    exchange = ask(server, wire.streams(wire.begins(), *blocks, wire.ends("tool_use")))
    assert exchange.result.tool_calls == CALLS[:1]
    answer = exchange.result.answer
    turn = Message("assistant", answer.text, exchange.result.tool_calls, provider_state=answer.provider_state)
    content = messages_of(SYSTEM, QUESTION, turn, result(CALLS[0], "a"))[1][1]
    assert content == [{"type": "text", "text": "Let me see."}, tool_use(CALLS[0])]


def test_calls_of_mcp_servers_stay_with_their_results() -> None:
    """https://platform.claude.com/docs/en/agents-and-tools/mcp-connector"""
    call: Json = {
        "type": "mcp_tool_use",
        "id": "mcptoolu_1",
        "name": "find",
        "server_name": "notes",
        "input": {"text": "x"},
    }
    found: Json = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []}
    text: Json = {"type": "text", "text": "Found."}
    for blocks, sent in (([call, found, text], [call, found, text]), ([call, text], [text])):
        assert messages_of(SYSTEM, QUESTION, make_answer("Found.", (), *blocks), QUESTION)[1][1] == sent
