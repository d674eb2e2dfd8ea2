"""Stream readers report the end of a stream exactly when nothing can follow."""

from __future__ import annotations

import pytest

from ask import ServerEvent
from tests.sample_answers import SAMPLE_ANSWERS, data_of


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "ollama"])
def test_only_the_last_event_completes_the_stream(wire: str) -> None:
    sample = SAMPLE_ANSWERS[wire]
    for events in (sample.stream, sample.says("Hello.")[1]):
        reader = sample.provider.provider_stream_reader()
        over = []
        for event in events:
            reader.feed(ServerEvent(None, data_of(event)))
            over.append(getattr(reader, "over", None))
        assert over == [False] * (len(events) - 1) + [True]
        assert reader.ended


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "ollama"])
def test_error_ends_the_stream_without_completing_it(wire: str) -> None:
    reader = SAMPLE_ANSWERS[wire].provider.provider_stream_reader()
    reader.feed(ServerEvent(None, '{"error": {"message": "it failed"}}'))
    assert (reader.ended, getattr(reader, "over", None)) == (True, False)
