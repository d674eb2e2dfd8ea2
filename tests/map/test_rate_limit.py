"""The rate limiter, with a simulated service and clock."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from ask.map.rate_limit import MAX_CONCURRENCY, RateLimiter, parse_reset


class Service:
    """A service that answers after `latency` seconds, and refuses what exceeds `rate` requests per second.

    Until `used_until`, another program uses all of it. Overloaded, it also refuses a share of the requests at any rate.
    """

    def __init__(
        self,
        rate: float,
        latency: float = 0.2,
        *,
        used_until: float = 0.0,
        refused_share: float = 0.0,
        overloaded_until: float = math.inf,
        seed: int = 0,
    ) -> None:
        self.rate, self.latency, self.used_until = rate, latency, used_until
        self.refused_share, self.overloaded_until = refused_share, overloaded_until
        self._random = random.Random(seed)
        self._tokens, self._time = max(rate * 0.2, 1.0), 0.0

    def accepts(self, now: float) -> bool:
        if now < self.used_until or (now < self.overloaded_until and self._random.random() < self.refused_share):
            return False
        self._tokens = min(max(self.rate * 0.2, 1.0), self._tokens + (now - self._time) * self.rate)
        self._time = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def simulate(limiter: RateLimiter, service: Service, seconds: float) -> list[tuple[float, bool]]:
    """Send as many requests as the limiter allows; return the time of each, and whether it was accepted."""
    now, in_flight, sent = 0.0, 0, []
    events: list[tuple[float, bool]] = []
    while now < seconds:
        delay = limiter.get_delay(now, in_flight)
        if delay == 0:
            limiter.start(now)
            in_flight += 1
            accepted = service.accepts(now)
            sent.append((now, accepted))
            heapq.heappush(events, (now + (service.latency if accepted else 0.01), accepted))
            continue
        if events and (delay is None or events[0][0] <= now + delay):
            now, accepted = heapq.heappop(events)
            in_flight -= 1
            limiter.finish(now, is_refused=not accepted, headers={}, tokens=100)
        else:
            now += delay or 0.01
    return sent


@pytest.mark.parametrize("rate", [5, 50, 300])
@pytest.mark.parametrize("latency", [0.05, 0.2, 2.0])
def test_the_rate_of_a_service_is_found(rate: float, latency: float) -> None:
    sent = simulate(RateLimiter(), Service(rate, latency), 80)
    late = [accepted for time, accepted in sent if time > 20]
    possible = min(rate, MAX_CONCURRENCY / latency) * 60
    assert sum(late) >= 0.9 * possible, f"{sum(late)} of {possible}"
    refused = sum(not accepted for _, accepted in sent)
    assert refused < (0.03 if rate > 10 else 0.1) * len(sent), f"{refused} of {len(sent)}"


@pytest.mark.parametrize("used_until", [0.01, 0.5, 0.9])
def test_a_refusal_of_the_first_requests_says_nothing_about_the_rate(used_until: float) -> None:
    """A job that starts when another has just ended finds the quota used up for a moment."""
    sent = simulate(RateLimiter(), Service(50, used_until=used_until), 30)
    late = [accepted for time, accepted in sent if time > 10]
    assert sum(late) >= 0.9 * 50 * 20, f"{sum(late)} of {50 * 20}"
    assert late.count(False) < 0.03 * len(late)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("refused_share", [0.05, 0.2, 0.4])
def test_refusals_at_any_rate_do_not_slow_a_job(refused_share: float, seed: int) -> None:
    """OpenRouter's upstream providers and Anthropic (status 529) refuse some requests while they are overloaded."""
    unlimited = simulate(RateLimiter(), Service(1e9, refused_share=refused_share, seed=seed), 80)
    late = [accepted for time, accepted in unlimited if time > 50]
    assert sum(late) >= 0.7 * (1 - refused_share) * MAX_CONCURRENCY / 0.2 * 30

    limited = simulate(RateLimiter(), Service(50, refused_share=refused_share, seed=seed), 80)
    late = [accepted for time, accepted in limited if time > 50]
    assert sum(late) >= 0.6 * 50 * 30
    assert late.count(False) <= (refused_share + 0.2) * len(late)


