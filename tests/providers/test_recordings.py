"""Every recorded answer, served as it came, says to the user of `ask -p NAME` what it says.

Every tenth goes through the program here, and all of them in the acceptance tests. However else the bytes are cut, the
answer is the same: that is tried through the parts between a request and its answer, in the tests of the providers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest

from ask_providers.openrouter import provider as openrouter
from tests import wire
from tests.exchanges import cut_at, cuts, put_recording, served
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, Result
from tests.recordings import Recording, recordings
from tests.sample_answers import SAMPLE_ANSWERS

NAMES = ("anthropic", "deepseek", "gemini", "lmstudio", "moonshot", "ollama", "openai", "openrouter", "xai")
OWN_WIRES = {"anthropic", "gemini", "ollama"}
"""Providers that speak no Chat Completions; those of their recordings that do came from another door of the service."""
EVERY = 10
EXIT_CODES = {"ok": 0, "length": 10, "filter": 10, "error": 6, "empty": 10, "cut": 10}
LONG = 20_000
"""Bytes from which on a body that comes in single bytes takes a while."""

RECORDED = [recording for name in NAMES for recording in recordings(name)][::EVERY]
LISTED = {"ollama-009"}
"""Where the models list may be asked for too, since the answer tells of a prompt that was much longer than ours."""
ERRORS = [recording for recording in RECORDED if recording.outcome == "error"]
ASKS_TO_WAIT = [recording for recording in recordings("gemini") if b"retryDelay" in recording.body]
AT_ONCE = [recording for recording in ERRORS if recording not in ASKS_TO_WAIT]
OPENROUTER = recordings("openrouter")


def service(recording: Recording) -> str:
    return recording.name.partition("-")[0]


def may_pass(recording: Recording) -> bool:
    """Whether it is an error that may be gone a moment later: inside a 200 they all name the status 502."""
    return recording.outcome == "error" and recording.status in (200, 429)


# Through the program


@pytest.fixture
def known(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """The program, with a key for each provider, all of which live on the test's server."""
    compatible = f'[providers.compatible]\nbase_url = "{server.base_url}"\n'
    home.config.mkdir(parents=True)
    (home.config / "config.toml").write_text(f"[network]\nbackoff = 0.001\n{compatible}")
    keys = {f"{name.upper()}_API_KEY": TEST_KEY for name in NAMES}
    places = {f"{name.upper()}_BASE_URL": server.base_url for name in NAMES}
    return Ask({**ask.env, **keys, **places}, ask.cwd)


def arguments(recording: Recording) -> list[str]:
    """The command line that asks for the recorded answer."""
    name = service(recording)
    compatible = recording.wire == "openai-chat" and name in OWN_WIRES
    whole = [] if recording.streaming else ["--no-stream"]
    return ["-p", "compatible" if compatible else name, "-m", recording.model or wire.MODEL, *whole, "hi"]


def run(ask: Ask, recording: Recording) -> Result:
    return ask(*arguments(recording))


def pieces(recording: Recording) -> Sequence[bytes]:
    """A stream in single bytes; a long one as it was recorded."""
    if recording.streaming and len(recording.body) < LONG:
        return wire.chop(recording.body)
    return cut_at(recording.body, list(accumulate(recording.piece_sizes))[:-1])


def check_result(result: Result, recording: Recording) -> None:
    """The text is on stdout, down to its white space; a line's end is added where it lacks, and "Done." after calls."""
    text = recording.text
    ended = text if text.endswith("\n") or not text else f"{text}\n"
    called = recording.calls and recording.outcome == "ok"
    assert result.stdout.decode() == (f"{ended}Done.\n" if called else ended)
    assert result.code == EXIT_CODES[recording.outcome], result.stderr


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome != "error"], ids=str)
def test_recorded_answer_is_shown_and_its_calls_are_answered(
    known: Ask, server: ModelServer, recording: Recording
) -> None:
    done = SAMPLE_ANSWERS[recording.wire].reply("Done.", whole=not recording.streaming)
    server.reply(served(recording, pieces(recording)), done)
    check_result(run(known, recording), recording)
    chats = [request for request in server.requests if request.method == "POST"]
    assert len(server.requests) - len(chats) <= (recording.name in LISTED)
    if recording.calls and recording.outcome == "ok":
        _, second = chats
        check_second_request(second.json, recording)
    else:
        assert len(chats) == 1


