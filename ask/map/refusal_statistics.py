"""Random refusals of a service: their share of the requests, and whether more requests are refused."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

SECTION_REQUESTS = 40
"""A section of the requests has at least so many."""
POOL_DEVIATIONS = 2.0
"""Sections have the same share if it differs by no more standard deviations."""
MAX_SHARE = 0.8
"""The greatest share of random refusals that is assumed."""


class Shares(NamedTuple):
    """The shares of the requests that were refused, and that were refused with no word of an overload."""

    refused: float
    limited: float


class Moment(NamedTuple):
    """When the service was used up, and how many requests it had accepted by then."""

    time: float
    accepted: int
    number: int = 0


class CusumTest:
    """A sequential test (CUSUM) whether a further part of the requests is refused than those that are at any rate."""

    def __init__(self, part: float) -> None:
        self._part = part
        self.sum = self._earlier = 0.0
        self.begin = Moment(0.0, 0)

    def get_sum(self, accepted: int) -> float:
        return self.sum + accepted * math.log(1 - self._part)

    def reset(self) -> None:
        self.sum = self._earlier = 0.0

    def count(self, before: int, group: int, refused: int, moment: Moment, share: float) -> None:
        """Count requests that were sent at the same time, after a number of accepted ones.

        `share` is the part that is refused at any rate.
        """
        accepted, refusal = math.log(1 - self._part), math.log((share + self._part * (1 - share)) / share)
        if refused == 1:
            self._earlier = self.sum + before * accepted
            if self._earlier <= 0:
                self._earlier, self.begin = 0.0, moment
        self.sum = max(0.0, self._earlier + refused * refusal + (group - refused) * accepted)


def pool_shares(shares: Iterable[float]) -> float:
    """Return the least share, or the mean of those that do not differ from it."""
    pooled, *others = sorted(shares)
    for number, share in enumerate(others, 1):
        mean = (number * pooled + share) / (number + 1)
        deviation = math.sqrt(mean * (1 - mean) * (1 + 1 / number) / SECTION_REQUESTS)
        if share - pooled > POOL_DEVIATIONS * deviation:
            break
        pooled = mean
    return min(pooled, MAX_SHARE)
