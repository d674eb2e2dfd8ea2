"""The limits on what a job costs: its own, and that of a day, over all runs."""

from __future__ import annotations

from ask.errors import LimitReachedError
from ask.history.daily_cost import DailyCostLimit
from ask.map.rate_limit import START_CONCURRENCY

REFRESH_SECONDS = 2.0
"""Seconds between calculations of what is left for the day: other runs spend, too, and at midnight it starts over."""


class CostLimits:
    """Decides whether a job may send another request. Costs are those of the job in US dollars, with earlier runs.

    Args:
        max_cost: the limit for the job; None for none.
        daily_limit: the limit for the day; None for none.
        has_own_ledger: whether the costs are in a ledger that the daily limit does not know.
    """

    def __init__(
        self, max_cost: float | None, daily_limit: DailyCostLimit | None, *, has_own_ledger: bool = False
    ) -> None:
        self._max_cost = max_cost
        self._daily_limit = daily_limit
        self._earlier_cost = self._saved_cost = 0.0
        self._has_own_ledger = has_own_ledger
        self._paid_count = 0
        self._daily_cost: float | None = None
        """The cost of the job at which the limit for the day is reached; None before the first calculation."""
        self._next_refresh = 0.0

    def begin(self, cost: float) -> None:
        """Begin a run of a job that has cost this much before."""
        self._earlier_cost = self._saved_cost = cost

    def note_request(self, *, is_paid: bool) -> None:
        """Count a request of this run if it may have cost something."""
        self._paid_count += is_paid

    def can_afford(self, cost: float, in_flight: int) -> bool:
        """Check that one more request would not exceed a limit if those in flight cost as much as others."""
        limits = [limit for limit in (self._max_cost, self._daily_cost) if limit is not None]
        if not limits or not in_flight:
            return True
        if not self._paid_count:
            return in_flight < START_CONCURRENCY
        return cost + in_flight * (cost - self._earlier_cost) / self._paid_count < min(limits)

    def find_reached(self, cost: float) -> LimitReachedError | None:
        """Return the error that a limit is reached, if one is."""
        if self._max_cost is not None and cost >= self._max_cost:
            return LimitReachedError(f"reached the cost limit (${cost:.4f} spent)", "raise it with --max-cost")
        if self._daily_limit and self._daily_cost is not None and cost >= self._daily_cost:
            return self._daily_limit.make_error(self._daily_limit.dollars + cost - self._daily_cost)
        return None

    def refresh(self, now: float, cost: float) -> bool:
        """Calculate what is left for the day if the last time is long ago; return whether it was calculated.

        The costs of the job must be saved in the ledger.

        Raises:
            FileError: the history or the ledger cannot be read.
        """
        if self._daily_limit is None or now < self._next_refresh:
            return False
        self._next_refresh = now + REFRESH_SECONDS
        self.save(cost)
        self._daily_cost = cost + self._daily_limit.compute_rest()
        return True

    def save(self, cost: float) -> None:
        """Save the costs of this run for the daily limit, unless they are in a ledger that it knows.

        Raises:
            FileError: they cannot be saved.
        """
        if self._daily_limit and self._has_own_ledger:
            self._daily_limit.add_unsaved_cost(cost - self._saved_cost)
            self._saved_cost = cost
