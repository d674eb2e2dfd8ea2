"""Stream readers report the end of a stream exactly when it has come."""

from __future__ import annotations

import pytest

from ask import RawEvent
from ask.parsing import DONE_DATA
from tests.sample_answers import SAMPLE_ANSWERS, data_of


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "ollama"])
def test_only_the_end_marker_completes_the_stream(wire: str) -> None:
    sample = SAMPLE_ANSWERS[wire]
    for events in (sample.stream, sample.says("Hello.")[1]):
        reader = sample.provider.provider_stream_reader()
        complete = []
        for event in events:
            if data_of(event) != DONE_DATA:
                reader.feed(RawEvent(None, data_of(event)))
                complete.append(reader.complete)
        first = complete.index(True)
        assert all(complete[first:])
        assert first >= len(complete) - 2, "only the usage may follow"


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "ollama", "gemini"])
def test_error_ends_the_stream(wire: str) -> None:
    reader = SAMPLE_ANSWERS[wire].provider.provider_stream_reader()
    reader.feed(RawEvent(None, '{"error": {"message": "it failed"}}'))
    assert reader.complete
