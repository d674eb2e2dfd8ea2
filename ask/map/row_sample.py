"""Rows that are looked at before all others: those that `--sample N` selects, and the first that fits the prompt."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator

from ask.errors import UsageError
from ask.map.input_rows import Row
from ask.map.job import RowPrompt

SAMPLE_SEED = 0
"""A fixed seed, so that the same sample is drawn each time."""
MAX_OTHER_ROWS = 10
"""How many rows without a column of the prompt may come before the first that has it."""


def draw_sample(rows: Iterator[Row], size: int) -> list[Row]:
    """Draw a random sample of the rows, in their order, without keeping all of them in memory."""
    generator = random.Random(SAMPLE_SEED)  # noqa: S311 - not used for cryptography
    # Those with the smallest of the random numbers that each row gets.
    sample = heapq.nsmallest(size, enumerate(rows), key=lambda _: generator.random())
    return [row for _, row in sorted(sample)]


def peek_row(rows: Iterator[Row], prompt: RowPrompt) -> tuple[Row, Iterator[Row]]:
    """Return the first row that has the columns of the prompt, and all rows.

    Without such a row among the first ones, return the first that is valid, or the last of many that are not.

    Raises:
        UsageError: there are no rows.
    """
    read: list[Row] = []
    valid: list[Row] = []
    for row in itertools.islice(rows, 1000):  # a file of another format has only invalid rows, in any number
        read.append(row)
        if row.error:
            continue
        if prompt.has_columns(row):
            return row, itertools.chain(read, rows)
        valid.append(row)
        if len(valid) == MAX_OTHER_ROWS:
            break
    if not read:
        raise UsageError("the input has no rows")
    return next(iter(valid), read[-1]), itertools.chain(read, rows)
