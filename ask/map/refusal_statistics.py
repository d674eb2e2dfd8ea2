"""Random refusals of a service: their share of the requests, and whether more requests are refused."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

SECTION_REQUESTS, SECTION_SECONDS, SECTIONS = 40, 0.5, 4
"""The least requests and seconds of a section, and in how many the share of random refusals is found."""
POOL_DEVIATIONS = 2.0
"""Sections have the same share if it differs by no more standard deviations."""
MAX_SHARE = 0.8
"""The greatest share of random refusals that is assumed."""
PRIOR_REQUESTS, PRIOR_REFUSALS = 10, 4
"""Until there are two sections, so many requests are added, and so many refusals do not count as random."""
START_SHARE, MIN_SHARE = 0.03, 0.005
"""The least share of random refusals that is assumed, before and after a limit is known."""
EXCESS_PART = 0.35
"""The test tells random refusals from these and the refusal of a further part of the requests."""


class Moment(NamedTuple):
    """When the service was used up, and how many requests it had accepted by then."""

    time: float
    accepted: int

    def get_rate(self, begin: Moment) -> float:
        """Return the requests per second accepted since an earlier moment."""
        return (self.accepted - begin.accepted) / max(self.time - begin.time, 0.01)


class RandomShare:
    """The share of requests that are refused at any rate: the least in the last sections of the requests."""

    def __init__(self) -> None:
        self.value = 0.0
        self._shares: deque[float] = deque(maxlen=SECTIONS)
        self.restart(0.0, 0)

    @property
    def is_known(self) -> bool:
        return len(self._shares) >= 2

    def restart(self, now: float, number: int) -> None:
        """Begin a new section with a request."""
        self._begin, self._first, self._refused = now, number, 0

    def count_refusal(self, number: int) -> None:
        """Count a refused request."""
        self._refused += number >= self._first

    def estimate(self, number: int) -> None:
        """Estimate the share up to a request if there are too few sections."""
        if not self.is_known:
            sent = number + 1 - self._first + SECTION_REQUESTS * len(self._shares)
            refused = round(self._refused + SECTION_REQUESTS * sum(self._shares)) - PRIOR_REFUSALS
            self.value = min(max(0, refused) / (max(0, sent) + PRIOR_REQUESTS), MAX_SHARE)

    def end_section(self, now: float, number: int, shortest: float) -> None:
        """End the section before a request if it is long enough."""
        count = number - self._first
        if count >= SECTION_REQUESTS and now - self._begin > max(SECTION_SECONDS, shortest):
            self._shares.append(min(self._refused / count, MAX_SHARE))
            self.restart(now, number)
            if self.is_known:
                self.value = _pool_shares(self._shares)


class RefusalTest:
    """A sequential test (CUSUM) whether a further part of the requests is refused than those that are at any rate.

    Attributes:
        sum: the sum of the test.
        refused: how many refusals it includes.
        begin: the first of them.
        row: how many requests in a row were refused.
        row_begin: the first of them.
    """

    def __init__(self) -> None:
        self._next = 0  # the next request if none of those since the last refusals were accepted
        self.reset()

    def reset(self) -> None:
        self.sum, self.refused, self.row = 0.0, 0, 0
        self.begin = self.row_begin = Moment(0.0, 0)

    def get_sum(self, number: int) -> float:
        """Return the sum if the requests since the last refusal, to that number, were accepted."""
        return self.sum + max(0, number - self._next) * math.log(1 - EXCESS_PART)

    def skip(self, number: int) -> None:
        """Note a refused request that is not part of the test."""
        self._next = max(number, self._next) + 1

    def count(self, number: int, moment: Moment, share: float, *, is_overload: bool) -> None:
        """Count a refused request, one of those from a number on; so large a share is refused at any rate."""
        if number > self._next or not self.row:
            self.row, self.row_begin = 0, moment
        self.row += 1
        self.sum = self.get_sum(number)
        if self.sum <= 0:
            self.sum, self.refused, self.begin = 0.0, 0, moment
        if not is_overload:
            self.sum += math.log((share + EXCESS_PART * (1 - share)) / share)
            self.refused += 1
        self.skip(number)


def _pool_shares(shares: Iterable[float]) -> float:
    """Return the least share, or the mean of those that do not differ from it."""
    pooled, *others = sorted(shares)
    for number, share in enumerate(others, 1):
        mean = (number * pooled + share) / (number + 1)
        deviation = math.sqrt(mean * (1 - mean) * (1 + 1 / number) / SECTION_REQUESTS)
        if share - pooled > POOL_DEVIATIONS * deviation:
            break
        pooled = mean
    return pooled
