"""The delimiter of a table, detected from its header and its first rows."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""The delimiters that are detected."""
SEP_LINE_PATTERN = re.compile(r'"?sep=([^\w"\r\n])"?[\r\n]*', re.IGNORECASE)
"""A line before the header that names the delimiter, for Excel."""
SAMPLE_ROWS = 100
"""How many rows are compared to detect the delimiter."""
MIN_SHARE, MIN_SHARE_WITH_USUAL, MAX_SHARE_OF_USUAL = 0.5, 0.9, 0.5
"""The shares of rows that have as many fields as the header, with another delimiter and with the usual one."""


def detect_delimiter(sample: str, usual: str) -> str:
    """Return the delimiter of a table: the usual one unless another one clearly fits better.

    Args:
        sample: the header and some of the rows; the last may be incomplete.
        usual: the delimiter of the format.
    """
    lines = [f"{line}\n" for line in sample.split("\n")]
    counts = {delimiter: _count_fields(lines, delimiter) for delimiter in DELIMITER_NAMES}
    ratings = {
        delimiter: (rows.count(header) / len(rows) if rows else 1.0, header)
        for delimiter, (header, *rows) in counts.items()
        if header > 1 and _is_well_formed(sample, delimiter)
    }
    best = max(ratings, key=lambda delimiter: ratings[delimiter], default=usual)
    usual_share = ratings.get(usual, (0.0,))[0]
    min_share = MIN_SHARE_WITH_USUAL if usual in ratings else MIN_SHARE
    return best if ratings and usual_share <= MAX_SHARE_OF_USUAL and ratings[best][0] >= min_share else usual


def _count_fields(lines: Sequence[str], delimiter: str) -> list[int]:
    """Return the numbers of fields of the first records."""
    counts: list[int] = []
    with suppress(csv.Error):
        counts.extend(len(record) for record in islice(csv.reader(lines, delimiter=delimiter), SAMPLE_ROWS) if record)
    return counts[:-1] if len(counts) > 1 else counts or [0]


def _is_well_formed(sample: str, delimiter: str) -> bool:
    """Check that the quotation marks of a header enclose fields."""
    field = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(delimiter)}\n]*)'
    return bool(re.match(rf"\s*{field}(?:{re.escape(delimiter)}{field})*\r?(?:\n|\Z)", sample))
