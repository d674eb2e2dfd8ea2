"""When a failed request is sent again: after which errors, how often, and after which delay."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ask.errors import AskError, NetworkError, ProviderError, Remedy

DEFAULT_TRIES = 4
"""Attempts for one request, unless config.toml says otherwise."""
DEFAULT_BACKOFF = 0.5
"""Seconds before the second attempt; the delay doubles with each further one."""
MAX_RETRY_WAIT = 60.0
"""In seconds; if a provider asks for a longer wait, the request is not retried and the user is told why."""
RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that are worth a retry of the same request."""


def default_remedy(status: int, headers: Mapping[str, str]) -> Remedy:
    """Return a retry after `Retry-After` for temporary statuses, else `Remedy.NONE`."""
    return Remedy.RETRY(retry_after(headers)) if status in RETRY_STATUSES else Remedy.NONE


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait according to the `Retry-After` header, or None.

    The header may contain seconds or a date.

    OpenAI's more precise `retry-after-ms` takes precedence, as in OpenAI's SDK.
    """
    lowercase_headers = {name.lower(): value.strip() for name, value in headers.items()}
    value = lowercase_headers.get("retry-after", "")
    for number, per_second in ((lowercase_headers.get("retry-after-ms", ""), 1000), (value, 1)):
        try:
            seconds = float(number) / per_second
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def choose_retry_delay(error: AskError, attempt_number: int, backoff: float) -> float | None:
    """Return the seconds to wait before the next attempt, or None if the request should not be sent again.

    A provider's `Retry-After` is a lower bound; if it is longer than `MAX_RETRY_WAIT`, the error says so instead.
    """
    import random

    after = None
    if isinstance(error, ProviderError):
        after = error.remedy.after
        if error.remedy.action != "retry":
            return None
    elif not isinstance(error, NetworkError) or not error.retryable:
        return None
    if after is not None and after > MAX_RETRY_WAIT:
        error.advice = f"it asks to wait {after:.0f} s"
        return None
    delay = backoff * 2.0 ** (attempt_number - 1)
    jittered = delay * random.uniform(0.5, 1.5)  # noqa: S311 - not used for cryptography
    return max(after or 0.0, jittered)
