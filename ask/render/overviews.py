"""A conversation as an entry of a list: for a terminal, for a pipe, and as JSON."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Any

from ask.history.overviews import Overview
from ask.render.amounts import dollars
from ask.render.times import age, timestamp
from ask.render.width import cut

NARROWEST_MODEL = 12


def as_value(overview: Overview) -> dict[str, Any]:
    """All that is known of it; times as in ISO 8601."""
    conversation = overview.conversation
    return {
        "number": overview.place,
        "id": conversation.id,
        "title": conversation.title,
        "created": timestamp(conversation.created),
        "updated": timestamp(conversation.updated),
        "directory": overview.directory,
        "provider": overview.provider,
        "model": overview.model,
        "runs": overview.runs,
        "rounds": overview.rounds,
        "usage": overview.usage._asdict(),
    }


def as_row(overview: Overview) -> dict[str, Any]:
    """What a pipe gets of it."""
    return {
        "n": overview.place,
        "id": overview.conversation.id,
        "title": overview.conversation.title,
        "time": timestamp(overview.conversation.updated),
        "model": f"{overview.provider}:{overview.model}",
        "rounds": overview.rounds,
        "cost": overview.usage.cost,
    }


def as_table_row(overview: Overview, now: float) -> dict[str, Any]:
    """What a terminal shows of it, most of the room left to the title. `now` is in seconds since 1970."""
    room = max(NARROWEST_MODEL, get_terminal_size().columns // 5)
    model = f"{overview.provider}:{overview.model}"
    if len(model) > room:
        model = overview.model.rpartition("/")[2]
    return {
        "n": overview.place,
        "id": overview.conversation.id,
        "title": overview.conversation.title,
        "age": age(overview.conversation.updated, now),
        "model": cut(model, room),
        "rounds": overview.rounds,
        "cost": dollars(overview.usage.cost),
    }
