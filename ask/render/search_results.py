"""What a search found: two lines each on a terminal, what was found in bold; a row each in a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shutil import get_terminal_size
from typing import Any

from ask.console import BOLD, DIM, StandardOutput
from ask.history.search import MATCH_END, MATCH_START, SearchHit
from ask.render.times import format_age, format_timestamp
from ask.render.width import measure_width, truncate_text
from ask.text import format_one_line

MATCH_MARKERS = re.compile(f"[{MATCH_START}{MATCH_END}]")
MAX_EXCERPT_WIDTH = 300
"""Characters of an excerpt off a terminal; a word may be as long as a message."""
MARGIN = "    "


def to_hit_row(hit: SearchHit) -> dict[str, Any]:
    """A hit as a row of a table; times as in ISO 8601."""
    excerpt = "".join(text for text, _ in split_excerpt(hit.excerpt, MAX_EXCERPT_WIDTH))
    return {
        "id": hit.conversation.id,
        "title": hit.conversation.title,
        "time": format_timestamp(hit.time),
        "role": hit.role,
        "excerpt": excerpt,
    }


def write_hit(output: StandardOutput, hit: SearchHit, now: float) -> None:
    """Show a hit on a terminal. `now` is in seconds since 1970."""
    room = get_terminal_size().columns
    begin = f"{hit.conversation.id}  {format_age(hit.time, now):>6}  "
    output.write(begin + truncate_text(format_one_line(hit.conversation.title), room - len(begin)) + "\n")
    label = f"{MARGIN}{hit.role}: "
    output.write(label, DIM)
    for text, found in split_excerpt(hit.excerpt, room - len(label)):
        output.write(text, BOLD if found else "")
    output.write("\n")


def split_excerpt(excerpt: str, max_width: int) -> Iterator[tuple[str, bool]]:
    """The excerpt on one line in so many columns, in pieces that tell whether they are what was found.

    Where it does not fit, what stands before the first find gets a third of the room.
    """
    parts = [
        (normalize_spaces(text), place % 2 == 1) for place, text in enumerate(MATCH_MARKERS.split(excerpt)) if text
    ]
    if parts and not parts[0][1] and sum(measure_width(text) for text, _ in parts) > max_width:
        parts[0] = (truncate_start(parts[0][0], max_width // 3), False)
    for text, found in parts:
        shown = truncate_text(text, max_width)
        yield shown, found
        max_width -= measure_width(shown)
        if max_width <= 0 or shown != text:
            return


def normalize_spaces(text: str) -> str:
    """The text on one line, with the space around it that keeps it from its neighbours."""
    before, after = (" " if edge.isspace() else "" for edge in (text[:1], text[-1:]))
    return before + format_one_line(text) + after if text.strip() else " "


def truncate_start(text: str, max_width: int) -> str:
    """The text, or as much of its end as fits with a mark before it."""
    if measure_width(text) <= max_width:
        return text
    return truncate_text(text[::-1], max_width)[::-1]
