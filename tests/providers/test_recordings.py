"""Every recorded response through `ask -p NAME`: the user gets the expected output.

Every tenth recording runs through the program here, all of them in the acceptance tests. The providers' own tests check
that chunking does not change the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest

from ask_providers.openrouter import provider as openrouter
from tests import responses_wire, wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, Result
from tests.recorded_exchanges import check_turn, list_chunkings, make_reply, replay_recording, split_at
from tests.recordings import Recording, recordings
from tests.sample_answers import SAMPLE_ANSWERS

NAMES = ("anthropic", "deepseek", "gemini", "lmstudio", "moonshot", "ollama", "openai", "openrouter", "xai")
FOLDERS = (*NAMES, "openai-responses")
OWN_WIRES = {"anthropic", "gemini", "ollama"}
"""Providers with their own API; their Chat Completions recordings come from another endpoint of the service."""
EVERY = 10
EXIT_CODES = {"ok": 0, "length": 10, "filter": 10, "error": 6, "empty": 10, "cut": 10}
LONG = 20_000
"""Bytes from which a body is slow if sent byte by byte."""

RECORDED = [recording for name in FOLDERS for recording in recordings(name)][::EVERY]
LISTED = {"ollama-009"}
"""Recordings for which the models list may be requested too, because they report a much longer prompt than ours."""
ERRORS = [recording for recording in RECORDED if recording.outcome == "error"]
ASKS_TO_WAIT = [recording for recording in recordings("gemini") if b"retryDelay" in recording.body]
AT_ONCE = [recording for recording in ERRORS if recording not in ASKS_TO_WAIT]
OPENROUTER = recordings("openrouter")


def service(recording: Recording) -> str:
    """Return the provider to ask: `openai` for all recordings of the Responses API."""
    return recording.name.partition("-")[0]


def is_temporary(recording: Recording) -> bool:
    """Check whether it is a temporary error: inside a 200 response, all of them have status 502."""
    return recording.outcome == "error" and recording.status in (200, 429)


# Through the program


@pytest.fixture
def known(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """The program, with a key for each provider, and all base URLs on the test's server."""
    compatible = f'[providers.compatible]\nbase_url = "{server.base_url}"\n'
    home.configure(f"[network]\nbackoff = 0.001\n{compatible}")
    keys = {f"{name.upper()}_API_KEY": TEST_KEY for name in NAMES}
    places = {f"{name.upper()}_BASE_URL": server.base_url for name in NAMES}
    return Ask({**ask.env, **keys, **places}, ask.cwd)


def arguments(recording: Recording) -> list[str]:
    """Build the command line that requests the recorded response."""
    name = service(recording)
    compatible = recording.wire == "openai-chat" and name in OWN_WIRES
    whole = [] if recording.streaming else ["--no-stream"]
    return ["-p", "compatible" if compatible else name, "-m", recording.model or wire.MODEL, *whole, "hi"]


def run(ask: Ask, recording: Recording) -> Result:
    return ask(*arguments(recording))


def pieces(recording: Recording) -> Sequence[bytes]:
    """Split a stream into single bytes; a long one stays as it was recorded."""
    if recording.streaming and len(recording.body) < LONG:
        return wire.chop(recording.body)
    return split_at(recording.body, list(accumulate(recording.piece_sizes))[:-1])


def check_result(result: Result, recording: Recording) -> None:
    """Check the text on stdout, including white space; a missing final newline is added, and "Done." after calls."""
    text = recording.text
    ended = text if text.endswith("\n") or not text else f"{text}\n"
    called = recording.calls and recording.outcome == "ok"
    assert result.stdout.decode() == (f"{ended}Done.\n" if called else ended)
    assert result.code == EXIT_CODES[recording.outcome], result.stderr


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome != "error"], ids=str)
def test_recorded_response_is_shown_and_its_calls_are_answered(
    known: Ask, server: ModelServer, recording: Recording
) -> None:
    done = SAMPLE_ANSWERS[recording.wire].reply("Done.", whole=not recording.streaming)
    server.reply(make_reply(recording, pieces(recording)), done)
    check_result(run(known, recording), recording)
    chats = [request for request in server.requests if request.method == "POST"]
    assert len(server.requests) - len(chats) <= (recording.name in LISTED)
    if recording.calls and recording.outcome == "ok":
        _, second = chats
        check_second_request(second.json, recording)
    else:
        assert len(chats) == 1


def check_second_request(body: Any, recording: Recording) -> None:
    """Check that it contains the original calls, followed by a result for each, in order."""
    made, ids, results = READ[recording.wire](body)
    assert tuple(made) == recording.calls
    assert [name for name, _ in results] == ids
    assert all("there is no tool" in json.dumps(text) for _, text in results)


