"""Find a saved conversation: the current one of a terminal or folder, the newest, or the one that a reference means."""

from __future__ import annotations

import time

from ask.errors import UsageError
from ask.history.entries import Conversation, query_conversations
from ask.history.listing import find_titles
from ask.history.store import Store
from ask.text import format_age, format_one_line

MAX_POSITION_DIGITS = 9
"""Longer numbers are not list positions, and may be beyond what SQLite can store."""
MAX_CANDIDATES = 5
MAX_TITLE_EXCERPT_CHARACTERS = 40
"""Characters of a title in an error that names several conversations."""
NEWEST_RUN_FIRST = "started > ?, started DESC, runs.number DESC"
"""Sorts runs by time. An imported one is neither newer because it was added last, nor because it is from the future."""
LIST_HINT = "ask history list shows all conversations"


def find_current_conversation(store: Store, *, terminal: str = "", directory: str = "") -> Conversation | None:
    """Find the conversation that -c continues: that of the last run on a terminal or, without one, in a directory."""
    column, value = ("terminal", terminal) if terminal else ("directory", directory)
    newest = f"SELECT conversation FROM runs WHERE {column} = ? ORDER BY {NEWEST_RUN_FIRST} LIMIT 1"
    return next(iter(query_conversations(store, f"WHERE number = ({newest})", value, time.time())), None)


def find_newest_conversation(store: Store) -> Conversation:
    """Return the newest conversation that has a run.

    Raises:
        UsageError: there is none.
    """
    has_run = "EXISTS (SELECT 1 FROM runs WHERE conversation = conversations.number)"
    order = "ORDER BY updated DESC, number DESC LIMIT 1"
    matches = query_conversations(store, f"WHERE {has_run} AND updated <= ? {order}", time.time())
    matches = matches or query_conversations(store, f"WHERE {has_run} {order}")
    if not matches:
        raise UsageError("no saved conversations", "each question starts one")
    return matches[0]


def find_last_run(store: Store, terminal: str, directory: str) -> tuple[str, float] | None:
    """Find the last run on this terminal or, without a terminal, in this directory.

    Runs that only wrote a summary do not count. Returns the id of the conversation and the run's start time, in seconds
    since 1970.
    """
    column, value = ("terminal", terminal) if terminal else ("directory", directory)
    rows = store.fetch_rows(
        "SELECT conversations.id, started FROM runs JOIN conversations ON conversations.number = runs.conversation "
        f"WHERE {column} = ? AND first_kept_run IS NULL ORDER BY {NEWEST_RUN_FIRST} LIMIT 1",
        [value, time.time()],
    )
    return next(((row[0], row[1]) for row in rows), None)


def find_conversation(store: Store, reference: str, *, by_title: bool = False) -> Conversation:
    """Find a conversation by id, list position (1 is the newest), id prefix or, with `by_title`, words of its title.

    Raises:
        UsageError: there is no match, or there are several.
    """
    matches = query_conversations(store, "WHERE id = ?", reference)
    is_position = reference.isdecimal() and len(reference) <= MAX_POSITION_DIGITS and int(reference) > 0
    if not matches and is_position:
        matches = query_conversations(store, "ORDER BY updated DESC, number DESC LIMIT 1 OFFSET ?", int(reference) - 1)
    if not matches and reference:
        matches = query_conversations(
            store, "WHERE substr(id, 1, ?) = ? LIMIT ?", len(reference), reference, MAX_CANDIDATES + 1
        )
    if not matches and by_title and reference.strip() and not reference.isdecimal():
        titles = find_titles(store, reference, MAX_CANDIDATES + 1)
        matches = [match for title in titles for match in query_conversations(store, "WHERE id = ?", title.id)]
    if not matches:
        raise UsageError(f"there is no conversation {reference!r}", LIST_HINT)
    if len(matches) > 1:
        candidates = [_format_candidate(match) for match in matches[:MAX_CANDIDATES]]
        more = "; ask history list shows more" * (len(matches) > MAX_CANDIDATES)
        raise UsageError(f"{reference!r} matches several conversations", f"use one of {', '.join(candidates)}{more}")
    return matches[0]


def _format_candidate(conversation: Conversation) -> str:
    """Format a conversation so that it can be distinguished from others with the same title."""
    title = format_one_line(conversation.title, MAX_TITLE_EXCERPT_CHARACTERS)
    return f"{conversation.id} ({title}, {format_age(conversation.updated, time.time())})"
