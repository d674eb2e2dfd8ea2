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


def to_overview_row(overview: ConversationOverview, *, is_terminal: bool) -> dict[str, Any]:
    """Convert an overview to a table row.

    On a terminal, provider and vendor are left out of a long model name, which leaves more columns for the title.
    """
    row: dict[str, Any] = {
        "n": overview.position,
        "id": overview.id,
        "title": overview.title,
        "age": format_timestamp(overview.updated),
        "model": f"{overview.provider}:{overview.model}",
        "rounds": overview.rounds,
        "cost": overview.cost,
    }
    if is_terminal:
        from shutil import get_terminal_size  # slow to load, and only needed for a terminal

        width = max(MIN_MODEL_WIDTH, get_terminal_size().columns // 5)
        model = row["model"] if len(row["model"]) <= width else overview.model.rpartition("/")[2]
        row["model"] = truncate_text(model, width)
        row |= {"age": format_age(overview.updated, time.time()), "cost": format_dollars(overview.cost)}
    return row
