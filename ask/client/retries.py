"""When a failed request is sent again: after which errors, how often, and after which delay."""

from __future__ import annotations

from ask.errors import AskError, NetworkError, ProviderError

MAX_RETRY_WAIT = 60.0
"""In seconds; if a provider asks for a longer wait, the request is not retried and the user is told why."""


def choose_retry_delay(error: AskError, attempt_number: int, backoff: float) -> float | None:
    """Return the seconds to wait before the next attempt, or None if the request should not be sent again.

    A provider's `Retry-After` is a lower bound; if it is longer than `MAX_RETRY_WAIT`, the error says so instead.
    """
    import random

    after = None
    if isinstance(error, ProviderError):
        after = error.retry_action.delay
        if error.retry_action.kind != "retry":
            return None
    elif not isinstance(error, NetworkError) or not error.retryable:
        return None
    if after is not None and after > MAX_RETRY_WAIT:
        error.hint = f"the server asks to wait {after:.0f} s"
        return None
    delay = backoff * 2.0 ** (attempt_number - 1)
    jittered = delay * random.uniform(0.5, 1.5)  # noqa: S311 - not used for cryptography
    return max(after or 0.0, jittered)
