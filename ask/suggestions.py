"""Suggestions for mistyped words, at a bounded cost for any input."""

from __future__ import annotations

from collections.abc import Iterable

MAX_WORD_LENGTH = 300
"""Words with more characters are not compared."""
SIMILAR_CUTOFF, LIKELY_CUTOFF = 0.6, 0.75
"""The similarity from which a word is listed, and from which it is suggested as the intended one."""
MIN_PREFIX_LENGTH = 3
_MAX_COMPARED = 20
"""How many words are compared by `SequenceMatcher`, whose cost is up to cubic in their length."""


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the known word that was probably meant; "" for none.

    It may be misspelled or abbreviated to its beginning.
    """
    choices = list(choices)
    completions = (name for name in choices if len(word) >= MIN_PREFIX_LENGTH and name.startswith(word))
    return find_misspelled(word, choices) or next(completions, "")


def format_suggestion(word: str, choices: Iterable[str], otherwise: str, prefix: str = "") -> str:
    """Return a hint for an unknown word: "did you mean PREFIX...?", or `otherwise`."""
    suggestion = suggest(word, choices)
    return f"did you mean {prefix}{suggestion}?" if suggestion else otherwise


def find_misspelled(word: str, choices: Iterable[str], cutoff: float = LIKELY_CUTOFF) -> str:
    """Return the known word that is probably misspelled; "" for none.

    One with the same letters is preferred to the most similar one above the cutoff.
    """
    choices = list(choices)
    anagrams = (name for name in choices if sorted(name) == sorted(word))
    return next(anagrams, "") or next(iter(find_similar(word, choices, 1, cutoff)), "")


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

    comparable = dict.fromkeys(choice for choice in choices if len(choice) <= MAX_WORD_LENGTH)
    return get_close_matches(word, nlargest(_MAX_COMPARED, comparable, measure_similarity), count, cutoff)
