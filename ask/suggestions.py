"""Suggestions for a mistyped word, at a bounded cost whatever the words are."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 300
"""Characters of the longest word that is compared."""
SIMILAR, LIKELY = 0.6, 0.75
"""How similar a word must be to be worth listing, and to be suggested as the one that was meant."""
SHORTEST_PREFIX = 3
_COMPARED = 20
"""How many are compared letter by letter, which may take as long as the cube of their length."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant: a misspelled one, or one that the word begins; "" for none."""
    known = list(known)
    begun = (name for name in known if len(word) >= SHORTEST_PREFIX and name.startswith(word))
    return find_misspelled(word, known) or next(begun, "")


def find_misspelled(word: str, known: Iterable[str], cutoff: float = LIKELY) -> str:
    """Return the known word of the same letters, or else the most similar one above the cutoff; "" for none."""
    known = list(known)
    same_letters = (name for name in known if sorted(name) == sorted(word))
    return next(same_letters, "") or next(iter(find_similar(word, known, 1, cutoff)), "")


def find_similar(word: str, choices: Iterable[str], count: int, cutoff: float = SIMILAR) -> list[str]:
    """Return up to `count` of the choices that are most like the word, the best first."""
    if len(word) > LONGEST:
        return []
    from difflib import SequenceMatcher, get_close_matches
    from heapq import nlargest

    matcher = SequenceMatcher(b=word)

    def measure_similarity(choice: str) -> float:
        matcher.set_seq1(choice)
        return matcher.quick_ratio()

    short = dict.fromkeys(choice for choice in choices if len(choice) <= LONGEST)
    return get_close_matches(word, nlargest(_COMPARED, short, measure_similarity), count, cutoff)
