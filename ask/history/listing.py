"""What a list tells of the conversations, without reading what was said in them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ask.errors import UsageError
from ask.history.store import Store

if TYPE_CHECKING:
    from ask.history.entries import Conversation

NO_LIMIT = -1
"""As a limit: none."""

NEWEST_FIRST = "updated DESC, conversations.number DESC"
WHERE_DIRECTORY = "WHERE conversations.number IN (SELECT conversation FROM runs WHERE directory = :directory)"
LIST_COLUMNS = "id, title, updated, provider, model, sum(rounds), sum(cost)"
DETAIL_COLUMNS = "created, directory, count(*), sum(input_tokens), sum(output_tokens), sum(cached_tokens)"
"""What `ConversationOverview` has, in its order. The details take half as long again: each sum goes through all runs."""
OVERVIEW_QUERY = f"""
SELECT max(runs.number), {{columns}}
FROM conversations CROSS JOIN runs ON conversation = conversations.number {{where}}
GROUP BY updated, conversations.number ORDER BY {NEWEST_FIRST} LIMIT :limit
"""
"""What has no sum is that of the last run, since SQLite takes it from the row that has the `max`.

`CROSS` keeps it to the order of the index, in which it stops at the limit.
"""


class ConversationOverview(NamedTuple):
    """What a list tells of a conversation; times are in seconds since 1970, cost is in US dollars.

    Attributes:
        position: in the list of all, 1 for the newest.
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

    position: int
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


def list_conversations(
    store: Store, limit: int = NO_LIMIT, directory: str = "", *, include_details: bool = False
) -> list[ConversationOverview]:
    """The newest conversations, the newest first: all, or those that had a run in this directory.

    Args:
        store: the history.
        limit: how many at most.
        directory: "" for all.
        include_details: read these too.

    Raises:
        FileError: the history cannot be read.
    """
    query = OVERVIEW_QUERY.format(
        columns=f"{LIST_COLUMNS}, {DETAIL_COLUMNS}" if include_details else LIST_COLUMNS,
        where=WHERE_DIRECTORY if directory else "",
    )
    rows = store.fetch_rows(query, {"limit": limit, "directory": directory})
    places: Iterable[int] = itertools.count(1)
    if directory:
        every = store.fetch_rows(f"SELECT id FROM conversations ORDER BY {NEWEST_FIRST}")
        place_of = {row[0]: place for place, row in enumerate(every, 1)}
        places = [place_of[row["id"]] for row in rows]
    return [ConversationOverview(place, *columns) for place, (_, *columns) in zip(places, rows, strict=False)]


def find_newest_conversation(store: Store) -> Conversation:
    """The newest conversation.

    Raises:
        UsageError: there is none.
        FileError: the history cannot be read.
    """
    from ask.history.entries import Conversation  # which a list does without

    begun = "EXISTS (SELECT 1 FROM runs WHERE conversation = conversations.number)"
    found = store.fetch_rows(f"SELECT * FROM conversations WHERE {begun} ORDER BY {NEWEST_FIRST} LIMIT 1")
    if not found:
        raise UsageError("no conversation is saved", "each question that is asked begins one")
    return Conversation(*found[0])
