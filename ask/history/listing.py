"""List conversations without reading their messages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ask.history.entries import SUMMED_USAGE
from ask.history.store import Store
from ask.records import COST_DECIMALS, NamedTuple

NO_LIMIT = -1  # as in SQL's LIMIT

NEWEST_FIRST = "updated DESC, conversations.number DESC"
WHERE_DIRECTORY = "WHERE conversations.number IN (SELECT conversation FROM runs WHERE directory = :directory)"
LIST_COLUMNS = f"id, title, updated, provider, model, sum(rounds), round(sum(cost), {COST_DECIMALS})"
DETAIL_COLUMNS = f"created, directory, count(*), {SUMMED_USAGE}"
"""The fields of `ConversationOverview` after `position`, in order. The details make the query about 50% slower."""
OVERVIEW_QUERY = f"""
SELECT max(runs.number), {{columns}}
FROM conversations CROSS JOIN runs ON conversation = conversations.number {{where}}
GROUP BY updated, conversations.number ORDER BY {NEWEST_FIRST} LIMIT :limit
"""
"""Columns without an aggregate come from the last run: SQLite takes them from the row with the `max`.

`CROSS JOIN` makes SQLite go through the index of `updated`, so that it can stop at the limit.
https://sqlite.org/lang_select.html#bare_columns_in_an_aggregate_query
"""


class ConversationOverview(NamedTuple):
    """A row in the list of conversations.

    Times are in seconds since 1970, cost is in US dollars. Cost, token counts and rounds are totals over all runs, and
    cost and token counts are None if no provider reported them. Provider, model and directory are those of the last
    run. The fields from `created` on are set only if details were asked for.
    """

    position: int
    """The position in the list of all conversations, 1 for the newest."""
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
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    cache_write_12h_tokens: int | None = None
    service_tier: str | None = None


def list_conversations(
    store: Store, limit: int = NO_LIMIT, directory: str = "", *, include_details: bool = False
) -> list[ConversationOverview]:
    """List conversations, newest first; only those with a run in `directory`, if set."""
    query = OVERVIEW_QUERY.format(
        columns=f"{LIST_COLUMNS}, {DETAIL_COLUMNS}" if include_details else LIST_COLUMNS,
        where=WHERE_DIRECTORY if directory else "",
    )
    rows = store.fetch_rows(query, {"limit": limit, "directory": directory})
    positions: Iterable[int] = itertools.count(1)
    if directory:
        id_rows = store.fetch_rows(f"SELECT id FROM conversations ORDER BY {NEWEST_FIRST}")
        position_by_id = {row[0]: position for position, row in enumerate(id_rows, 1)}
        positions = [position_by_id[row["id"]] for row in rows]
    return [ConversationOverview(position, *columns) for position, (_, *columns) in zip(positions, rows, strict=False)]


class ConversationTitle(NamedTuple):
    """A saved conversation in a list to choose from; `position` is as in `ConversationOverview`."""

    position: int
    id: str
    title: str
    updated: float


def find_titles(store: Store, text: str, limit: int) -> list[ConversationTitle]:
    """Find the newest conversations whose titles contain all words of a text, in any case."""
    words = text.casefold().split()
    query = f"SELECT id, title, updated FROM conversations ORDER BY {NEWEST_FIRST} LIMIT ?"
    rows = store.fetch_rows(query, [NO_LIMIT if words else limit])
    matches = (
        ConversationTitle(position, *row)
        for position, row in enumerate(rows, 1)
        if all(word in row["title"].casefold() for word in words)
    )
    return list(itertools.islice(matches, limit))


def find_conversation_folders(
    store: Store, directory: str | None, limit: int, offset: int
) -> list[tuple[str, str, float, str]]:
    """Find the newest conversations, by default of all folders; return the ID, title, time and folder of each.

    The folder is that of the last run.
    """
    rows = store.fetch_rows(
        f"""
SELECT id, title, updated, directory FROM conversations JOIN runs ON runs.number = (
    SELECT max(number) FROM runs WHERE conversation = conversations.number
) WHERE :directory IS NULL OR directory = :directory ORDER BY {NEWEST_FIRST} LIMIT :limit OFFSET :offset
""",
        {"directory": directory, "limit": limit, "offset": offset},
    )
    return [(row["id"], row["title"], row["updated"], row["directory"]) for row in rows]
