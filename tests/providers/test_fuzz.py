"""Streams that are damaged in any way, in every wire: an answer or an `AskError` comes of them, and nothing else.

Whatever happens on the way, no tool is called beside a failure, and none with arguments that did not come whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ask import Answer, ChatRequest, ServerEvent, ToolSpec
from ask.client.provider_client import RequestResult
from ask.testing.malformed import allow_only_ask_errors, generate_corruptions
from tests.any_json import with_any_part
from tests.exchanges import QUESTION, put
from tests.model_server import ModelServer, Reply
from tests.sample_answers import CALLS, SAMPLE_ANSWERS, SampleAnswers, data_of
from tests.wire import whole_reply

EXAMPLES = 15
"""How many streams are made up for each wire and test."""
REQUEST = ChatRequest("m", [QUESTION], [ToolSpec("add", "Adds.", {"type": "object"})])
MADE = [arguments for _, arguments in CALLS]

samples = pytest.mark.parametrize("sample", SAMPLE_ANSWERS.values(), ids=SAMPLE_ANSWERS.keys())


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """One server for all the streams of a test."""
    with ModelServer() as server:
        yield server


# Damage


@st.composite
def disordered(draw: st.DrawFn, events: Sequence[Any]) -> list[Any]:
    """The events, some of which are lost, doubled or in another's place, or whose end is missing."""
    damaged = list(events)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(damaged) - 1, 0)))
        match draw(st.sampled_from(["drop", "double", "move", "cut"])):
            case "drop":
                del damaged[place : place + 1]
            case "double":
                damaged[place:place] = damaged[place : place + 1]
            case "move":
                moved = damaged[place : place + 1]
                del damaged[place : place + 1]
                there = draw(st.integers(0, len(damaged)))
                damaged[there:there] = moved
            case _:
                del damaged[place:]
    return damaged


@st.composite
def spoilt_events(draw: st.DrawFn, events: Sequence[Any]) -> list[Any]:
    """The events, disordered or not, one with a value of any shape at any place, or with JSON that is broken off."""
    damaged = draw(st.just(list(events)) | disordered(events)) or list(events)
    place = draw(st.integers(0, len(damaged) - 1))
    whole = data_of(damaged[place])
    broken = st.integers(0, len(whole) - 1).map(lambda end: whole[:end])
    damaged[place] = draw(with_any_part(damaged[place]) | broken)
    return damaged


# Through the hooks


def read(sample: SampleAnswers, events: Sequence[Any]) -> None:
    """Read events as the host does, after each of which there may be no more."""
    provider = sample.provider
    with allow_only_ask_errors(events):
        reader = provider.provider_stream_reader()
        for event in events:
            kind = event.get("type") if isinstance(event, dict) else None
            reader.feed(ServerEvent(kind if isinstance(kind, str) else None, data_of(event)))
        check_response(sample, reader.response())


def check_response(sample: SampleAnswers, response: dict[str, Any]) -> None:
    with allow_only_ask_errors(response):
        calls = sample.provider.provider_parse_tool_calls(response)
        assert all(call.id for call in calls)
        assert len({call.id for call in calls}) == len(calls)
        assert isinstance(sample.provider.provider_parse_response(response), Answer)


@samples
def test_a_wrong_value_at_any_place_of_a_stream_is_read_or_an_error(sample: SampleAnswers) -> None:
    for i, event in enumerate(sample.stream):
        for wrong in generate_corruptions(event):
            read(sample, [*sample.stream[:i], wrong, *sample.stream[i + 1 :]])


@samples
def test_a_wrong_value_at_any_place_of_a_whole_answer_is_read_or_an_error(sample: SampleAnswers) -> None:
    for wrong in generate_corruptions(sample.whole):
        if isinstance(wrong, dict):
            check_response(sample, wrong)


@samples
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_spoilt_events_are_read_or_an_error(sample: SampleAnswers, data: st.DataObject) -> None:
    read(sample, data.draw(spoilt_events(sample.stream)))


# Through the exchange


def turn_of(model: ModelServer, sample: SampleAnswers, reply: Reply, *, stream: bool = True) -> RequestResult:
    """What comes of a reply, once it is seen that nothing in the plugin failed and no call stands beside a failure."""
    model.reply(reply)
    came = put(sample.provider, model, REQUEST._replace(stream=stream))
    assert "plugin failed" not in str(came.turn.error)
    assert not (came.turn.error and came.turn.tool_calls)
    return came.turn


def check_calls(turn: RequestResult) -> None:
    """Each call has arguments as they were made, or none; what is no object is refused before anything is run."""
    for call in turn.tool_calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            continue
        assert arguments in (*MADE, {}) or not isinstance(arguments, dict)


@samples
def test_the_whole_stream_and_the_whole_answer_say_the_same(model: ModelServer, sample: SampleAnswers) -> None:
    for reply, stream in ((sample.streamed(sample.stream), True), (whole_reply(sample.whole), False)):
        turn = turn_of(model, sample, reply, stream=stream)
        assert (turn.answer.text, turn.answer.reasoning) == ("Hello, wörld!", "Hm.")
        assert [json.loads(call.arguments) for call in turn.tool_calls] == MADE


@samples
@pytest.mark.parametrize("every", [97, pytest.param(11, marks=pytest.mark.slow)])
def test_no_call_comes_of_a_stream_that_is_cut_anywhere(model: ModelServer, sample: SampleAnswers, every: int) -> None:
    (body,) = sample.streamed(sample.stream).steps
    assert isinstance(body, bytes)
    for end in range(0, len(body), every):
        kind = sample.streamed(()).content_type
        turn = turn_of(model, sample, Reply([body[:end]], content_type=kind))
        assert turn.error or [json.loads(call.arguments) for call in turn.tool_calls] == MADE


@samples
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_no_call_comes_of_disorder_but_those_that_were_made(
    model: ModelServer, sample: SampleAnswers, data: st.DataObject
) -> None:
    check_calls(turn_of(model, sample, sample.streamed(data.draw(disordered(sample.stream)))))


@samples
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_spoilt_events_end_in_an_answer_or_an_error(
    model: ModelServer, sample: SampleAnswers, data: st.DataObject
) -> None:
    turn_of(model, sample, sample.streamed(data.draw(spoilt_events(sample.stream))))
