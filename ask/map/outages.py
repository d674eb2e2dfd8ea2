"""Failures of rows: what each concerns, and when the service has failed so that the job pauses."""

from __future__ import annotations

import math
import time
from typing import Literal

from ask.client.error_classification import is_message_refused, is_model_unknown, is_region_refused
from ask.client.network_errors import find_connect_reason
from ask.client.response_bodies import WRONG_URL_STATUSES
from ask.errors import AskError, NetworkError, ProviderError, RunInterruptedError

Failure = Literal["job", "refusal", "row", "service", "unreachable"]
"""What an error concerns: all rows, the rate, only this row, or the service, which may not be running at all."""

REFUSED_STATUSES = (429, 529)
STOP_STATUSES = (401, 402, *WRONG_URL_STATUSES)
"""HTTP statuses for an invalid key, an exhausted account, a wrong URL or model, with which every row would fail."""
JOB_EXIT_CODES = (3, 4, 7, 8, 13)
"""See the table in `ask.errors`."""
UNREACHABLE_REASONS = ("connection refused", "unknown host", "the host name cannot be resolved", "no such socket")
ROW_STATUS = 500
"""The HTTP status that some servers send for a row that they cannot process."""
ROW_REFUSED_STATUSES = (400, 422)
"""HTTP statuses for a row that a service refuses, or whose answer it cannot parse, which is then requested again."""
MIN_FAILED_ROWS = 3
"""How many rows must have failed before the job pauses."""
MIN_FIRST_FAILURES = 4
"""How many rows must have failed for the first time, without an answer in between, before their status 500 is seen as
a failure of the service if each row has been sent: fewer may be rows that it cannot process."""
QUIET_BACKOFFS = 10
"""How long no row must have been answered, in units of `network.backoff`: 5 s by default."""
MIN_PROBE_SECONDS, MAX_PROBE_SECONDS = 0.01, 60.0
"""Limits for the time between two probes, which doubles."""


def classify_failure(error: AskError) -> Failure:
    """Return what an error concerns."""
    if isinstance(error, NetworkError):
        if error.permanent:
            return "job"
        return "unreachable" if find_connect_reason(error) in UNREACHABLE_REASONS else "service"
    if isinstance(error, ProviderError):
        return _classify_provider_error(error)
    return "job" if isinstance(error, RunInterruptedError) or error.exit_code in JOB_EXIT_CODES else "row"


def _classify_provider_error(error: ProviderError) -> Failure:
    is_redirect = error.status is not None and 300 <= error.status < 400
    if (error.status in (None, *WRONG_URL_STATUSES) or is_redirect) and not error.is_from_api:
        return "unreachable"  # a wrong base URL or API, a proxy whose server restarts, or a network's login page
    if error.status == 404 and is_message_refused(error):
        return "row"  # OpenRouter: an image for a model without vision
    is_temporary = error.retry_action.kind == "retry"
    is_final = error.status in STOP_STATUSES and not is_temporary
    is_other_key_needed = error.retry_action.kind == "next_key"
    if is_final or is_other_key_needed or is_model_unknown(error) or is_region_refused(error):
        return "job"
    if error.status in (402, *REFUSED_STATUSES):  # OpenRouter: a 402 until the costs of other requests are settled
        return "refusal"
    if error.status in ROW_REFUSED_STATUSES and error.is_from_api:
        return "row"
    return "service" if is_temporary or not error.is_from_api else "row"


def may_be_row_failure(error: AskError) -> bool:
    """Check for a status that may concern only the row, so that the service may be available."""
    return isinstance(error, ProviderError) and error.status == ROW_STATUS


class OutageMonitor:
    """Detects that the service answers no rows, and decides when to probe it. Times are of a monotonic clock.

    Args:
        backoff: the seconds before the first retry of a row, on which the other times depend.
        max_seconds: how long to wait for the service.

    Attributes:
        has_answered: whether the service has answered a row, if only with an error about it.
    """

    def __init__(self, backoff: float, max_seconds: float) -> None:
        self._quiet_seconds = QUIET_BACKOFFS * backoff
        self._first_interval = max(2 * backoff, MIN_PROBE_SECONDS)
        self._max_seconds = max_seconds
        self._last_answer = math.inf
        self._failed_rows: set[int] = set()
        self._first_failures = 0
        self._is_conclusive = False
        self._pause_begin: float | None = None
        self._next_probe = self._interval = 0.0
        self.has_answered = False

    @property
    def is_paused(self) -> bool:
        return self._pause_begin is not None

    @property
    def is_suspected(self) -> bool:
        """Whether the job pauses if no row is answered soon."""
        if self._is_conclusive:
            return len(self._failed_rows) >= MIN_FAILED_ROWS
        return self.has_answered and self._first_failures >= MIN_FIRST_FAILURES

    def note_start(self, now: float) -> None:
        """Note that a request is sent."""
        if self._last_answer == math.inf:
            self._last_answer = now

    def note_answer(self, now: float) -> None:
        """Note a response from the service, after which it is available."""
        self._last_answer, self._pause_begin, self.has_answered = now, None, True
        self._failed_rows.clear()
        self._first_failures = 0
        self._is_conclusive = False

    def note_failure(self, position: int, error: AskError, *, is_first: bool, failed_earlier: bool) -> None:
        """Note a row that failed because of the service.

        Args:
            position: which row it is.
            error: why it failed.
            is_first: whether it failed for the first time, or for the first time since a pause.
            failed_earlier: whether it failed in an earlier run, too.
        """
        may_be_row = may_be_row_failure(error)
        if not (may_be_row and failed_earlier):
            self._failed_rows.add(position)
            self._first_failures += is_first
        self._is_conclusive |= not may_be_row

    def is_quiet(self, now: float) -> bool:
        """Check whether no row was answered for some time."""
        return self.get_silence(now) >= self._quiet_seconds

    def should_pause(self, now: float, *, has_other_rows: bool) -> bool:
        """Check whether the service has failed. If only rows that failed are left, the reason may be these rows."""
        if self.is_paused or not self.is_quiet(now):
            return False
        return self.is_suspected or (has_other_rows and len(self._failed_rows) >= MIN_FAILED_ROWS)

    def pause(self, now: float) -> None:
        """Send only probes until a row is answered."""
        self._pause_begin, self._interval = now, self._first_interval
        self._next_probe = now + self._interval

    def get_probe_delay(self, now: float) -> float:
        """Return the seconds until the next probe."""
        return max(0.0, self._next_probe - now)

    def note_probe(self, now: float) -> None:
        """Note that a probe is sent."""
        self._interval = min(2 * self._interval, MAX_PROBE_SECONDS)
        self._next_probe = now + self._interval

    def has_expired(self, now: float) -> bool:
        """Check whether the job has paused for as long as it may."""
        return self._pause_begin is not None and now - self._pause_begin >= self._max_seconds

    def get_silence(self, now: float) -> float:
        """Return the seconds since the last answer."""
        return now - self._last_answer

    def describe(self, now: float, error: AskError) -> str:
        """Return since when no row was answered, and why."""
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - self.get_silence(now)))
        return f"no answers since {since} ({error.summary})"
