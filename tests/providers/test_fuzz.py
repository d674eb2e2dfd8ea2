"""Damaged streams in every format: the result is always an answer or an `AskError`.

No tool is called if the response failed, and none with incomplete arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import AskError, ChatRequest, ModelResponse, RawEvent, ToolSpec
from ask.client.provider_client import RequestResult
from ask.testing.failure_tests import generate_corruptions
from tests.json_strategies import replace_any_part
from tests.model_server import ModelServer, Reply
from tests.recorded_exchanges import QUESTION, send_request
from tests.sample_answers import CALLS, SAMPLE_ANSWERS, SampleAnswers, data_of

REQUEST = ChatRequest("m", [QUESTION])
TOOL = ToolSpec("add", "Adds.", {"type": "object"})
MADE = [arguments for _, arguments in CALLS]

samples = pytest.mark.parametrize("sample", SAMPLE_ANSWERS.values(), ids=SAMPLE_ANSWERS.keys())


@contextmanager
def allow_only_ask_errors(source: object) -> Iterator[None]:
    """Ignore an `AskError`; fail on any other exception, with a note that shows `source`."""
    try:
        yield
    except AskError:
        pass
    except Exception as error:
        error.add_note(f"This came from reading {str(source)[:500]!r}; only an ask.AskError may come of any input.")
        raise


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """One server for all the streams of a test."""
    with ModelServer() as server:
        yield server


# Damage


@st.composite
def disordered(draw: st.DrawFn, events: Sequence[Any]) -> list[Any]:
    """Draw a variant of the events with some lost, duplicated, moved or truncated."""
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
def damaged_events(draw: st.DrawFn, events: Sequence[Any]) -> list[Any]:
    """Draw events, possibly disordered, with one value replaced by any other, or with truncated JSON."""
    damaged = draw(st.just(list(events)) | disordered(events)) or list(events)
    place = draw(st.integers(0, len(damaged) - 1))
    whole = data_of(damaged[place])
    broken = st.integers(0, len(whole) - 1).map(lambda end: whole[:end])
    damaged[place] = draw(replace_any_part(damaged[place]) | broken)
    return damaged


# Through the hooks


def read(sample: SampleAnswers, events: Sequence[Any]) -> None:
    """Read events like the host does; the stream may end after any of them."""
    provider = sample.provider
    with allow_only_ask_errors(events):
        reader = provider.provider_stream_reader()
        for event in events:
            kind = event.get("type") if isinstance(event, dict) else None
            reader.feed(RawEvent(kind if isinstance(kind, str) else None, data_of(event)))
        check_response(sample, reader.response())


def check_response(sample: SampleAnswers, response: dict[str, Any]) -> None:
    with allow_only_ask_errors(response):
        calls = sample.provider.provider_parse_tool_calls(response)
        assert all(call.id for call in calls)
        assert len({call.id for call in calls}) == len(calls)
        assert isinstance(sample.provider.provider_parse_response(response), ModelResponse)


@pytest.mark.slow_after_first
@samples
def test_wrong_value_anywhere_in_a_stream_is_read_or_an_error(sample: SampleAnswers) -> None:
    for i, event in enumerate(sample.stream):
        for wrong in generate_corruptions(event):
            read(sample, [*sample.stream[:i], wrong, *sample.stream[i + 1 :]])


@samples
def test_wrong_value_anywhere_in_a_response_is_read_or_an_error(sample: SampleAnswers) -> None:
    for wrong in generate_corruptions(sample.whole):
        if isinstance(wrong, dict):
            check_response(sample, wrong)


@samples
@given(data=st.data())
def test_damaged_events_are_read_or_an_error(sample: SampleAnswers, data: st.DataObject) -> None:
    read(sample, data.draw(damaged_events(sample.stream)))


# Through the exchange


def run_reply(model: ModelServer, sample: SampleAnswers, reply: Reply, *, stream: bool = True) -> RequestResult:
    """Return the result of a reply, after checking that the plugin has no bug and no call accompanies a failure."""
    model.reply(reply)
    exchange = send_request(sample.provider, model, REQUEST._replace(stream=stream), [TOOL])
    assert "has a bug" not in str(exchange.result.error)
    assert not (exchange.result.error and exchange.result.tool_calls)
    return exchange.result


def check_calls(turn: RequestResult) -> None:
    """Check that each call has its original arguments or none, and that non-objects were refused before running."""
    for call in turn.tool_calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            continue
        assert arguments in (*MADE, {}) or not isinstance(arguments, dict)


@samples
def test_stream_and_complete_response_are_read_alike(model: ModelServer, sample: SampleAnswers) -> None:
    for reply, stream in ((sample.streamed(sample.stream), True), (sample.complete(sample.whole), False)):
        turn = run_reply(model, sample, reply, stream=stream)
        assert (turn.answer.text, turn.answer.reasoning) == ("Hello, wörld!", "Hm.")
        assert [json.loads(call.arguments) for call in turn.tool_calls] == MADE


@samples
@pytest.mark.parametrize("every", [97, pytest.param(11, marks=pytest.mark.slow)])
def test_truncated_stream_never_leads_to_a_call(model: ModelServer, sample: SampleAnswers, every: int) -> None:
    (body,) = sample.streamed(sample.stream).steps
    assert isinstance(body, bytes)
    for end in range(0, len(body), every):
        turn = run_reply(model, sample, replace(sample.streamed(()), steps=[body[:end]]))
        assert turn.error or [json.loads(call.arguments) for call in turn.tool_calls] == MADE


@samples
@given(data=st.data())
def test_disordered_stream_leads_only_to_original_calls(
    model: ModelServer, sample: SampleAnswers, data: st.DataObject
) -> None:
    check_calls(run_reply(model, sample, sample.streamed(data.draw(disordered(sample.stream)))))


@pytest.mark.slow_after_first
@samples
@given(data=st.data())
def test_damaged_events_end_in_an_answer_or_an_error(
    model: ModelServer, sample: SampleAnswers, data: st.DataObject
) -> None:
    run_reply(model, sample, sample.streamed(data.draw(damaged_events(sample.stream))))
