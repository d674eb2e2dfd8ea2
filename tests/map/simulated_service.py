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

REFUSAL_SECONDS = 0.03
STEP_SECONDS = 0.05
"""The precision of what a service allows."""
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
        burst: how many seconds of the rate may be used at once. The bucket is full at first, or to the part `initial`.
        window: the length of the windows in which requests are counted, instead of a bucket; `slides` if each request
            has its own.
        concurrency: how many requests it answers at the same time.
        overload: the part of the requests that it refuses at any rate, until `overloaded_until`.
        retry_after: what it says in Retry-After; None for no such header.
        has_headers: whether it sends the headers of OpenAI.
        changes: times, and the rates from then on.
        used_until: until when another program uses all of it.
    """

    rate: float = math.inf
    latency: float = 0.3
    spread: float = 0.0
    burst: float = 1.0
    initial: float = 1.0
    window: float = 0.0
    slides: bool = False
    concurrency: float = math.inf
    overload: float = 0.0
    overloaded_until: float = math.inf
    retry_after: float | None = None
    has_headers: bool = False
    changes: tuple[tuple[float, float], ...] = ()
    used_until: float = 0.0
    seed: int = 0
    in_flight: int = 0
    _tokens: float = -1.0
    _time: float = 0.0
    _recent: deque[float] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def receive(self, now: float) -> Response:
        """Decide about a request; `finish` must be called when an accepted one is answered."""
        with self._lock:
            decision = self._decide(now)
            self.in_flight += decision == "accepted"
            sigma = self.spread
            factor = self._random.lognormvariate(-(sigma**2) / 2, sigma) if sigma else 1.0
            seconds = self.latency * factor if decision == "accepted" else REFUSAL_SECONDS
            return Response(decision, seconds, self._make_headers(now, decision))

    def finish(self) -> None:
        with self._lock:
            self.in_flight -= 1

    def count_allowed(self, start: float, end: float) -> float:
        """Return how many requests it allows, without what is in the bucket at first."""
        total = 0.0
        for step in range(round((end - start) / STEP_SECONDS)):
            now = start + step * STEP_SECONDS
            rate, possible = self._get_rate(now), min(self.concurrency, MAX_CONCURRENCY) / self.latency
            is_idle = now < self.used_until
            total += 0.0 if is_idle else min(rate, possible) * STEP_SECONDS
        return total

    def _get_rate(self, now: float) -> float:
        return next((rate for time, rate in reversed(self.changes) if now >= time), self.rate)

    def _decide(self, now: float) -> Decision:
        rate = self._get_rate(now)
        if now < self.overloaded_until and self._random.random() < self.overload:
            return "overloaded"
        if now < self.used_until or self.in_flight >= self.concurrency:
            return "limited"
        if self.window:
            start = now - self.window if self.slides else now // self.window * self.window
            while self._recent and self._recent[0] < start:
                self._recent.popleft()
            if len(self._recent) >= rate * self.window:
                return "limited"
            self._recent.append(now)
        elif rate < math.inf:
            size = max(rate * self.burst, 1.0)
            earlier = size * self.initial if self._tokens < 0 else self._tokens
            self._tokens, self._time = min(size, earlier + (now - self._time) * rate), now
            if self._tokens < 1:
                return "limited"
            self._tokens -= 1
        return "accepted"

    def _make_headers(self, now: float, decision: Decision) -> dict[str, str]:
        headers = {}
        if decision == "limited" and self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.has_headers:
            rate = self._get_rate(now)
            size = rate * self.burst
            headers["x-ratelimit-limit-requests"] = str(int(size))
            headers["x-ratelimit-remaining-requests"] = str(int(self._tokens))
            headers["x-ratelimit-reset-requests"] = f"{(size - self._tokens) / rate:.3f}s"
        return headers


class Sent(NamedTuple):
    """When a request was sent, and what the service decided."""

    time: float
    decision: Decision


def simulate(limiter: RateLimiter, service: Service, seconds: float) -> list[Sent]:
    """Send as many requests as the limiter allows, in virtual time."""
    service = replace(service, _recent=deque(), _lock=threading.Lock())
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
        elif responses and (delay is None or responses[0][0] <= now + delay):
            now, _, response = heapq.heappop(responses)
            in_flight -= 1
            is_refused = response.decision != "accepted"
            if not is_refused:
                service.finish()
            wait = response.headers.get("retry-after")
            limiter.finish(
                now,
                is_refused=is_refused,
                headers=response.headers,
                tokens=100,
                wait=None if wait is None else float(wait),
            )
        else:
            now += max(delay or 0.01, 0.0005)
    return sent


def count_accepted(sent: list[Sent], start: float, end: float) -> int:
    return sum(each.decision == "accepted" and start <= each.time < end for each in sent)


SCENARIOS: Mapping[str, Service] = {
    **{f"{rate}/s, latency {s}": Service(rate, s) for rate in (8, 50, 300) for s in (0.05, 0.5)},
    "50/s, latency 2": Service(50, 2),
    "300/s, latency 2": Service(300, 2),
    **{f"{rate}/s, burst {burst}": Service(rate, burst=burst) for rate in (8, 50) for burst in (0.5, 2)},
    "50/s, burst 0.1": Service(50, burst=0.1),
    "50/s, an empty bucket": Service(50, burst=5, initial=0),
    **{f"{rate}/s in a window": Service(rate, window=1) for rate in (8, 50, 200)},
    **{f"{rate}/s in a sliding window": Service(rate, window=1, slides=True) for rate in (8, 50, 200)},
    **{f"{n} at once": Service(latency=s, concurrency=n) for n, s in ((4, 0.5), (16, 1), (64, 0.5))},
    "50/s, 20 at once": Service(50, 1, concurrency=20),
    **{f"overloaded {share:.0%}": Service(overload=share) for share in (0.02, 0.05, 0.2, 0.4)},
    **{f"{rate}/s, Retry-After {wait}": Service(rate, retry_after=wait) for rate in (8, 50) for wait in (1, 2, 10)},
    "8/s, OpenAI's headers": Service(8, burst=60, initial=0.15, has_headers=True),
    "50/s, OpenAI's headers": Service(50, burst=60, initial=0.1, has_headers=True),
    "50/s, headers for a second": Service(50, has_headers=True),
    "50/s, latency varies": Service(50, 1, spread=0.6),
    "50/s, used up at first": Service(50, used_until=0.5),
    "falls from 80 to 40/s": Service(80, changes=((10, 40),)),
    "rises from 20 to 80/s": Service(20, changes=((60, 80),)),
}
