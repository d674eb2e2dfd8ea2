"""When a failed request is sent again: after which errors, with which key, how often, and after which delay."""

from __future__ import annotations

import re

from ask.errors import AskError, NetworkError, ProviderError, RetryAction
from ask.text import format_duration

NEXT_KEY_STATUSES = (401, 402, 429)
"""HTTP statuses for an invalid key or exhausted account, after which another key may work."""

EXPIRED_PATTERN = r"\bexpired\b"
"""How Bedrock words a 403 for a bearer token that is no longer valid."""

UNPARSED_ANSWER_STATUSES = (400, 422)
"""The statuses of an answer that its server cannot parse. Each costs tokens, so it is requested only once more."""
UNPARSED_ANSWER_PATTERN = r"(?i)HarmonyError|unexpected tokens? .{0,40}(?:start token|message header)|parsing tool call"
"""How vLLM and Ollama report one with another status, or in a stream."""
MAX_RETRY_WAIT_SECONDS = 60.0
"""If a provider asks for a longer wait, the request is not retried, and its error says why."""


class RetryNotice(str):
    """The text of a notice that a failed request will be sent again, with what it says.

    `attempt` is the number of the retry, of at most `attempts`, and `seconds` the time until then.
    """

    reason: str
    attempt: int
    attempts: int
    seconds: float

    def __new__(cls, reason: str, attempt: int, attempts: int, seconds: float) -> RetryNotice:
        self = super().__new__(cls, f"{reason}; retrying in {seconds:.1f} s ({attempt} of {attempts})")
        self.reason, self.attempt, self.attempts, self.seconds = reason, attempt, attempts, seconds
        return self


def can_other_key_help(error: AskError) -> bool:
    """Check whether a request that failed may succeed with another key."""
    return isinstance(error, ProviderError) and (
        error.status in NEXT_KEY_STATUSES or error.retry_action == RetryAction.NEXT_KEY
    )


def is_key_expired(error: AskError) -> bool:
    """Check whether a key may have expired, so that its command prints another one or the user has saved one."""
    if not isinstance(error, ProviderError):
        return False
    return error.status == 401 or (error.status == 403 and bool(re.search(EXPIRED_PATTERN, error.message)))


def choose_retry_delay(error: AskError, attempt_number: int, backoff: float) -> float | None:
    """Return the seconds to wait before the next attempt, or None if the request should not be sent again.

    A provider's `Retry-After` is a lower bound; if it exceeds `MAX_RETRY_WAIT_SECONDS`, the error says so instead.
    """
    import random

    after = None
    if isinstance(error, ProviderError):
        after = error.retry_action.delay
        is_unparsed = error.status in UNPARSED_ANSWER_STATUSES or re.search(UNPARSED_ANSWER_PATTERN, error.message)
        if error.retry_action.kind != "retry" or (is_unparsed and attempt_number > 1):
            return None
    elif not isinstance(error, NetworkError) or not error.retryable:
        return None
    if after is not None and after > MAX_RETRY_WAIT_SECONDS:
        error.hint = f"the server asks to wait {format_duration(after)}"
        return None
    delay = backoff * 2.0 ** (attempt_number - 1)
    # Clients that failed together should not try again together.
    jittered = delay * random.uniform(0.5, 1.5)  # noqa: S311 - not used for cryptography
    return max(after or 0.0, jittered)
