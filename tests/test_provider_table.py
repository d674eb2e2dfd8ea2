"""The page of the providers tells of those that come with `ask` what their code does."""

from __future__ import annotations

from tests.provider_table import BEGIN, END, PAGE, Sample, providers, tables


def test_the_page_has_the_tables_that_the_code_makes() -> None:
    _, begun, rest = PAGE.read_text().partition(BEGIN)
    written, ended, _ = rest.partition(END)
    assert begun and ended
    assert written == f"\n{tables()}\n", "write them anew: python -m tests.provider_table"


def test_each_provider_of_the_tables_can_do_what_every_one_must() -> None:
    samples = [Sample(provider) for _, provider in providers()]
    assert len(samples) == 9
    for sample in samples:
        assert sample.answer.text
        assert sample.tools()
        assert sample.parallel_calls()
        assert sample.streaming() in ("SSE", "NDJSON")
        assert sample.models()
