"""Search results: two lines each with bold matches on a terminal, one row each in a pipe."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from shutil import get_terminal_size
from typing import Any

from ask.console import BOLD, DIM, StandardOutput
from ask.history.search import MATCH_END, MATCH_START, SearchHit
from ask.render.amounts import format_timestamp
from ask.render.text_layout import truncate_text
from ask.text import format_age, format_one_line, measure_width

MATCH_MARKERS = re.compile(f"[{MATCH_START}{MATCH_END}]")
MAX_EXCERPT_CHARACTERS = 300
"""Maximum length of an excerpt off a terminal; a word may be as long as a message."""
MARGIN = "    "


def to_hit_row(hit: SearchHit) -> dict[str, Any]:
    """Convert a search hit to a table row; times are in ISO 8601."""
    excerpt = "".join(text for text, _ in _split_excerpt(hit.excerpt, MAX_EXCERPT_CHARACTERS))
    return {
        "id": hit.conversation.id,
        "title": hit.conversation.title,
        "time": format_timestamp(hit.time),
        "role": hit.role,
        "excerpt": excerpt,
    }


def write_hit(output: StandardOutput, hit: SearchHit) -> None:
    """Write a search hit to a terminal."""
    width = get_terminal_size().columns
    prefix = f"{hit.conversation.id}  {format_age(hit.time, time.time()):>6}  "
    output.write(prefix + truncate_text(format_one_line(hit.conversation.title), width - len(prefix)) + "\n")
    label = f"{MARGIN}{hit.role}: "
    output.write(label, DIM)
    for text, is_match in _split_excerpt(hit.excerpt, width - len(label)):
        output.write(text, BOLD if is_match else "")
    output.write("\n")


def _split_excerpt(excerpt: str, max_width: int) -> Iterator[tuple[str, bool]]:
    """Split an excerpt into pieces of text, each with whether it is a match.

    The pieces fit in `max_width` columns. If the excerpt is too long, the text before the first match gets a third of
    them.
    """
    parts = [
        (_normalize_spaces(text), position % 2 == 1)
        for position, text in enumerate(MATCH_MARKERS.split(excerpt))
        if text
    ]
    if parts and not parts[0][1] and sum(measure_width(text) for text, _ in parts) > max_width:
        parts[0] = (truncate_text(parts[0][0][::-1], max_width // 3)[::-1], False)
    for text, is_match in parts:
        shown_text = truncate_text(text, max_width)
        yield shown_text, is_match
        max_width -= measure_width(shown_text)
        if max_width <= 0 or shown_text != text:
            return


def _normalize_spaces(text: str) -> str:
    """Put a text on one line; keep a space at either end if there was whitespace."""
    leading, trailing = (" " if edge.isspace() else "" for edge in (text[:1], text[-1:]))
    return leading + format_one_line(text) + trailing if text.strip() else " "
