"""Distributions of values, and samples of rows, in bounded memory."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

from ask.map.json_values import encode_json
from ask.records import NamedTuple
from ask.text import format_one_line

MAX_SAMPLED_NUMBERS = 10_000
"""How many numbers are kept for the quantiles of a distribution. Those of fewer numbers are exact."""
MAX_DISTINCT = 5_000
"""How many different values are counted. Later ones are counted together."""
MAX_SAMPLED_VALUES = 200
"""How many of them have a sample of rows."""
SAMPLED_ROWS = 3
"""How many rows are kept for a value."""
MAX_KEY_CHARACTERS = 200
"""The length beyond which a digest stands for a text."""
MAX_LABEL_CHARACTERS = 100
MAX_NUMBER = 1e150
"""The largest number to calculate with: sums of these are finite."""
MAX_BINS = 20
BOOLEANS = ("false", "true")
BIN_FACTORS = (1, 2, 5, 10)
OUTLIER_SHARE = 0.01
"""The share of the numbers at each end that do not stretch a histogram by a multiple of all others."""


class RowExcerpt(NamedTuple):
    """The beginning of a row, as it is shown as an example.

    Attributes:
        location: where it was read, as in "tickets.jsonl:7".
        model: the model that was asked; "" if there is only one.
        columns: the names and values of some input columns.
        answer: the answer.
        error: why the row failed; "" if it did not.
    """

    location: str
    model: str
    columns: Sequence[tuple[str, str]]
    answer: str
    error: str


class SampledRow:
    """A row that samples may keep.

    Args:
        position: the position of its output.
        number: the number of its input row. Samples contain the rows of all models for the same one.
        make_excerpt: returns its excerpt, which most rows do not need.
    """

    def __init__(self, position: int, number: int, make_excerpt: Callable[[], RowExcerpt]) -> None:
        self.position = position
        self.priority = int.from_bytes(blake2b(b"%d" % number, digest_size=7).digest())
        self._make_excerpt = make_excerpt

    @cached_property
    def excerpt(self) -> RowExcerpt:
        return self._make_excerpt()


class PrioritySample:
    """The entries with the smallest priorities. If these are random numbers, it is a random sample."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, int, Any]] = []
        self._limit = math.inf if size else -math.inf

    def add(self, priority: float, row: SampledRow, entry: Any = None) -> None:
        """Add an entry, by default the row's excerpt, if its priority is among the smallest.

        No two entries have the same priority and row.
        """
        if priority >= self._limit:
            return
        add = heapq.heappush if len(self._heap) < self._size else heapq.heapreplace
        add(self._heap, (-priority, -row.position, row.excerpt if entry is None else entry))
        if len(self._heap) == self._size:
            self._limit = -self._heap[0][0]

    def list_by_position(self) -> list[Any]:
        """Return the entries in the order of the rows."""
        return [entry for _, _, entry in sorted(self._heap, key=lambda item: -item[1])]

    def list_by_priority(self) -> list[Any]:
        """Return the entries, the smallest priority first."""
        return [entry for _, _, entry in sorted(self._heap, key=lambda item: (-item[0], -item[1]))]


class Bin(NamedTuple):
    """A bar of a histogram: how many numbers are from `low` to below `high`, which only the last bar includes."""

    low: float
    high: float
    frequency: int


class Histogram(NamedTuple):
    """The bars of a histogram. The outer ones may also count the numbers beyond them.

    Of integers, all ends of bars are integers, too.
    """

    bins: Sequence[Bin]
    is_open_below: bool
    is_open_above: bool
    is_integer: bool


class NumberDistribution:
    """The distribution of numbers.

    Attributes:
        count: how many there are.
        minimum: the smallest.
        maximum: the largest.
        is_integer: whether all are integers.
        lowest: the rows with the smallest numbers.
        highest: the rows with the largest numbers.
    """

    def __init__(self) -> None:
        self.count = 0
        self.minimum, self.maximum = math.inf, -math.inf
        self.is_integer = True
        self._total = 0.0
        self._numbers = PrioritySample(MAX_SAMPLED_NUMBERS)
        self.lowest, self.highest = PrioritySample(SAMPLED_ROWS), PrioritySample(SAMPLED_ROWS)

    def add(self, row: SampledRow, number: float) -> None:
        """Count a number, of which a row has one."""
        self.count += 1
        self._total += number
        if self.is_integer and not isinstance(number, int):
            self.is_integer = False
        self.minimum, self.maximum = min(self.minimum, number), max(self.maximum, number)
        self._numbers.add(row.priority, row, number)
        self.lowest.add(number, row)
        self.highest.add(-number, row)

    @property
    def mean(self) -> float:
        return self._total / self.count

    @property
    def is_exact(self) -> bool:
        """Whether quantiles and histogram are of all numbers."""
        return self.count <= MAX_SAMPLED_NUMBERS

    @cached_property
    def _sorted(self) -> list[float]:
        """The numbers that were sampled. Nothing may be added once this is read."""
        return sorted(self._numbers.list_by_position())

    def get_quantile(self, share: float) -> float:
        """Return the smallest number below or at which this share of all numbers is."""
        numbers = self._sorted
        return numbers[max(math.ceil(share * len(numbers)), 1) - 1]

    def make_histogram(self) -> Histogram | None:
        """Return a histogram; None if all numbers are the same.

        A few numbers far from all others are counted in the outer bars.
        """
        low, high = self.minimum, self.maximum
        inner_low, inner_high = self.get_quantile(OUTLIER_SHARE), self.get_quantile(1 - OUTLIER_SHARE)
        inner_span = inner_high - inner_low
        is_open_below, is_open_above = (0 < inner_span < distance for distance in (inner_low - low, high - inner_high))
        low, high = inner_low if is_open_below else low, inner_high if is_open_above else high
        span = high - low
        if span <= max(abs(low), abs(high)) * 1e-9 or span < 1 / MAX_NUMBER:
            return None
        step = _choose_step(span)
        if self.is_integer:
            step = max(step, 1.0)
        start = math.floor(low / step)
        end = math.floor(high / step) + 1 if self.is_integer else math.ceil(high / step)
        counts = [0] * (end - start)
        for number in self._sorted:
            counts[min(max(math.floor(number / step) - start, 0), len(counts) - 1)] += 1
        # Multiplied, as steps that are added up would not stay round numbers.
        bins = [Bin((start + i) * step, (start + i + 1) * step, count) for i, count in enumerate(counts)]
        return Histogram(bins, is_open_below, is_open_above, self.is_integer)


