"""Reading Chat Completions streams in the variants that services send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ask import ChatCompletions, RawEvent, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta
from ask.messages import Delta
from ask.parsing import AUDIO_NOTICE
from ask.plugin_api.chat_completions import ChatStreamReader
from tests import wire

CHAT = ChatCompletions(name="test", base_url="http://test/v1")
PARTIAL_ANSWER = CHAT.provider_parse_response(wire.answer("so far"))


def read(*chunks: wire.Json | str | bytes, done: bool = True) -> tuple[ChatStreamReader, list[Delta]]:
    """Read a stream; return the reader and its deltas."""
    reader = ChatStreamReader()
    deltas = [delta for event in wire.events(wire.sse(*chunks, done=done)) for delta in reader.feed(event)]
    return reader, deltas


def read_message(*chunks: wire.Json) -> Any:
    return read(*chunks)[0].response()["choices"][0]["message"]


def read_calls(*chunks: wire.Json) -> list[tuple[str, str, str]]:
    entries = read_message(*chunks).get("tool_calls", [])
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in entries]


def make_call_chunk(**fields: Any) -> wire.Json:
    """Return a chunk with one tool call fragment that has these fields."""
    return wire.chunk({"tool_calls": [fields]})


# Text


def test_text_is_emitted_as_it_arrives_and_kept() -> None:
    reader, deltas = read(wire.text("Hel"), wire.text(""), wire.text("lo"), wire.finish(), wire.usage())
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    choice = reader.response()["choices"][0]
    assert choice == {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}


def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    reader, deltas = read(wire.chunk({"content": parts}), wire.finish())
    assert deltas == [TextDelta("one two")]
    assert CHAT.provider_parse_response(reader.response()).text == "one two"


def thinking(text: str, **fields: Any) -> wire.Json:
    """Return a part of the content as Mistral sends it."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]} | fields


def text_part(text: str) -> wire.Json:
    return {"type": "text", "text": text}


def test_thinking_in_the_content_is_reasoning() -> None:
    reader, deltas = read(
        wire.chunk({"content": [thinking("Let me ")]}),
        wire.chunk({"content": [thinking("think."), text_part("Hel")]}),
        wire.chunk({"content": "lo"}),
        wire.chunk({"content": ""}),
        wire.chunk({"content": [{"type": "reference", "reference_ids": [1]}]}),
        wire.chunk({"content": [thinking("Again.", closed=True)]}),
        wire.chunk({"content": [thinking("", signature="c2ln")]}),
        wire.chunk({"content": [thinking("More."), text_part(".")]}, finish="stop"),
    )
    assert deltas == [
        ReasoningDelta("Let me "),
        ReasoningDelta("think."),
        TextDelta("Hel"),
        TextDelta("lo"),
        ReasoningDelta("Again."),
        ReasoningDelta("More."),
        TextDelta("."),
    ]
    content = [
        thinking("Let me think."),
        text_part("Hello"),
        thinking("Again.", closed=True, signature="c2ln"),
        thinking("More."),
        text_part("."),
    ]
    assert reader.response()["choices"][0]["message"]["content"] == content
    for response in (reader.response(), wire.answer(content)):
        answer = CHAT.provider_parse_response(response)
        assert (answer.text, answer.reasoning) == ("Hello.", "Let me think.Again.More.")


def test_text_before_the_first_thinking_keeps_its_place() -> None:
    message = read_message(
        wire.text("One. "), wire.chunk({"content": [text_part("Two."), thinking("Hm.")]}), wire.text("Three.")
    )
    assert message["content"] == [text_part("One. Two."), thinking("Hm."), text_part("Three.")]


