"""What a search found: two lines each on a terminal, what was found in bold; a row each in a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shutil import get_terminal_size
from typing import Any

from ask.console import BOLD, DIM, Output
from ask.history.search import HIT, HIT_END, Hit
from ask.render.times import age, timestamp
from ask.render.width import columns, cut
from ask.text import one_line

MARKS = re.compile(f"[{HIT}{HIT_END}]")
LONGEST = 300
"""Characters of an excerpt off a terminal; a word may be as long as a message."""
MARGIN = "    "


def as_row(hit: Hit) -> dict[str, Any]:
    """A hit as a row of a table; times as in ISO 8601."""
    excerpt = "".join(text for text, _ in pieces(hit.excerpt, LONGEST))
    return {
        "id": hit.conversation.id,
        "title": hit.conversation.title,
        "time": timestamp(hit.time),
        "role": hit.role,
        "excerpt": excerpt,
    }


def write_hit(output: Output, hit: Hit, now: float) -> None:
    """Show a hit on a terminal. `now` is in seconds since 1970."""
    room = get_terminal_size().columns
    begin = f"{hit.conversation.id}  {age(hit.time, now):>6}  "
    output.write(begin + cut(one_line(hit.conversation.title), room - len(begin)) + "\n")
    label = f"{MARGIN}{hit.role}: "
    output.write(label, DIM)
    for text, found in pieces(hit.excerpt, room - len(label)):
        output.write(text, BOLD if found else "")
    output.write("\n")


def pieces(excerpt: str, room: int) -> Iterator[tuple[str, bool]]:
    """The excerpt on one line in so many columns, in pieces that tell whether they are what was found.

    Where it does not fit, what stands before the first find gets a third of the room.
    """
    parts = [(spaced(text), place % 2 == 1) for place, text in enumerate(MARKS.split(excerpt)) if text]
    if parts and not parts[0][1] and sum(columns(text) for text, _ in parts) > room:
        parts[0] = (cut_before(parts[0][0], room // 3), False)
    for text, found in parts:
        shown = cut(text, room)
        yield shown, found
        room -= columns(shown)
        if room <= 0 or shown != text:
            return


def spaced(text: str) -> str:
    """The text on one line, with the space around it that keeps it from its neighbours."""
    before, after = (" " if edge.isspace() else "" for edge in (text[:1], text[-1:]))
    return before + one_line(text) + after if text.strip() else " "


def cut_before(text: str, room: int) -> str:
    """The text, or as much of its end as fits with a mark before it."""
    if columns(text) <= room:
        return text
    return cut(text[::-1], room)[::-1]
