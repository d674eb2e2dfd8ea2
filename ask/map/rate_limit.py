"""How many requests a job sends at the same time, and how fast: fixed by the user, or adapted to the service.

The rate is a token bucket that is charged for accepted requests only: refused ones are sent again at once. It doubles
until the service refuses more requests than it does at any rate (`refusal_statistics`). What was accepted between two
moments at which the service accepted no more shows its rate; the job continues a little below it, returns to it, and
then exceeds it faster and faster (as CUBIC does, the congestion control of TCP). The more requests an attempt to exceed
a limit costs, the longer it takes until the next one.

If many requests in a row are refused, they are held back, and single ones at growing intervals show when the service
accepts them again. If it refuses them for long, it counts requests in windows: as many are sent in the next one.

The number of concurrent requests is limited in the same way. The requests that run when the service refuses further
ones show the limit, if a single one is refused while they run, and accepted once one of them has ended.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from ask.map.quotas import Quotas
from ask.map.refusal_statistics import MIN_SHARE, SECTION_SECONDS, START_SHARE, Moment, RandomShare, RefusalTest

START_CONCURRENCY, MAX_CONCURRENCY = 32, 1000
"""How many requests run at the same time. Each takes a thread, and about 0.1 MB."""
START_RATE, MIN_RATE, MAX_RATE = 10.0, 0.05, 5000.0
"""Requests per second."""
RATE_DOUBLING, CONCURRENCY_DOUBLING, LATER_RATE_DOUBLING = 0.4, 0.8, 1.0
"""The seconds in which an unknown limit doubles; and a rate, once the service has refused requests."""
MAX_RATE_GROWTH = 270.0
"""By how many requests/s an unknown rate grows in a second at most: it exceeds a limit less."""
STEP_SECONDS, MARGIN, UNKNOWN_FACTOR = 0.1, 0.05, 1.25
"""Limits grow at this interval. They fall below what the service accepts by this part of it, and are unknown again once
they exceed it by this factor."""
PERIOD_SECONDS, REFUSAL_BUDGET, MAX_PERIOD_REQUESTS = 2.0, 0.015, 130
"""A limit is at its level again after so many seconds, and the requests of which the refusals of the last attempt to
exceed it are this part, but no more than so many."""
ATTEMPT_REQUESTS, ATTEMPT_REFUSALS = 40, 3
"""A rate then exceeds its level by its margin in the time of so many requests, and at least in so many times that of a
refusal, and faster and faster after that."""
MAX_PERIOD_SECONDS, MAX_ATTEMPT_SECONDS = 30.0, 10.0
"""The longest of these times for a rate: a slow one that rises should be found soon, too."""
UNCERTAIN_SECONDS, UNCERTAIN_REQUESTS, MAX_UNCERTAIN_SECONDS = 0.35, 13, 10.0
"""The same, and the most seconds, while the level is uncertain."""
SPAN_REQUESTS, RISEN_REQUESTS = 20, 3
"""After so many accepted requests, their number shows the rate, or that a service counts them in windows; and a rate
that has risen, if further ones were refused meanwhile."""
EXCESS_THRESHOLD, START_THRESHOLD_FACTOR, PROBE_THRESHOLD_FACTOR = 6.6, 1.3, 0.5
"""The sum of the sequential test at which limits are lowered; its factor before the rate is known; and that while a
rate that is certain is exceeded, if no refusals are random: otherwise, they would end most attempts."""
ROW_REFUSALS, ROW_PROBABILITY, OVERLOAD_SHARE = 5, 1e-5, 0.5
"""A hold begins after so many refusals in a row, or more, so that it is no more probable that they are random: so large
a share is assumed if the last says that the service is overloaded."""
SHARE_RISE = 0.1
"""If the share of random refusals rises by more after the limits were lowered, they were lowered because of these."""
FULL_SHARE = 0.8
"""The number of concurrent requests may be limited if this part of it still runs when a single one is refused."""
RETRY_PART = 0.4
"""Refused requests are sent again at this part of the usual interval."""
MAX_ROW_SECONDS = 100.0
"""No more requests are sent at the same time than are answered in so many seconds: others would wait in a queue."""
MAX_STARTS, RECENT_SECONDS = 10_000, 1.0
"""How many of the last requests are remembered; and the seconds in which the recent ones were accepted."""
CLOCK_TOLERANCE, CREDIT_SECONDS = 0.002, 0.05
"""The difference in seconds between the times at which the caller and its thread start a request; and how much later
than allowed the caller may send one without loss."""
HOLD_SECONDS, MAX_HOLD_SECONDS = 0.15, 15.0
"""The time until the first single request of a hold. It doubles for each further one, up to the second; it grows more
slowly if many refusals are random."""
WINDOW_SECONDS, MINUTE, MINUTE_TOLERANCE = 2.0, 60.0, 1.5
"""If a service refuses everything for so long, it counts requests in windows, and `Retry-After` applies to all of them.
The most common window is a minute, which is also the longest pause, and may end so many seconds later."""
CONSISTENT_PART, CERTAIN_SHARE, MAX_SURPLUS = 0.15, 0.2, 3.6
"""Two estimates of the rate are consistent if they differ by less, and uncertain if so many refusals are random. A rate
does not grow, and is unknown, while it is so many times what was accepted in the last second."""
DEFAULT_TOKENS = 1000
"""Tokens that a request is assumed to use until the first has been answered."""


class Start(NamedTuple):
    """When a request was sent, and how many had been sent and refused before, and were in flight."""

    time: float
    number: int
    refused: int
    in_flight: int


@dataclass
class Hold:
    """A time in which only single requests are sent, because the service has refused several in a row.

    Attributes:
        begin: when it began.
        next_probe: when the next single request is sent.
        origin: when the service accepted no more.
        last_refused: the last refused request.
        recent: the requests per second accepted before.
        is_full: whether the number of concurrent requests can be the reason.
        probe: when the last single request was sent; None if it was refused.
        refused: how many single requests were refused.
    """

    begin: float
    next_probe: float
    origin: Moment
    last_refused: Moment
    recent: float
    is_full: bool = False
    probe: float | None = None
    refused: int = 0


class Limit:
    """A limit that follows what a service accepts.

    Attributes:
        level: what the service accepts; inf if unknown.
        age: for how many seconds the limit has held back requests since it was lowered.
        is_reached: whether it has held back a request since it last grew.
        is_refuted: whether the service has accepted more, so that its refusals have another reason.
        is_certain: whether the level is known to be right.
    """

    def __init__(self, value: float, least: float, most: float, doubling_seconds: float, step: float) -> None:
        self.value = self._lowest = value
        self.level, self.age = math.inf, 0.0
        self.is_reached, self.is_refuted, self.is_certain = False, False, False
        self._least, self._most, self._doubling_seconds, self._step = least, most, doubling_seconds, step

    @property
    def is_known(self) -> bool:
        return self.level < math.inf

    @property
    def is_below(self) -> bool:
        """Whether the limit is not above what the service accepts."""
        return self.is_known and self.value <= self.level

    def lower(self, level: float, value: float) -> None:
        self.level, self.age = max(level, self._least), 0.0
        self.value = self._lowest = max(value, self._least)

    def grow(self, seconds: float, period: float, attempt: float, doubling_seconds: float) -> None:
        """Grow for some seconds, if requests were held back: in a period to the level, and then above it.

        It has exceeded its level by its margin after `attempt` more seconds.
        """
        if not self.is_reached:
            return
        self.is_reached = False
        self.age += seconds
        if self.value > max(UNKNOWN_FACTOR * self.level, self.level + 1.5 * self._step):
            self.level, self.is_refuted = math.inf, True
        if self.is_known:
            distance = self.age - period
            distance /= attempt if distance > 0 else period
            range_ = max(self.level * MARGIN, self._step) if distance > 0 else self.level - self._lowest
            value = self.level + range_ * distance**3
        else:
            value = self.value * 2.0 ** (seconds / max(self._doubling_seconds, doubling_seconds))
        self.value = min(max(value, self.value), self._most)


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
        self._concurrency = Limit(self._start_concurrency, 1, max_concurrency, CONCURRENCY_DOUBLING, 1.0)
        self._rate = Limit(START_RATE if self._is_adaptive else math.inf, MIN_RATE, MAX_RATE, RATE_DOUBLING, 0.0)
        self._requests_per_minute = requests_per_minute or math.inf
        self._tokens_per_minute = tokens_per_minute or math.inf
        self._total_tokens = self._token_count = 0
        self._quotas = Quotas()
        self._next_start = self._fixed_start = -math.inf
        self._first_start, self._last_step, self._pause_seconds = math.inf, math.inf, 0.0
        self._starts: deque[Start] = deque(maxlen=MAX_STARTS)
        self._in_flight = self._started = self._refused = self._answered = self._retries = 0
        self._refusal_seconds, self._last_refusal = 0.0, -math.inf
        self._share, self._test = RandomShare(), RefusalTest()
        self._lowered, self._lowered_share, self._attempt_refused = -math.inf, 0.0, 0
        self._origins: deque[Moment] = deque(maxlen=2)  # when the service accepted no more
        self._hold: Hold | None = None
        self._burst = Moment(0.0, 0)  # the beginning of the window
        self._window_seconds, self._window_requests = 0.0, math.inf

    @property
    def concurrency(self) -> int:
        """The current limit of concurrent requests."""
        return int(self._concurrency.value)

    def get_delay(self, now: float, in_flight: int) -> float | None:
        """Return the seconds until the next request may be sent; None if one must finish before."""
        if self._is_adaptive and now - self._last_step >= STEP_SECONDS:
            self._grow(now)
        next_start = self._next_start
        if self._retries > 0:
            next_start = min(next_start, self._starts[-1].time + RETRY_PART / self._rate.value)
        delay = max(0.0, next_start - now, self._fixed_start - now)
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
        if self._retries == 0 or now >= self._next_start:
            self._next_start = max(self._next_start, now - CREDIT_SECONDS) + 1 / self._rate.value
        self._fixed_start = max(self._fixed_start, now - CREDIT_SECONDS) + 1 / self._get_fixed_rate(now)
        self._retries = max(0, self._retries - 1)
        if not self._started:
            self._first_start = self._last_step = now
            self._burst = Moment(now, 0)
        if self._hold:
            self._hold.probe = now
        self._starts.append(Start(now, self._started, self._refused, self._in_flight))
        self._share.end_section(now, self._started, 3 * self._refusal_seconds)
        if self._share.is_known and self._share.value > self._lowered_share + SHARE_RISE:
            self._forget_limits()
        self._in_flight += 1
        self._started += 1
        accepted = self._started - self._refused
        if not self._hold and accepted - self._burst.accepted >= self._window_requests:
            self._begin_hold(now, Moment(now, accepted))

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
            self._handle_refusal(now, latency, wait, is_overload)
        else:
            self._answered += 1
            hold = self._hold
            if hold and hold.probe is not None and now - latency >= hold.probe - CLOCK_TOLERANCE:
                self._end_hold(hold, hold.probe)

    @property
    def _mean_tokens(self) -> float:
        return max(self._total_tokens / self._token_count, 1) if self._token_count else DEFAULT_TOKENS

    def _get_fixed_rate(self, now: float) -> float:
        token_rate = self._tokens_per_minute / 60 / self._mean_tokens
        return min(self._quotas.get_rate(now), self._requests_per_minute / 60, token_rate)

    def _get_recent_rate(self, now: float, delay: float = 0.0) -> float:
        """Return the requests/s accepted recently, of those sent before a delay, which is the time of a refusal."""
        last = self._find_start(now - delay)
        first = self._find_start(last.time - RECENT_SECONDS)
        refused = self._refused - self._find_start(first.time + delay).refused
        return max(0, last.number + 1 - first.number - refused) / max(now - delay - first.time, 0.1)

    @property
    def _threshold(self) -> float:
        if not self._rate.is_known:
            return EXCESS_THRESHOLD * START_THRESHOLD_FACTOR
        is_probing = self._rate.is_certain and not self._rate.is_below and self._share.value < MIN_SHARE
        return EXCESS_THRESHOLD * (PROBE_THRESHOLD_FACTOR if is_probing else 1)

    def _grow(self, now: float) -> None:
        rate, limit = self._rate, self._concurrency
        longest = max(5 * STEP_SECONDS, 1.5 / rate.value)  # the caller may wait until the next request
        elapsed, self._last_step = now - self._last_step, now
        seconds = min(elapsed, longest)
        if not self._hold:
            self._pause_seconds += elapsed - seconds
        elif now > self._hold.begin + MINUTE:
            self._pause_seconds += elapsed
        is_suspicious = self._test.get_sum(self._started) > self._threshold / 2
        if self._hold or (is_suspicious and now < self._last_refusal + SECTION_SECONDS):
            return
        if rate.value <= MAX_SURPLUS * max(self._get_recent_rate(now), START_RATE):
            known = min(rate.value, rate.level)
            period = min(self._get_period(rate, known), MAX_PERIOD_SECONDS)
            attempt = min(period, max(PERIOD_SECONDS, ATTEMPT_REQUESTS / known), MAX_ATTEMPT_SECONDS)
            if rate.is_certain:
                attempt = max(attempt, ATTEMPT_REFUSALS * self._refusal_seconds)
            later = max(LATER_RATE_DOUBLING, self._refusal_seconds) if self._lowered > -math.inf else 0.0
            slowest = math.log(2) * rate.value / MAX_RATE_GROWTH
            rate.grow(seconds, period, attempt, max(later, period / 3, slowest))
        throughput = self._answered / (now - self._first_start - self._pause_seconds)
        if not self._answered or limit.value < MAX_ROW_SECONDS * throughput:
            period = self._get_period(limit, max(throughput, 1))
            limit.grow(seconds, period, period, 2 * self._refusal_seconds)

    def _get_period(self, limit: Limit, rate: float) -> float:
        """Return the seconds in which a limit grows to its level; `rate` is the requests per second."""
        if limit.is_certain:
            return max(PERIOD_SECONDS, min(self._attempt_refused / REFUSAL_BUDGET, MAX_PERIOD_REQUESTS) / rate)
        return max(UNCERTAIN_SECONDS, min(UNCERTAIN_REQUESTS / rate, MAX_UNCERTAIN_SECONDS))

    def _forget_limits(self) -> None:
        """Forget limits that were lowered because of random refusals: their share was assumed to be too low."""
        self._lowered_share = self._share.value
        self._rate.lower(math.inf, max(self._rate.value, min(START_RATE, 4 * self._rate.value)))
        self._concurrency.lower(math.inf, self._concurrency.value)
        self._origins.clear()

    def _find_start(self, sent: float) -> Start:
        """Return the last request sent until then."""
        return self._starts[max(0, self._count_starts(sent + CLOCK_TOLERANCE / 4) - 1)]

    def _count_starts(self, time: float) -> int:
        """Count the remembered requests that were sent until then."""
        return bisect_right(self._starts, time, key=attrgetter("time"))

    def _count_in_flight(self, start: Start) -> int:
        """Return how many of the requests in flight when one was sent have not been refused since."""
        return start.in_flight - (self._refused - start.refused)

    def _handle_refusal(self, now: float, latency: float, wait: float | None, is_overload: bool) -> None:
        self._refusal_seconds += (latency - self._refusal_seconds) / (8 if self._refusal_seconds else 1)
        start = self._find_start(now - latency)
        in_flight = self._count_in_flight(start)
        self._refused += 1
        self._last_refusal = now
        moment = Moment(start.time, start.number + 1 - self._refused)
        if not is_overload:
            self._share.count_refusal(start.number)
        # Of requests that were sent together, it is unknown which one was refused.
        first = self._starts[self._count_starts(start.time - CLOCK_TOLERANCE)].number
        if self._hold or start.time <= self._lowered:
            self._test.skip(first)
        if hold := self._hold:
            hold.last_refused = max(hold.last_refused, moment)
            if hold.probe is not None and start.time >= hold.probe - CLOCK_TOLERANCE:
                self._extend_hold(now, hold, wait)
                self._compare_in_flight(hold, in_flight)
        elif start.time <= self._lowered:
            self._attempt_refused += not is_overload
        else:
            self._retries += self._rate.value < self._get_fixed_rate(now)
            self._share.estimate(start.number)
            is_known = self._rate.is_known or self._concurrency.is_known
            share = max(self._share.value, MIN_SHARE if is_known else START_SHARE)
            self._test.count(first, moment, share, is_overload=is_overload)
            row_share = OVERLOAD_SHARE if is_overload else max(self._share.value, START_SHARE)
            is_blocked = self._test.row >= max(ROW_REFUSALS, math.log(ROW_PROBABILITY) / math.log(row_share))
            if is_blocked or (self._test.sum > self._threshold and self._is_adaptive):
                self._lower(now, moment, in_flight, is_blocked=is_blocked)

    def _lower(self, now: float, moment: Moment, in_flight: int, *, is_blocked: bool) -> None:
        """Lower the limits, because requests are refused from a moment on."""
        rate, limit, test = self._rate, self._concurrency, self._test
        origin = test.row_begin if is_blocked else test.begin
        self._attempt_refused = test.refused
        if self._lowered == -math.inf:
            self._share.restart(now, self._started)
        if self._is_adaptive and limit.is_known and in_flight >= limit.level and not is_blocked:
            limit.lower(limit.level, limit.level)
            if rate.is_below or (limit.is_certain and not rate.is_known):
                limit.is_certain = True
                self._after_lowering(now)
                return
        is_full = in_flight >= 0.9 * limit.level - 1 and rate.value > 1.2 * self._get_recent_rate(now)
        if self._is_adaptive and limit.is_known and is_full:
            limit.lower(in_flight, in_flight)
        is_blocked = is_blocked or (bool(self._origins) and moment.accepted - self._origins[-1].accepted <= 1)
        if is_blocked or not (rate.is_known or self._origins):
            if self._is_adaptive and in_flight > 0 and not limit.is_known and not limit.is_refuted:
                limit.lower(in_flight, in_flight)
                limit.is_certain = False
            hold = self._begin_hold(now, origin)
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
        self._lowered_share, self._retries = self._share.value, 0
        self._test.reset()

    def _estimate(self, moment: Moment) -> None:
        """Lower the rate to what was accepted between two moments at which the service accepted no more."""
        rate, origin = self._rate, self._origins[-1]
        count, seconds = max(0, moment.accepted - origin.accepted), max(moment.time - origin.time, 0.01)
        least, most = (count - 0.5) / seconds, (count + 0.5) / seconds
        average = self._get_average(moment)
        if not rate.is_known and rate.value > UNKNOWN_FACTOR * average:  # it may have risen
            average = self._get_risen_rate(moment, average)
            least = max(least, average)
            most = max(most, least)
        level = min(max(average or (rate.level if rate.is_known else least), least), most)
        if self._threshold < EXCESS_THRESHOLD and self._test.sum < EXCESS_THRESHOLD:
            level = max(level, rate.level)  # the few refusals may have been random
        is_consistent = count >= SPAN_REQUESTS or abs(level - average) < CONSISTENT_PART * average
        rate.is_certain = is_consistent and self._share.value < CERTAIN_SHARE
        rate.lower(level, level * (1 - MARGIN))
        if count >= SPAN_REQUESTS:
            self._origins.append(moment)

    def _get_average(self, moment: Moment) -> float:
        """Return the requests per second accepted since a moment at which no more was accepted; 0 if unknown."""
        for origin in self._origins:
            if moment.accepted - origin.accepted >= SPAN_REQUESTS:
                return moment.get_rate(origin)
        return 0.0

    def _get_risen_rate(self, moment: Moment, average: float) -> float:
        """Return the requests per second accepted since the first refusal: from then on, no earlier ones are left."""
        recent, begin = max(average, self._get_recent_rate(self._last_refusal)), self._test.begin
        if moment.accepted - begin.accepted < RISEN_REQUESTS:
            return math.sqrt(average * recent)
        return min(max(moment.get_rate(begin), average), recent)

    def _begin_hold(self, now: float, origin: Moment) -> Hold:
        first = now + max(HOLD_SECONDS, self._refusal_seconds)
        self._hold = Hold(now, first, origin, origin, self._get_recent_rate(now, self._refusal_seconds))
        return self._hold

    def _continue_hold(self, now: float, hold: Hold) -> float:
        """Return the seconds until the next request; end the hold if the last one was accepted."""
        if hold.probe is None:
            if hold.refused and hold.is_full and self._in_flight < self._concurrency.level:
                return 0.0
            return max(0.0, hold.next_probe - now)
        answered = hold.probe + max(HOLD_SECONDS, 3 * self._refusal_seconds)
        if now >= answered:
            self._end_hold(hold, hold.probe)
        return max(0.0, answered - now)

    def _extend_hold(self, now: float, hold: Hold, wait: float | None) -> None:
        """Choose when to send the next single request, after one was refused."""
        hold.refused += 1
        interval = min(HOLD_SECONDS * 2 ** (hold.refused * (1 - self._share.value)), MAX_HOLD_SECONDS)
        if wait and now - hold.begin > WINDOW_SECONDS:
            interval = min(max(interval, wait), MINUTE)
        # A service with sliding windows accepts the next request sooner than the whole quota.
        expected = min(self._burst.time + self._window_seconds, now + (wait or math.inf))
        next_probe, minute = max(now + interval, expected), self._burst.time + MINUTE + MINUTE_TOLERANCE
        hold.probe, hold.next_probe = None, minute if not wait and now < minute < next_probe else next_probe

    def _compare_in_flight(self, hold: Hold, in_flight: int) -> None:
        """Compare the number of concurrent requests with those that ran when a single request was refused."""
        limit = self._concurrency
        if hold.is_full and hold.refused == 1 and in_flight >= FULL_SHARE * limit.level:
            level = min(limit.level, max(in_flight, 1))
            limit.lower(level, level)
        hold.is_full = hold.is_full and in_flight >= limit.level

    def _end_hold(self, hold: Hold, probe: float) -> None:
        """Continue at the rate that the hold has shown, after a single request was accepted."""
        self._hold = None
        rate, limit = self._rate, self._concurrency
        start = self._find_start(probe)
        moment = Moment(probe, start.number - self._refused)
        count, seconds = moment.accepted - self._burst.accepted, probe - self._burst.time
        in_flight = self._count_in_flight(start)
        is_full = hold.is_full and hold.refused > 0 and in_flight < limit.level
        if self._is_adaptive and in_flight >= limit.level:
            limit.level, limit.is_refuted = math.inf, True
            limit.value = max(limit.value, self._start_concurrency)
        elif is_full:
            limit.is_certain = True
        is_long = probe - hold.begin - self._refusal_seconds >= WINDOW_SECONDS
        was_expected = count >= self._window_requests
        is_random = not was_expected and self._share.value**hold.refused > ROW_PROBABILITY
        is_window = not (is_full or is_random) and is_long and count >= SPAN_REQUESTS
        is_early = count < self._window_requests <= hold.origin.accepted - self._burst.accepted
        if is_early and not hold.refused and self._window_seconds == MINUTE:
            return  # some requests that seemed to use up the window were refused at random
        self._window_seconds, self._window_requests = 0.0, math.inf
        if is_window:
            limit.value = min(limit.value, self._start_concurrency)
            least = hold.last_refused.time - self._burst.time
            if least < MINUTE + MAX_HOLD_SECONDS:  # otherwise, it was an outage
                self._window_seconds, self._window_requests = MINUTE if least < MINUTE <= seconds else least, count
        if self._is_adaptive and (is_window or not was_expected):
            if is_window or is_full or not moment.accepted:
                rate.lower(math.inf, rate.value if is_full else START_RATE)
                self._origins.clear()
            else:
                self._estimate_after_hold(hold, moment)
                self._next_start = max(self._next_start, probe + 1 / rate.value)
        self._burst = moment
        self._after_lowering(probe - CLOCK_TOLERANCE)
        self._test.skip(start.number)
        if not self._share.is_known:
            self._share.restart(probe, self._started)

    def _estimate_after_hold(self, hold: Hold, accepted: Moment) -> None:
        """Lower the rate to between what was accepted until a single request was accepted, and the most it can be."""
        rate, empty = self._rate, hold.last_refused
        most = (max(0, empty.accepted - hold.origin.accepted) + 1) / max(empty.time - hold.origin.time, 0.01)
        most = min(most, rate.value)
        count = accepted.accepted - self._burst.accepted
        least = max(count, 1) / max(accepted.time - self._burst.time, 0.01)
        is_cycle = self._burst.accepted > 0 and count >= SPAN_REQUESTS
        value = min(least if is_cycle else math.sqrt(least * most), rate.value)
        recent = max(hold.recent, rate.level if rate.is_known else 0)
        if is_cycle and recent > UNKNOWN_FACTOR * value:
            value, is_cycle = math.sqrt(value * recent), False
        rate.is_certain = is_cycle
        is_unknown = recent > MAX_SURPLUS * value
        rate.lower(math.inf if is_unknown else value, value * (1 - MARGIN))
        self._origins.append(Moment(empty.time, min(empty.accepted, accepted.accepted)))
