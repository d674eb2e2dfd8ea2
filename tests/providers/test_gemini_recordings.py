"""Every recorded answer of Gemini, however its bytes come, is read as it says, and its calls are answered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from providers.gemini import provider as gemini
from tests.exchanges import Came, cuts, put_recording, put_results, result_of
from tests.model_server import ModelServer
from tests.providers.gemini_wire import plain, read_by_google
from tests.recording_tests import check_turn
from tests.recordings import Recording, recordings

ITEMS = [
    {"action": "add", "description": "Fresh red apple", "itemid": "apple_001", "price": 0.5},
    {"action": "add", "description": "Ripe yellow banana", "itemid": "banana_001", "price": 0.3},
]
PIECEMEAL: dict[str, tuple[tuple[str, Any], ...]] = {
    "gemini-028": (("read_theme", {}), *(("read_screen", {"id": name}) for name in "ABC")),
    "gemini-029": (("writeItems", {"operations": ITEMS}),),
}
"""Calls whose arguments come in pieces: the recordings count each piece as a call of its own, without arguments."""
RECORDED = [replace(one, calls=PIECEMEAL.get(one.name, one.calls)) for one in recordings("gemini")]
CALLING = [one for one in RECORDED if one.calls and one.outcome == "ok"]
CUT = [(one, way) for one in RECORDED for way in ("whole", *cuts(one))]


def ask(server: ModelServer, recording: Recording, way: str = "whole") -> Came:
    return put_recording(gemini, server, recording, cuts(recording).get(way, ()))


@pytest.mark.parametrize(("recording", "way"), CUT, ids=str)
def test_recorded_answer_is_read_as_it_says(server: ModelServer, recording: Recording, way: str) -> None:
    came = ask(server, recording, way)
    check_turn(came, recording)
    assert (came.turn.answer.usage.input_tokens is not None) == (b'"promptTokenCount"' in recording.body)


@pytest.mark.parametrize("recording", CALLING, ids=str)
def test_each_recorded_call_gets_one_result_behind_it(server: ModelServer, recording: Recording) -> None:
    came = ask(server, recording)
    body = put_results(gemini, server, recording, came)
    _, said, returned = body["contents"]
    calls = [part["functionCall"] for part in said["parts"] if "functionCall" in part]
    assert tuple((call["name"], call.get("args", {})) for call in calls) == recording.calls
    results = [part["functionResponse"] for part in returned["parts"]]
    assert [result["name"] for result in results] == [name for name, _ in recording.calls]
    assert [result["response"]["output"] for result in results] == [result_of(call) for call in came.turn.tool_calls]
    assert read_by_google(body) == plain(body)


@pytest.mark.parametrize("recording", CALLING, ids=str)
def test_each_recorded_signature_goes_back(server: ModelServer, recording: Recording) -> None:
    body = put_results(gemini, server, recording, ask(server, recording))
    signatures = recording.body.count(b'"thoughtSignature"')
    assert json.dumps(body).count("thoughtSignature") == signatures


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome == "error"], ids=str)
def test_recorded_error_is_one_line_of_its_own_words(server: ModelServer, recording: Recording) -> None:
    failure = ask(server, recording).turn.error
    said = json.loads(recording.body)["error"]["message"]
    assert failure is not None
    assert str(failure).startswith(f"{' '.join(said.split()).rstrip('.')} (gemini, {recording.status}): ")
