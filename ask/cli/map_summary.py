"""The line that sums up a run of `ask map`."""

from __future__ import annotations

from ask.map.engine import Progress
from ask.render.amounts import format_cache_use, format_count, format_dollars
from ask.text import format_duration


def format_savings(dollars: float, progress: Progress) -> str:
    """Describe what prompt caches have saved in this run, or cost, at list prices; "" if that is unknown or nothing."""
    if not dollars:
        return ""
    run = " in this run" if progress.resumed else ""
    return (
        f"saving ~{format_dollars(dollars)}{run}" if dollars > 0 else f"costing ~{format_dollars(-dollars)} more{run}"
    )


def format_summary(
    progress: Progress, cost: str, seconds: float, output: str | None, savings: str, *, is_announced: bool
) -> str:
    """Describe the result of a run on one line; `is_announced` if --fresh was mentioned before."""
    hint = "" if is_announced else "; --fresh asks again"
    parts = [f"{format_count(progress.answered, 'row')} answered"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.resumed:
        total = f" of {progress.answered + progress.failed:,}" if progress.failed else ""
        parts[-1] += f" ({progress.resumed:,}{total} earlier{hint})"
    if progress.refused:
        parts.append(f"{progress.refused:,} with refused questions")
    if progress.shared:
        parts.append(f"{progress.shared:,} with the result of an identical row")
    if cached := format_cache_use(progress.usage):
        cached = f"{cached.removesuffix(')')}, {savings})" if savings else cached
        parts.append(f"{progress.usage.input_tokens or 0:,} tokens in{cached}")
    if cost:
        parts.append(cost)
    parts.append(format_duration(seconds))
    if output:
        parts.append(f"written to {output}")
    return ", ".join(parts)
