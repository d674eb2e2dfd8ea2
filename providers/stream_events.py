"""Helper for the stream readers of the vendors' own APIs."""

from __future__ import annotations

from ask import Delta, ReasoningDelta, TextDelta


def to_deltas(text: str, *, is_reasoning: bool) -> list[Delta]:
    """Return the delta to display for a fragment of text or reasoning."""
    if not text:
        return []
    return [ReasoningDelta(text) if is_reasoning else TextDelta(text)]
