"""What must hold of the recorded answers of a service that speaks Chat Completions.

class TestRecordings(RecordingTests):
    provider = deepseek
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from ask import ChatCompletions, ProviderError
from tests import wire
from tests.exchanges import Came, cuts, put_recording, put_results, result_of
from tests.model_server import ModelServer
from tests.recordings import Recording, recordings

BEYOND_OPENAI = {"reasoning_content"}
"""What some services take beyond OpenAI's types."""


class RecordingTests:
    """Every recording of a provider, read in this process; `provider` names whose."""

    provider: ClassVar[ChatCompletions]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test once for every recording, or for every way to cut one."""
        found = recordings(self.provider.info.name)
        if "way" in metafunc.fixturenames:
            cut = [(recording, way) for recording in found for way in cuts(recording)]
            metafunc.parametrize(("recording", "way"), cut, ids=str)
        elif "recording" in metafunc.fixturenames:
            metafunc.parametrize("recording", found, ids=str)

    def test_recorded_answer_says_what_it_says_and_its_calls_are_answered_once(
        self, server: ModelServer, recording: Recording
    ) -> None:
        came = put_recording(self.provider, server, recording)
        check_turn(came, recording)
        if recording.outcome == "error":
            line = str(came.turn.error)
            assert isinstance(came.turn.error, ProviderError)
            assert f"({self.provider.info.name}, {recording.status})" in line
            assert not {'"message"', '"error"', "{"} & set(line.replace(":", " ").split())
        else:
            told = b'"usage"' in recording.body
            assert (came.turn.answer.usage.input_tokens is not None) == told
        if came.calls:
            self.check_results(put_results(self.provider, server, recording, came), came)

    def test_recorded_answer_says_the_same_however_it_is_cut(
        self, server: ModelServer, recording: Recording, way: str
    ) -> None:
        check_turn(put_recording(self.provider, server, recording, cuts(recording)[way]), recording)

    def check_results(self, body: Any, came: Came) -> None:
        """The request behind an answer with calls holds calls, reasoning where needed, and one result for each."""
        said, *results = body["messages"][1:]
        assert [call["id"] for call in said["tool_calls"]] == [call.id for call in came.turn.tool_calls]
        assert [(one["role"], one["tool_call_id"], one["content"]) for one in results] == [
            ("tool", call.id, result_of(call)) for call in came.turn.tool_calls
        ]
        if self.provider.native_fields:
            assert said["reasoning_content"].strip() == came.turn.answer.reasoning
        else:
            assert "reasoning_content" not in said
        check_types(body)


def check_turn(came: Came, recording: Recording) -> None:
    """A turn holds what the recording says; the calls of an answer that is not whole are not for running."""
    calls = recording.calls if recording.outcome == "ok" else ()
    assert (came.turn.answer.text, came.calls, came.outcome) == (recording.text, calls, recording.outcome)
    assert came.shown == recording.text


def check_types(body: Any) -> None:
    """A request body fits OpenAI's own types, but for what some services take beyond them."""
    plain = wire.without_fields(body, BEYOND_OPENAI)
    assert wire.read_by_openai(plain) == plain
