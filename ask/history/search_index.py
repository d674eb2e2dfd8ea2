"""The full-text indexes of the history: one of words, and one of trigrams for scripts without spaces between words."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from ask.history.store import Store

UNSPACED_RANGES = (
    (0x0E00, 0x109F),  # Thai, Lao, Tibetan, Burmese
    (0x1100, 0x11FF),  # the parts of Korean syllables, as in file names of macOS
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x1AAF),  # Tai scripts
    (0x231A, 0x23FF),  # emoji among technical symbols
    (0x2600, 0x27BF),  # emoji among older symbols
    (0x2B00, 0x2BFF),
    (0x2E80, 0xA4CF),  # Chinese, Japanese, Yi, letters of Korean
    (0xA960, 0xAADF),  # Javanese and others of Southeast Asia
    (0xAC00, 0xD7FF),  # Korean syllables
    (0xF900, 0xFAFF),  # compatibility forms
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFFEF),  # full-width and half-width forms
    (0x16FE0, 0x3FFFF),  # rare characters and most emoji
)
"""The characters that make a text part of the trigram index; trigrams.sql has the same ranges.

Written Korean has spaces, but particles and the parts of compounds are joined to a word.
"""
UNSPACED = f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in UNSPACED_RANGES)}]"

TRIGRAM_CHARACTERS = 3
MERGED_PAGES = 2000
"""Pages of 4 KB of an index that are rewritten in one transaction, which takes half a second."""
PAUSE_SECONDS = 0.02
"""Time between two transactions: other processes try every 10 ms whether they can write."""
WORD_INDEX, TRIGRAM_INDEX = ("texts", "searchable"), ("trigrams", "trigram_texts")
"""Each index with the view that it reads."""


def has_unspaced(text: str) -> bool:
    """Check whether a text has a character that makes it part of the trigram index."""
    return not text.isascii() and re.search(UNSPACED, text) is not None


def supports_trigrams() -> bool:
    """Check whether SQLite has the trigram tokenizer; 3.26 in RHEL 8 does not. Without it, such texts are scanned."""
    import sqlite3

    return sqlite3.sqlite_version_info >= (3, 34)


def list_indexes() -> tuple[tuple[str, str], ...]:
    """Return the indexes that this SQLite can update."""
    return (WORD_INDEX, TRIGRAM_INDEX) if supports_trigrams() else (WORD_INDEX,)


def index_message(connection: sqlite3.Connection, number: int, text: str | None = None) -> None:
    """Add a message to the indexes. `text`, if known, is its text and that of its calls; it saves time."""
    for table, view in list_indexes() if text is None or has_unspaced(text) else (WORD_INDEX,):
        query = f"INSERT INTO {table} (rowid, content, calls) SELECT * FROM {view} WHERE number = ?"
        connection.execute(query, [number])


def unindex_messages(connection: sqlite3.Connection, condition: str, number: int) -> None:
    """Remove messages from the indexes.

    Must run before they change: FTS5 needs the original text to remove it from an external content index.
    https://sqlite.org/fts5.html#the_delete_command

    Args:
        connection: a write transaction.
        condition: selects the numbers of the messages, with a placeholder for `number`.
        number: what the condition refers to.
    """
    for table, view in list_indexes():
        query = f"INSERT INTO {table} ({table}, rowid, content, calls) SELECT 'delete', * FROM {view} WHERE number "
        connection.execute(query + condition, [number])


def erase_unindexed_words(store: Store, pages: int = MERGED_PAGES) -> None:
    """Overwrite the words of removed messages, which FTS5 otherwise keeps until a later merge.

    This rewrites the indexes. Between the steps, of `pages` each, other processes can write, and Ctrl-C ends it.
    https://sqlite.org/fts5.html#the_merge_command
    """
    for table, _ in list_indexes():
        count, changes = -pages, 2  # a negative number begins a merge of everything
        while changes >= 2:
            with store.write_transaction() as connection:
                before = connection.total_changes
                connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", [count])
                changes = connection.total_changes - before
            count = pages
            time.sleep(PAUSE_SECONDS)