def check_second_request(body: Any, recording: Recording) -> None:
    """It holds the calls as they were made, and behind them a result for each, in order, under its name or id."""
    made, ids, results = READ[recording.wire](body)
    assert tuple(made) == recording.calls
    assert [name for name, _ in results] == ids
    assert all("there is no tool" in json.dumps(text) for _, text in results)


@pytest.mark.parametrize("recording", AT_ONCE, ids=str)
def test_recorded_error_is_one_plain_line_and_tried_again_if_it_may_pass(
    known: Ask, server: ModelServer, recording: Recording
) -> None:
    server.reply(served(recording))
    result = run(known, recording)
    check_result(result, recording)
    *notices, line = result.stderr.splitlines()
    assert [len(server.requests), len(notices)] == ([4, 3] if may_pass(recording) else [1, 0])
    assert all("trying again" in notice for notice in notices)
    assert line.startswith("ask: ")
    assert f"({service(recording)}, " in line
    assert "Provider returned error" not in line
    assert not {'"message"', '"error"', "metadata"} & set(line.replace(":", " ").split())


@pytest.mark.parametrize("recording", [one for one in AT_ONCE if may_pass(one)], ids=str)
def test_recorded_error_that_passes_leaves_the_answer(known: Ask, server: ModelServer, recording: Recording) -> None:
    back = SAMPLE_ANSWERS[recording.wire].reply("Back.", whole=not recording.streaming)
    server.reply(served(recording), back)
    result = run(known, recording)
    assert (result.text, result.code, len(server.requests)) == ("Back.\n", 0, 2)


@pytest.mark.parametrize("recording", ASKS_TO_WAIT, ids=str)
def test_recorded_error_that_asks_to_wait_is_waited_for(known: Ask, server: ModelServer, recording: Recording) -> None:
    server.reply(served(recording))
    with known.start(*arguments(recording)) as running:
        seconds = re.search(rb'"retryDelay": "(\d+)', recording.body)
        assert seconds
        running.wait_for(f"trying again in {seconds[1].decode()}")
        assert len(server.requests) == 1


# The calls and the results in a request, wire by wire

Round = tuple[list[tuple[str, Any]], list[str], list[tuple[str, Any]]]
"""Name and arguments of the calls; what their results must stand under; what results stand under, and their text."""


def read_chat(body: Any) -> Round:
    said, *results = body["messages"][2:]
    plain = wire.without_fields(body, {"cache_control", "reasoning_details", "reasoning_content"})
    assert wire.read_by_openai(plain) == plain
    return (
        [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in said["tool_calls"]],
        [call["id"] for call in said["tool_calls"]],
        [(result["tool_call_id"], result["content"]) for result in results],
    )


def read_anthropic(body: Any) -> Round:
    _, said, answered = body["messages"]
    calls = [block for block in said["content"] if block["type"] == "tool_use"]
    return (
        [(call["name"], call["input"]) for call in calls],
        [call["id"] for call in calls],
        [(block["tool_use_id"], block["content"]) for block in answered["content"]],
    )


def read_gemini(body: Any) -> Round:
    _, said, answered = body["contents"]
    calls = [part["functionCall"] for part in said["parts"] if "functionCall" in part]
    results = [part["functionResponse"] for part in answered["parts"]]
    return (
        [(call["name"], call.get("args", {})) for call in calls],
        [call.get("id", call["name"]) for call in calls],
        [(result.get("id", result["name"]), result["response"]) for result in results],
    )


def read_ollama(body: Any) -> Round:
    said, *results = body["messages"][2:]
    return (
        [(call["function"]["name"], call["function"]["arguments"]) for call in said["tool_calls"]],
        [call["id"] for call in said["tool_calls"]],
        [(result["tool_call_id"], result["content"]) for result in results],
    )


READ = {"openai-chat": read_chat, "anthropic": read_anthropic, "gemini": read_gemini, "ollama": read_ollama}


# OpenRouter through its parts; those of the others are in their own tests


@pytest.mark.parametrize(("recording", "way"), [(one, way) for one in OPENROUTER for way in cuts(one)], ids=str)
def test_answer_is_read_the_same_however_the_bytes_are_cut(server: ModelServer, recording: Recording, way: str) -> None:
    came = put_recording(openrouter, server, recording, cuts(recording)[way])
    assert (came.turn.answer.text, came.calls, came.outcome) == (recording.text, recording.calls, recording.outcome)
    assert came.shown == recording.text
