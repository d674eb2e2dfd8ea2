"""Format token counts, costs and durations in a few characters."""

from __future__ import annotations


def format_compact_number(number: int) -> str:
    """Format a number compactly: 950, 12.3k, 4.5M."""
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:
            return f"{number / size:.1f}{suffix}"
    return str(number)


def format_cost(cost: float | None) -> str:
    """Format a cost in US dollars; return "" if the cost is unknown."""
    if not cost:
        return "" if cost is None else "$0"
    return f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}"


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun: "1 run", "2 runs"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
