"""A conversation as an entry of a list: for a terminal, for a pipe, and as JSON."""

from __future__ import annotations

from typing import Any

from ask.history.listing import Overview
from ask.render.amounts import dollars
from ask.render.table import shown
from ask.render.times import age, timestamp
from ask.render.width import cut

NARROWEST_MODEL = 12


def as_value(overview: Overview) -> dict[str, Any]:
    """All that is known of it, its details with it; times as in ISO 8601."""
    return {
        "number": overview.place,
        "id": overview.id,
        "title": overview.title,
        "created": timestamp(overview.created),
        "updated": timestamp(overview.updated),
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


def as_line(overview: Overview) -> str:
    """What a pipe gets of it: the line that `write_table` would write, in less time, since there may be thousands."""
    model = shown(f"{overview.provider}:{overview.model}")
    beginning = f"{overview.place}\t{shown(overview.id)}\t{shown(overview.title)}\t{timestamp(overview.updated)}"
    return f"{beginning}\t{model}\t{overview.rounds}\t{shown(overview.cost)}\n"


def as_table_row(overview: Overview, now: float) -> dict[str, Any]:
    """What a terminal shows of it, most of the room left to the title. `now` is in seconds since 1970."""
    from shutil import get_terminal_size  # slow to load, and for a terminal alone

    room = max(NARROWEST_MODEL, get_terminal_size().columns // 5)
    model = f"{overview.provider}:{overview.model}"
    if len(model) > room:
        model = overview.model.rpartition("/")[2]
    return {
        "n": overview.place,
        "id": overview.id,
        "title": overview.title,
        "age": age(overview.updated, now),
        "model": cut(model, room),
        "rounds": overview.rounds,
        "cost": dollars(overview.cost),
    }
