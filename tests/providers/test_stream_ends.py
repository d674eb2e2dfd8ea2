"""Where nothing can follow in a stream, its reader says so, and not before."""

from __future__ import annotations

import pytest

from ask import ServerEvent
from tests.sample_answers import SAMPLE_ANSWERS, data_of


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic", "ollama"])
def test_only_the_last_event_tells_that_nothing_follows(wire: str) -> None:
    sample = SAMPLE_ANSWERS[wire]
    for events in (sample.stream, sample.says("Hello.")[1]):
        reader = sample.provider.provider_stream_reader()
        over = []
        for event in events:
            reader.feed(ServerEvent(None, data_of(event)))
            over.append(getattr(reader, "over", None))
        assert over == [False] * (len(events) - 1) + [True]
        assert reader.ended


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic", "ollama"])
def test_an_error_is_an_end_that_something_may_follow(wire: str) -> None:
    reader = SAMPLE_ANSWERS[wire].provider.provider_stream_reader()
    reader.feed(ServerEvent(None, '{"error": {"message": "it failed"}}'))
    assert (reader.ended, getattr(reader, "over", None)) == (True, False)
