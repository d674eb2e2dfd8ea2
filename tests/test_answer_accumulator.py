"""The base class of stream readers collects text, reasoning, calls, usage and the end of an answer."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import Delta, RawEvent, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta
from ask.parsing import AnswerAccumulator, format_error_message, read_tool_calls
from tests.json_strategies import any_json


class Reader(AnswerAccumulator):
    """Reads a wire with all that the accumulator collects; an event's fields are arguments of its methods."""

    def read_event(self, fields: dict[str, Any]) -> None:
        for method in ("add_text", "add_reasoning", "add_call", "add_usage", "finish", "fail"):
            arguments = fields.get(method)
            if isinstance(arguments, dict) and method not in ("add_usage", "fail"):
                getattr(self, method)(**arguments)
            elif arguments is not None:
                getattr(self, method)(arguments)


def read(*events: dict[str, Any]) -> tuple[Reader, list[Delta]]:
    reader = Reader()
    return reader, [delta for event in events for delta in reader.feed(RawEvent(None, json.dumps(event)))]


def test_text_and_reasoning_are_collected_and_returned_as_deltas() -> None:
    reader, deltas = read(
        {"add_reasoning": "Let me "},
        {"add_text": "Hel", "add_reasoning": "think."},
        {"add_text": ""},
        {"add_text": 7},
        {"add_text": [{"type": "text", "text": "lo"}]},
    )
    assert deltas == [ReasoningDelta("Let me "), TextDelta("Hel"), ReasoningDelta("think."), TextDelta("lo")]
    assert (reader.text, reader.reasoning) == ("Hello", "Let me think.")
    assert [part.kind for part in reader.parts] == ["reasoning", "text"]
    assert not reader.complete


def test_parts_with_an_index_keep_their_order_and_their_fields() -> None:
    reader, deltas = read(
        {"add_reasoning": {"text": "Hm.", "index": 0}},
        {"add_reasoning": {"text": None, "index": 0, "signature": "c2ln"}},
        {"add_text": {"text": "One.", "index": 1, "signature": None}},
        {"add_reasoning": {"text": None, "index": 2, "redacted": "x"}},
        {"add_text": {"text": "Two.", "index": 3}},
        {"add_text": {"text": " More.", "index": 1}},
    )
    assert [(part.kind, part.text, part.fields) for part in reader.parts] == [
        ("reasoning", "Hm.", {"signature": "c2ln"}),
        ("text", "One. More.", {}),
        ("reasoning", "", {"redacted": "x"}),
        ("text", "Two.", {}),
    ]
    assert deltas == [ReasoningDelta("Hm."), TextDelta("One."), TextDelta("Two."), TextDelta(" More.")]


def test_calls_are_collected_from_fragments() -> None:
    reader, deltas = read(
        {"add_call": {"index": 1, "call_id": "a", "name": "add"}},
        {"add_call": {"index": 2, "call_id": "b", "name": "list", "seal": "s"}},
        {"add_call": {"index": 1, "arguments": '{"a":'}},
        {"add_call": {"index": 2, "arguments": ""}},
        {"add_call": {"index": 1, "arguments": " 2}"}},
        {"add_call": {"call_id": None, "name": "read", "arguments": {"path": "ä"}}},
    )
    assert deltas == [ToolCallDelta(0, "add"), ToolCallDelta(1, "list"), ToolCallDelta(2, "read")]
    assert [(call.id, call.name, call.text, call.arguments) for call in reader.calls] == [
        ("a", "add", '{"a": 2}', {"a": 2}),
        ("b", "list", "", {}),
        ("", "read", '{"path": "ä"}', {"path": "ä"}),
    ]
    assert reader.calls[1].fields == {"seal": "s"}


@pytest.mark.parametrize("arguments", ['{"a": 2', "[1]", "no JSON", '{"a": NaN}'])
def test_arguments_that_are_no_object_stay_as_the_model_wrote_them(arguments: str) -> None:
    reader, _ = read({"add_call": {"name": "add", "arguments": arguments}})
    assert reader.calls[0].arguments == arguments


def test_the_end_has_a_reason_and_usage_may_follow_it() -> None:
    reader, _ = read(
        {"add_usage": {"in": 12, "out": 1}},
        {"finish": {"reason": "stop", "usage": {"out": 7}}},
        {"add_usage": {"in": 11}},
    )
    assert (reader.complete, reader.finish_reason, reader.usage) == (True, "stop", {"in": 11, "out": 7})


