"""Services with rate limits, in virtual time or behind a real server, and the scenarios for the rate limiter."""

from __future__ import annotations

import heapq
import itertools
import math
import random
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ask.map.rate_limit import MAX_CONCURRENCY, RateLimiter

STEP_SECONDS = 0.0025
"""The precision of what a service allows."""
POLL_SECONDS = 0.25
"""The longest time after which a job asks again whether it may send a request."""
Decision = Literal["accepted", "limited", "overloaded"]


class Response(NamedTuple):
    """The decision about a request, the seconds until its response, and the response's headers."""

    decision: Decision
    seconds: float
    headers: Mapping[str, str] = {}


@dataclass
class Service:
    """A service with limits. Times are in seconds, from the first request.

    Attributes:
        rate: the requests per second that it allows.
        latency: the time of an answer; `spread` is the standard deviation of its logarithm.
        refusal_latency: the time of a refusal.
        burst: how many seconds of the rate may be used at once. The bucket is full at first, or to the part `initial`.
        window: the length of the windows in which requests are counted, instead of a bucket; `slides` if each request
            has its own.
        concurrency: how many requests it answers at the same time.
        overload: the part of the requests that it refuses at any rate, until `overloaded_until`.
        retry_after: what it says in Retry-After: the seconds, "renewal" for the time until it accepts the next request,
            None for no such header.
        has_headers: whether it sends the headers of OpenAI.
        changes: times, and the rates from then on.
        used_until: until when another program uses all of it.
        other_rate: the requests per second, at random times, of another program that shares the limit. They are all
            accepted.
    """

    rate: float = math.inf
    latency: float = 0.3
    spread: float = 0.0
    refusal_latency: float = 0.03
    burst: float = 1.0
    initial: float = 1.0
    window: float = 0.0
    slides: bool = False
    concurrency: float = math.inf
    overload: float = 0.0
    overloaded_until: float = math.inf
    retry_after: float | Literal["renewal"] | None = None
    has_headers: bool = False
    changes: tuple[tuple[float, float], ...] = ()
    used_until: float = 0.0
    other_rate: float = 0.0
    seed: int = 0
    in_flight: int = 0
    _tokens: float = math.nan
    _time: float = 0.0
    _next_other: float = 0.0
    _recent: deque[float] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def copy(self) -> Service:
        """Return the service as it is before the first request."""
        return replace(self, _recent=deque(), _lock=threading.Lock())

    def receive(self, now: float) -> Response:
        """Decide about a request; `finish` must be called when an accepted one is answered."""
        with self._lock:
            decision = self._decide(now)
            self.in_flight += decision == "accepted"
            sigma = self.spread
            factor = self._random.lognormvariate(-(sigma**2) / 2, sigma) if sigma else 1.0
            seconds = self.latency * factor if decision == "accepted" else self.refusal_latency
            return Response(decision, seconds, self._make_headers(now, decision))

    def finish(self) -> None:
        with self._lock:
            self.in_flight -= 1

    def is_limited(self, now: float) -> bool:
        """Check whether a request would exceed a limit."""
        if now < self.used_until or self.in_flight >= self.concurrency:
            return True
        rate = self._get_rate(now)
        if self.window:
            start = now - self.window if self.slides else now // self.window * self.window
            while self._recent and self._recent[0] < start:
                self._recent.popleft()
            return len(self._recent) >= rate * self.window
        if rate < math.inf:
            self._refill(now, rate)
        return rate < math.inf and self._tokens < 1

    def _get_rate(self, now: float) -> float:
        return next((rate for time, rate in reversed(self.changes) if now >= time), self.rate)

    def _refill(self, now: float, rate: float) -> None:
        size = max(rate * self.burst, 1.0)
        if math.isnan(self._tokens):
            self._tokens = size * self.initial
        while self.other_rate and self._next_other <= now:
            self._add(size, rate, self._next_other)
            self._tokens -= 1
            self._next_other += self._random.expovariate(self.other_rate)
        self._add(size, rate, now)

    def _add(self, size: float, rate: float, now: float) -> None:
        """Add the tokens for the time until now."""
        self._tokens, self._time = min(size, self._tokens + (now - self._time) * rate), now

    def _decide(self, now: float) -> Decision:
        if now < self.overloaded_until and self._random.random() < self.overload:
            return "overloaded"
        if self.is_limited(now):
            return "limited"
        if self.window:
            self._recent.append(now)
        else:
            self._tokens -= 1
        return "accepted"

    def _make_headers(self, now: float, decision: Decision) -> dict[str, str]:
        headers, rate = {}, self._get_rate(now)
        if decision == "limited" and self.retry_after == "renewal":
            first = self._recent[0] if self.slides and self._recent else now // self.window * self.window
            headers["retry-after"] = str(math.ceil(first + self.window - now))
        elif decision == "limited" and self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.has_headers:
            size = rate * self.burst
            headers["x-ratelimit-limit-requests"] = str(int(size))
            headers["x-ratelimit-remaining-requests"] = str(int(self._tokens))
            headers["x-ratelimit-reset-requests"] = f"{(size - self._tokens) / rate:.3f}s"
        return headers


