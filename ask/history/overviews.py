"""What a list tells of the conversations, without reading what was said in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from ask.errors import UsageError
from ask.history.entries import Conversation
from ask.history.store import Store
from ask.messages import Usage

ALL = -1
"""As a limit: none."""

NEWEST_FIRST = "updated DESC, conversations.number DESC"
HERE = "WHERE conversations.number IN (SELECT conversation FROM runs WHERE directory = :directory)"
QUERY = f"""
SELECT {", ".join(f"conversations.{name}" for name in Conversation._fields)}, provider, model, directory,
    count(*), sum(rounds), {", ".join(f"sum({name})" for name in Usage._fields)}, max(runs.number)
FROM conversations CROSS JOIN runs ON conversation = conversations.number {{where}}
GROUP BY updated, conversations.number ORDER BY {NEWEST_FIRST} LIMIT :limit
"""
"""What has no sum is that of the last run, since SQLite takes it from the row that has the `max`.

`CROSS` keeps it to the order of the index, in which it stops at the limit.
"""


class Overview(NamedTuple):
    """What a list tells of a conversation.

    Attributes:
        place: in the list of all, 1 for the newest.
        conversation: the conversation.
        provider: whom its last run asked.
        model: which model.
        directory: where its last run took place.
        runs: how many there are.
        rounds: of tool calls, in all runs.
        usage: of all runs.
    """

    place: int
    conversation: Conversation
    provider: str
    model: str
    directory: str
    runs: int
    rounds: int
    usage: Usage


def overviews(store: Store, limit: int = ALL, directory: str = "") -> list[Overview]:
    """The newest conversations, the newest first: all, or those that had a run in this directory.

    Raises:
        FileError: the history cannot be read.
    """
    where = HERE if directory else ""
    rows = store.rows(QUERY.format(where=where), {"limit": limit, "directory": directory})
    places: Iterable[int] = itertools.count(1)
    if directory:
        every = store.rows(f"SELECT number FROM conversations ORDER BY {NEWEST_FIRST}")
        place_of = {row[0]: place for place, row in enumerate(every, 1)}
        places = [place_of[row[0]] for row in rows]
    # By place, not by name, which would take twice as long for many.
    return [
        Overview(place, Conversation(*row[:5]), row[5], row[6], row[7], row[8], row[9], Usage(*row[10:14]))
        for place, row in zip(places, rows, strict=False)
    ]


def newest(store: Store) -> Conversation:
    """The newest conversation.

    Raises:
        UsageError: there is none.
        FileError: the history cannot be read.
    """
    found = overviews(store, 1)
    if not found:
        raise UsageError("no conversation is saved", "each question that is asked begins one")
    return found[0].conversation
