"""Recorded Gemini responses, delivered in any chunks: the text is read and the calls are answered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from providers.gemini import provider as gemini
from tests.model_server import ModelServer
from tests.providers.gemini_wire import plain, read_by_google
from tests.recorded_exchanges import (
    ExchangeResult,
    check_turn,
    list_chunkings,
    make_tool_result,
    replay_recording,
    send_tool_results,
)
from tests.recordings import Recording, recordings

ITEMS = [
    {"action": "add", "description": "Fresh red apple", "itemid": "apple_001", "price": 0.5},
    {"action": "add", "description": "Ripe yellow banana", "itemid": "banana_001", "price": 0.3},
]
PIECEMEAL: dict[str, tuple[tuple[str, Any], ...]] = {
    "gemini-028": (("read_theme", {}), *(("read_screen", {"id": name}) for name in "ABC")),
    "gemini-029": (("writeItems", {"operations": ITEMS}),),
}
"""Recordings of calls with arguments in fragments: they count each fragment as a call without arguments."""
RECORDED = [replace(one, calls=PIECEMEAL.get(one.name, one.calls)) for one in recordings("gemini")]
CALLING = [one for one in RECORDED if one.calls and one.outcome == "ok"]
CUT = [(one, way) for one in RECORDED for way in ("whole", *list_chunkings(one))]


def ask(server: ModelServer, recording: Recording, way: str = "whole") -> ExchangeResult:
    return replay_recording(gemini, server, recording, list_chunkings(recording).get(way, ()))


@pytest.mark.parametrize(("recording", "way"), CUT, ids=str)
def test_recorded_response_is_read_as_expected(server: ModelServer, recording: Recording, way: str) -> None:
    exchange = ask(server, recording, way)
    check_turn(exchange, recording)
    assert (exchange.result.answer.usage.input_tokens is not None) == (b'"promptTokenCount"' in recording.body)


@pytest.mark.parametrize("recording", CALLING, ids=str)
def test_each_recorded_call_gets_one_result_after_it(server: ModelServer, recording: Recording) -> None:
    exchange = ask(server, recording)
    body = send_tool_results(gemini, server, recording, exchange)
    _, message, returned = body["contents"]
    calls = [part["functionCall"] for part in message["parts"] if "functionCall" in part]
    assert tuple((call["name"], call.get("args", {})) for call in calls) == recording.calls
    results = [part["functionResponse"] for part in returned["parts"]]
    assert [result["name"] for result in results] == [name for name, _ in recording.calls]
    assert [result["response"]["output"] for result in results] == [
        make_tool_result(call) for call in exchange.result.tool_calls
    ]
    assert read_by_google(body) == plain(body)


@pytest.mark.parametrize("recording", CALLING, ids=str)
def test_each_recorded_signature_is_sent_back(server: ModelServer, recording: Recording) -> None:
    body = send_tool_results(gemini, server, recording, ask(server, recording))
    signatures = recording.body.count(b'"thoughtSignature"')
    assert json.dumps(body).count("thoughtSignature") == signatures


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome == "error"], ids=str)
def test_recorded_error_is_one_line_with_its_message(server: ModelServer, recording: Recording) -> None:
    failure = ask(server, recording).result.error
    message = json.loads(recording.body)["error"]["message"]
    assert failure is not None
    assert str(failure).startswith(f"{' '.join(message.split()).rstrip('.')} (gemini, {recording.status}): ")
