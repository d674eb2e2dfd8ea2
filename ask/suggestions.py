"""Suggestions for a mistyped word, at a bounded cost whatever the words are."""

from __future__ import annotations

from collections.abc import Iterable

MAX_WORD_LENGTH = 300
"""Characters of the longest word that is compared."""
SIMILAR_CUTOFF, LIKELY_CUTOFF = 0.6, 0.75
"""How similar a word must be to be worth listing, and to be suggested as the one that was meant."""
MIN_PREFIX_LENGTH = 3
_MAX_COMPARED = 20
"""How many are compared letter by letter, which may take as long as the cube of their length."""


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the known word that was probably meant: a misspelled one, or one that the word begins; "" for none."""
    choices = list(choices)
    begun = (name for name in choices if len(word) >= MIN_PREFIX_LENGTH and name.startswith(word))
    return find_misspelled(word, choices) or next(begun, "")


def find_misspelled(word: str, choices: Iterable[str], cutoff: float = LIKELY_CUTOFF) -> str:
    """Return the known word of the same letters, or else the most similar one above the cutoff; "" for none."""
    choices = list(choices)
    same_letters = (name for name in choices if sorted(name) == sorted(word))
    return next(same_letters, "") or next(iter(find_similar(word, choices, 1, cutoff)), "")


def find_similar(word: str, choices: Iterable[str], count: int, cutoff: float = SIMILAR_CUTOFF) -> list[str]:
    """Return up to `count` of the choices that are most like the word, the best first."""
    if len(word) > MAX_WORD_LENGTH:
        return []
    from difflib import SequenceMatcher, get_close_matches
    from heapq import nlargest

    matcher = SequenceMatcher(b=word)

    def measure_similarity(choice: str) -> float:
        matcher.set_seq1(choice)
        return matcher.quick_ratio()

    short = dict.fromkeys(choice for choice in choices if len(choice) <= MAX_WORD_LENGTH)
    return get_close_matches(word, nlargest(_MAX_COMPARED, short, measure_similarity), count, cutoff)
