"""A run in the order in which it was shown: each result with its call, also one that nobody saw."""

from __future__ import annotations

from ask.history.saved_messages import ToolCallStep, pair_calls_with_results
from tests.history.saved import NOW, assistant, called, result, user


def test_results_are_joined_to_their_calls_in_order() -> None:
    first, second = called("a"), called("b")
    question, answer = user("q"), assistant("yes")
    asked = assistant("", first, second)
    entries = [question, asked, result(first, "1"), result(second, "2"), answer]
    assert list(pair_calls_with_results(entries)) == [
        question,
        asked,
        ToolCallStep(first, result(first, "1").message),
        ToolCallStep(second, result(second, "2").message),
        answer,
    ]


def test_a_call_without_a_result_says_whether_it_began() -> None:
    first, second = called("a", started=NOW), called("b")
    asked = assistant("", first, second)
    _, began, waited = pair_calls_with_results([asked])
    assert isinstance(began, ToolCallStep)
    assert isinstance(waited, ToolCallStep)
    assert (began.has_result, waited.has_result) == (False, False)
    assert "may or may not have run" in began.result
    assert "not run" in waited.result


def test_a_result_that_answers_no_call_is_kept_as_it_is() -> None:
    stray = result(called("a"), "1")
    assert list(pair_calls_with_results([stray])) == [stray]
