"""What a list tells of the conversations, without reading what was said in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ask.errors import UsageError
from ask.history.store import Store

if TYPE_CHECKING:
    from ask.history.entries import Conversation

ALL = -1
"""As a limit: none."""

NEWEST_FIRST = "updated DESC, conversations.number DESC"
HERE = "WHERE conversations.number IN (SELECT conversation FROM runs WHERE directory = :directory)"
LINE = "id, title, updated, provider, model, sum(rounds), sum(cost)"
DETAILS = "created, directory, count(*), sum(input_tokens), sum(output_tokens), sum(cached_tokens)"
"""What `Overview` has, in its order. The details take half as long again: each sum goes through all runs."""
QUERY = f"""
SELECT max(runs.number), {{columns}}
FROM conversations CROSS JOIN runs ON conversation = conversations.number {{where}}
GROUP BY updated, conversations.number ORDER BY {NEWEST_FIRST} LIMIT :limit
"""
"""What has no sum is that of the last run, since SQLite takes it from the row that has the `max`.

`CROSS` keeps it to the order of the index, in which it stops at the limit.
"""


class Overview(NamedTuple):
    """What a list tells of a conversation; times are in seconds since 1970, cost is in US dollars.

    Attributes:
        place: in the list of all, 1 for the newest.
        id: of the conversation.
        title: its first question, in short.
        updated: when it went on last.
        provider: whom its last run asked.
        model: which model.
        rounds: of tool calls, in all runs.
        cost: of all runs; None where none was told, as for tokens.
        created: when it began; a detail, as all that follow.
        directory: where its last run took place.
        runs: how many there are.
        input_tokens: of all runs.
        output_tokens: of all runs.
        cached_tokens: of all runs.
    """

    place: int
    id: str
    title: str
    updated: float
    provider: str
    model: str
    rounds: int
    cost: float | None
    created: float = 0.0
    directory: str = ""
    runs: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


def overviews(store: Store, limit: int = ALL, directory: str = "", *, details: bool = False) -> list[Overview]:
    """The newest conversations, the newest first: all, or those that had a run in this directory.

    Args:
        store: the history.
        limit: how many at most.
        directory: "" for all.
        details: read these too.

    Raises:
        FileError: the history cannot be read.
    """
    query = QUERY.format(columns=f"{LINE}, {DETAILS}" if details else LINE, where=HERE if directory else "")
    rows = store.rows(query, {"limit": limit, "directory": directory})
    places: Iterable[int] = itertools.count(1)
    if directory:
        every = store.rows(f"SELECT id FROM conversations ORDER BY {NEWEST_FIRST}")
        place_of = {row[0]: place for place, row in enumerate(every, 1)}
        places = [place_of[row["id"]] for row in rows]
    return [Overview(place, *columns) for place, (_, *columns) in zip(places, rows, strict=False)]


def newest(store: Store) -> Conversation:
    """The newest conversation.

    Raises:
        UsageError: there is none.
        FileError: the history cannot be read.
    """
    from ask.history.entries import Conversation  # which a list does without

    begun = "EXISTS (SELECT 1 FROM runs WHERE conversation = conversations.number)"
    found = store.rows(f"SELECT * FROM conversations WHERE {begun} ORDER BY {NEWEST_FIRST} LIMIT 1")
    if not found:
        raise UsageError("no conversation is saved", "each question that is asked begins one")
    return Conversation(*found[0])
