"""Delete conversations and runs so that their content is overwritten in the file and gone from the search index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ask.errors import FileError
from ask.history.entries import Conversation, query_conversations
from ask.history.search_index import erase_unindexed_words, index_message, unindex_messages
from ask.history.store import Store
from ask.messages import Message

if TYPE_CHECKING:
    import sqlite3


IN_RUNS = "IN (SELECT messages.number FROM messages JOIN runs ON run = runs.number WHERE {} = ?)"
"""Matches the messages of a run or of a conversation."""

RUN_WITH_REPLACED = (
    "conversation = (SELECT conversation FROM runs WHERE number = :run) AND (number = :run OR replaced_by = :run)"
)
"""Matches a run and those that it replaced. The conversation is named because only it is indexed."""
IN_CONVERSATION = "conversation = (SELECT number FROM conversations WHERE id = :id)"
REPLACE_RUN = (
    "UPDATE runs SET replaced_by = :new "
    "WHERE conversation = (SELECT conversation FROM runs WHERE number = :new) AND (number = :run OR replaced_by = :run)"
)
"""Marks a run, and the runs that it replaced, as replaced by another one of the same conversation."""


def find_unused_conversations(store: Store, cutoff: float) -> list[Conversation]:
    """List conversations without a run since `cutoff` (seconds since 1970), oldest first."""
    return query_conversations(store, "WHERE updated < ? ORDER BY updated, number", cutoff)


def delete_conversations(
    store: Store, conversations: Sequence[Conversation], on_delete: Callable[[], None] = lambda: None
) -> None:
    """Delete all these conversations in one transaction, then their words from the search index.

    `on_delete` is called in between, because erasing the words can take minutes, and Ctrl-C may end it.
    """
    with _secure_delete_transaction(store, on_delete) as connection:
        for conversation in conversations:
            unindex_messages(connection, IN_RUNS.format("conversation"), conversation.number)
            connection.execute("DELETE FROM conversations WHERE number = ?", [conversation.number])
    _shrink_file(store)


def _shrink_file(store: Store) -> None:
    """Give back the space of deleted pages if they are more than half of the file.

    The rest is copied, which takes no longer than it took to delete. If there is no space for the copy, or another
    process writes, the free pages are used for later conversations.
    """
    with suppress(FileError):
        [(pages, free_pages)] = store.fetch_rows("SELECT * FROM pragma_page_count, pragma_freelist_count")
        if free_pages > pages // 2:
            store.fetch_rows("VACUUM")
            store.fetch_rows("PRAGMA wal_checkpoint(TRUNCATE)")


def delete_run(store: Store, conversation_id: str, run_number: int) -> None:
    """Delete a run with the runs that it replaced, and its conversation if it has no other run.

    If the history was replaced by a backup or a copy of another machine, the number may be that of a run of another
    conversation, which is left.
    """
    with _secure_delete_transaction(store) as connection:
        numbers = f"SELECT number, conversation FROM runs WHERE {RUN_WITH_REPLACED} AND {IN_CONVERSATION}"
        for number, conversation in connection.execute(numbers, {"run": run_number, "id": conversation_id}).fetchall():
            unindex_messages(connection, IN_RUNS.format("runs.number"), number)
            connection.execute("DELETE FROM runs WHERE number = ?", [number])
            unused = "number = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE conversation = conversations.number)"
            connection.execute(f"DELETE FROM conversations WHERE {unused}", [conversation])


def delete_attachment(store: Store, run_number: int, name: str, message: Message, content: str) -> None:
    """Delete a file from a message of a run, and replace the text of the message."""
    with _secure_delete_transaction(store) as connection:
        same = "SELECT number FROM messages WHERE run = ? AND role = ? AND content = ? ORDER BY number"
        for (number,) in connection.execute(same, (run_number, message.role, message.content)).fetchall()[:1]:
            unindex_messages(connection, "= ?", number)
            connection.execute("UPDATE messages SET content = ? WHERE number = ?", (content, number))
            connection.execute("DELETE FROM attachments WHERE message = ? AND name = ?", (number, name))
            index_message(connection, number)


@contextmanager
def _secure_delete_transaction(
    store: Store, on_commit: Callable[[], None] = lambda: None
) -> Iterator[sqlite3.Connection]:
    """Open a write transaction that overwrites what it deletes, on disk as well.

    If it is interrupted after the commit, the next one erases the rest of the words from the search index.
    """
    store.fetch_rows("PRAGMA secure_delete = ON")
    with store.write_transaction() as connection:
        yield connection
    on_commit()
    erase_unindexed_words(store)
    store.fetch_rows("PRAGMA wal_checkpoint(TRUNCATE)")
