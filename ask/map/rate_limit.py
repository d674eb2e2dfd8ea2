"""How many requests a job sends at the same time, and how fast: fixed by the user, or adapted to the service.

Both limits double until the service refuses requests, and again when it has refused none for long. A refusal lowers
them to what the service accepts; from there they return to that level quickly, stay near it, and then exceed it faster
and faster (as CUBIC does, the congestion control of TCP).

Overloaded services refuse some requests at any rate. If the share of refusals does not depend on the rate at which the
requests were sent, they are tolerated, and only further refusals lower the limits. The shares are compared between
rounds of requests.

If many requests in a row are refused, what the service allows is used up: a bucket is empty, or all requests of this
minute have been sent. Requests are then held back, and single ones at growing intervals show when the service accepts
them again. How many it accepted from one hold to the next, and for how long it refused them, shows what it allows. As
many are sent in the next window, as fast as in the first; a single one then shows whether it accepts more by now.

During a hold, only accepted requests are still running. If a single one is refused, and another is accepted once one of
these has ended, the service limits how many run at the same time, and their number is this limit.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ask.map.quotas import Quotas

START_CONCURRENCY, MAX_CONCURRENCY = 32, 1000
"""How many requests run at the same time. Each takes a thread, and about 0.1 MB."""
START_RATE, MIN_RATE = 10.0, 0.1
"""Requests per second."""
RATE_DOUBLING, CONCURRENCY_DOUBLING = 0.4, 0.8
"""The seconds in which an unknown limit doubles."""
STEP_SECONDS = 0.1
"""The interval at which the limits grow."""
MARGIN = 0.05
"""How far a limit falls below what the service accepts."""
PERIOD_SECONDS, PERIOD_REQUESTS, PERIOD_REFUSALS = 1.75, 60, 20
"""The time until a limit is at that level again: so many seconds and requests, and the time of so many refusals."""
RANDOM_PERIODS = 4
"""How many times longer it is if some requests are refused at any rate."""
PROBE_SECONDS = 0.7
"""The same time for the number of concurrent requests. It doubles if the service still does not accept more."""
QUIET_PERIODS = 2.5
"""After so many of these times without a refusal, a limit is unknown."""
START_SHARE = 0.34
"""Until a limit is known, refusals have no effect if less than this part of the requests that are not refused at any
rate is refused."""
START_REFUSALS, START_REFUSAL_SECONDS, MAX_START_REFUSALS, START_REFUSAL_FACTOR = 2, 0.02, 20, 5
"""How many refusals beyond that part end the search for the rate: so many, and those of so many seconds. If some are
refused at any rate, their share times the factor is added."""
KNOWN_SHARE, KNOWN_REFUSAL_SECONDS = 0.01, 0.01
"""The tolerated part of the requests once the rate is known, and the seconds whose refusals beyond it lower it."""
EXCESS_SHARE, EXCESS_FACTOR, EXCESS_REFUSALS, EXCESS_REFUSAL_FACTOR = 0.015, 1.25, 3.5, 55
"""The same when a share of random refusals is known: the tolerated part and number are linear in this share."""
START_PRIOR, PRIOR, RANDOM_PRIOR = 1, 8, 20
"""How many accepted requests are added to those that refusals are compared with: before the rate is known, then, and
if some are refused at any rate."""
FLOOR, START_FLOOR = 0.9, 0.57
"""The least to which the rate falls, as a part of what was accepted in the last second; the same before it is known."""
ROUND_REQUESTS, ROUND_REFUSALS, ROUND_SECONDS, ROUNDS = 50, 10, 0.3, 4
"""A round has at least so many requests or refusals, and so many seconds. So many rounds are compared."""
ROUND_FLOOR = 0.75
"""The least to which the rate falls in a round in which a request was accepted, as a part of the rate at its begin."""
SLOW_ROUND, FAST_ROUND = 0.85, 4
"""One of the rounds is sent at the first part of the rate if some requests are refused at any rate. If a low rate falls
further, a round at a multiple of it shows sooner whether the share of refusals depends on the rate."""
MIN_RANDOM_SHARE, HIGH_SHARE, MAX_RANDOM_SHARE = 0.04, 0.25, 0.8
"""The least and the greatest share of random refusals. A high share is not believed before it was compared."""
EXTRAPOLATION, SHARE_WEIGHT = 0.75, 8
"""How much of the difference between slow and other rounds is subtracted from the share in slow ones, which the limit
may raise, too; and how many of them the known share outweighs, half as many if their share is far lower."""
STEADY_SHARE = 0.6
"""Few refusals are random if their share does not fall below this part of its mean in the rounds."""
MISFIT = 5
"""Many are if a constant share differs from the rounds by less than that (chi-square), and a limit by so much more."""
BLOCKED_SECONDS = 2.0
"""If the service has accepted nothing for so long, the rate is unknown, and `Retry-After` applies to all requests."""
MAX_ROW_SECONDS = 100.0
"""No more requests are sent at the same time than are answered in so many seconds: others would wait in a queue."""
MAX_REFUSAL_SECONDS = 1.0
"""Refusals take no longer, unless earlier requests of the same row took the time."""
CLOCK_TOLERANCE = 0.002
"""The difference in seconds between the times at which the caller and its thread start a request."""
HOLD_REFUSALS, COINCIDENCE, PRIOR_REFUSALS = 6, 1e-7, 0.1
"""So many refusals in a row begin a hold; more if, with the share of refusals before, they had more than this
probability. So many refusals are added to that share."""
STREAK_SHARE = 0.75
"""The least part of requests in a row that must be refused: those that were sent at the same time have no order."""
HOLD_SECONDS, HOLD_FACTOR, MAX_HOLD_SECONDS = 0.15, 2, 15
"""The time until the first single request of a hold, the factor for the next ones, and the longest such time."""
PROBE_SECONDS_MIN, PROBE_REFUSAL_FACTOR = 0.1, 3
"""A single request is accepted if it is not refused in so many seconds, or so many times the time of a refusal."""
RENEWAL_TOLERANCE = 1.5
"""`Retry-After` is believed if the time that it names is the same for two refusals, but for so many seconds."""
WINDOW_SECONDS, WINDOW_REQUESTS = 2.0, 20
"""A service that refuses for so long after so many requests counts them in windows, not at a rate."""
RAMP_FACTOR, LEVEL_FACTOR = 1.25, 1.2
"""The rate after the first hold, as a multiple of what was accepted while the rate rose; and the most to which it
returns, as a multiple of what was accepted from the last hold to this one."""
MINUTE, MINUTE_TOLERANCE = 60.0, 1.5
"""The most common window, and how much later it may end. Without `Retry-After`, a single request is sent then."""
FULL_SHARE = 0.8
"""If a single request is refused while at least this part of the concurrent requests is running, and the next one is
accepted as soon as another has ended, the number of concurrent requests is limited, not the rate."""
MAX_PAUSE_SECONDS = 60.0
"""The longest time until the next single request in a hold if `Retry-After` asks for it."""
DEFAULT_TOKENS = 1000
"""Tokens that a request is assumed to use until the first has been answered."""


class Start(NamedTuple):
    """When a request was sent, its number, and how many were in flight then."""

    time: float
    number: int
    in_flight: int


class Round(NamedTuple):
    """How many requests were sent and refused in so many seconds."""

    sent: int
    refused: int
    seconds: float

    @property
    def share(self) -> float:
        return self.refused / self.sent


@dataclass
class Epoch:
    """The requests sent since the limits were last lowered.

    Attributes:
        begin: when they were lowered.
        first: the number of requests sent before.
        origin: the number of requests sent before those whose refusals are counted.
        refused: how many of these were refused.
        earlier: how many were refused before these.
        excess: how many more were refused than are tolerated.
        start: the first of these.
        rate: the rate at the end.
        is_known: whether it was known then what rate the service accepts.
    """

    begin: float
    first: int
    origin: int
    refused: int = 0
    earlier: int = 0
    excess: float = 0.0
    start: Start | None = None
    rate: float = 0.0
    is_known: bool = False


@dataclass
class Hold:
    """A time in which only single requests are sent, because the service has refused several in a row.

    Attributes:
        begin: when it began.
        next_probe: when the next single request is sent.
        renewal: when the service accepts requests again, according to `Retry-After`.
        full: how many requests were running when a single one was first refused; inf before, 0 if they are no reason.
        interval: the seconds to wait after the next refusal.
        last_interval: the seconds between the last two single requests.
        probe: when the last single request was sent; None if it was refused.
    """

    begin: float
    next_probe: float
    renewal: float
    full: float = math.inf
    interval: float = HOLD_SECONDS * HOLD_FACTOR
    last_interval: float = 0.0
    probe: float | None = None


@dataclass
class Burst:
    """The requests sent since the last hold: how many were sent before them, and how many of them were refused."""

    begin: float = math.inf
    first: int = 0
    refused: int = 0


class Limit:
    """A limit that follows what a service accepts.

    Attributes:
        accepted: what the service accepts; inf if unknown.
        age: for how many seconds the limit has held back requests since it was lowered.
        is_reached: whether it has held back a request since it last grew.
        is_refuted: whether the service has accepted more for a while, so that its refusals have another reason.
    """

    def __init__(self, value: float, maximum: float, doubling_seconds: float) -> None:
        self.value = self._lowest = value
        self.accepted, self.age, self.is_reached, self.is_refuted = math.inf, 0.0, False, False
        self._maximum, self._doubling_seconds = maximum, doubling_seconds

    @property
    def is_known(self) -> bool:
        return self.accepted < math.inf

    def lower(self, accepted: float, value: float) -> None:
        self.accepted, self.age = accepted, 0.0
        self.value = self._lowest = value

    def grow(self, seconds: float, period: float) -> None:
        """Grow for some seconds, if requests were held back; after a period, the limit is what the service accepts."""
        if not self.is_reached:
            return
        self.is_reached = False
        self.age += seconds
        if self.age > QUIET_PERIODS * period:
            self.is_refuted = self.is_refuted or self.is_known
            self.accepted = math.inf
        if self.is_known:
            distance = self.age / period - 1
            range_ = self.accepted * MARGIN if distance > 0 else self.accepted - self._lowest
            value = self.accepted + range_ * distance**3
        else:
            value = self.value * 2.0 ** (seconds / self._doubling_seconds)
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
        start_concurrency = float(concurrency or min(START_CONCURRENCY, max_concurrency))
        self._start_concurrency = start_concurrency
        self._concurrency = Limit(start_concurrency, max_concurrency, CONCURRENCY_DOUBLING)
        self._rate = Limit(START_RATE if self._is_adaptive else math.inf, math.inf, RATE_DOUBLING)
        self._requests_per_minute = requests_per_minute or math.inf
        self._tokens_per_minute = tokens_per_minute or math.inf
        self._quotas = Quotas()
        self._next_start = self._last_acceptance = -math.inf
        self._first_start = self._last_step = math.inf
        self._rate_known_since = self._concurrency_lowered = -math.inf
        self._starts: deque[Start] = deque()
        self._refusals: deque[float] = deque()
        self._in_flight = self._started = self._answered = 0
        self._epoch = self._earlier_epoch = Epoch(-math.inf, 0, 0)
        self._round_begin, self._round_first, self._round_refused, self._round_count = 0.0, 0, 0, 0
        self._round_rate = 0.0
        self._is_fast_round = False
        self._rounds: deque[Round] = deque(maxlen=ROUNDS)
        self._random_share = self._refusal_seconds = 0.0
        self._probe_seconds = PROBE_SECONDS
        self._total_tokens = self._token_count = 0
        self._hold: Hold | None = None
        self._streak_first = self._streak = 0
        self._burst = Burst()
        self._window_seconds, self._window_requests = 0.0, math.inf

    @property
    def concurrency(self) -> int:
        """The current limit of concurrent requests."""
        return int(self._concurrency.value)

    @property
    def _mean_tokens(self) -> float:
        """The mean of the tokens that a request uses."""
        return max(self._total_tokens / self._token_count, 1) if self._token_count else DEFAULT_TOKENS

    @property
    def _period(self) -> float:
        requests = PERIOD_REQUESTS * (RANDOM_PERIODS if self._random_share else 1)
        rate = self._rate.accepted if self._rate.is_known else self._rate.value
        return max(PERIOD_SECONDS, PERIOD_REFUSALS * self._refusal_seconds, requests / rate)

    @property
    def _is_slow_round(self) -> bool:
        return self._random_share > 0 and self._rate.is_known and self._round_count % ROUNDS == 0

    @property
    def _tolerance(self) -> tuple[float, float]:
        """The part of the requests whose refusal is tolerated, and how many further refusals lower the limits."""
        share, rate = self._random_share, self._rate
        if not rate.is_known and (share or not self._concurrency.is_known):
            refusals = START_REFUSALS + min(START_REFUSAL_SECONDS * rate.value, MAX_START_REFUSALS)
            return 1 - (1 - START_SHARE) * (1 - share), refusals + START_REFUSAL_FACTOR * share
        if not share:
            return KNOWN_SHARE, max(1, KNOWN_REFUSAL_SECONDS * rate.value)
        return EXCESS_SHARE + EXCESS_FACTOR * share, EXCESS_REFUSALS + EXCESS_REFUSAL_FACTOR * share

    @property
    def _floor(self) -> float:
        """The least rate in this round."""
        has_accepted = self._started - self._round_first > self._round_refused
        return min(ROUND_FLOOR * self._round_rate, self._rate.value) if has_accepted else 0.0

    def get_delay(self, now: float, in_flight: int) -> float | None:
        """Return the seconds until the next request may be sent; None if one must finish before."""
        if self._is_adaptive and now - self._last_step >= STEP_SECONDS:
            self._grow(now)
        is_held = self._is_adaptive and self._hold
        if in_flight >= self.concurrency * (FAST_ROUND if self._is_fast_round else 1) and not is_held:
            self._concurrency.is_reached = True
            return None
        delay = max(0.0, self._next_start - now)
        if self._hold:
            return max(delay, self._continue_hold(now, self._hold))
        self._rate.is_reached = self._rate.is_reached or delay > 0
        return delay

    def start(self, now: float) -> None:
        """Note that a request is sent."""
        rate = self._get_rate(now)
        # Time without requests does not accumulate, apart from the imprecision of the caller's waiting.
        self._next_start = max(self._next_start, now - 0.05) + (1 / rate if rate < math.inf else 0.0)
        if not self._started:
            self._first_start = self._last_step = self._burst.begin = now
        if self._hold:
            self._hold.probe = now
        self._started += 1
        self._starts.append(Start(now, self._started, self._in_flight))
        while self._starts[0].time < now - MAX_REFUSAL_SECONDS:
            self._starts.popleft()
        self._in_flight += 1
        if not self._hold and self._started - self._burst.first - self._burst.refused >= self._window_requests:
            self._begin_hold(now, None)
        self._epoch.excess = max(0.0, self._epoch.excess - self._tolerance[0])
        sent = self._started - self._round_first
        is_complete = sent >= ROUND_REQUESTS or sent > self._round_refused >= ROUND_REFUSALS
        if is_complete and now - self._round_begin >= ROUND_SECONDS:
            self._end_round(now)

    def finish(
        self,
        now: float,
        *,
        latency: float,
        is_refused: bool,
        headers: Mapping[str, str],
        tokens: int | None,
        wait: float | None = None,
    ) -> None:
        """Note the response to a request, its time in seconds, and the tokens it used.

        `is_refused` if the service refused the request for sending too many; it may ask to `wait` so many seconds.
        """
        self._in_flight -= 1
        if tokens is not None:
            self._total_tokens += tokens
            self._token_count += 1
        self._quotas.read(now, headers, self._mean_tokens)
        if is_refused:
            self._handle_refusal(now, min(latency, MAX_REFUSAL_SECONDS), wait)
            return
        self._answered += 1
        self._last_acceptance = now
        if not self._rate.is_known and self._rate.value < START_RATE:
            self._rate.value = START_RATE
            self._next_start = min(self._next_start, now)

    @property
    def _hold_refusals(self) -> int:
        """How many refusals in a row begin a hold."""
        sent, refused = self._streak_first - self._burst.first, self._burst.refused - self._streak
        share = max(self._random_share, (refused + PRIOR_REFUSALS) / (sent + 1))
        return max(HOLD_REFUSALS, math.ceil(math.log(COINCIDENCE) / math.log(min(share, 0.9))))

    def _begin_hold(self, now: float, wait: float | None) -> None:
        self._hold = Hold(now, now + HOLD_SECONDS, now + (wait or 0.0))

    def _continue_hold(self, now: float, hold: Hold) -> float:
        """Return the seconds until the next request; end the hold if the last one was accepted."""
        if hold.probe is None:
            return 0.0 if self._in_flight < hold.full < math.inf else max(0.0, hold.next_probe - now)
        answered = hold.probe + max(PROBE_SECONDS_MIN, PROBE_REFUSAL_FACTOR * self._refusal_seconds)
        if now < answered:
            return answered - now
        self._end_hold(hold, hold.probe)
        return 0.0

    def _extend_hold(self, now: float, hold: Hold, wait: float | None) -> None:
        """Choose when to send the next single request, after one was refused."""
        seconds, interval = now - hold.begin, hold.interval
        if wait and seconds > BLOCKED_SECONDS:
            if abs(now + wait - hold.renewal) < RENEWAL_TOLERANCE:
                interval = min(wait, MAX_PAUSE_SECONDS)
            else:
                interval, hold.renewal = max(interval, min(wait, seconds)), now + wait
        # A service with sliding windows accepts the next request sooner than the whole quota.
        expected = min(self._burst.begin + self._window_seconds, now + (wait or math.inf))
        next_probe, minute = max(now + interval, expected), self._burst.begin + MINUTE + MINUTE_TOLERANCE
        next_probe = minute if not wait and now < minute < next_probe else next_probe
        hold.probe, hold.next_probe, hold.last_interval = None, next_probe, interval
        hold.interval = min(hold.interval * HOLD_FACTOR, MAX_HOLD_SECONDS)

    def _compare_in_flight(self, hold: Hold, in_flight: int) -> None:
        """Lower the number of concurrent requests to those that were accepted before a refused single request."""
        limit = self._concurrency
        if hold.full < math.inf:
            hold.full = hold.full if in_flight >= hold.full else 0
        elif self._is_adaptive and not self._window_seconds and in_flight >= FULL_SHARE * limit.value:
            hold.full = max(1, in_flight)
            if hold.full < limit.value:
                limit.lower(hold.full, hold.full)
        else:
            hold.full = 0

    def _end_hold(self, hold: Hold, accepted: float) -> None:
        """Continue after a hold, of which the last single request was sent at the time `accepted`."""
        self._hold, self._last_acceptance = None, accepted
        burst, number = self._burst, self._find_start(accepted).number - 1
        count, seconds = number - burst.first - burst.refused, max(accepted - burst.begin, 0.01)
        in_flight, limit = self._find_start(accepted + CLOCK_TOLERANCE / 4).in_flight, self._concurrency
        is_full = in_flight < hold.full < math.inf
        if self._is_adaptive and in_flight >= limit.accepted:
            limit.accepted, limit.is_refuted = math.inf, True
        is_window = not is_full and accepted - hold.begin >= WINDOW_SECONDS and count >= WINDOW_REQUESTS
        if count > 0 and not is_window:
            value, level = self._estimate_from_burst(accepted, count, seconds)
        else:
            value, level = START_RATE, math.inf
        is_slower = value < self._rate.value and (is_window or count < self._window_requests)
        if self._is_adaptive and is_slower and not is_full:
            self._rate.lower(level, value * (1 - MARGIN))
            self._next_start = max(self._next_start, accepted + 1 / value)
        self._window_seconds, self._window_requests = 0.0, math.inf
        if is_window:
            limit.value = min(limit.value, self._start_concurrency)
            least = seconds - hold.last_interval
            self._window_seconds, self._window_requests = MINUTE if least < MINUTE <= seconds else least, count
        self._epoch = Epoch(accepted, number, number)
        self._burst = Burst(accepted, number)
        self._streak_first, self._streak = self._started, 0
        self._rounds.clear()
        self._start_round(accepted)
        self._round_rate = 0.0  # the rate may fall far in this round, because it is only an estimate

    def _estimate_from_burst(self, now: float, count: int, seconds: float) -> tuple[float, float]:
        """Return the rate after a hold, and the one to return to, if so many requests were accepted in so long."""
        factor = 1.0 if self._burst.first else RAMP_FACTOR
        value = min(self._rate.value, factor * count / seconds / (1 - self._random_share))
        begin = max(now - 1, self._burst.begin)
        possible = (count + math.sqrt(count) + 0.5) / seconds / (1 - self._random_share)
        recent_rate = self._count_accepted(begin) / max(now - begin, 0.01)
        return value, max(min(self._rate.value, possible), min(recent_rate, LEVEL_FACTOR * value))

    def _count_accepted(self, begin: float) -> int:
        """Return how many requests since then were not refused; `begin` is at most `MAX_REFUSAL_SECONDS` ago."""
        return sum(start.time > begin for start in self._starts) - sum(time > begin for time in self._refusals)

    def _count_consecutive_refusals(self, sent: float) -> int:
        """Return how many requests were refused in a row, of which the last was sent at a time."""
        earlier = self._find_start(sent - CLOCK_TOLERANCE).number
        if earlier - self._streak_first > self._streak:  # one in between was not refused
            self._streak_first, self._streak = earlier, 0
        self._streak += 1
        sent_since = self._find_start(sent + CLOCK_TOLERANCE / 4).number - self._streak_first
        return self._streak if self._streak >= STREAK_SHARE * sent_since else 0

    def _get_rate(self, now: float) -> float:
        """Return the requests per second that all limits allow."""
        factor = FAST_ROUND if self._is_fast_round else SLOW_ROUND if self._is_slow_round else 1
        rate = self._rate.value * factor
        token_rate = self._tokens_per_minute / 60 / self._mean_tokens
        return min(rate, self._quotas.get_rate(now), self._requests_per_minute / 60, token_rate)

    def _grow(self, now: float) -> None:
        """Raise the limits that held requests back."""
        seconds, self._last_step = min(now - self._last_step, 5 * STEP_SECONDS), now
        if self._started > self._epoch.first:
            self._rate.grow(seconds, self._period)
        queue_limit = MAX_ROW_SECONDS * self._answered / (now - self._first_start)
        if not self._answered or self._concurrency.value < queue_limit:
            self._concurrency.grow(seconds, self._probe_seconds)

    def _end_round(self, now: float) -> None:
        """Measure the share of refusals, and find out whether they are random."""
        last = Round(self._started - self._round_first, self._round_refused, now - self._round_begin)
        if self._is_slow_round:
            self._adjust_random_share(last)
            if self._random_share < MIN_RANDOM_SHARE / 4:
                self._random_share = 0.0
                self._rounds.clear()
        self._rounds.append(last)
        is_doubtful = self._rate.value < START_RATE / 2 and HIGH_SHARE <= last.share <= MAX_RANDOM_SHARE
        is_next_fast = is_doubtful and self._rate.is_known and not (self._random_share or self._is_fast_round)
        if self._rate.is_known and (share := self._find_random_share()):
            self._random_share, is_next_fast = share, False
            self._rate.lower(math.inf, self._rate.value)
            self._concurrency.lower(math.inf, self._concurrency.value)
            self._rounds.clear()
        self._start_round(now)
        if is_next_fast:
            self._is_fast_round, self._next_start = True, now

    def _adjust_random_share(self, slow: Round) -> None:
        """Adjust the share to a slow round: the more it differs from the others, the fewer refusals are random."""
        if self._rounds:
            others = sum(each.refused for each in self._rounds) / sum(each.sent for each in self._rounds)
            share = slow.share - EXTRAPOLATION * (others - slow.share)
            weight = SHARE_WEIGHT / 2 if share < self._random_share / 2 else SHARE_WEIGHT
            self._random_share += (share - self._random_share) / weight

    def _start_round(self, now: float) -> None:
        self._round_begin, self._round_first, self._round_refused = now, self._started, 0
        self._round_rate, self._is_fast_round = self._rate.value, False
        self._round_count += 1

    def _find_random_share(self) -> float:
        """Return the share of refusals in the rounds if it does not depend on their rates, otherwise 0."""
        rounds, known = self._rounds, self._random_share
        if len(rounds) < 2 or not all(each.refused for each in rounds):
            return 0.0
        sent, refused = sum(each.sent for each in rounds), sum(each.refused for each in rounds)
        share, rate = refused / sent, (sent - refused) / sum(each.seconds for each in rounds)
        if not (MIN_RANDOM_SHARE <= share <= MAX_RANDOM_SHARE):
            return 0.0
        if share <= START_SHARE and known < share / 5:
            least = min(each.share for each in rounds) if known else rounds[-1].share
            return share if len(rounds) == ROUNDS and least >= STEADY_SHARE * share else 0.0
        # A limit accepts the same number each second, whatever is sent.
        limited = [max(known * each.sent, each.sent - rate * each.seconds) for each in rounds]
        misfit = _calculate_misfit(rounds, [share * each.sent for each in rounds])
        is_random = misfit < min(MISFIT, _calculate_misfit(rounds, limited) - MISFIT)
        return share if is_random and (not known or share > 1 - (1 - START_SHARE) * (1 - known)) else 0.0

    def _handle_refusal(self, now: float, latency: float, wait: float | None) -> None:
        sent, epoch, limit = now - latency, self._epoch, self._concurrency
        self._refusal_seconds += (latency - self._refusal_seconds) / 8
        self._round_refused += sent > self._round_begin
        self._refusals.append(now)
        while self._refusals[0] < now - MAX_REFUSAL_SECONDS:
            self._refusals.popleft()
        start = self._find_start(sent)
        self._burst.refused += start.number > self._burst.first
        if hold := self._hold:
            if hold.probe is not None and sent >= hold.probe - CLOCK_TOLERANCE:
                self._extend_hold(now, hold, wait)
                self._compare_in_flight(hold, self._find_start(sent + CLOCK_TOLERANCE / 4).in_flight)
            return
        if self._count_consecutive_refusals(sent) >= self._hold_refusals:
            self._begin_hold(now, wait)
        if not self._is_adaptive or (self._is_fast_round and sent >= self._round_begin):
            return
        if sent <= epoch.begin:
            if sent > self._earlier_epoch.begin:
                self._correct(now, self._find_start(sent + CLOCK_TOLERANCE).number)
        elif limit.is_known and not self._random_share and start.in_flight >= limit.accepted:
            if sent > self._concurrency_lowered:
                self._lower_concurrency(now, start.in_flight)
        else:
            self._count_refusal(now, start)

    def _count_refusal(self, now: float, start: Start) -> None:
        """Count the refusal of a request, and lower the limits if there are too many."""
        epoch = self._epoch
        if not epoch.excess:
            epoch.start = start
            if not self._rate.is_known:
                epoch.origin = self._find_start(start.time - CLOCK_TOLERANCE).number
                epoch.earlier, epoch.refused = epoch.earlier + epoch.refused, 0
        epoch.refused += 1
        epoch.excess += 1
        if epoch.excess >= self._tolerance[1]:
            self._lower(now, self._find_start(start.time + CLOCK_TOLERANCE).number)

    def _find_start(self, sent: float) -> Start:
        """Return the last request sent until then."""
        earlier = (start for start in reversed(self._starts) if start.time <= sent)
        return next(earlier, Start(sent, self._started - len(self._starts), self._in_flight))

    def _estimate(self, epoch: Epoch, number: int) -> float:
        """Return the rate that the service accepts, to judge by the requests of an epoch up to that number."""
        started, share = max(number - epoch.origin, epoch.refused), self._random_share
        prior = START_PRIOR if not epoch.is_known else RANDOM_PRIOR if share else PRIOR
        excess = (epoch.refused - share * started) / (started + prior) / (1 - share)
        return epoch.rate * (1 - max(0.0, excess))

    def _correct(self, now: float, number: int) -> None:
        """Lower the rate further after a late refusal of the request with that number."""
        self._earlier_epoch.refused += 1
        accepted = self._estimate(self._earlier_epoch, min(number, self._epoch.first))
        value = max(accepted * (1 - MARGIN), self._floor, MIN_RATE)
        if self._rate.is_known and value < self._rate.value:
            age = self._rate.age
            self._rate.lower(self._rate.accepted, value)
            self._rate.age = age
            self._next_start = max(self._next_start, now + 1 / value)

    def _lower(self, now: float, number: int) -> None:
        """Lower the limits after the refusal of the request with that number."""
        epoch, rate, limit = self._epoch, self._rate, self._concurrency
        epoch.rate, epoch.is_known = rate.value, rate.is_known
        if number - epoch.origin > epoch.refused:
            self._last_acceptance = now
        before = epoch.origin - epoch.first
        is_believed = HIGH_SHARE * before >= epoch.earlier >= MIN_RANDOM_SHARE / 2 * max(before, 40)
        if is_believed and not (rate.is_known or self._random_share):
            self._random_share = epoch.earlier / before
        level, value = self._choose_levels(now, self._estimate(epoch, number))
        if not epoch.is_known:
            self._rate_known_since = now
            self._rounds.clear()
            self._start_round(now)
            self._round_rate = value
        is_blocked = now - self._last_acceptance > BLOCKED_SECONDS
        rate.lower(math.inf if is_blocked else level, max(value * (1 - MARGIN), MIN_RATE))
        self._next_start = max(self._next_start, now + 1 / rate.value)
        self._earlier_epoch, self._epoch, self._last_step = epoch, Epoch(now, self._started, self._started), now
        if epoch.start and not limit.is_refuted and (not limit.is_known or epoch.start.in_flight >= limit.accepted):
            self._lower_concurrency(now, epoch.start.in_flight)

    def _choose_levels(self, now: float, accepted: float) -> tuple[float, float]:
        """Return the rate to return to, and the one to continue with, from an estimate."""
        rate = self._rate
        recent = self._count_accepted(max(now - 1, self._rate_known_since))
        if not rate.is_known:
            level = max(accepted, min(recent, rate.value))
            return level, max(accepted, START_FLOOR * level)
        value = max(accepted, min(FLOOR * (recent - 1), rate.value), self._floor)
        return max(value, min(self._count_accepted(now - 1), rate.accepted)), value

    def _lower_concurrency(self, now: float, in_flight: int) -> None:
        """Lower the number of concurrent requests after a refusal while so many were in flight."""
        limit = self._concurrency
        if limit.is_known and in_flight <= 1 + 1.1 * limit.accepted:
            seconds = PERIOD_REQUESTS * (now - self._first_start) / max(self._answered, 1)
            self._probe_seconds = min(2 * self._probe_seconds, max(2 * self._period, seconds))
        else:
            self._probe_seconds = max(PROBE_SECONDS, PERIOD_REFUSALS * self._refusal_seconds)
        accepted = max(1.0, min(in_flight, limit.accepted))
        limit.lower(accepted, accepted)
        self._concurrency_lowered = now


def _calculate_misfit(rounds: Collection[Round], expected: Iterable[float]) -> float:
    """Compare the refusals in rounds with the expected numbers (chi-square)."""
    share = sum(each.refused for each in rounds) / sum(each.sent for each in rounds)
    squares = ((each.refused - number) ** 2 / each.sent for each, number in zip(rounds, expected, strict=True))
    return sum(squares) / (share * (1 - share))
