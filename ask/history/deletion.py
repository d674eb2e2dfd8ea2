"""Deletes conversations for good: what they held is overwritten in the file, and taken out of what search knows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ask.history.entries import Conversation
from ask.history.store import Store

UNINDEX_MESSAGES = """
INSERT INTO texts (texts, rowid, content, calls) SELECT 'delete', number, content, calls FROM searchable
WHERE number IN (SELECT messages.number FROM messages JOIN runs ON run = runs.number WHERE {} = ?)
"""
"""The index can only forget a text that it is told once more, so this comes before the messages are deleted."""


def find_unused_conversations(store: Store, cutoff: float) -> list[Conversation]:
    """The conversations whose last run began before this time, in seconds since 1970, the oldest first.

    Raises:
        FileError: the history cannot be read.
    """
    rows = store.fetch_rows("SELECT * FROM conversations WHERE updated < ? ORDER BY updated, number", [cutoff])
    return [Conversation(*row) for row in rows]


def delete_conversations(store: Store, conversations: Sequence[Conversation]) -> None:
    """Delete conversations, all of them or none.

    Raises:
        FileError: the history cannot be written.
    """
    with secure_delete_transaction(store) as connection:
        for conversation in conversations:
            connection.execute(UNINDEX_MESSAGES.format("conversation"), [conversation.number])
            connection.execute("DELETE FROM conversations WHERE number = ?", [conversation.number])


def delete_run(store: Store, run_number: int) -> None:
    """Delete one run, and its conversation with it where that has no other.

    Raises:
        FileError: the history cannot be written.
    """
    with secure_delete_transaction(store) as connection:
        conversation = connection.execute("SELECT conversation FROM runs WHERE number = ?", [run_number]).fetchone()
        connection.execute(UNINDEX_MESSAGES.format("runs.number"), [run_number])
        connection.execute("DELETE FROM runs WHERE number = ?", [run_number])
        if (
            conversation
            and not connection.execute("SELECT 1 FROM runs WHERE conversation = ?", conversation).fetchone()
        ):
            connection.execute("DELETE FROM conversations WHERE number = ?", conversation)


@contextmanager
def secure_delete_transaction(store: Store) -> Iterator[sqlite3.Connection]:
    """A transaction behind which nothing is left of what it deletes."""
    store.fetch_rows("PRAGMA secure_delete = ON")
    with store.write_transaction() as connection:
        yield connection
        connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")  # or its words stay in the index
    store.fetch_rows("PRAGMA wal_checkpoint(TRUNCATE)")
