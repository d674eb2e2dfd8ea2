"""What the stream readers of the vendors' own APIs share: reading events, and bounds for a hostile server."""

from __future__ import annotations

from typing import Any

from ask import Delta, ReasoningDelta, ServerEvent, TextDelta, as_dict, parse_json

ITEM_OVERHEAD = 10_000
"""Size counted for each block, part or call in addition to its text; more than it needs in memory."""
MAX_FIELDS = 100
"""Maximum number of fields kept of a response."""


def parse_event(event: ServerEvent) -> Any:
    """Parse an event's JSON; an event that is not JSON becomes an error."""
    value = parse_json(event.data)
    return {"error": {"message": f"an event that is not JSON: {event.data[:200]}"}} if value is None else value


def merge_fields(fields: dict[str, Any], update: Any, *excluded_names: str) -> None:
    """Add the fields of an event to those of the response: null means that an earlier value still applies."""
    if len(fields) < MAX_FIELDS:
        new_fields = as_dict(update).items()
        fields |= {name: value for name, value in new_fields if value is not None and name not in excluded_names}


def to_deltas(text: str, *, is_reasoning: bool) -> list[Delta]:
    """Return the delta to display for a fragment of text or reasoning."""
    if not text:
        return []
    return [ReasoningDelta(text) if is_reasoning else TextDelta(text)]