@pytest.mark.parametrize(
    "event",
    [
        RawEvent(None, '{"error": {"message": "overloaded"}}'),
        RawEvent("error", '{"message": "overloaded"}'),
        RawEvent(None, '{"type": "error", "message": "overloaded"}'),
        RawEvent(None, '[{"error": {"message": "overloaded"}}]'),
        RawEvent("error", "overloaded"),
        RawEvent(None, '{"fail": {"message": "overloaded"}}'),
    ],
)
def test_an_error_ends_the_answer_unless_it_already_ended(event: RawEvent) -> None:
    reader, late = Reader(), Reader()
    reader.feed(event)
    assert (reader.complete, format_error_message(reader.error)) == (True, "overloaded")
    late.feed(RawEvent(None, '{"finish": "stop"}'))
    late.feed(event)
    assert late.error is None


def test_events_without_content_change_nothing() -> None:
    reader = Reader()
    for data in ("", "ping", "[]", "{}", "7", '{"type": "ping"}', '{"add_call": {"index": 3}}', '{"new": {}}'):
        assert reader.feed(RawEvent(None, data)) == []
    assert (reader.complete, reader.size, reader.parts, reader.response()) == (False, 0, [], {})


def test_the_type_of_a_server_sent_event_is_among_its_fields() -> None:
    seen = []

    class Typed(AnswerAccumulator):
        def read_event(self, fields: dict[str, Any]) -> None:
            seen.append(fields)

    reader = Typed()
    for event in (RawEvent("start", '{"a": 1}'), RawEvent("start", '{"type": "own"}'), RawEvent("stop", "")):
        reader.feed(event)
    assert seen == [{"a": 1, "type": "start"}, {"type": "own"}, {"type": "stop"}]


def test_the_default_response_contains_everything() -> None:
    reader, _ = read(
        {"add_reasoning": "Hm.", "add_text": "Hello"},
        {"add_call": {"call_id": "a", "name": "add", "arguments": {"a": 2}}},
        {"add_call": {"call_id": "b", "name": "add", "arguments": '{"a":3}'}},
        {"finish": {"reason": "stop", "usage": {"in": 12}}},
    )
    assert reader.response() == {
        "reasoning": "Hm.",
        "text": "Hello",
        "calls": [
            {"id": "a", "name": "add", "arguments": {"a": 2}},
            {"id": "b", "name": "add", "arguments": '{"a":3}'},
        ],
        "finish_reason": "stop",
        "usage": {"in": 12},
    }
    calls = [ToolCall("a", "add", '{"a": 2}'), ToolCall("b", "add", '{"a":3}')]
    assert read_tool_calls(reader.response()["calls"]) == calls


ADDED_VALUES = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("index", "call_id", "name", "arguments", "seal"), any_json()))
)


@given(ADDED_VALUES)
def test_values_of_any_type_can_be_added(values: list[dict[str, Any]]) -> None:
    events: list[dict[str, Any]] = [{"add_call": each} for each in values]
    for each in values:
        text = {"text": each.get("name"), "index": each.get("index"), "seal": each.get("seal")}
        events += [{"add_text": text}, {"add_reasoning": text}, {"finish": {"reason": each.get("name"), "usage": each}}]
    reader, _ = read(*events)
    json.dumps(reader.response())
    assert reader.size >= sum(len(part.text) for part in reader.parts)


@pytest.mark.parametrize(
    "event",
    [
        {"add_call": {"name": "add", "call_id": "x" * 50_000}},
        {"add_call": {"name": "add", "seal": {"data": ["x" * 50_000]}}},
        {"add_call": {"index": "x" * 50_000, "arguments": "{"}},
        {"add_text": {"text": "", "seal": ["x" * 50_000]}},
        {"add_reasoning": {"text": "Hm.", "index": "x" * 50_000}},
    ],
)
def test_all_that_is_kept_counts_in_the_size(event: dict[str, Any]) -> None:
    """The size limits the memory that an answer takes."""
    assert read(event)[0].size >= 50_000


@pytest.mark.parametrize("depth", [900, 5_000])
def test_deep_reports_of_usage_are_no_error(depth: int) -> None:
    reader = Reader()
    usage = '{"a":' * depth + "1" + "}" * depth
    reader.feed(RawEvent(None, '{"add_usage": ' + usage + "}"))
    reader.feed(RawEvent(None, '{"finish": {"usage": {"out": 7}}}'))
    assert str(reader.usage).count("{") <= 7


@pytest.mark.slow
def test_fragments_that_could_be_the_last_take_linear_time() -> None:
    """Each repeats the name and ends with a brace, so that it may be the end of the arguments."""
    reader = Reader()
    started = process_time()
    reader.feed(RawEvent(None, json.dumps({"add_call": {"index": 0, "name": "add", "arguments": '{"a": ['}})))
    for _ in range(40_000):
        reader.feed(RawEvent(None, json.dumps({"add_call": {"index": 0, "name": "add", "arguments": "{},{},{},{}"}})))
    assert process_time() - started < 10
    assert len(reader.calls) == 1