def test_tolerated_refusals_are_forgotten_when_a_service_recovers() -> None:
    sent = simulate(RateLimiter(), Service(50, refused_share=0.3, overloaded_until=60), 120)
    late = [accepted for time, accepted in sent if time > 80]
    assert late.count(False) <= 0.1 * len(late)
    assert sum(late) >= 0.9 * 50 * 40


def test_after_a_pause_of_the_service_its_rate_is_found_again() -> None:
    sent = simulate(RateLimiter(), Service(50, used_until=30), 80)
    assert sum(time < 30 for time, _ in sent) < 100
    assert sum(accepted for time, accepted in sent if time > 40) >= 0.9 * 50 * 40


def test_concurrency_grows_while_everything_is_answered() -> None:
    limiter = RateLimiter()
    simulate(limiter, Service(1e9), 5)
    assert limiter.concurrency == MAX_CONCURRENCY


def test_fixed_limits_hold() -> None:
    assert len(simulate(RateLimiter(4), Service(1e9, 0.5), 10)) == pytest.approx(80, abs=4)
    assert len(simulate(RateLimiter(None, requests_per_minute=120), Service(1e9), 30)) == pytest.approx(60, abs=3)
    assert len(simulate(RateLimiter(None, None, tokens_per_minute=6000), Service(1e9), 60)) == pytest.approx(60, abs=10)


def test_retry_after_is_obeyed() -> None:
    limiter = RateLimiter()
    limiter.start(0.0)
    limiter.finish(1.0, is_refused=True, headers={}, tokens=None, wait=7.0)
    assert limiter.get_delay(1.0, 0) == pytest.approx(7)


@pytest.mark.parametrize(
    "headers",
    [
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "5",
            "x-ratelimit-reset-requests": "10s",
        },
        {
            "anthropic-ratelimit-tokens-limit": "60000",
            "anthropic-ratelimit-tokens-remaining": "500",
            "anthropic-ratelimit-tokens-reset": "{in_90_seconds}",
        },
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "5",
            "x-ratelimit-reset-requests": "10s",
            "x-ratelimit-limit-tokens": "60000",
            "x-ratelimit-remaining-tokens": "9000",
            "x-ratelimit-reset-tokens": "1s",
        },
    ],
    ids=["requests", "tokens", "both"],
)
def test_a_quota_that_is_nearly_used_up_slows_down(headers: Mapping[str, str]) -> None:
    date = (datetime.now(UTC) + timedelta(seconds=90)).isoformat()
    headers = {name: value.format(in_90_seconds=date) for name, value in headers.items()}
    limiter = RateLimiter()
    limiter.start(0.0)
    limiter.finish(1.0, is_refused=False, headers=headers, tokens=100)
    limiter.start(1.0)
    assert (limiter.get_delay(1.0, 0) or 0) >= 1.9


def test_a_daily_quota_is_not_spread_over_the_day() -> None:
    limiter = RateLimiter()
    limiter.start(0.0)
    # Groq's headers: https://console.groq.com/docs/rate-limits
    headers = {
        "x-ratelimit-limit-requests": "14400",
        "x-ratelimit-remaining-requests": "2800",
        "x-ratelimit-reset-requests": "19h20m0.5s",
    }
    limiter.finish(1.0, is_refused=False, headers=headers, tokens=100)
    limiter.start(1.0)
    assert (limiter.get_delay(1.0, 0) or 0) < 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("6m0s", 360), ("20ms", 0.02), ("1h2m", 3720), ("7", 7), ("", None), ("x", None)]
)
def test_reset_times_are_parsed(text: str, seconds: float | None) -> None:
    assert parse_reset(text) == seconds
