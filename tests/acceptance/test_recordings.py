"""Recorded answers of real providers, served whole and in single bytes, and read as `ask` reads them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import SERVICES
from tests.model_server import Reply
from tests.program import Ask, Home
from tests.recordings import Recording, recordings

EXIT_CODES = {"ok": {0}, "length": {10}, "filter": {10}, "empty": {10}, "cut": {10}}
ALL = [recording for name in SERVICES for recording in recordings(name)]
READ_AS = {("ollama", "openai-chat"): "lmstudio"}
"""Ollama's recordings in OpenAI's format are read as another local server's."""
LONGEST_IN_SINGLE_BYTES = 20_000
FIRST = {(recording.name.rpartition("-")[0], recording.wire): recording.name for recording in reversed(ALL)}
"""The recordings that are tried in every run: the first of each service in each format."""


@pytest.fixture
def ask(ask: Ask, home: Home) -> Ask:
    """A command that runs in this process: its start would take most of the time, and no answer depends on it."""
    home.configure("[network]\ntries = 1\n")
    return replace(ask, installed=False)


def check(ask: Ask, model: Model, recording: Recording, pieces: list[bytes]) -> None:
    """Ask a question that the recording answers; its calls are offered no tools, so none of them runs."""
    model.server.reply(Reply(pieces, recording.status, recording.content_type))
    model.server.reply(Reply((b"{}",), status=404))
    recorded_from = recording.name.rpartition("-")[0]
    provider = READ_AS.get((recorded_from, recording.wire), recorded_from)
    delivery = [] if recording.streaming else ["--no-stream"]
    arguments = ["-p", provider, "-m", recording.model or "test-model", "--max-rounds", "1", "--json", *delivery]
    result = ask(*arguments, "hi")
    said = json.loads(result.stdout)
    if recording.outcome == "error":
        assert result.code not in (0, 10)
        assert said["error"]
        return
    if recording.outcome == "ok" and recording.calls:
        made = [(call["name"], json.loads(call["arguments"])) for call in said["tool_calls"]]
        assert made == list(recording.calls)
        assert said["text"].startswith(recording.text)
        return
    assert result.code in EXIT_CODES[recording.outcome]
    assert said["text"].strip() == recording.text.strip()


@pytest.mark.parametrize(
    "recording",
    [pytest.param(one, marks=() if one.name in FIRST.values() else pytest.mark.slow) for one in ALL],
    ids=str,
)
def test_a_recorded_answer_says_what_it_says(ask: Ask, model: Model, recording: Recording) -> None:
    check(ask, model, recording, [recording.body])


@pytest.mark.slow
@pytest.mark.parametrize(
    "recording", [one for one in ALL if one.streaming and len(one.body) < LONGEST_IN_SINGLE_BYTES][::5], ids=str
)
def test_a_recorded_stream_says_the_same_in_single_bytes(ask: Ask, model: Model, recording: Recording) -> None:
    check(ask, model, recording, [recording.body[place : place + 1] for place in range(len(recording.body))])
