"""What a model may have meant by a word that is not there: a guess whose work is bounded, whatever the words are."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 300
"""Characters of the longest word that is compared."""
_COMPARED = 20
"""How many are compared place by place, which may take as long as the cube of their length."""


def nearest(word: str, choices: Iterable[str], count: int) -> list[str]:
    """The choices that are most like the word, the best first.

    Args:
        word: what is not there.
        choices: what is there; each is looked at, if it is no longer than `LONGEST`.
        count: how many to give at most.
    """
    if len(word) > LONGEST:
        return []
    from difflib import SequenceMatcher, get_close_matches
    from heapq import nlargest

    matcher = SequenceMatcher(b=word)

    def letters_in_common(choice: str) -> float:
        matcher.set_seq1(choice)
        return matcher.quick_ratio()

    short = dict.fromkeys(choice for choice in choices if len(choice) <= LONGEST)
    return get_close_matches(word, nlargest(_COMPARED, short, letters_in_common), count)
