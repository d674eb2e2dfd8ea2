"""A conversation as an entry of a list: for a terminal, for a pipe, and as JSON."""

from __future__ import annotations

from typing import Any

from ask.history.listing import ConversationOverview
from ask.render.amounts import format_cost
from ask.render.table import format_cell
from ask.render.times import format_age, format_timestamp
from ask.render.width import truncate_text

MIN_MODEL_WIDTH = 12


def to_overview_dict(overview: ConversationOverview) -> dict[str, Any]:
    """All that is known of it, its details with it; times as in ISO 8601."""
    return {
        "number": overview.position,
        "id": overview.id,
        "title": overview.title,
        "created": format_timestamp(overview.created),
        "updated": format_timestamp(overview.updated),
        "directory": overview.directory,
        "provider": overview.provider,
        "model": overview.model,
        "runs": overview.runs,
        "rounds": overview.rounds,
        "usage": {
            "input_tokens": overview.input_tokens,
            "output_tokens": overview.output_tokens,
            "cached_tokens": overview.cached_tokens,
            "cost": overview.cost,
        },
    }


def format_overview_line(overview: ConversationOverview) -> str:
    """What a pipe gets of it: the line that `write_table` would write, in less time, since there may be thousands."""
    model = format_cell(f"{overview.provider}:{overview.model}")
    beginning = f"{overview.position}\t{format_cell(overview.id)}\t{format_cell(overview.title)}\t{format_timestamp(overview.updated)}"
    return f"{beginning}\t{model}\t{overview.rounds}\t{format_cell(overview.cost)}\n"


def to_overview_row(overview: ConversationOverview, now: float) -> dict[str, Any]:
    """What a terminal shows of it, most of the room left to the title. `now` is in seconds since 1970."""
    from shutil import get_terminal_size  # slow to load, and for a terminal alone

    room = max(MIN_MODEL_WIDTH, get_terminal_size().columns // 5)
    model = f"{overview.provider}:{overview.model}"
    if len(model) > room:
        model = overview.model.rpartition("/")[2]
    return {
        "n": overview.position,
        "id": overview.id,
        "title": overview.title,
        "age": format_age(overview.updated, now),
        "model": truncate_text(model, room),
        "rounds": overview.rounds,
        "cost": format_cost(overview.cost),
    }
