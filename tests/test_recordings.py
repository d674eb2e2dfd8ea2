"""Every recorded answer of OpenRouter, served as it came, says to the user what it says.

Each goes through the program once. However the bytes are cut on their way, the answer is the same: that is tried
through the program where it matters most, and elsewhere through its parts between the request and the answer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask_providers.openrouter import provider as openrouter
from tests import wire
from tests.exchanges import cuts, put_recording, served
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result
from tests.recordings import Recording, recordings

RECORDED = recordings("openrouter")
EXIT_CODES = {"ok": 0, "length": 10, "filter": 10, "error": 6, "empty": 10, "cut": 10}
LONG = 20_000
"""Bytes from which on a body that comes in single bytes takes a while."""
OUR_OWN_FIELDS = {"cache_control", "reasoning_details"}
"""What OpenRouter takes beyond the types of OpenAI."""


def is_telling(recording: Recording) -> bool:
    """Whether its cuts are worth a process each."""
    return len(recording.body) < LONG and (recording.piece_sizes != () or not recording.body.isascii())


def may_pass(recording: Recording) -> bool:
    """Whether it is an error that may be gone a moment later: inside a 200 they all name the status 502."""
    return recording.outcome == "error" and recording.status in (200, 429)


CUT = [(recording, way) for recording in RECORDED for way in cuts(recording)]


# Through the program


def run(ask: Ask, recording: Recording) -> Result:
    whole = [] if recording.streaming else ["--no-stream"]
    return ask("-p", "openrouter", "-m", recording.model or wire.MODEL, *whole, "hi")


def check_result(result: Result, recording: Recording) -> None:
    """The text is on stdout, down to its white space; a line's end is added where it lacks, and "Done." after calls."""
    text = recording.text
    ended = text if text.endswith("\n") or not text else f"{text}\n"
    assert result.stdout.decode() == (f"{ended}Done.\n" if recording.calls else ended)
    assert result.code == EXIT_CODES[recording.outcome]


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome != "error"], ids=str)
def test_recorded_answer_is_shown_and_its_calls_are_answered(
    ask: Ask, server: ModelServer, recording: Recording
) -> None:
    server.reply(served(recording), wire.says("Done.", whole=not recording.streaming))
    check_result(run(ask, recording), recording)
    assert len(server.requests) == (2 if recording.calls else 1)
    if recording.calls:
        check_second_request(server.requests[1].json, recording)


def check_second_request(body: dict[str, Any], recording: Recording) -> None:
    """It holds the calls as they were made, and behind them a result for each, in order, under its id."""
    said, *results = body["messages"][2:]
    assert said["role"] == "assistant"
    assert (said["content"] or "") == recording.text
    made = [call["function"] for call in said["tool_calls"]]
    assert tuple((call["name"], json.loads(call["arguments"])) for call in made) == recording.calls
    assert [message["role"] for message in results] == ["tool"] * len(recording.calls)
    assert [message["tool_call_id"] for message in results] == [call["id"] for call in said["tool_calls"]]
    assert all("there is no tool" in json.dumps(message["content"]) for message in results)
    plain = wire.without_fields(body, OUR_OWN_FIELDS)
    assert wire.read_by_openai(plain) == plain


@pytest.mark.parametrize("recording", [one for one in RECORDED if one.outcome == "error"], ids=str)
def test_recorded_error_is_one_plain_line_and_tried_again_if_it_may_pass(
    ask: Ask, home: Home, server: ModelServer, recording: Recording
) -> None:
    set_backoff(home)
    server.reply(served(recording))
    result = run(ask, recording)
    check_result(result, recording)
    *notices, line = result.stderr.splitlines()
    assert [len(server.requests), len(notices)] == ([4, 3] if may_pass(recording) else [1, 0])
    assert all("trying again" in notice for notice in notices)
    assert line.startswith("ask: ")
    assert "(openrouter, " in line
    assert "Provider returned error" not in line
    assert not {'"message"', '"error"', "metadata"} & set(line.replace(":", " ").split())


@pytest.mark.parametrize("recording", [one for one in RECORDED if may_pass(one)], ids=str)
def test_recorded_error_that_passes_leaves_the_answer(
    ask: Ask, home: Home, server: ModelServer, recording: Recording
) -> None:
    set_backoff(home)
    server.reply(served(recording), wire.says("Back.", whole=not recording.streaming))
    result = run(ask, recording)
    assert (result.text, result.code, len(server.requests)) == ("Back.\n", 0, 2)


def set_backoff(home: Home) -> None:
    home.config.mkdir(parents=True)
    (home.config / "config.toml").write_text("[network]\nbackoff = 0.001\n")


@pytest.mark.parametrize(("recording", "way"), [one for one in CUT if is_telling(one[0])], ids=str)
def test_program_reads_the_same_however_the_bytes_are_cut(
    ask: Ask, server: ModelServer, recording: Recording, way: str
) -> None:
    server.reply(served(recording, cuts(recording)[way]), wire.says("Done.", whole=not recording.streaming))
    check_result(run(ask, recording), recording)


# Through its parts


@pytest.mark.parametrize(("recording", "way"), [one for one in CUT if not is_telling(one[0])], ids=str)
def test_answer_is_read_the_same_however_the_bytes_are_cut(server: ModelServer, recording: Recording, way: str) -> None:
    came = put_recording(openrouter, server, recording, cuts(recording)[way])
    assert (came.turn.answer.text, came.calls, came.outcome) == (recording.text, recording.calls, recording.outcome)
    assert came.shown == recording.text
