"""Rows of the conversation list for a terminal, a pipe and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ask.history.listing import ConversationOverview
from ask.render.amounts import format_age, format_dollars, format_timestamp
from ask.render.text_layout import truncate_text

MIN_MODEL_WIDTH = 12


def to_overview_dict(overview: ConversationOverview) -> dict[str, Any]:
    """Convert an overview with all details to a dict for JSON; times are in ISO 8601."""
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
            "reasoning_tokens": overview.reasoning_tokens,
            "cost": overview.cost,
        },
    }


def format_overview_lines(overviews: Iterable[ConversationOverview]) -> str:
    """Format conversations as tab-separated lines.

    Equivalent to `write_table`, but faster, because there may be thousands of lines.
    """
    lines = []
    for position, identity, title, updated, provider, model, rounds, cost, *_ in overviews:
        beginning = f"{position}\t{identity}\t{' '.join(title.split())}\t{format_timestamp(updated)}"
        end = "" if cost is None else f"{cost:g}"
        lines.append(f"{beginning}\t{' '.join(f'{provider}:{model}'.split())}\t{rounds}\t{end}\n")
    return "".join(lines)


def to_overview_row(overview: ConversationOverview, now: float) -> dict[str, Any]:
    """Convert an overview to a table row for a terminal. `now` is a Unix time.

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
        "age": format_age(overview.updated, now),
        "model": truncate_text(model, model_width),
        "rounds": overview.rounds,
        "cost": format_dollars(overview.cost),
    }
