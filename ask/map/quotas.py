"""The quotas in response headers, and the rate that makes them last until they are renewed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from ask.parsing import compute_seconds_until, parse_duration, read_number

LOW_QUOTA = 0.2
"""Below this part of its quota, what the service reports as remaining is spread over the time until it is renewed."""
MAX_QUOTA_SECONDS = 120.0
"""Quotas that are renewed later are those of a day: they are used up, not spread over the day."""
QUOTA_PERIODS = (1.0, 60.0)
"""The seconds in which quotas that are renewed continuously are complete again, as those of OpenAI and Anthropic."""
PERIOD_TOLERANCE, OBSERVED_PART = 0.1, 0.2
"""Other quotas are, too, if their period is the same after this part of the period, or of the limit."""
QUOTA_USES = 6
"""How many times in its period what is left of such a quota could be used up: it is used sooner than it is renewed."""
RATE_HEADERS = tuple(
    tuple(map(name.format, ("remaining", "limit", "reset")))
    for name in (
        "x-ratelimit-{}-requests",
        "x-ratelimit-{}-tokens",
        "anthropic-ratelimit-requests-{}",
        "anthropic-ratelimit-tokens-{}",
        "x-ratelimit-{}",
    )
)
"""The headers with the remaining amount, the limit and the time of renewal of each quota.

https://platform.openai.com/docs/guides/rate-limits, https://docs.anthropic.com/en/api/rate-limits
"""


class Observation(NamedTuple):
    """The rest of a quota, and the seconds in which the entire quota is renewed at the rate so far."""

    time: float
    remaining: float
    period: float


class Quotas:
    """The remaining quotas of a service. Times are in seconds, of a monotonic clock."""

    def __init__(self) -> None:
        self._rate, self._end = math.inf, -math.inf
        self._observations: dict[str, Observation] = {}
        self._continuous: set[str] = set()

    def get_rate(self, now: float) -> float:
        """Return the requests per second that the quotas allow."""
        return self._rate if now < self._end else math.inf

    def read(self, now: float, headers: Mapping[str, str], mean_tokens: float) -> None:
        """Read the headers of a response; `mean_tokens` is how many tokens a request uses on average."""
        quotas, is_known = [], False
        for remaining_header, limit_header, reset_header in RATE_HEADERS:
            remaining = read_number(headers.get(remaining_header))
            if remaining is None:  # first, because most services send few of these headers
                continue
            is_known = True
            limit = read_number(headers.get(limit_header))
            reset = parse_reset(headers, reset_header)
            if limit is None or reset is None or reset > MAX_QUOTA_SECONDS:
                continue
            if limit < 1 or remaining > limit * (1 - OBSERVED_PART):
                continue
            period = reset / (1 - remaining / limit)
            self._observe(remaining_header, Observation(now, remaining, period), limit)
            if remaining > limit * LOW_QUOTA:
                continue
            # A quota that is renewed continuously is complete again at that time. Otherwise, what is left has to last.
            is_continuous = remaining_header in self._continuous or any(
                abs(period / usual - 1) < PERIOD_TOLERANCE for usual in QUOTA_PERIODS
            )
            amount, seconds = (limit + QUOTA_USES * remaining, period) if is_continuous else (remaining, reset)
            requests = amount / mean_tokens if "token" in remaining_header else amount
            # Even if nothing is left, a request shows when the quota is renewed.
            quotas.append((max(requests, 1) / max(seconds, 0.1), now + reset))
        if is_known:
            self._rate, self._end = min(quotas) if quotas else (math.inf, -math.inf)

    def _observe(self, name: str, latest: Observation, limit: float) -> None:
        """Find out whether a quota is renewed continuously: its period stays the same, that of a window falls."""
        earlier = self._observations.setdefault(name, latest)
        used = abs(latest.remaining - earlier.remaining)
        if latest.time - earlier.time < OBSERVED_PART * earlier.period and used < OBSERVED_PART * limit:
            return
        self._observations[name] = latest
        tolerance = PERIOD_TOLERANCE + 1 / (limit - latest.remaining)  # what remains is a whole number
        if abs(latest.period - earlier.period) < tolerance * earlier.period:
            self._continuous.add(name)
        else:
            self._continuous.discard(name)


def parse_reset(headers: Mapping[str, str], name: str) -> float | None:
    """Parse when a quota is renewed, as seconds from now; None if the format is unknown.

    OpenAI sends durations such as "1s" and "6m0s", Anthropic sends a date (RFC 3339), of its clock.
    """
    text = headers.get(name, "")
    if (duration := parse_duration(text)) is not None:
        return duration
    try:
        if "T" in text:
            return max(0.0, compute_seconds_until(datetime.fromisoformat(text).timestamp(), headers))
        seconds = float(text)
    except ValueError:
        return None
    return seconds if seconds < 86_400 * 30 else None
