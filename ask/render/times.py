"""Format times for people and for programs."""

from __future__ import annotations

import time

UNITS = ((365 * 86_400, "y"), (30 * 86_400, "mo"), (7 * 86_400, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))
"""Length in seconds and symbol of each unit, longest first."""


def format_age(unix_time: float, now: float) -> str:
    """Format the time since then in the largest unit that fits: "3 min", "2 d"."""
    age = now - unix_time
    for seconds, symbol in UNITS:
        if age >= seconds:
            return f"{age // seconds:.0f} {symbol}"
    return "now"


def format_timestamp(unix_time: float) -> str:
    """Format a Unix time in ISO 8601 (UTC), to the second.

    Return "" if it is out of range.
    """
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_time))
    except (OverflowError, OSError, ValueError):  # an imported file may contain any number
        return ""


def format_local_time(unix_time: float) -> str:
    """Format a Unix time in the local time zone, to the minute.

    Return "" if it is out of range.
    """
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_time))
    except (OverflowError, OSError, ValueError):
        return ""
