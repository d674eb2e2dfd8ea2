"""The tables of docs/built-in-providers.md are up to date."""

from __future__ import annotations

from tests.provider_table import Sample, list_providers


def test_every_listed_provider_supports_the_required_features() -> None:
    samples = [Sample(provider) for _, provider in list_providers()]
    assert samples
    for sample in samples:
        assert sample.answer.text
        assert sample.tools()
        assert sample.parallel_calls()
        assert sample.streaming() in ("SSE", "NDJSON")
        assert sample.models()
