"""Format token counts, costs and times in a few characters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ask.console import StandardOutput
from ask.text import format_age, format_one_line

if TYPE_CHECKING:
    from ask.agent.tool_loop import RunResult
    from ask.client.cost import Cost
    from ask.messages import Usage

MAX_DECIMALS = 10


def format_compact_number(number: int) -> str:
    """Format a number compactly: 950, 12.3k, 4.5M."""
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:  # 999,950 would become "1000.0k"
            return f"{number / size:.1f}{suffix}"
    return str(number)


def format_dollars(amount: float | None) -> str:
    """Format an amount in US dollars; return "" for None."""
    if not amount:
        return "" if amount is None else "$0"
    return f"${amount:.2f}" if amount >= 1 else f"${_format_fraction(amount, 4)}"


def _format_fraction(amount: float, min_decimals: int) -> str:
    """Format an amount with enough decimals that it does not look like 0: a short prompt can cost $0.0000002."""
    exponent = int(f"{amount:e}".partition("e")[2])
    return f"{amount:.{min(max(min_decimals, -exponent), MAX_DECIMALS)}f}"


def format_cost(cost: Cost) -> str:
    """Format a cost: "$0.0012", "~$0.0012" for an estimate, "$0.0012+" if part of it is unknown, "unknown"."""
    if cost.dollars is None:
        return "" if cost.is_complete else "unknown"
    return f"{'~' if cost.is_estimated else ''}{format_dollars(cost.dollars)}{'' if cost.is_complete else '+'}"


def format_cache_use(usage: Usage, format_number: Callable[[int], str] = "{:,}".format) -> str:
    """Format the input tokens that were read from the provider's cache and written to it; "" for none."""
    read, written = usage.cached_tokens, usage.cache_write_tokens
    parts = [f"{format_number(read)} from the cache"] if read else []
    if written:
        parts.append(f"{format_number(written)} written to {'it' if read else 'the cache'}")
    return f" ({', '.join(parts)})" if parts else ""


def format_usage(run_result: RunResult) -> str:
    """Format the usage of a run on one line."""
    from ask.parsing import STANDARD_TIER  # lists need no parser

    usage = run_result.usage
    rounds = "1 round" if run_result.rounds == 1 else f"{run_result.rounds} rounds"
    parts = [f"{rounds} of tool calls" if run_result.rounds else "no tool calls"]
    if usage.input_tokens is not None:
        cached = format_cache_use(usage, str)
        reasoning = f" ({usage.reasoning_tokens} for reasoning)" if usage.reasoning_tokens else ""
        parts.append(f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens or 0} out{reasoning}")
    tier = usage.service_tier or STANDARD_TIER
    shown_tier = "" if tier == STANDARD_TIER else f" ({format_one_line(tier)})"
    if (cost := run_result.cost).dollars is None:
        return ", ".join(parts if cost.is_complete else [*parts, f"cost unknown{shown_tier}"])
    dollars = f"${_format_fraction(cost.dollars, 6).rstrip('0').rstrip('.')}"
    parts.append(f"{'' if cost.is_complete else 'at least '}{'~' if cost.is_estimated else ''}{dollars}{shown_tier}")
    return ", ".join(parts)


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: "1 run", "2,000 runs"."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def format_since(unix_time: float, *, as_json: bool) -> str:
    """Format a time for a table: its age on a terminal, otherwise the time itself."""
    if as_json or not StandardOutput().is_terminal:
        return format_timestamp(unix_time)
    return format_age(unix_time, time.time())


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