@pytest.mark.parametrize("recording", AT_ONCE, ids=str)
def test_recorded_error_is_one_line_and_retried_if_temporary(
    known: Ask, server: ModelServer, recording: Recording
) -> None:
    server.reply(make_reply(recording))
    result = run(known, recording)
    check_result(result, recording)
    *notices, line = result.stderr.splitlines()
    assert [len(server.requests), len(notices)] == ([4, 3] if is_temporary(recording) else [1, 0])
    assert all("retrying" in notice for notice in notices)
    assert line.startswith("ask: ")
    assert f"({service(recording)}, " in line
    assert "Provider returned error" not in line
    assert not {'"message"', '"error"', "metadata"} & set(line.replace(":", " ").split())


@pytest.mark.parametrize("recording", [one for one in AT_ONCE if is_temporary(one)], ids=str)
def test_recorded_temporary_error_is_followed_by_the_answer(
    known: Ask, server: ModelServer, recording: Recording
) -> None:
    back = SAMPLE_ANSWERS[recording.wire].reply("Back.", whole=not recording.streaming)
    server.reply(make_reply(recording), back)
    result = run(known, recording)
    assert (result.text, result.code, len(server.requests)) == ("Back.\n", 0, 2)


@pytest.mark.parametrize("recording", ASKS_TO_WAIT, ids=str)
def test_recorded_retry_delay_is_respected(known: Ask, server: ModelServer, recording: Recording) -> None:
    server.reply(make_reply(recording))
    with known.start(*arguments(recording)) as running:
        seconds = re.search(rb'"retryDelay": "(\d+)', recording.body)
        assert seconds
        running.wait_for(f"retrying in {seconds[1].decode()}")
        assert len(server.requests) == 1


# Calls and results in a request, by API

Round = tuple[list[tuple[str, Any]], list[str], list[tuple[str, Any]]]
"""Names and arguments of the calls; the ids their results need; the ids of the results, and their text."""


def read_chat(body: Any) -> Round:
    assistant, *results = body["messages"][2:]
    plain = wire.without_fields(body, {"cache_control", "reasoning_details", "reasoning_content"})
    assert wire.read_by_openai(plain) == plain
    return (
        [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in assistant["tool_calls"]],
        [call["id"] for call in assistant["tool_calls"]],
        [(result["tool_call_id"], result["content"]) for result in results],
    )


def read_responses(body: Any) -> Round:
    responses_wire.check_request(body)
    calls = [item for item in body["input"] if item.get("type") == "function_call"]
    results = [item for item in body["input"] if item.get("type") == "function_call_output"]
    return (
        [(call["name"], json.loads(call["arguments"])) for call in calls],
        [call["call_id"] for call in calls],
        [(result["call_id"], result["output"]) for result in results],
    )


def read_anthropic(body: Any) -> Round:
    _, assistant, answered = body["messages"]
    calls = [block for block in assistant["content"] if block["type"] == "tool_use"]
    return (
        [(call["name"], call["input"]) for call in calls],
        [call["id"] for call in calls],
        [(block["tool_use_id"], block["content"]) for block in answered["content"]],
    )


def read_gemini(body: Any) -> Round:
    _, assistant, answered = body["contents"]
    calls = [part["functionCall"] for part in assistant["parts"] if "functionCall" in part]
    results = [part["functionResponse"] for part in answered["parts"]]
    return (
        [(call["name"], call.get("args", {})) for call in calls],
        [call.get("id", call["name"]) for call in calls],
        [(result.get("id", result["name"]), result["response"]) for result in results],
    )


def read_ollama(body: Any) -> Round:
    assistant, *results = body["messages"][2:]
    return (
        [(call["function"]["name"], call["function"]["arguments"]) for call in assistant["tool_calls"]],
        [call["id"] for call in assistant["tool_calls"]],
        [(result["tool_call_id"], result["content"]) for result in results],
    )


READ = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_anthropic,
    "gemini": read_gemini,
    "ollama": read_ollama,
}


# OpenRouter without the program; the other providers' own tests do the same


@pytest.mark.parametrize(
    ("recording", "way"), [(one, way) for one in OPENROUTER for way in list_chunkings(one)], ids=str
)
def test_response_is_read_alike_in_any_chunks(server: ModelServer, recording: Recording, way: str) -> None:
    exchange = replay_recording(openrouter, server, recording, list_chunkings(recording)[way])
    check_turn(exchange, recording)
