"""Tests of the recorded answers of a Chat Completions service.

class TestRecordings(RecordingTests):
    provider = deepseek
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from ask import ChatCompletions, ProviderError
from tests import wire
from tests.model_server import ModelServer
from tests.recorded_exchanges import (
    ExchangeResult,
    check_turn,
    list_chunkings,
    make_tool_result,
    replay_recording,
    send_tool_results,
)
from tests.recordings import Recording, recordings

BEYOND_OPENAI = {"reasoning_content"}
"""Request fields of some services that OpenAI's types do not have."""


class RecordingTests:
    """Tests of every recording of `provider`, run in this process."""

    provider: ClassVar[ChatCompletions]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize each test by recording, or by recording and chunking."""
        found = recordings(self.provider.info.name)
        if "way" in metafunc.fixturenames:
            cut = [(recording, way) for recording in found for way in list_chunkings(recording)]
            metafunc.parametrize(("recording", "way"), cut, ids=str)
        elif "recording" in metafunc.fixturenames:
            metafunc.parametrize("recording", found, ids=str)

    def test_recorded_answers_are_parsed_and_their_calls_get_one_result(
        self, server: ModelServer, recording: Recording
    ) -> None:
        came = replay_recording(self.provider, server, recording)
        check_turn(came, recording)
        if recording.outcome == "error":
            line = str(came.result.error)
            assert isinstance(came.result.error, ProviderError)
            assert f"({self.provider.info.name}, {recording.status})" in line
            assert not {'"message"', '"error"', "{"} & set(line.replace(":", " ").split())
        else:
            expected = b'"usage"' in recording.body
            assert (came.result.answer.usage.input_tokens is not None) == expected
        if came.calls:
            self.check_results(send_tool_results(self.provider, server, recording, came), came)

    def test_recorded_answers_do_not_depend_on_chunk_boundaries(
        self, server: ModelServer, recording: Recording, way: str
    ) -> None:
        check_turn(replay_recording(self.provider, server, recording, list_chunkings(recording)[way]), recording)

    def check_results(self, body: Any, came: ExchangeResult) -> None:
        """Check that the request after an answer with calls contains the calls, any reasoning and one result each."""
        assistant_message, *results = body["messages"][1:]
        assert [call["id"] for call in assistant_message["tool_calls"]] == [call.id for call in came.result.tool_calls]
        assert [(one["role"], one["tool_call_id"], one["content"]) for one in results] == [
            ("tool", call.id, make_tool_result(call)) for call in came.result.tool_calls
        ]
        if self.provider.state_fields:
            assert assistant_message["reasoning_content"].strip() == came.result.answer.reasoning
        else:
            assert "reasoning_content" not in assistant_message
        check_types(body)


def check_types(body: Any) -> None:
    """Check that a request body matches OpenAI's types, except for extensions of some services."""
    plain = wire.without_fields(body, BEYOND_OPENAI)
    assert wire.read_by_openai(plain) == plain
