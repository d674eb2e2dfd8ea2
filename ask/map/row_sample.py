"""The rows that `--sample N` selects."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

from ask.map.input_rows import Row

SAMPLE_SEED = 0
"""A fixed seed, so that the same sample is drawn each time."""


def draw_sample(rows: Iterator[Row], size: int) -> list[Row]:
    """Draw a random sample of the rows, in their order, without keeping all of them in memory."""
    generator = random.Random(SAMPLE_SEED)  # noqa: S311 - not used for cryptography
    # Those with the smallest of the random numbers that each row gets.
    sample = heapq.nsmallest(size, enumerate(rows), key=lambda _: generator.random())
    return [row for _, row in sorted(sample)]
