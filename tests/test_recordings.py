"""Every recorded answer of OpenRouter, served as it came, says to the user what it says.

Each goes through the program once. However the bytes are cut on their way, the answer is the same: that is tried
through the program where it matters most, and elsewhere through its parts between the request and the answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import pytest

from ask.errors import IncompleteAnswer, ProviderError, StreamCut
from ask.exchange import Exchange, Turn
from ask.messages import Message
from ask.plugins import find_claims, load_provider
from ask.provider import ChatRequest, Delta, TextDelta
from ask.transport import Transport
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home, Result
from tests.recordings import Recording, recordings

RECORDED = recordings("openrouter")
EXIT_CODES = {"ok": 0, "length": 10, "filter": 10, "error": 6, "empty": 10, "cut": 10}
LONG = 20_000
"""Bytes from which on a body that comes in single bytes takes a while."""
OUR_OWN_FIELDS = {"cache_control", "reasoning_details"}
"""What OpenRouter takes beyond the types of OpenAI."""


# How the bytes come


def cut_at(body: bytes, places: Sequence[int]) -> list[bytes]:
    return [body[start:end] for start, end in pairwise([0, *places, len(body)])]


def inside_characters(body: bytes) -> list[bytes]:
    """The body cut at every place inside a character of more than one byte."""
    return cut_at(body, [place for place, byte in enumerate(body) if byte & 0xC0 == 0x80])


def cuts(recording: Recording) -> dict[str, list[bytes]]:
    """The ways to cut a body, by name: single bytes, and where they apply, inside characters and as recorded."""
    body = recording.body
    ways = {"bytes": wire.chop(body)}
    if not body.isascii():
        ways["characters"] = inside_characters(body)
    if recording.piece_sizes:
        ways["as recorded"] = cut_at(body, list(accumulate(recording.piece_sizes))[:-1])
    return ways


def served(recording: Recording, pieces: Sequence[bytes] = ()) -> Reply:
    return Reply(pieces or [recording.body], recording.status, recording.content_type)


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
    plain = without_fields(body, OUR_OWN_FIELDS)
    assert wire.read_by_openai(plain) == plain


def without_fields(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: without_fields(part, names) for name, part in value.items() if name not in names}
    return [without_fields(part, names) for part in value] if isinstance(value, list) else value


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
    server.reply(served(recording, cuts(recording)[way]))
    shown: list[Delta] = []
    provider = load_provider(find_claims(None)["openrouter"])
    exchange = Exchange(provider, Transport(server.base_url, 10), "key", tries=1, backoff=0, notice=print)
    request = ChatRequest(recording.model, [Message("user", "hi")], stream=recording.streaming)
    turn = exchange.ask(request, shown.append)
    calls = tuple((call.name, json.loads(call.arguments)) for call in turn.calls)
    assert (turn.answer.text, calls, outcome(turn)) == (recording.text, recording.calls, recording.outcome)
    assert "".join(delta.text for delta in shown if isinstance(delta, TextDelta)) == recording.text


def outcome(turn: Turn) -> str:
    """What became of a request, in the recordings' words."""
    match turn.failure:
        case None:
            return "ok"
        case IncompleteAnswer():
            return turn.answer.finish
        case StreamCut():
            return "cut"
        case ProviderError():
            return "error"
        case failure:
            raise failure
