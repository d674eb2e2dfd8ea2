"""Times as people and as programs read them."""

from __future__ import annotations

import time

UNITS = ((365 * 86_400, "y"), (30 * 86_400, "mo"), (7 * 86_400, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))
"""Seconds and sign of each unit, the longest first."""


def format_age(unix_time: float, now: float) -> str:
    """How long ago that was, in the greatest unit that fits: "3 min", "2 d". Both in seconds since 1970."""
    passed = now - unix_time
    for seconds, sign in UNITS:
        if passed >= seconds:
            return f"{passed // seconds:.0f} {sign}"
    return "now"


def format_timestamp(unix_time: float) -> str:
    """A time in seconds since 1970 as ISO 8601 has it, in UTC, to the second."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_time))
    except (OverflowError, OSError, ValueError):  # as a file from elsewhere may hold
        return ""


def format_local_time(unix_time: float) -> str:
    """A time in seconds since 1970 as the clock on the wall shows it, to the minute."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_time))
    except (OverflowError, OSError, ValueError):
        return ""
