"""How many requests a job sends at the same time, and how fast: fixed by the user, or adapted to the service.

The number of concurrent requests grows while all are needed, up to a maximum. The rate at which requests are sent
starts low and doubles every 0.4 seconds until the service refuses more than a few. The requests that it accepted in the
last second then show what it allows; in the first second of a job there are too few to show it. The rate stays a little
below that, and is raised in small steps, because the service may allow more later.

Overloaded services refuse some requests at any rate. If a much lower rate does not help, that share of refusals is
tolerated from then on, and the rate grows again as at the start.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from datetime import datetime

from ask.parsing import parse_duration, read_number

START_CONCURRENCY = 32
MAX_CONCURRENCY = 256
GROWTH, SHRINKAGE = 1.25, 0.8
"""Factors for the number of concurrent requests, after the first refusal."""
START_RATE_PER_SECOND = 10.0
"""Requests per second, until the service has shown how many it answers."""
RATE_GROWTH, RATE_GROWTH_SECONDS = 2.0, 0.4
"""Factor for both limits before the first refusal, and the interval at which the rate grows."""
REFUSALS_PER_START = 0.25
"""Until the rate is known, refusals count only if more than this part of the requests are refused."""
MIN_REFUSALS, MIN_REFUSAL_SECONDS = 1.5, 0.02
"""How many refusals beyond that part show a limit: so many, and those of so many seconds."""
COOLDOWN_SECONDS = 0.4
"""Seconds after a refusal in which further ones have no effect: their requests were sent before."""
RATE_WINDOW_SECONDS = 1.0
"""Seconds over which the accepted requests are counted."""
RATE_MARGIN = 0.95
"""The rate after a refusal, as a part of what the service allowed."""
PROBE_FACTORS = ((30.0, 1.2), (10.0, 1.05), (0.0, 1.01))
"""The factor by which the rate grows each second, by the seconds since the last refusal."""
TEST_RATE = 0.6
"""Below this part of its highest value, the rate is tested: are fewer requests refused?"""
TEST_STARTS, TEST_REFUSALS = 20, 5
"""A test ends once so many requests have been sent and so many refused."""
SIMILAR_SHARE = 0.5
"""The lower rate helps if the share of refused requests falls below this part of the previous share."""
MAX_RANDOM_SHARE = 0.8
"""A service that refuses more than this is not overloaded but unavailable."""
RECENT_STARTS = 100
"""How many requests are counted before the older ones lose weight."""
LOW_QUOTA = 0.2
"""Below this part of its quota, what the service reports as remaining is spread over the time until it is renewed."""
MAX_QUOTA_SECONDS = 120.0
"""Quotas that are renewed later are those of a day: they are used up, not spread over the day."""
QUOTA_PERIODS = (1.0, 60.0)
"""The seconds in which quotas that are renewed continuously are complete again, as those of OpenAI and Anthropic."""
PERIOD_TOLERANCE = 0.1
MIN_RATE_PER_SECOND = 0.1
"""Requests per second."""
MAX_PAUSE_SECONDS = 60.0
"""The longest time that `Retry-After` stops a job."""
DEFAULT_TOKENS = 1000
"""Tokens that a request is assumed to use until the first has been answered."""
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


class RateLimiter:
    """Decides when the next request may be sent. Times are in seconds, of a monotonic clock.

    Args:
        concurrency: the fixed number of concurrent requests; None to adapt it.
        requests_per_minute: the fixed limit; None for none.
        tokens_per_minute: the same for tokens.
        max_concurrency: the most concurrent requests if their number is adapted.
    """

    def __init__(
        self,
        concurrency: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrency: int = MAX_CONCURRENCY,
    ) -> None:
        self._is_adaptive = concurrency is None
        self._max_concurrency = max_concurrency
        self._concurrency = float(concurrency or min(START_CONCURRENCY, max_concurrency))
        self._requests_per_minute = requests_per_minute or math.inf
        self._tokens_per_minute = tokens_per_minute or math.inf
        self._rate = START_RATE_PER_SECOND if self._is_adaptive else math.inf
        self._quota_rate, self._quota_end = math.inf, -math.inf
        self._next_start = self._paused_until = self._last_refusal = -math.inf
        self._first_start, self._is_rate_known = math.inf, False
        self._last_growth: float | None = None
        self._start_times: deque[float] = deque()
        self._refusal_times: deque[float] = deque()
        self._answers_since_growth = 0
        self._is_saturated = self._is_paced = False
        self._random_refusals = RandomRefusals()
        self._excess_refusals = 0.0
        self._last_acceptance = math.inf
        self._total_tokens = self._token_count = 0

    @property
    def concurrency(self) -> int:
        """The current limit of concurrent requests."""
        return int(self._concurrency)

    @property
    def _mean_tokens(self) -> float:
        """The mean of the tokens that a request uses."""
        return max(self._total_tokens / self._token_count, 1) if self._token_count else DEFAULT_TOKENS

    def get_delay(self, now: float, in_flight: int) -> float | None:
        """Return the seconds until the next request may be sent; None if one must finish before."""
        if in_flight >= self.concurrency:
            self._is_saturated = True
            return None
        delay = max(0.0, self._next_start - now, self._paused_until - now)
        self._is_paced = self._is_paced or delay > 0
        return delay

    def start(self, now: float) -> None:
        """Note that a request is sent."""
        rate = self._get_rate(now)
        # Time without requests does not accumulate, apart from the imprecision of the caller's waiting.
        self._next_start = max(self._next_start, now - 0.05) + (1 / rate if rate < math.inf else 0.0)
        self._first_start = min(self._first_start, now)
        if self._last_acceptance == math.inf:
            self._last_acceptance = now
        self._start_times.append(now)
        _discard_old(self._start_times, now)
        self._random_refusals.note_start(now)
        self._excess_refusals = max(0.0, self._excess_refusals - REFUSALS_PER_START)
        if self._is_adaptive and not self._is_rate_known:
            self._raise_rate(now)

    def finish(
        self, now: float, *, is_refused: bool, headers: Mapping[str, str], tokens: int | None, wait: float | None = None
    ) -> None:
        """Note a response, and the tokens it used.

        `is_refused` if the service refused the request for sending too many; it may ask to `wait` so many seconds.
        """
        if tokens is not None:
            self._total_tokens += tokens
            self._token_count += 1
        self._read_quotas(now, headers)
        if is_refused:
            self._handle_refusal(now, wait)
            return
        self._last_acceptance = now
        if self._is_adaptive:
            self._grow(now)

    def _get_rate(self, now: float) -> float:
        """Return the requests per second that all limits allow."""
        quota_rate = self._quota_rate if now < self._quota_end else math.inf
        token_rate = self._tokens_per_minute / 60 / self._mean_tokens
        return min(self._rate, quota_rate, self._requests_per_minute / 60, token_rate)

    def _handle_refusal(self, now: float, wait: float | None) -> None:
        self._refusal_times.append(now)
        _discard_old(self._refusal_times, now)
        # Only this request has to wait for so long, unless none has been accepted for long.
        pause = min(wait or 0.0, MAX_PAUSE_SECONDS, now - min(self._last_acceptance, now))
        self._paused_until = max(self._paused_until, now + pause)
        self._excess_refusals += 1
        random_refusals = self._random_refusals
        if random_refusals.note_refusal(now):
            self._is_rate_known, self._last_growth = False, now
        if not self._is_adaptive or now - self._last_refusal < COOLDOWN_SECONDS or random_refusals.are_expected():
            return
        if not self._is_rate_known and self._excess_refusals < MIN_REFUSALS + MIN_REFUSAL_SECONDS * self._rate:
            return
        self._last_refusal = self._last_growth = now
        self._answers_since_growth = 0
        _discard_old(self._start_times, now)
        started, refused = len(self._start_times), len(self._refusal_times)
        # The first requests may be refused for what another program has just sent, and all if the service has a break.
        self._is_rate_known = now - self._first_start >= RATE_WINDOW_SECONDS and started > refused
        # In a shorter time, a few requests would look like a high rate.
        seconds = max(now - self._start_times[0], RATE_WINDOW_SECONDS / 4) if self._start_times else RATE_WINDOW_SECONDS
        previous_rate = min(self._rate, started / seconds)
        self._concurrency = max(1.0, self._concurrency * SHRINKAGE)
        allowed_rate = max(started - refused, 1) / seconds
        self._rate = max(min(self._rate, allowed_rate) * RATE_MARGIN, MIN_RATE_PER_SECOND)
        self._next_start = max(self._next_start, now + 1 / self._rate)
        if self._is_rate_known:
            random_refusals.note_reduction(now, previous_rate, self._rate, Tally(started, refused))

    def _grow(self, now: float) -> None:
        """Raise the limits if they held requests back, and nothing was refused for a while."""
        self._answers_since_growth += 1
        if self._is_saturated and self._answers_since_growth >= self._concurrency:
            growth = GROWTH if self._is_rate_known else RATE_GROWTH
            self._concurrency = min(self._concurrency * growth, float(self._max_concurrency))
            self._answers_since_growth, self._is_saturated = 0, False
        self._raise_rate(now)

    def _raise_rate(self, now: float) -> None:
        """Raise the rate if it held requests back."""
        if self._last_growth is None:
            self._last_growth = now
        seconds = now - self._last_growth
        if seconds < (1.0 if self._is_rate_known else RATE_GROWTH_SECONDS):
            return
        if self._is_paced:
            quiet_time = now - self._last_refusal
            factor = next(factor for least, factor in PROBE_FACTORS if quiet_time >= least)
            self._rate *= factor if self._is_rate_known else RATE_GROWTH
        self._last_growth, self._is_paced = now, False

    def _read_quotas(self, now: float, headers: Mapping[str, str]) -> None:
        """Slow down before a quota is used up."""
        quotas, is_known = [], False
        for remaining_header, limit_header, reset_header in RATE_HEADERS:
            remaining = read_number(headers.get(remaining_header))
            if remaining is None:  # first, because most services send few of these headers
                continue
            is_known = True
            limit = read_number(headers.get(limit_header))
            reset = parse_reset(headers.get(reset_header, ""))
            if not limit or reset is None or reset > MAX_QUOTA_SECONDS or remaining > limit * LOW_QUOTA:
                continue
            period = reset / (1 - remaining / limit)
            # A quota that is renewed continuously is complete again at that time. Otherwise, what is left has to last.
            is_continuous = any(abs(period / usual - 1) < PERIOD_TOLERANCE for usual in QUOTA_PERIODS)
            amount, seconds = (limit, period) if is_continuous else (remaining, reset)
            requests = amount / self._mean_tokens if "token" in remaining_header else amount
            # Even if nothing is left, a request now and then shows when the quota is renewed.
            quotas.append((max(requests, 0.5) / max(seconds, 0.1), now + reset))
        if is_known:
            self._quota_rate, self._quota_end = min(quotas) if quotas else (math.inf, -math.inf)


class Tally:
    """Counts of the requests sent, and of those refused."""

    def __init__(self, started: float = 0.0, refused: float = 0.0) -> None:
        self.started, self.refused = started, refused

    @property
    def share(self) -> float:
        return self.refused / max(self.started, self.refused, 1.0)


class RandomRefusals:
    """Distinguishes refusals that a lower rate avoids from those at any rate.

    Attributes:
        share: the part of the requests that is refused at any rate, as far as is known.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._recent = Tally()
        """The requests since the rate was last reduced."""
        self._phase = Tally()
        """Those since the rate was highest or, during a test, since it began."""
        self._highest_rate = self._previous_share = 0.0
        self._test_begin: float | None = None
        self._recent_end = -math.inf

    def are_expected(self) -> bool:
        """Check whether no more requests are refused than at any rate."""
        expected = self.share * self._recent.started
        return self.share > 0 and self._recent.refused <= expected + 3 * math.sqrt(expected) + 1

    def note_start(self, now: float) -> None:
        """Note that a request is sent."""
        self._phase.started += self._is_counted(now)
        self._recent.started += 1
        if self._recent.started >= RECENT_STARTS and now >= self._recent_end:
            expected = self.share * self._recent.started
            if self._recent.refused < expected - 3 * math.sqrt(expected):
                self.share = self._recent.share
            self._recent = Tally(self._recent.started / 2, self._recent.refused / 2)
            self._recent_end = now + RATE_WINDOW_SECONDS

    def note_refusal(self, now: float) -> bool:
        """Note a refusal. Return whether it completes a test with the result that a lower rate does not help."""
        self._phase.refused += self._is_counted(now)
        self._recent.refused += 1
        test = self._phase
        if self._test_begin is None or now < self._test_begin + RATE_WINDOW_SECONDS:
            return False
        if test.refused < TEST_REFUSALS or test.started < TEST_STARTS:
            return False
        self._highest_rate, self._test_begin, self._phase = 0.0, None, Tally()
        is_lower = test.refused + 2 * math.sqrt(test.refused) < self._previous_share * SIMILAR_SHARE * test.started
        if is_lower or test.share > MAX_RANDOM_SHARE:
            return False
        self.share, self._recent = test.share, Tally()
        return True

    def note_reduction(self, now: float, previous_rate: float, rate: float, window: Tally) -> None:
        """Note that the rate was reduced because of the requests in a window. A test begins if it is much lower now."""
        self._recent = Tally()
        if previous_rate >= self._highest_rate:
            self._highest_rate, self._test_begin, self._phase = previous_rate, None, window
        if self._test_begin is None and rate < self._highest_rate * TEST_RATE:
            self._previous_share = self._phase.share
            self._test_begin, self._phase = now + COOLDOWN_SECONDS, Tally()

    def _is_counted(self, now: float) -> bool:
        return self._test_begin is None or now >= self._test_begin


def _discard_old(times: deque[float], now: float) -> None:
    """Discard the times that are no longer in the window."""
    while times and times[0] < now - RATE_WINDOW_SECONDS:
        times.popleft()


def parse_reset(text: str) -> float | None:
    """Parse when a quota is renewed, as seconds from now; None if the format is unknown.

    OpenAI sends durations such as "1s" and "6m0s", Anthropic sends a date (RFC 3339).
    """
    if (duration := parse_duration(text)) is not None:
        return duration
    try:
        if "T" in text:
            date = datetime.fromisoformat(text)
            return max(0.0, (date - datetime.now(date.tzinfo)).total_seconds())
        seconds = float(text)
    except ValueError:
        return None
    return seconds if seconds < 86_400 * 30 else None
