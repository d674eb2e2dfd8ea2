"""How many requests a job sends at the same time, and how fast: fixed by the user, or adapted to the service.

The rate is a token bucket that is charged for accepted requests only: refused ones are sent again at once. It doubles
until the service refuses requests. Whether more of them are refused than at any rate (by an overloaded service) is
found by a sequential test (CUSUM); the share of random refusals is the least in the last sections of the requests. A
refusal that does not say that the service is overloaded (as status 529 does) is rarely random: few of these are enough.
What was accepted between two moments at which the service accepted no more shows its rate; the job continues a little
below it, returns to it, and then exceeds it faster and faster (as CUBIC does, the congestion control of TCP).

If many requests in a row are refused, they are held back, and single ones at growing intervals show when the service
accepts them again. If it refuses them for long, it counts requests in windows: as many are sent in the next one.

The number of concurrent requests is limited in the same way. The requests that run when the service refuses further
ones show the limit, if a single one is refused while they run, and accepted once one of them has ended.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ask.map.quotas import Quotas
from ask.map.refusal_statistics import MAX_SHARE, SECTION_REQUESTS, CusumTest, Moment, Shares, pool_shares

START_CONCURRENCY, MAX_CONCURRENCY = 32, 1000
"""How many requests run at the same time. Each takes a thread, and about 0.1 MB."""
START_RATE, MIN_RATE, MAX_RATE = 10.0, 0.05, 5000.0
"""Requests per second."""
RATE_DOUBLING, CONCURRENCY_DOUBLING, DOUBLING_REQUESTS, LATER_RATE_DOUBLING = 0.4, 0.8, 4, 1.0
"""The seconds, and requests, in which an unknown limit doubles; and a rate, once the service has refused requests."""
STEP_SECONDS = 0.1
"""The interval at which the limits grow."""
MARGIN = 0.05
"""How far a limit falls below what the service accepts."""
PERIOD_SECONDS, PERIOD_REQUESTS, PERIOD_REFUSALS, SHORT_PART, MAX_SHORT_SECONDS = 1.75, 65, 20, 0.2, 10.0
"""The time until a limit is at that level again: so many seconds and requests, and the time of so many refusals; or
this part of it, and at most so many seconds, while the level is uncertain."""
CONFIRMED_PART, MAX_CONFIRMATIONS, CONFIRMED_GROWTH, CONFIRMED_SHARE_GROWTH = 0.04, 6, 0.15, 2.0
"""An estimate of the rate confirms the last one if it differs by less. So many in a row make the period longer: each by
the first part of its seconds, and by the second part of the share of random refusals, which hide a limit."""
CONFIRMED_REST = 0.09
"""The number of concurrent requests stays at its level for so many periods, times the square of its confirmations, if
no refusals are random. The rate does not: a rise from 20 to 80/s would be found after 11 s instead of 8 s."""
PROBE_CONFIRMATIONS, PROBE_THRESHOLD_PART = 2, 0.5
"""After so many confirmations, this part of the threshold is enough to lower a rate that exceeds its level; not if some
refusals are random: they would end most attempts to exceed it, and a rise would not be found."""
UNKNOWN_FACTOR = 1.25
"""A limit that exceeds what the service accepted by this factor is unknown again."""
SURPRISE_FACTOR = 1.3
"""If a service refused nothing up to this multiple of its rate, the rate may have risen."""
MAX_SURPLUS = 3
"""A rate does not grow while it is so many times what was accepted in the last second."""
SPAN_REQUESTS, COUNT_ERROR = 20, 0.5
"""After so many accepted requests, their number shows the rate. It is accurate to so many."""
CONSISTENT_PART = 0.15
"""Two estimates are consistent if they differ by less."""
SECTION_SECONDS, SECTIONS = 0.5, 4
"""The shortest section of the requests, and in how many the share of random refusals is found."""
PRIOR_REQUESTS, LIMITED_PRIOR_REQUESTS = 40, 10
"""How many accepted requests are added until there are two sections; also for refusals that name no overload."""
START_SHARE, MIN_SHARE, MAX_START_SHARE = 0.1, 0.01, 0.7
"""The least assumed share of random refusals, before and after a limit is known, and the greatest that is believed
before."""
START_LIMITED_SHARE, MIN_LIMITED_SHARE, LIMITED_REFUSALS = 0.03, 0.005, 3
"""The same for refusals that do not say that the service is overloaded; so many of the first do not count as random."""
SHARE_RISE = 0.1
"""If the share rises by more after the limits were lowered, they were lowered because of random refusals."""
EXCESS_PART, EXCESS_THRESHOLD, EXCESS_SECONDS, START_THRESHOLD = 0.35, 6.6, 30, 2
"""The tests tell random refusals from these and the refusal of a further part of the requests. The first lowers the
limits; its threshold is at least the logarithm of the requests in so many seconds, and higher before the rate is
known."""
BLOCKED_PART, BLOCKED_THRESHOLD = 0.85, 10.7
"""The second begins a hold."""
MAX_RETRIES, MAX_RETRY_SECONDS, RETRY_PART = 6, 0.05, 0.4
"""If more refused requests wait to be sent again than so many, and those of so many seconds, the limits are lowered,
too. They are sent at this part of the usual interval."""
MAX_ROW_SECONDS = 100.0
"""No more requests are sent at the same time than are answered in so many seconds: others would wait in a queue."""
MAX_REFUSAL_SECONDS = 1.0
"""Refusals take no longer, unless earlier requests of the same row took the time."""
CLOCK_TOLERANCE, CREDIT_SECONDS = 0.002, 0.05
"""The difference in seconds between the times at which the caller and its thread start a request; and how much later
than allowed the caller may send one without loss."""
HOLD_SECONDS, HOLD_FACTOR, MAX_HOLD_SECONDS = 0.15, 2, 15
"""The time until the first single request of a hold, the factor for the next ones, and the longest such time."""
PROBE_SECONDS, PROBE_REFUSAL_FACTOR = 0.1, 3
"""A single request is accepted if it is not refused in so many seconds, or so many times the time of a refusal."""
RECENT_FACTOR, UNKNOWN_RECENT_FACTOR = 1.2, 3
"""What was accepted in a cycle does not show the rate if this multiple of it was accepted before the hold; with the
second multiple, the rate is unknown."""
FULL_SHARE = 0.8
"""The number of concurrent requests may be limited if this part of it still runs when a single one is refused."""
BLOCKED_SECONDS, RENEWAL_TOLERANCE = 2.0, 1.5
"""If the service has accepted nothing for so long, `Retry-After` applies to all requests. It is believed if the time
that it names is the same for two refusals, but for so many seconds."""
WINDOW_SECONDS, WINDOW_REQUESTS = 2.0, 20
"""A service that refuses for so long after so many requests counts them in windows, not at a rate."""
MINUTE, MINUTE_TOLERANCE = 60.0, 1.5
"""The most common window, and how much later it may end. Without `Retry-After`, a single request is sent then."""
MAX_PAUSE_SECONDS = 60.0
"""The longest time until the next single request in a hold if `Retry-After` asks for it."""
DEFAULT_TOKENS = 1000
"""Tokens that a request is assumed to use until the first has been answered."""


class Start(NamedTuple):
    """When a request was sent, and how many had been sent and refused before, and were in flight.

    `limited` is how many of the refusals did not say that the service is overloaded.
    """

    time: float
    number: int
    refused: int
    limited: int
    in_flight: int


@dataclass
class Hold:
    """A time in which only single requests are sent, because the service has refused several in a row.

    Attributes:
        begin: when it began.
        next_probe: when the next single request is sent.
        renewal: when the service accepts requests again, according to `Retry-After`.
        origin: when the service accepted no more.
        last_refused: the last refused request.
        rate: the rate before.
        interval: the seconds to wait after the next refusal.
        last_interval: the seconds between the last two single requests.
        probe: when the last single request was sent; None if it was refused.
        is_full: whether the number of concurrent requests can be the reason.
        is_above: whether the rate was unknown or above the level.
        recent: the requests per second accepted in the last second.
        refused: how many single requests were refused.
    """

    begin: float
    next_probe: float
    renewal: float
    origin: Moment
    last_refused: Moment
    rate: float
    interval: float = HOLD_SECONDS * HOLD_FACTOR
    last_interval: float = 0.0
    probe: float | None = None
    is_full: bool = False
    is_above: bool = False
    recent: float = 0.0
    refused: int = 0


class Limit:
    """A limit that follows what a service accepts.

    Attributes:
        level: what the service accepts; inf if unknown.
        age: for how many seconds the limit has held back requests since it was lowered.
        is_reached: whether it has held back a request since it last grew.
        is_refuted: whether the service has accepted more, so that its refusals have another reason.
        is_verified: whether it is known to be the reason of refusals.
        confirmations: how many times in a row the service has confirmed the level.
    """

    def __init__(self, value: float, maximum: float, doubling_seconds: float, step: float) -> None:
        self.value = self._lowest = value
        self.level, self.age = math.inf, 0.0
        self.is_reached, self.is_refuted, self.is_verified, self.confirmations = False, False, False, 0
        self._maximum, self._doubling_seconds, self._step = maximum, doubling_seconds, step

    @property
    def is_known(self) -> bool:
        return self.level < math.inf

    def lower(self, level: float, value: float) -> None:
        self.level, self.age = level, 0.0
        self.value = self._lowest = value

    @property
    def is_below(self) -> bool:
        """Whether the limit is not above what the service accepts."""
        return self.is_known and self.value <= self.level

    def grow(self, seconds: float, period: float, doubling_seconds: float, rest: float = 0.0) -> None:
        """Grow for some seconds, if requests were held back: in a period to the level, and above it after a rest."""
        if not self.is_reached:
            return
        self.is_reached = False
        self.age += seconds
        if self.value > max(UNKNOWN_FACTOR * self.level, self.level + 1.5 * self._step):
            self.level, self.is_refuted = math.inf, True
        if self.is_known:
            distance = self.age / period - 1
            distance = max(distance - rest, min(distance, 0.0))
            range_ = max(self.level * MARGIN, self._step) if distance > 0 else self.level - self._lowest
            value = self.level + range_ * distance**3
        else:
            value = self.value * 2.0 ** (seconds / max(self._doubling_seconds, doubling_seconds))
        self.value = min(max(value, self.value), self._maximum)


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
        self._start_concurrency = float(concurrency or min(START_CONCURRENCY, max_concurrency))
        self._concurrency = Limit(self._start_concurrency, max_concurrency, CONCURRENCY_DOUBLING, 1.0)
        self._rate = Limit(START_RATE if self._is_adaptive else math.inf, MAX_RATE, RATE_DOUBLING, 0.0)
        self._requests_per_minute = requests_per_minute or math.inf
        self._tokens_per_minute = tokens_per_minute or math.inf
        self._quotas = Quotas()
        self._next_start = -math.inf
        self._first_start = self._last_step = math.inf
        self._starts: deque[Start] = deque()
        self._in_flight = self._started = self._refused = self._limited = self._answered = 0
        self._group_first, self._group_last, self._group_refused = -1, -1, 0
        self._retries = 0
        self._last_refusal = self._lowered = -math.inf
        self._excess, self._blocked = CusumTest(EXCESS_PART), CusumTest(BLOCKED_PART)
        self._origins: deque[Moment] = deque(maxlen=2)
        self._span_requests = 0
        self._section = Start(0.0, 0, 0, 0, 0)
        self._shares: deque[Shares] = deque(maxlen=SECTIONS)
        self._throughput = 0.0
        self._random_share = self._limited_share = self._lowered_share = self._refusal_seconds = 0.0
        self._restarts = 0
        self._last_estimate = 0.0
        self._total_tokens = self._token_count = 0
        self._hold: Hold | None = None
        self._burst = Moment(0.0, 0)
        self._window_seconds, self._window_requests = 0.0, math.inf

    @property
    def concurrency(self) -> int:
        """The current limit of concurrent requests."""
        return int(self._concurrency.value)

    @property
    def _mean_tokens(self) -> float:
        return max(self._total_tokens / self._token_count, 1) if self._token_count else DEFAULT_TOKENS

    @property
    def _accepted(self) -> int:
        return self._started - self._refused

    def get_delay(self, now: float, in_flight: int) -> float | None:
        """Return the seconds until the next request may be sent; None if one must finish before."""
        if self._is_adaptive and now - self._last_step >= STEP_SECONDS:
            self._grow(now)
        next_start = self._next_start
        if self._retries > 0:
            next_start = min(next_start, self._starts[-1].time + RETRY_PART / self._rate.value)
        delay = max(0.0, next_start - now)
        if self._hold:
            if not self._is_adaptive and in_flight >= self.concurrency:
                return None
            delay = max(delay, self._continue_hold(now, self._hold))
            if self._hold:
                return delay
        if in_flight >= self.concurrency:
            self._concurrency.is_reached = True
            return None
        self._rate.is_reached = self._rate.is_reached or delay > 0
        return delay

    def start(self, now: float) -> None:
        """Note that a request is sent."""
        rate = self._get_rate(now)
        had_retries = self._retries > 0
        self._retries -= had_retries
        if not had_retries or now >= self._next_start:
            self._next_start = max(self._next_start, now - CREDIT_SECONDS) + (1 / rate if rate < math.inf else 0.0)
        start = Start(now, self._started, self._refused, self._limited, self._in_flight)
        if not self._started:
            self._first_start = self._last_step = now
            self._section, self._burst = start, Moment(now, 0)
        if self._hold:
            self._hold.probe = now
        self._starts.append(start)
        while self._starts[0].time < now - MAX_REFUSAL_SECONDS:
            self._starts.popleft()
        self._in_flight += 1
        self._started += 1
        if not self._hold and self._accepted - self._burst.accepted >= self._window_requests:
            self._begin_hold(now, None, Moment(now, self._accepted))
        is_long = now - self._section.time > max(SECTION_SECONDS, 3 * self._refusal_seconds)
        if is_long and start.number - self._section.number >= SECTION_REQUESTS:
            self._end_section(start)

    def finish(
        self,
        now: float,
        *,
        latency: float,
        is_refused: bool,
        headers: Mapping[str, str],
        tokens: int | None,
        wait: float | None = None,
        is_overload: bool = False,
    ) -> None:
        """Note the response to a request, its time in seconds, and the tokens it used.

        With `is_overload`, it says that it was refused because the service is overloaded, not because of a limit.
        """
        self._in_flight -= 1
        if tokens is not None:
            self._total_tokens += tokens
            self._token_count += 1
        self._quotas.read(now, headers, self._mean_tokens)
        if is_refused:
            self._handle_refusal(now, min(latency, MAX_REFUSAL_SECONDS), wait, is_overload)
        else:
            self._answered += 1

    @property
    def _is_probing(self) -> bool:
        """Check whether a confirmed rate is exceeded, to find out if the service accepts more."""
        rate = self._rate
        return rate.confirmations >= PROBE_CONFIRMATIONS and rate.value > rate.level and self._random_share < MIN_SHARE

    @property
    def _threshold(self) -> float:
        rate = min(self._rate.value, self._throughput or START_RATE)
        threshold = max(EXCESS_THRESHOLD, math.log(EXCESS_SECONDS * rate))
        if self._rate.is_known:
            return threshold * (PROBE_THRESHOLD_PART if self._is_probing else 1)
        return threshold + START_THRESHOLD

    def _get_rate(self, now: float) -> float:
        return min(self._rate.value, self._get_fixed_rate(now))

    def _get_fixed_rate(self, now: float) -> float:
        token_rate = self._tokens_per_minute / 60 / self._mean_tokens
        return min(self._quotas.get_rate(now), self._requests_per_minute / 60, token_rate)

    def _grow(self, now: float) -> None:
        rate = self._rate
        longest = max(5 * STEP_SECONDS, 1.5 / rate.value)  # the caller may wait until the next request
        seconds, self._last_step = min(now - self._last_step, longest), now
        excess = self._excess.get_sum(self._started - 1 - self._group_last)
        if self._hold or (now < self._last_refusal + SECTION_SECONDS and 2 * excess > self._threshold):
            return
        part = min(max(self._span_requests / PERIOD_REQUESTS, SHORT_PART), 1.0)
        part *= 1 + rate.confirmations * CONFIRMED_SHARE_GROWTH * self._random_share
        shortest = max(PERIOD_SECONDS, PERIOD_REFUSALS * self._refusal_seconds)
        longer = shortest * (1 + rate.confirmations * CONFIRMED_GROWTH)
        period = part * max(longer, PERIOD_REQUESTS / min(rate.value, rate.level))
        if self._span_requests < SPAN_REQUESTS:
            period = min(period, MAX_SHORT_SECONDS)
        if rate.value > MAX_SURPLUS * max(self._get_recent_rate(now), START_RATE):
            rate.is_reached = False
        doubling = LATER_RATE_DOUBLING if self._lowered > -math.inf else 0.0
        shortest_doubling = min(DOUBLING_REQUESTS / rate.value, MAX_SHORT_SECONDS / 3)
        rate.grow(seconds, period, max(doubling, period / 3, shortest_doubling, 2 * self._refusal_seconds))
        queue_limit = MAX_ROW_SECONDS * self._answered / (now - self._first_start)
        if not self._answered or self._concurrency.value < queue_limit:
            throughput = self._started / (now - self._first_start)
            throughput = min(self._throughput or throughput, throughput)
            requests = PERIOD_REQUESTS if self._concurrency.is_verified else SHORT_PART * PERIOD_REQUESTS
            rest = CONFIRMED_REST * self._concurrency.confirmations**2 if self._random_share < MIN_SHARE else 0.0
            self._concurrency.grow(seconds, max(shortest, requests / throughput), 2 * self._refusal_seconds, rest)

    def _restart_section(self, now: float) -> None:
        self._section = Start(now, self._started, self._refused, self._limited, 0)

    def _end_section(self, start: Start) -> None:
        count, begin = start.number - self._section.number, self._section
        share = (start.refused - begin.refused) / count
        limited_share = (start.limited - begin.limited) / count
        is_below = self._rate.is_below or self._concurrency.is_below
        if is_below or share < max(MAX_START_SHARE, self._random_share):
            self._shares.append(Shares(share, limited_share))
        self._throughput = count / max(start.time - begin.time, 0.001)
        self._section = start
        if len(self._shares) >= 2:
            self._learn_share(pool_shares(shares.refused for shares in self._shares))
            self._limited_share = pool_shares(shares.limited for shares in self._shares)

    def _get_earlier_share(self, test: CusumTest) -> float:
        """Return the share of refusals before those that a test counts."""
        if len(self._shares) >= 2 or not test.sum or self._started > self._section.number + 2 * SECTION_REQUESTS:
            return 0.0
        begin, section = test.begin, self._section
        sent = begin.number - section.number
        refused = sent - (begin.accepted - (section.number - section.refused))
        return min(max(0, refused - 1) / (sent + 4), MAX_SHARE) if sent > 0 else 0.0

    def _learn_share(self, share: float) -> None:
        self._random_share = share
        if share > self._lowered_share + SHARE_RISE:
            self._lowered_share = share
            self._rate.lower(math.inf, max(self._rate.value, min(START_RATE, 4 * self._rate.value)))
            self._concurrency.lower(math.inf, self._concurrency.value)
            self._origins.clear()

    def _find_start(self, sent: float, default: int = 0) -> Start:
        """Return the last request sent until then."""
        earlier = (start for start in reversed(self._starts) if start.time <= sent)
        first = self._starts[0]
        return next(earlier, first._replace(number=first.number + default))

    def _count_in_flight(self, start: Start) -> int:
        """Return how many of the requests in flight when one was sent have not been refused since."""
        return start.in_flight - (self._refused - start.refused)

    def _handle_refusal(self, now: float, latency: float, wait: float | None, is_overload: bool) -> None:
        self._refusal_seconds += (latency - self._refusal_seconds) / (8 if self._refusal_seconds else 1)
        start = self._find_start(now - latency + CLOCK_TOLERANCE / 4)
        in_flight = self._count_in_flight(start)
        self._refused += 1
        self._limited += not is_overload
        self._last_refusal = now
        moment = Moment(start.time, start.number + 1 - self._refused, start.number)
        before, group = self._find_group(start)
        if hold := self._hold:
            hold.last_refused = max(hold.last_refused, moment)
            if hold.probe is not None and start.time >= hold.probe - CLOCK_TOLERANCE:
                self._extend_hold(now, hold, wait)
                self._compare_in_flight(hold, in_flight)
            return
        if start.number < self._section.number:
            limited = self._section.limited + (not is_overload)
            self._section = self._section._replace(refused=self._section.refused + 1, limited=limited)
        if start.time > self._lowered:
            self._retries += self._rate.value < self._get_fixed_rate(now)
            self._count_refusal(moment, before, group, is_overload)
            self._lower_if_limited(now, moment, in_flight, wait)

    def _find_group(self, start: Start) -> tuple[int, int]:
        """Return how many requests were accepted before those sent together with a refused one, and their number."""
        first = self._find_start(start.time - CLOCK_TOLERANCE, -1).number + 1
        before = 0
        if first == self._group_first:
            self._group_refused += 1
        else:
            before = max(0, first - self._group_last - 1)
            self._group_first, self._group_refused = first, 1
        self._group_last = start.number
        return before, start.number - first + 1

    def _compare_in_flight(self, hold: Hold, in_flight: int) -> None:
        """Compare the number of concurrent requests with those that ran when a single request was refused."""
        limit = self._concurrency
        if hold.is_full and hold.refused == 1 and in_flight >= FULL_SHARE * limit.level:
            level = min(limit.level, max(in_flight, 1))
            limit.lower(level, level)
        hold.is_full = hold.is_full and in_flight >= limit.level

    def _count_refusal(self, moment: Moment, before: int, group: int, is_overload: bool) -> None:
        """Estimate the share of random refusals, and test whether there are more."""
        if len(self._shares) < 2:
            section, count = self._section, SECTION_REQUESTS * len(self._shares)
            sent, refused = moment.number + 1 - section.number + count, self._refused - 1 - section.refused
            refused += round(SECTION_REQUESTS * sum(shares.refused for shares in self._shares))
            self._random_share = max(0, refused) / (sent + PRIOR_REQUESTS)
            limited = self._limited - (not is_overload) - section.limited - LIMITED_REFUSALS
            limited += round(SECTION_REQUESTS * sum(shares.limited for shares in self._shares))
            self._limited_share = max(0, limited) / (sent + LIMITED_PRIOR_REQUESTS)
        is_known = self._rate.is_known or self._concurrency.is_known
        for test, least_share in ((self._excess, MIN_SHARE if is_known else START_SHARE), (self._blocked, START_SHARE)):
            share = max(self._random_share, least_share, self._get_earlier_share(test))
            if test is self._excess and not is_overload:
                share = max(self._limited_share, MIN_LIMITED_SHARE if is_known else START_LIMITED_SHARE)
            test.count(before, group, self._group_refused, moment, share)

    def _lower_if_limited(self, now: float, moment: Moment, in_flight: int, wait: float | None) -> None:
        max_retries = MAX_RETRIES + MAX_RETRY_SECONDS * self._rate.value
        is_blocked = self._blocked.sum > BLOCKED_THRESHOLD
        is_limited = self._excess.sum > self._threshold or self._retries > max_retries
        if is_blocked or (is_limited and self._is_adaptive):
            self._lower(now, moment, in_flight, wait, is_blocked=is_blocked)

    def _lower(self, now: float, moment: Moment, in_flight: int, wait: float | None, *, is_blocked: bool) -> None:
        rate, limit = self._rate, self._concurrency
        origin = self._blocked.begin if is_blocked else self._excess.begin
        is_first = not rate.is_known
        is_above = is_first or rate.value > rate.level
        if self._lowered == -math.inf:
            self._restart_section(now)
            self._restarts = 2
        if self._is_adaptive and limit.is_known and in_flight >= limit.level and not is_blocked:
            limit.lower(limit.level, limit.level)
            limit.confirmations = min(limit.confirmations + 1, MAX_CONFIRMATIONS)
            if rate.is_below or (limit.is_verified and not rate.is_known):
                limit.is_verified = True
                self._after_lowering(now)
                return
        is_full = in_flight >= 0.9 * limit.level - 1 and rate.value > 1.2 * self._get_recent_rate(now)
        if self._is_adaptive and limit.is_known and is_full and in_flight > 0:
            limit.lower(in_flight, in_flight)
            limit.confirmations = 0
        is_blocked = is_blocked or (bool(self._origins) and moment.accepted - self._origins[-1].accepted <= 1)
        if is_blocked or (is_first and not self._origins):
            is_new = self._is_adaptive and in_flight > 0 and not limit.is_known and not limit.is_refuted
            if is_new:
                limit.lower(in_flight, in_flight)
                limit.is_verified, limit.confirmations = False, 0
            hold = self._begin_hold(now, wait, origin)
            hold.recent, hold.is_above = self._get_recent_rate(now), is_above
            hold.last_refused = max(origin, moment)
            hold.is_full = limit.is_known and in_flight >= limit.level
        else:
            if not self._origins:
                self._origins.append(origin)
            self._estimate(moment)
        self._next_start = max(self._next_start, now + 1 / rate.value)
        self._after_lowering(now)

    def _after_lowering(self, now: float) -> None:
        self._lowered = self._last_step = now
        self._lowered_share = self._random_share
        self._retries = 0
        self._excess.reset()
        self._blocked.reset()

    def _estimate(self, moment: Moment) -> None:
        """Lower the rate to what was accepted between two moments at which the service accepted no more."""
        rate, origin = self._rate, self._origins[-1]
        count, seconds = max(0, moment.accepted - origin.accepted), max(moment.time - origin.time, 0.01)
        least, most = (count - COUNT_ERROR) / seconds, (count + COUNT_ERROR) / seconds
        average = self._get_average(moment)
        if not rate.is_known and rate.value > SURPRISE_FACTOR * average:
            average = math.sqrt(average * max(average, self._get_recent_rate(moment.time)))
            least = max(least, average)
            most = max(most, least)
        if count < SPAN_REQUESTS:
            if self._restarts > 0:
                self._restarts -= 1
                self._restart_section(moment.time)
            if average > most:
                least = most = math.sqrt(average * most)
        level = min(max(average or (rate.level if rate.is_known else least), least), most)
        if self._is_probing and PROBE_THRESHOLD_PART * self._excess.sum < self._threshold:
            level = max(level, rate.level)  # the few refusals may have been random
        is_doubtful = not rate.is_known and rate.value > SURPRISE_FACTOR * level
        self._span_requests = 0 if is_doubtful and self._span_requests >= SPAN_REQUESTS else count
        self._count_confirmation(level, count)
        if count < SPAN_REQUESTS and abs(level - average) < CONSISTENT_PART * average:
            self._span_requests = PERIOD_REQUESTS
        self._set_rate(level, level * (1 - max(MARGIN, 1 / (count + 3))))
        if count >= SPAN_REQUESTS:
            self._origins.append(moment)

    def _count_confirmation(self, estimate: float, count: int) -> None:
        """Count how many estimates in a row, from enough requests, have confirmed the one before."""
        is_confirmed = abs(estimate - self._last_estimate) < CONFIRMED_PART * self._last_estimate
        if count >= SPAN_REQUESTS and is_confirmed:
            self._rate.confirmations = min(self._rate.confirmations + 1, MAX_CONFIRMATIONS)
        else:
            self._rate.confirmations = 0
        self._last_estimate = estimate

    def _get_recent_rate(self, now: float) -> float:
        first = self._starts[0]
        return (self._accepted - (first.number - first.refused)) / max(now - first.time, 0.1)

    def _get_average(self, moment: Moment) -> float:
        """Return the requests per second accepted since a moment at which no more was accepted; 0 if unknown."""
        for origin in self._origins:
            if (count := moment.accepted - origin.accepted) >= SPAN_REQUESTS:
                return count / max(moment.time - origin.time, 0.01)
        return 0.0

    def _estimate_after_hold(self, hold: Hold, accepted: Moment) -> None:
        """Lower the rate to between what was accepted until a single request was accepted, and the most it can be."""
        empty = hold.last_refused
        most = (max(0, empty.accepted - hold.origin.accepted) + 1) / max(empty.time - hold.origin.time, 0.01)
        most = min(most, hold.rate)
        count = accepted.accepted - self._burst.accepted
        least = max(count, 1) / max(accepted.time - self._burst.time, 0.01)
        is_cycle = self._burst.accepted > 0 and count >= SPAN_REQUESTS
        value = min(least if is_cycle else math.sqrt(least * most), hold.rate)
        hold.recent = max(hold.recent, self._rate.level if self._rate.is_known else 0)
        if is_cycle and hold.recent > RECENT_FACTOR * value:
            value, is_cycle = math.sqrt(value * hold.recent), False
        self._span_requests = count if is_cycle else 0
        is_unknown = hold.recent > UNKNOWN_RECENT_FACTOR * value
        self._set_rate(math.inf if is_unknown else value, value * (1 - MARGIN))
        self._origins.append(empty)

    def _set_rate(self, level: float, value: float) -> None:
        self._rate.lower(max(level, MIN_RATE), max(value, MIN_RATE))

    def _begin_hold(self, now: float, wait: float | None, origin: Moment) -> Hold:
        first = now + max(HOLD_SECONDS, self._refusal_seconds)
        self._hold = Hold(now, first, now + (wait or 0.0), origin, origin, self._rate.value)
        return self._hold

    def _continue_hold(self, now: float, hold: Hold) -> float:
        """Return the seconds until the next request; end the hold if the last one was accepted."""
        if hold.probe is None:
            if hold.refused and hold.is_full and self._in_flight < self._concurrency.level:
                return 0.0
            return max(0.0, hold.next_probe - now)
        answered = hold.probe + max(PROBE_SECONDS, PROBE_REFUSAL_FACTOR * self._refusal_seconds)
        if now < answered:
            return answered - now
        self._end_hold(hold, hold.probe)
        if hold.is_above:
            self._restart_section(now)
        return 0.0

    def _extend_hold(self, now: float, hold: Hold, wait: float | None) -> None:
        """Choose when to send the next single request, after one was refused."""
        seconds, interval = now - hold.begin, hold.interval
        if wait and seconds > BLOCKED_SECONDS:
            if abs(now + wait - hold.renewal) < RENEWAL_TOLERANCE:
                interval = min(wait, MAX_PAUSE_SECONDS)
            else:
                interval, hold.renewal = min(max(interval, min(wait, seconds)), max(wait, 1)), now + wait
        # A service with sliding windows accepts the next request sooner than the whole quota.
        expected = min(self._burst.time + self._window_seconds, now + (wait or math.inf))
        next_probe, minute = max(now + interval, expected), self._burst.time + MINUTE + MINUTE_TOLERANCE
        next_probe = minute if not wait and now < minute < next_probe else next_probe
        hold.refused += 1
        hold.probe, hold.next_probe, hold.last_interval = None, next_probe, interval
        hold.interval = min(hold.interval * HOLD_FACTOR, MAX_HOLD_SECONDS)

    def _end_hold(self, hold: Hold, probe: float) -> None:
        self._hold = None
        rate, limit = self._rate, self._concurrency
        start = self._find_start(probe + CLOCK_TOLERANCE / 4)
        moment = Moment(probe, start.number - self._refused)
        count, seconds = moment.accepted - self._burst.accepted, probe - self._burst.time
        in_flight = self._count_in_flight(start)
        is_full = hold.is_full and hold.refused > 0 and in_flight < limit.level
        if self._is_adaptive and in_flight >= limit.level:
            limit.level, limit.is_refuted, limit.confirmations = math.inf, True, 0
        elif is_full:
            limit.is_verified = True
        is_window = not is_full and probe - hold.begin >= WINDOW_SECONDS and count >= WINDOW_REQUESTS
        is_early = count < self._window_requests <= hold.origin.accepted - self._burst.accepted
        if is_early and not hold.refused and self._window_seconds == MINUTE:
            return  # some requests that seemed to use up the window were refused at random
        was_expected = count >= self._window_requests
        self._window_seconds, self._window_requests = 0.0, math.inf
        if is_window:
            limit.value = min(limit.value, self._start_concurrency)
            least = seconds - hold.last_interval
            self._window_seconds, self._window_requests = MINUTE if least < MINUTE <= seconds else least, count
        if self._is_adaptive and (is_window or not was_expected):
            if is_window or not moment.accepted:
                rate.lower(math.inf, START_RATE)
                self._origins.clear()
            elif is_full:
                rate.lower(math.inf, hold.rate)
                self._origins.clear()
            else:
                self._estimate_after_hold(hold, moment)
                self._next_start = max(self._next_start, probe + 1 / rate.value)
        self._burst = moment
        self._lowered = self._last_step = probe - CLOCK_TOLERANCE
        self._excess.reset()
        self._blocked.reset()
