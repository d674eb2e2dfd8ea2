"""Several servers of one service: each row goes to the one with the fewest requests."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ask.agent.request import RunRequest
from ask.client.network_errors import find_connect_reason
from ask.config.base_url import split_base_url
from ask.errors import AskError, NetworkError, ProviderError
from ask.map.outages import (
    MAX_PROBE_SECONDS,
    MIN_FAILED_ROWS,
    MIN_PROBE_SECONDS,
    ROW_STATUS,
    Failure,
    classify_failure,
)

MIN_ANNOUNCED_FAILURES = 2
"""How many failures of a reachable server cause a notice."""


@dataclass
class Server:
    """A server, and how often it failed since its last answer.

    Attributes:
        in_flight: when each of its requests in flight was sent.
        closed_until: when it may get a row again; 0 if it was not closed since its last answer.
        error: its last failure, and what it concerned.
        unreachable_since: when it last could not be reached. It may still answer the requests that were sent before,
            as a server does that is shutting down: these do not show whether it can be reached again.
        is_announced: whether the user knows that it fails.
    """

    base_url: str
    in_flight: list[float] = field(default_factory=list)
    failures: int = 0
    closed_until: float = 0.0
    error: AskError | None = None
    failure: Failure | None = None
    unreachable_since: float = -math.inf
    is_announced: bool = False

    @property
    def address(self) -> str:
        """The host and port, without credentials."""
        parts = split_base_url(self.base_url)
        return parts.address if parts else self.base_url

    @property
    def is_failing(self) -> bool:
        """Whether it fails so often, or so plainly, that the user should know."""
        is_unreachable = self.failure == "unreachable"
        return self.closed_until > 0 and self.failures >= (1 if is_unreachable else MIN_ANNOUNCED_FAILURES)

    def is_available(self, now: float) -> bool:
        """Check whether it may get a row: only one at a time after it was closed, until it answers."""
        is_probed = self.closed_until > 0 and any(sent >= self.unreachable_since for sent in self.in_flight)
        return self.closed_until <= now and not is_probed


class ServerPool:
    """Selects the server for each row. Threads share one instance. Times are of a monotonic clock.

    A server that fails gets no rows for a time that doubles with each further failure, then a single one.

    Args:
        base_urls: the servers.
        backoff: the seconds before the first retry of a row, on which the other times depend.
        notify: called with a line for the user when a server fails while others answer, and when it answers again.
    """

    def __init__(self, base_urls: Sequence[str], backoff: float, notify: Callable[[str], None]) -> None:
        self._servers = {url: Server(url) for url in base_urls}
        self._first_interval = max(2 * backoff, MIN_PROBE_SECONDS)
        self._notify = notify
        self._lock = threading.Lock()
        self._rotation = itertools.count(os.getpid())  # the processes of a cluster begin with different servers

    def __len__(self) -> int:
        return len(self._servers)

    def acquire(self, now: float, excluded: Collection[str] = (), *, is_retry: bool = False) -> str:
        """Return the base URL for a request that is about to be sent; not one of those that are excluded.

        A row that has failed before goes to a server that has not, so that it does not fail as often as it may.
        """
        with self._lock:
            servers = [*self._servers.values()]
            first = next(self._rotation) % len(servers)  # of those with equally few requests
            choices = [each for each in servers[first:] + servers[:first] if each.base_url not in excluded]
            available = [each for each in choices if each.is_available(now)]
            if is_retry and (reliable := [each for each in available if not each.closed_until]):
                available = reliable
            if available:
                server = min(available, key=lambda each: len(each.in_flight))
            else:
                server = min(choices, key=lambda each: each.closed_until)
            server.in_flight.append(now)
            return server.base_url

    def release(
        self, now: float, base_url: str, error: AskError | None, failure: Failure | None = None, *, sent: float
    ) -> None:
        """Note the result of a request.

        Args:
            now: the time.
            base_url: the server that it was sent to.
            error: why it failed; None if it was answered.
            failure: what the error concerns; None to classify the error.
            sent: when it was sent.
        """
        failure = failure or (classify_failure(error) if error else None)
        with self._lock:
            server = self._servers[base_url]
            server.in_flight.remove(sent)
            if len(self._servers) == 1:
                return
            if failure == "job" and isinstance(error, ProviderError) and server.address not in error.hint:
                error.hint = f"{error.hint} (sent to {server.address})".lstrip()
            if failure == "refusal" and isinstance(error, ProviderError):
                self._note_refusal(server, error, now)
            elif error and failure in ("service", "unreachable"):
                server.error, server.failure = error, failure
                if failure == "unreachable":
                    server.unreachable_since = now
                self._note_failure(server, error, now)
            elif sent >= server.unreachable_since:
                self._note_answer(server)

    def _note_refusal(self, server: Server, error: ProviderError, now: float) -> None:
        """Close a server for as long as it asks to wait. The row does not wait for it if another one is open."""
        wait = min(error.retry_action.delay or 0.0, MAX_PROBE_SECONDS)
        server.closed_until = max(server.closed_until, now + max(wait, self._first_interval))
        if any(each.closed_until <= now for each in self._servers.values()):
            error.retry_action = error.retry_action._replace(delay=None)

    def _note_failure(self, server: Server, error: AskError, now: float) -> None:
        if now < server.closed_until:
            return  # a request that was sent before
        server.failures += 1
        if isinstance(error, ProviderError) and error.status == ROW_STATUS and server.failures < MIN_FAILED_ROWS:
            return
        # Limits the exponent, too, because floats overflow.
        interval = min(self._first_interval * 2.0 ** min(server.failures - 1, 30), MAX_PROBE_SECONDS)
        server.closed_until = now + interval

    def _note_answer(self, server: Server) -> None:
        server.failures, server.closed_until = 0, 0.0
        if server.is_announced:
            server.is_announced = False
            self._notify(f"{server.address} answers again")
        for each in self._servers.values():
            if each.is_failing and each.error and not each.is_announced:
                each.is_announced = True
                reason = find_connect_reason(each.error) or each.error.summary
                self._notify(f"{each.address} does not answer ({reason}); the other base URLs get its rows")


def create_pools(requests: Sequence[RunRequest], notify: Callable[[str], None]) -> list[ServerPool]:
    """Create a pool for each model. Models with the same servers share one."""
    pools: dict[tuple[str, ...], ServerPool] = {}
    for request in requests:
        base_urls = request.endpoint.base_urls
        pools.setdefault(base_urls, ServerPool(base_urls, request.settings.backoff, notify))
    return [pools[request.endpoint.base_urls] for request in requests]


def is_sent_elsewhere(error: AskError | None) -> bool:
    """Check whether a request can be sent to another server at once, because this one did not get or answer it."""
    if isinstance(error, NetworkError):
        return error.offline
    return error is not None and classify_failure(error) == "unreachable"