def _choose_step(span: float) -> float:
    """Return the width of bins: a round number."""
    magnitude = 10.0 ** math.floor(math.log10(span / MAX_BINS))
    return next(factor * magnitude for factor in BIN_FACTORS if factor * magnitude * MAX_BINS >= span * (1 - 1e-9))


class ValueCount:
    """How often a value occurs, and a sample of its rows."""

    def __init__(self, label: str, rows: PrioritySample) -> None:
        self.label = label
        self.rows = rows
        self.count = 0


class ValueDistribution:
    """How often each of some values occurs.

    Args:
        redact: removes secrets from a text.
        expected: values that are listed even if they do not occur.

    Attributes:
        count: how many values there are.
        other_count: how many of them are not counted one by one, because there are too many different ones.
    """

    def __init__(self, redact: Callable[[str], str], expected: Iterable[str] = ()) -> None:
        self._redact = redact
        self._values: dict[str | bytes, ValueCount] = {}
        self.count = self.other_count = 0
        for value in expected:
            self._values[value] = self._start_count(value)

    def add(self, row: SampledRow, value: str) -> None:
        """Count a value."""
        self.count += 1
        is_short = len(value) <= MAX_KEY_CHARACTERS
        key = value if is_short else blake2b(value.encode("utf-8", "replace"), digest_size=16).digest()
        counted = self._values.get(key)
        if counted is None:
            if len(self._values) >= MAX_DISTINCT:
                self.other_count += 1
                return
            counted = self._values[key] = self._start_count(value)
        counted.count += 1
        counted.rows.add(row.priority, row)

    def _start_count(self, value: str) -> ValueCount:
        rows = PrioritySample(SAMPLED_ROWS if len(self._values) < MAX_SAMPLED_VALUES else 0)
        return ValueCount(format_one_line(self._redact(value), MAX_LABEL_CHARACTERS), rows)

    @property
    def distinct_count(self) -> int:
        """How many different values there are; those that are not counted one by one are not included."""
        return sum(value.count > 0 for value in self._values.values())

    def list_values(self) -> list[ValueCount]:
        """Return the values, the most frequent first."""
        return sorted(self._values.values(), key=lambda value: (-value.count, value.label))


class ColumnDistribution:
    """The values of one column of the answers.

    Args:
        name: the name of the column.
        schema: its schema, such as {"enum": ["bug", "order"]}.
        redact: removes secrets from a text.

    Attributes:
        null_count: how many rows have no value.
        values: texts, booleans, objects and the values of an enumeration.
        text_lengths: the lengths of the texts in characters.
        numbers: the numbers.
        array_lengths: the lengths of the arrays.
        items: their items, each counted once for an array.
    """

    def __init__(self, name: str, schema: Any, redact: Callable[[str], str]) -> None:
        self.name = name
        allowed = schema.get("enum") if isinstance(schema, Mapping) else None
        self.is_enum = isinstance(allowed, list)
        expected = [to_text(value) for value in allowed or () if value is not None] if self.is_enum else []
        if isinstance(schema, Mapping) and schema.get("type") == "boolean":
            expected = [*BOOLEANS]
        self.null_count = 0
        self.values = ValueDistribution(redact, expected)
        self.text_lengths = NumberDistribution()
        self.numbers = NumberDistribution()
        self.array_lengths = NumberDistribution()
        self.items = ValueDistribution(redact)

    @property
    def count(self) -> int:
        """How many values were counted."""
        return self.null_count + self.values.count + self.numbers.count + self.array_lengths.count

    def add(self, row: SampledRow, value: Any) -> None:
        """Count the value of a row."""
        if value is None:
            self.null_count += 1
        elif isinstance(value, list):
            self.array_lengths.add(row, len(value))
            for item in dict.fromkeys(map(to_text, value)):
                self.items.add(row, item)
        elif not self.is_enum and is_number(value):
            self.numbers.add(row, value)
        else:
            text = to_text(value)
            self.values.add(row, text)
            if isinstance(value, str | dict):
                self.text_lengths.add(row, len(text))


def is_number(value: Any) -> bool:
    """Check whether a JSON value is a number that can be calculated with."""
    is_numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return is_numeric and -MAX_NUMBER <= value <= MAX_NUMBER


def to_text(value: Any) -> str:
    """Return a text as it is without outer space, and other values as JSON."""
    if isinstance(value, str):
        return value.strip()
    return BOOLEANS[value] if isinstance(value, bool) else encode_json(value)