class Sent(NamedTuple):
    """When a request was sent, and what the service decided."""

    time: float
    decision: Decision


def simulate(limiter: RateLimiter, service: Service, seconds: float, *, hides_overload: bool = False) -> list[Sent]:
    """Send as many requests as the limiter allows, in virtual time.

    With `hides_overload`, the service has one status for requests that exceed a limit and those that it refuses because
    it is overloaded.
    """
    service = service.copy()
    now, in_flight, numbers = 0.0, 0, itertools.count()
    sent: list[Sent] = []
    responses: list[tuple[float, int, Response]] = []
    while now < seconds:
        delay = limiter.get_delay(now, in_flight)
        if delay == 0:
            limiter.start(now)
            in_flight += 1
            response = service.receive(now)
            sent.append(Sent(now, response.decision))
            heapq.heappush(responses, (now + response.seconds, next(numbers), response))
        elif responses and responses[0][0] <= now + (POLL_SECONDS if delay is None else delay):
            now, _, response = heapq.heappop(responses)
            in_flight -= 1
            is_refused = response.decision != "accepted"
            if not is_refused:
                service.finish()
            wait = response.headers.get("retry-after")
            limiter.finish(
                now,
                latency=response.seconds,
                is_refused=is_refused,
                is_overload=response.decision == "overloaded" and not hides_overload,
                headers=response.headers,
                tokens=100,
                wait=None if wait is None else float(wait),
            )
        else:
            now += POLL_SECONDS if delay is None else max(delay, 0.0005)
    return sent


def simulate_ideal(service: Service, seconds: float) -> list[Sent]:
    """Send each request as soon as no limit refuses it: what a client can attain that knows the limits."""
    service = service.copy()
    sent: list[Sent] = []
    responses: list[tuple[float, Decision]] = []
    for step in range(round(seconds / STEP_SECONDS)):
        now = step * STEP_SECONDS
        while responses and responses[0][0] <= now:
            if heapq.heappop(responses)[1] == "accepted":
                service.finish()
        while len(responses) < MAX_CONCURRENCY and not service.is_limited(now):
            response = service.receive(now)
            sent.append(Sent(now, response.decision))
            heapq.heappush(responses, (now + response.seconds, response.decision))
    return sent


def count_accepted(sent: list[Sent], start: float, end: float) -> int:
    return sum(each.decision == "accepted" and start <= each.time < end for each in sent)


