"""Format token counts, costs, durations and times in a few characters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ask.client.cost import Cost

UNITS = ((365 * 86_400, "y"), (30 * 86_400, "mo"), (7 * 86_400, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))
"""Length in seconds and symbol of each unit, longest first."""


def format_compact_number(number: int) -> str:
    """Format a number compactly: 950, 12.3k, 4.5M."""
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:
            return f"{number / size:.1f}{suffix}"
    return str(number)


def format_dollars(amount: float | None) -> str:
    """Format an amount in US dollars; return "" for None."""
    if not amount:
        return "" if amount is None else "$0"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def format_cost(cost: Cost) -> str:
    """Format a cost: "$0.0012", "~$0.0012" for an estimate, "$0.0012+" if part of it is unknown, "unknown"."""
    if cost.dollars is None:
        return "" if cost.is_complete else "unknown"
    return f"{'~' if cost.is_estimated else ''}{format_dollars(cost.dollars)}{'' if cost.is_complete else '+'}"


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: "1 run", "2 runs"."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def format_age(unix_time: float, now: float) -> str:
    """Format the time since then in the largest unit that fits: "3 min", "2 d"."""
    age = now - unix_time
    for seconds, symbol in UNITS:
        if age >= seconds:
            return f"{age // seconds:.0f} {symbol}"
    return "now"


def format_since(unix_time: float, *, as_json: bool) -> str:
    """Format a time for a table, as its age, or for JSON."""
    return format_timestamp(unix_time) if as_json else format_age(unix_time, time.time())


def format_timestamp(unix_time: float) -> str:
    """Format a Unix time in ISO 8601 (UTC), to the second.

    Return "" if it is out of range.
    """
    return _format_time("%Y-%m-%dT%H:%M:%SZ", time.gmtime, unix_time)


def format_local_time(unix_time: float) -> str:
    """Format a Unix time in the local time zone, to the minute.

    Return "" if it is out of range.
    """
    return _format_time("%Y-%m-%d %H:%M", time.localtime, unix_time)


def _format_time(pattern: str, convert: Callable[[float], time.struct_time], unix_time: float) -> str:
    try:
        return time.strftime(pattern, convert(unix_time))
    except (OverflowError, OSError, ValueError):  # an imported file may contain any number
        return ""
