"""Rows of the conversation list for a terminal, a pipe and JSON."""

from __future__ import annotations

import time
from typing import Any

from ask.history.listing import ConversationOverview
from ask.messages import Usage
from ask.render.amounts import format_age, format_dollars, format_timestamp
from ask.render.text_layout import truncate_text

MIN_MODEL_WIDTH = 12


def to_overview_dict(overview: ConversationOverview) -> dict[str, Any]:
    """Convert an overview with all details to a dict for JSON; times are in ISO 8601."""
    fields = overview._asdict()
    names = ("id", "title", "created", "updated", "directory", "provider", "model", "runs", "rounds")
    return {
        "number": overview.position,
        **{name: fields[name] for name in names},
        "created": format_timestamp(overview.created),
        "updated": format_timestamp(overview.updated),
        "usage": {name: fields[name] for name in Usage._fields},
    }


def to_pipe_row(overview: ConversationOverview) -> dict[str, Any]:
    """Convert an overview to a table row for a pipe."""
    position, identity, title, updated, provider, model, rounds, cost, *_ = overview
    return {
        "n": position,
        "id": identity,
        "title": title,
        "updated": format_timestamp(updated),
        "model": f"{provider}:{model}",
        "rounds": rounds,
        "cost": cost,
    }


def to_terminal_row(overview: ConversationOverview) -> dict[str, Any]:
    """Convert an overview to a table row for a terminal.

    Provider and vendor are left out of a long model name, which leaves more columns for the title.
    """
    from shutil import get_terminal_size  # slow to load, and only needed for a terminal

    model_width = max(MIN_MODEL_WIDTH, get_terminal_size().columns // 5)
    model = f"{overview.provider}:{overview.model}"
    if len(model) > model_width:
        model = overview.model.rpartition("/")[2]
    return {
        "n": overview.position,
        "id": overview.id,
        "title": overview.title,
        "age": format_age(overview.updated, time.time()),
        "model": truncate_text(model, model_width),
        "rounds": overview.rounds,
        "cost": format_dollars(overview.cost),
    }