SCENARIOS: Mapping[str, Service] = {
    **{
        f"{rate}/s, latency {latency}": Service(rate, latency)
        for rate, latencies in {
            2: (0.3, 5, 60),
            5: (1, 30),
            8: (0.05, 0.5, 10),
            20: (0.3, 30),
            50: (0.05, 0.5, 2, 15),
            200: (0.3, 4),
            500: (0.3, 1.5),
        }.items()
        for latency in latencies
    },
    **{f"{rate}/s, burst {burst}": Service(rate, burst=burst) for rate in (2, 8, 50, 200) for burst in (0.1, 5, 20)},
    "8/s, an empty bucket": Service(8, burst=10, initial=0),
    "50/s, an empty bucket": Service(50, burst=5, initial=0),
    **{f"{rate}/s in a second": Service(rate, window=1) for rate in (2, 8, 50, 200)},
    **{f"{rate}/s in a sliding second": Service(rate, window=1, slides=True) for rate in (8, 50, 200)},
    **{f"{60 * rate} in a minute": Service(rate, window=60) for rate in (2, 8, 50)},
    **{f"{60 * rate} in a minute, Retry-After": Service(rate, window=60, retry_after="renewal") for rate in (2, 8, 50)},
    **{
        f"{60 * rate} in a sliding minute": Service(rate, window=60, slides=True, retry_after="renewal")
        for rate in (8, 16)
    },
    "2000 in a sliding minute": Service(2000 / 60, window=60, slides=True),
    **{
        f"{n} at once, latency {s}": Service(latency=s, concurrency=n)
        for n, s in ((4, 0.5), (4, 10), (16, 1), (64, 0.5), (64, 20), (200, 2), (500, 2), (500, 30))
    },
    "64 at once, latency varies": Service(latency=2, spread=0.6, concurrency=64),
    "50/s, 20 at once": Service(50, 1, concurrency=20),
    **{f"latency {latency}": Service(latency=latency) for latency in (0.8, 2, 10, 60)},
    "latency varies": Service(latency=8, spread=0.6),
    **{f"overloaded {share:.0%}": Service(latency=2, overload=share) for share in (0.01, 0.05, 0.2)},
    **{
        f"{rate}/s, overloaded {share:.0%}": Service(rate, overload=share)
        for rate in (2, 8, 50, 200)
        for share in (0.01, 0.05, 0.2)
    },
    "16/s, overloaded 20%": Service(16, overload=0.2),
    "64 at once, overloaded 5%": Service(latency=1, concurrency=64, overload=0.05),
    "300 at once, overloaded 25%": Service(latency=0.7, refusal_latency=0.15, concurrency=300, overload=0.25),
    **{
        f"{rate}/s, Retry-After {wait}": Service(rate, retry_after=wait)
        for rate in (2, 8, 50, 200)
        for wait in (1, 2, 30)
    },
    "16 at once, Retry-After 2": Service(latency=1, concurrency=16, retry_after=2),
    "8/s, OpenAI's headers": Service(8, burst=60, initial=0.15, has_headers=True),
    "50/s, OpenAI's headers": Service(50, burst=60, initial=0.1, has_headers=True),
    "50/s, OpenAI's headers, full": Service(50, burst=60, has_headers=True),
    "50/s, headers for a second": Service(50, has_headers=True),
    "50/s, headers for ten seconds": Service(50, burst=10, has_headers=True),
    "50/s, latency varies": Service(50, 1, spread=0.6),
    "8/s, latency varies": Service(8, 8, spread=0.8),
    "20/s, refusals after 2 s": Service(20, refusal_latency=2),
    "50/s, refusals late": Service(50, refusal_latency=0.3),
    "500/s, refusals late": Service(500, 1, refusal_latency=0.3),
    "64 at once, refusals late": Service(latency=2, concurrency=64, refusal_latency=0.3),
    "50/s, used up at first": Service(50, used_until=0.5),
    "50/s, 20/s used by others": Service(50, other_rate=20),
    "8/s, 4/s used by others": Service(8, other_rate=4),
    "200/s, 100/s used by others": Service(200, other_rate=100),
    "rises from 8 to 80/s": Service(8, changes=((30, 80),)),
    "rises from 8 to 80/s, Retry-After 2": Service(8, changes=((30, 80),), retry_after=2),
    "rises from 20 to 80/s": Service(20, changes=((30, 80),)),
    "falls from 80 to 8/s": Service(80, changes=((30, 8),)),
    "falls from 80 to 40/s": Service(80, changes=((30, 40),)),
    "falls from 200 to 20/s and rises again": Service(200, changes=((30, 20), (60, 200))),
}
