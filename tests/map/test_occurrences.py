"""Identical rows are counted exactly, however many there are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.map.occurrences import START_SLOTS, OccurrenceCounter

NUMBERS = st.one_of(st.integers(1, 20), st.integers(1, 2**64 - 1))
"""What a digest begins with; small ones belong in neighboring slots."""
DIGESTS = NUMBERS.map(lambda number: number.to_bytes(8, "big") + bytes(8))
BATCHES = st.lists(st.lists(DIGESTS, max_size=50), max_size=10)


def count_slowly(batches: Sequence[Sequence[bytes]]) -> list[list[int]]:
    counts: Counter[bytes] = Counter()
    found: list[list[int]] = []
    for batch in batches:
        found.append([])
        for digest in batch:
            found[-1].append(counts[digest])
            counts[digest] += 1
    return found


@pytest.mark.hypothesis
@given(BATCHES)
def test_counts_are_those_of_a_counter(batches: list[list[bytes]]) -> None:
    counter = OccurrenceCounter()
    assert [counter.count(batch) for batch in batches] == count_slowly(batches)


def test_counts_are_kept_while_the_table_grows() -> None:
    generator = random.Random(0)
    digests = [generator.randbytes(16) for _ in range(3 * START_SLOTS)]
    batches = [digests, digests[::7], [generator.randbytes(16) for _ in range(START_SLOTS)], digests[::2]]
    counter = OccurrenceCounter()
    assert [counter.count(batch) for batch in batches] == count_slowly(batches)
