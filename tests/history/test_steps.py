"""A run in the order in which it was shown: each result with its call, also one that nobody saw."""

from __future__ import annotations

from ask.history.conversations import Called, steps
from tests.history.saved import NOW, assistant, called, result, user


def test_results_are_joined_to_their_calls_in_order() -> None:
    first, second = called("a"), called("b")
    question, answer = user("q"), assistant("yes")
    asked = assistant("", first, second)
    entries = [question, asked, result(first, "1"), result(second, "2"), answer]
    assert list(steps(entries)) == [question, asked, Called(first, "1"), Called(second, "2"), answer]


def test_a_call_without_a_result_says_whether_it_began() -> None:
    first, second = called("a", started=NOW), called("b")
    asked = assistant("", first, second)
    _, began, waited = steps([asked])
    assert isinstance(began, Called)
    assert isinstance(waited, Called)
    assert (began.seen, waited.seen) == (False, False)
    assert "may or may not have run" in began.result
    assert "not run" in waited.result


def test_a_result_that_answers_no_call_is_kept_as_it_is() -> None:
    stray = result(called("a"), "1")
    assert list(steps([stray])) == [stray]