@pytest.mark.parametrize("text", ["", "Hello"])
def test_a_complete_message_with_thinking_at_the_end_is_not_repeated(text: str) -> None:
    content = [thinking("Hm."), *([text_part(text)] if text else [])]
    _, deltas = read(
        wire.chunk({"content": content}), {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    )
    assert deltas == [ReasoningDelta("Hm."), *([TextDelta(text)] if text else [])]


@pytest.mark.parametrize("content", [[thinking("Hm."), 7, None, {"type": "thinking", "thinking": 7}], 7, {}, [[]]])
def test_damaged_content_parts_are_ignored(content: Any) -> None:
    reader, deltas = read(wire.chunk({"content": [thinking("Oh.")]}), wire.chunk({"content": content}), wire.finish())
    assert deltas[0] == ReasoningDelta("Oh.")
    assert CHAT.provider_parse_response(reader.response()).text == ""


def test_refusal_is_emitted_and_kept_separate() -> None:
    reader, deltas = read(wire.chunk({"refusal": "I can"}), wire.chunk({"refusal": "not"}), wire.finish())
    assert deltas == [TextDelta("I can"), TextDelta("not")]
    refused = reader.response()["choices"][0]["message"]
    assert (refused["content"], refused["refusal"]) == (None, "I cannot")


def test_transcript_of_audio_is_the_text() -> None:
    reader, deltas = read(
        wire.chunk({"content": None, "audio": {"id": "a", "transcript": "Hel"}}),
        wire.chunk({"audio": {"data": "AAAA"}}),
        wire.chunk({"audio": {"transcript": "lo."}}),
        wire.finish(),
    )
    assert deltas == [TextDelta("Hel"), TextDelta("lo.")]
    whole = wire.answer(None, audio={"id": "a", "data": "AAAA", "transcript": "Hello."})
    for response in (reader.response(), whole):
        answer = CHAT.provider_parse_response(response)
        assert (answer.text, answer.finish_message) == ("Hello.", AUDIO_NOTICE)


def test_choices_after_the_first_are_ignored() -> None:
    second = wire.chunk({"content": "no"}, finish="length", index=1)
    combined = {"choices": [wire.text("yes")["choices"][0], second["choices"][0]]}
    reader, deltas = read(combined, second, wire.finish())
    assert deltas == [TextDelta("yes")]
    assert reader.response()["choices"][0]["finish_reason"] == "stop"
    assert len(reader.response()["choices"]) == 1


def test_another_choice_does_not_end_the_stream() -> None:
    second = [wire.chunk({"role": "assistant", "content": ""}, index=1), wire.chunk(finish="stop", index=1)]
    assert not read(wire.text("a"), *second, done=False)[0].complete


def test_choice_without_index_counts_as_the_first() -> None:
    assert read({"choices": [{"delta": {"content": "yes"}}]})[1] == [TextDelta("yes")]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_in_both_fields(field: str) -> None:
    reader, deltas = read(wire.reasoning("think", field), wire.reasoning("ing", field), wire.text("so"), wire.finish())
    assert deltas == [ReasoningDelta("think"), ReasoningDelta("ing"), TextDelta("so")]
    assert CHAT.provider_parse_response(reader.response()).reasoning == "thinking"


def test_reasoning_in_both_fields_is_emitted_once() -> None:
    reader, deltas = read(wire.chunk({"reasoning": "hm", "reasoning_content": "hm"}))
    assert deltas == [ReasoningDelta("hm")]
    assert CHAT.provider_parse_response(reader.response()).reasoning == "hm"


# Calls


def test_fragmented_call_is_emitted_once() -> None:
    reader, deltas = read(
        wire.text("Let me see."),
        wire.call(0, id="call_a", name="bash", arguments=""),
        wire.call(0, arguments='{"com'),
        wire.call(0, arguments='mand": "ls"}'),
        wire.finish("tool_calls"),
    )
    assert deltas == [TextDelta("Let me see."), ToolCallDelta(0, "bash")]
    assert CHAT.provider_parse_tool_calls(reader.response()) == [ToolCall("call_a", "bash", '{"command": "ls"}')]


def test_fragments_of_several_calls_may_be_interleaved() -> None:
    assert read_calls(
        wire.call(0, id="a", name="one", arguments=""),
        wire.call(1, id="b", name="two", arguments="{"),
        wire.call(0, arguments="{}"),
        wire.call(1, arguments="}"),
    ) == [("a", "one", "{}"), ("b", "two", "{}")]


def test_several_fragments_may_come_in_one_chunk() -> None:
    combined = [
        wire.call(i, id=f"c{i}", name="t", arguments="{}")["choices"][0]["delta"]["tool_calls"][0] for i in (0, 1)
    ]
    reader, deltas = read(wire.chunk({"tool_calls": combined}))
    assert deltas == [ToolCallDelta(0, "t"), ToolCallDelta(1, "t")]
    assert len(reader.response()["choices"][0]["message"]["tool_calls"]) == 2


def test_new_id_and_name_with_a_used_index_is_another_call() -> None:
    assert read_calls(
        wire.call(0, id="a", name="one", arguments='{"x": 1}'),
        wire.call(0, id="b", name="one", arguments='{"x": '),
        wire.call(0, arguments="2}"),
    ) == [("a", "one", '{"x": 1}'), ("b", "one", '{"x": 2}')]


@pytest.mark.parametrize("call_id", [None, "", "a"])
def test_call_with_the_index_and_id_of_a_complete_one_is_another(call_id: str | None) -> None:
    assert read_calls(
        wire.call(0, id=call_id, name="one", arguments='{"x": 1}'),
        wire.call(0, id=call_id, name="one", arguments='{"x": '),
        wire.call(0, id=call_id, name="one", arguments="2}"),
        wire.call(0, id=call_id, name="one", arguments=" "),
    ) == [(call_id or "", "one", '{"x": 1}'), (call_id or "", "one", '{"x": 2} ')]


def test_repeated_id_is_the_same_call() -> None:
    assert read_calls(
        wire.call(0, id="a", name="one", arguments='{"x": '),
        wire.call(0, id="a", name="one", arguments="1}"),
    ) == [("a", "one", '{"x": 1}')]


def test_calls_without_an_index_are_separated_by_name() -> None:
    assert read_calls(
        wire.call(id="a", name="one", arguments="{}"),
        wire.call(id="b", name="two", arguments=""),
        wire.call(arguments="{}"),
        wire.call(name="two", arguments="[]"),
    ) == [("a", "one", "{}"), ("b", "two", "{}"), ("", "two", "[]")]


@pytest.mark.parametrize(
    "later",
    [
        {"index": 0, "id": "", "function": {"name": "", "arguments": "}"}},
        {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": "}"}},
        {"index": 0, "function": {"arguments": "}"}},
        {"index": 0, "id": "", "function": {"name": "one", "arguments": "}"}},
    ],
)
def test_later_fragments_may_lack_id_and_name(later: wire.Json) -> None:
    assert read_calls(wire.call(0, id="a", name="one", arguments="{"), make_call_chunk(**later)) == [("a", "one", "{}")]


@pytest.mark.parametrize(
    "later",
    [
        {"index": 0, "id": "", "function": {"name": None, "arguments": None}},
        {"index": 0, "function": {}},
        {"index": 0, "function": None},
        {"index": 0},
    ],
)
def test_fragments_may_lack_arguments(later: wire.Json) -> None:
    first = wire.call(0, id="a", name="one", arguments="{}")
    assert read_calls(make_call_chunk(**later), first, make_call_chunk(**later)) == [("a", "one", "{}")]


def test_id_and_name_may_arrive_late() -> None:
    reader, deltas = read(wire.call(0, arguments="{"), wire.call(0, id="a"), wire.call(0, name="one", arguments="}"))
    assert deltas == [ToolCallDelta(0, "one")]
    assert CHAT.provider_parse_tool_calls(reader.response()) == [ToolCall("a", "one", "{}")]


@pytest.mark.parametrize("arguments", ["", '{"a": 1}{"a": 2}', '{"path": "a', "not JSON", "[]"])
def test_arguments_are_kept_unchanged(arguments: str) -> None:
    assert read_calls(wire.call(0, id="a", name="one", arguments=arguments), wire.finish("length")) == [
        ("a", "one", arguments)
    ]


def test_object_arguments_are_serialized() -> None:
    ((_, _, arguments),) = read_calls(
        make_call_chunk(index=0, id="a", function={"name": "one", "arguments": {"x": "ü"}})
    )
    assert json.loads(arguments) == {"x": "ü"}


def test_calls_are_read_for_any_finish_reason() -> None:
    assert read_calls(wire.call(0, id="a", name="one", arguments="{}"), wire.finish("stop"))


def test_truncated_call_is_kept() -> None:
    reader, _ = read(wire.call(0, id="a", name="bash", arguments='{"command": "rm -rf'), done=False)
    assert not reader.complete
    assert CHAT.provider_parse_tool_calls(reader.response()) == [ToolCall("a", "bash", '{"command": "rm -rf')]


# The end


@pytest.mark.parametrize(
    ("chunks", "done", "ended"),
    [
        ([wire.text("a"), wire.finish()], False, True),
        ([wire.text("a"), wire.finish()], True, True),
        ([wire.text("a")], False, False),
        ([wire.text("a"), wire.usage()], False, False),
        ([], False, False),
    ],
)
def test_stream_ends_with_a_finish_reason(chunks: Sequence[wire.Json], done: bool, ended: bool) -> None:
    assert read(*chunks, done=done)[0].complete is ended


def test_last_of_several_finish_reasons_counts() -> None:
    reader, _ = read(wire.text("a"), wire.finish("tool_calls"), wire.finish("length"), wire.chunk())
    assert reader.response()["choices"][0]["finish_reason"] == "length"


def test_empty_finish_reason_does_not_end_the_stream() -> None:
    reader, _ = read(wire.chunk({"content": "a"}, finish=""))
    assert not reader.complete
    reader, _ = read(wire.chunk({"content": "a"}, finish=""), wire.finish("length"), wire.chunk(finish=""))
    assert reader.response()["choices"][0]["finish_reason"] == "length"


def test_partial_answer_is_available_at_any_time() -> None:
    reader = ChatStreamReader()
    assert CHAT.provider_parse_response(reader.response()).text == ""
    so_far = ""
    for word in ("one ", "two ", "three"):
        reader.feed(RawEvent(None, json.dumps(wire.text(word))))
        so_far += word
        assert CHAT.provider_parse_response(reader.response()).text == so_far


@pytest.mark.parametrize(
    "chunks",
    [
        [wire.text("a"), wire.finish(), wire.usage(10, 5, cost=0.25)],
        [wire.text("a"), wire.chunk(finish="stop") | {"usage": {"prompt_tokens": 10, "completion_tokens": 5}}],
        [wire.text("a"), wire.chunk(finish="stop", usage={"prompt_tokens": 10, "completion_tokens": 5})],
        [wire.usage(1, 1), wire.text("a"), wire.usage(10, 5), wire.text("b") | {"usage": None}, wire.finish()],
    ],
    ids=["without choices", "beside choices", "inside the choice", "growing"],
)
def test_usage_is_read_in_every_known_place(chunks: list[wire.Json]) -> None:
    usage = CHAT.provider_parse_response(read(*chunks)[0].response()).usage
    assert (usage.input_tokens, usage.output_tokens) == (10, 5)


# Errors


@pytest.mark.parametrize(
    "chunk",
    [
        {"error": {"code": 502, "message": "it failed"}},
        {"error": "it failed", "code": "internal"},
        {"error": {"message": "it failed"}, "choices": []},
        {
            "error": {"message": "it failed"},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        },
        {"choices": [{"index": 0, "delta": {}, "error": {"message": "it failed"}, "finish_reason": "error"}]},
        {"choices": [], "usage": {"prompt_tokens": 1}, "error": {"message": "it failed", "code": 400}},
        {"errors": [{"message": "it failed"}]},
        {"object": "error", "message": "it failed"},
        {"detail": "it failed"},
        [{"error": {"message": "it failed"}}],
        b'event: error\ndata: {"message": "it failed"}\n\n',
        b'event: error\ndata: {"error": {"message": "it failed"}}\n\n',
        b'event: error\ndata: "it failed"\n\n',
        b"event: error\ndata: it failed\n\n",
        "{it failed",
    ],
    ids=str,
)
def test_error_in_any_format_ends_the_stream_and_keeps_the_text(chunk: Any) -> None:
    reader, deltas = read(wire.text("so far"), chunk, done=False)
    assert deltas == [TextDelta("so far")]
    assert reader.complete
    error = CHAT.find_response_error(reader.response(), PARTIAL_ANSWER)
    assert error is not None
    assert "it failed" in error.message


def test_error_after_the_finish_reason_counts() -> None:
    reader, _ = read(wire.text("so far"), wire.finish("length"), wire.usage() | wire.error("it failed"))
    error = CHAT.find_response_error(reader.response(), PARTIAL_ANSWER)
    assert error is not None
    assert (error.message, error.status) == ("it failed", 502)


@pytest.mark.parametrize("chunk", [{"error": None}, {"error": {}}, {"error": ""}])
def test_empty_error_is_ignored(chunk: wire.Json) -> None:
    assert CHAT.find_response_error(read(wire.text("a") | chunk, wire.finish())[0].response(), PARTIAL_ANSWER) is None


@pytest.mark.parametrize("data", ["null", "[]", "7", '"text"', "{}", '{"choices": null}', '{"choices": [null]}'])
def test_events_without_content_are_ignored(data: str) -> None:
    reader, deltas = read(wire.text("a"), data, wire.text("b"), wire.finish())
    assert deltas == [TextDelta("a"), TextDelta("b")]
    assert CHAT.provider_parse_response(reader.response()).text == "ab"


# Reasoning details


def read_details(*chunks: wire.Json) -> Any:
    return read_message(*chunks).get("reasoning_details")


def test_reasoning_details_are_joined_by_type_and_index() -> None:
    assert read_details(
        wire.detail(type="reasoning.text", index=0, text="one ", signature=None, format="anthropic-claude-v1"),
        wire.detail(type="reasoning.text", index=1, text="other"),
        wire.detail(type="reasoning.text", index=0, text="two"),
        wire.detail(type="reasoning.summary", index=0, summary="sum"),
        wire.detail(type="reasoning.summary", index=0, summary="mary"),
        wire.finish(),
    ) == [
        {"type": "reasoning.text", "index": 0, "text": "one two", "signature": None, "format": "anthropic-claude-v1"},
        {"type": "reasoning.text", "index": 1, "text": "other"},
        {"type": "reasoning.summary", "index": 0, "summary": "summary"},
    ]


def test_signature_may_arrive_in_a_fragment_of_its_own() -> None:
    assert read_details(
        wire.detail(type="reasoning.text", index=0, text="think", signature=None),
        wire.text("the answer"),
        wire.detail(type="reasoning.text", index=0, signature="sig"),
        wire.detail(type="reasoning.text", index=0, signature=None),
        wire.finish(),
    ) == [{"type": "reasoning.text", "index": 0, "text": "think", "signature": "sig"}]


def test_encrypted_details_are_kept_verbatim_and_separate() -> None:
    one: wire.Json = {
        "type": "reasoning.encrypted",
        "index": 0,
        "data": "AAA=",
        "id": "tool_a",
        "format": "google-gemini-v1",
    }
    two = one | {"data": "BBB=", "id": "tool_b"}
    text: wire.Json = {"type": "reasoning.text", "index": 0, "text": "think"}
    assert read_details(wire.detail(**text), wire.detail(**one), wire.detail(**two), wire.finish()) == [text, one, two]


@pytest.mark.parametrize("place", [{}, {"index": 0}, {"id": "a"}])
def test_each_call_of_the_service_stays_separate(place: wire.Json) -> None:
    """The index is optional: https://openrouter.ai/docs/client-sdks/python/components/reasoningdetailservertoolcall"""
    calls: list[wire.Json] = [
        {"type": "reasoning.server_tool_call", "tool_name": "openrouter:web_search", "arguments": text, "result": text}
        | place
        for text in ('{"query": "a"}', '{"query": "b"}')
    ]
    assert read_details(*(wire.detail(**call) for call in calls), wire.finish()) == calls


def test_details_keep_their_order() -> None:
    fragments: list[wire.Json] = [
        {"type": "reasoning.encrypted", "index": 0, "data": "A"},
        {"type": "reasoning.text", "index": 1, "text": "b"},
        {"type": "reasoning.encrypted", "index": 2, "data": "C"},
    ]
    assert read_details(*(wire.detail(**one) for one in fragments)) == fragments


def test_empty_list_of_details_is_kept() -> None:
    assert read_details(wire.chunk({"reasoning_details": []}), wire.text("a")) == []
    assert read_details(wire.chunk({"reasoning_details": None}), wire.text("a")) is None
