"""Suggestions for mistyped words."""

from __future__ import annotations

from difflib import get_close_matches

from hypothesis import given
from hypothesis import strategies as st

from ask.text import MAX_WORD_CHARACTERS, find_similar, suggest

WORDS = st.text("abc", max_size=8)


@given(WORDS, st.lists(WORDS, unique=True, max_size=20), st.integers(1, 3))
def test_the_most_similar_come_first(word: str, choices: list[str], count: int) -> None:
    assert find_similar(word, choices, count) == get_close_matches(word, choices, count)


def test_of_many_words_those_with_similar_letters_are_compared() -> None:
    choices = [f"{number:06b}" for number in range(64)]
    assert find_similar("0101012", choices, 1) == ["010101"]


def test_very_long_words_are_never_similar() -> None:
    long = "a" * (MAX_WORD_CHARACTERS + 1)
    assert find_similar(long, [long, long[1:]], 1) == []
    assert find_similar(long[1:], [long, long[1:]], 2) == [long[1:]]


def test_a_word_is_suggested_only_if_it_was_probably_meant() -> None:
    known = ["openai", "openrouter", "gemini", "read_file", "list_dir", "bash"]
    for word, meant in {
        "opena": "openai",
        "gemni": "gemini",
        "read": "read_file",
        "list_dr": "list_dir",
        "bsah": "bash",
    }.items():
        assert suggest(word, known) == meant
    for word in ("nope", "nosuch", "re", "", "x" * 400):
        assert suggest(word, known) == ""
    assert suggest("anything", []) == ""
