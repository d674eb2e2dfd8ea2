"""Recorded answers in the format of the Responses API, read whole, byte by byte and as they arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ask import ChatCompletions, Provider, ProviderError, ReasoningDelta, Responses
from ask.errors import IncompleteResponseError
from providers.openai import provider as openai
from providers.xai import provider as xai
from tests import responses_wire, wire
from tests.model_server import ModelServer
from tests.recorded_exchanges import check_turn, list_chunkings, make_tool_result, replay_recording, send_tool_results
from tests.recordings import Recording, recordings

RECORDED = recordings("openai-responses")
OTHER = Responses(ChatCompletions(name="other", base_url="http://test/v1"))
PROVIDERS = {"openai": openai, "azure": openai, "xai": xai}


def get_provider(recording: Recording) -> Provider:
    return PROVIDERS.get(recording.provider, OTHER)


def read_final_response(recording: Recording) -> Any:
    """Return the complete response: the body, or the one in the final event."""
    if not recording.streaming:
        return json.loads(recording.body)
    events = (json.loads(event.data) for event in wire.events(recording.body) if event.data != "[DONE]")
    return next(event["response"] for event in reversed(list(events)) if "response" in event)


def list_reasoning(body: Any) -> list[Any]:
    """Return the reasoning items in a request or response that can be sent back."""
    items = body.get("input") or body.get("output") or []
    found = (item for item in items if item.get("type") == "reasoning")
    return [item for item in found if item.get("encrypted_content") or item.get("content")]


@pytest.mark.parametrize("recording", RECORDED, ids=str)
def test_recorded_answer_is_read_and_its_calls_get_one_result(server: ModelServer, recording: Recording) -> None:
    came = replay_recording(get_provider(recording), server, recording)
    check_turn(came, recording)
    if recording.outcome == "error":
        assert isinstance(came.result.error, ProviderError)
        assert not {'"message"', '"error"', "{"} & set(str(came.result.error).replace(":", " ").split())
        return
    response = read_final_response(recording)
    usage = came.result.answer.usage
    assert usage.input_tokens == response["usage"]["input_tokens"]
    assert usage.output_tokens == response["usage"]["output_tokens"]
    assert usage.cached_tokens == response["usage"].get("input_tokens_details", {}).get("cached_tokens")
    assert usage.reasoning_tokens == response["usage"].get("output_tokens_details", {}).get("reasoning_tokens")
    assert (usage.cost is not None) == bool({"cost", "cost_in_usd_ticks"} & response["usage"].keys())
    if came.calls:
        body = send_tool_results(get_provider(recording), server, recording, came)
        check_second_request(body, came.result.tool_calls)
        if response["output"]:
            assert list_reasoning(body) == list_reasoning(response)


def check_second_request(body: Any, calls: Any) -> None:
    responses_wire.check_request(body)
    made = [item for item in body["input"] if item.get("type") == "function_call"]
    results = [item for item in body["input"] if item.get("type") == "function_call_output"]
    assert [(item["call_id"], item["name"], item["arguments"]) for item in made] == list(calls)
    assert [(item["call_id"], item["output"]) for item in results] == [
        (call.id, make_tool_result(call)) for call in calls
    ]


def list_ways() -> Iterator[tuple[Recording, str]]:
    for recording in RECORDED:
        for way in list_chunkings(recording):
            yield recording, way


@pytest.mark.parametrize(("recording", "way"), list(list_ways()), ids=str)
def test_recorded_answer_is_read_alike_in_any_chunks(server: ModelServer, recording: Recording, way: str) -> None:
    check_turn(replay_recording(get_provider(recording), server, recording, list_chunkings(recording)[way]), recording)


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.streaming], ids=str)
def test_recorded_stream_shows_all_reasoning(server: ModelServer, recording: Recording) -> None:
    provider = get_provider(recording)
    reader = provider.provider_stream_reader()
    deltas = [delta for event in wire.events(recording.body) for delta in reader.feed(event)]
    if recording.outcome == "error":
        return
    shown = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    assert shown == provider.provider_parse_response(reader.response()).reasoning
    assert getattr(reader, "notice", "") == ""


@pytest.mark.parametrize(
    "recording",
    [one for one in RECORDED if one.outcome == "ok" and read_final_response(one)["output"]],  # some list no items there
    ids=str,
)
def test_the_sdk_reads_the_same_text_and_calls(recording: Recording) -> None:
    from openai.types.responses import Response, ResponseFunctionToolCall

    response = read_final_response(recording)
    sdk = Response.construct(**response)
    assert OTHER.provider_parse_response(response).text == recording.text
    assert sdk.output_text == recording.text.replace("links.\n\n", "links.")
    calls = [item for item in sdk.output if isinstance(item, ResponseFunctionToolCall)]
    assert [tuple(call) for call in OTHER.provider_parse_tool_calls(response)] == [
        (call.call_id, call.name, call.arguments) for call in calls
    ]


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome in ("filter", "length")], ids=str)
def test_incomplete_answer_runs_no_calls(server: ModelServer, recording: Recording) -> None:
    result = replay_recording(get_provider(recording), server, recording).result
    assert isinstance(result.error, IncompleteResponseError)
    assert result.tool_calls == ()
    assert result.answer.provider_state is None or recording.outcome == "filter"
