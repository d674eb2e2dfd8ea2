"""Full-text search in the messages and tool calls of all conversations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ask.history.entries import Conversation
from ask.history.store import Store
from ask.records import NamedTuple

MATCH_START, MATCH_END = "\x01", "\x02"
"""Mark the beginning and the end of each match in an excerpt."""
EXCERPT_WORDS = 24

PHRASE_PATTERN = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')

QUERY = f"""
WITH newest AS (
    SELECT max(texts.rowid) AS number FROM texts
    JOIN messages ON messages.number = texts.rowid JOIN runs ON runs.number = run
    WHERE texts MATCH :expression GROUP BY conversation ORDER BY number DESC LIMIT :limit
)
SELECT conversations.*, role, time,
    snippet(texts, -1, '{MATCH_START}', '{MATCH_END}', '…', {EXCERPT_WORDS}) AS excerpt
FROM texts
JOIN messages ON messages.number = texts.rowid JOIN runs ON runs.number = run
JOIN conversations ON conversations.number = conversation
WHERE texts MATCH :expression AND +texts.rowid IN newest ORDER BY texts.rowid DESC
"""
"""Selects the newest match in each conversation.

The unary plus prevents SQLite from repeating the full-text search for each row id.
"""


class SearchHit(NamedTuple):
    """A matching conversation, with its last matching message."""

    conversation: Conversation
    role: str
    time: float
    """The time of the message, in seconds since 1970."""
    excerpt: str
    """Part of the message, with each match between `MATCH_START` and `MATCH_END`."""


def search_conversations(store: Store, words: Sequence[str], limit: int = -1) -> list[SearchHit]:
    """Find the conversations with a message that contains all these words.

    Sorted by the last matching message, newest first. `words` are words, phrases, or prefixes followed by `*`; case and
    accents are ignored. A negative `limit` finds all.
    """
    expression = build_match_expression(words)
    if not expression:
        return []
    rows = store.fetch_rows(QUERY, {"expression": expression, "limit": limit})
    try:
        hits = [
            SearchHit(
                Conversation(*(row[name] for name in Conversation._fields)), row["role"], row["time"], row["excerpt"]
            )
            for row in rows
        ]
        hits.sort(key=lambda hit: -hit.time)  # imported messages are older than their row ids suggest
    except (IndexError, TypeError) as error:  # a damaged file with other columns, or a time that is no number
        raise store.make_damaged_error() from error
    return hits


def build_match_expression(words: Sequence[str]) -> str:
    """Build an FTS5 expression that matches all words.

    A word that contains a space is a phrase, and so is a quoted part of a word. Everything is quoted, so that no word
    is parsed as an operator. Returns "" if no phrase contains a letter or digit.
    """
    phrases = (piece for word in words for piece in _split_phrases(word))
    return " ".join(f'"{text}"{star}' for text, star in phrases)


def _split_phrases(word: str) -> Iterator[tuple[str, str]]:
    """Yield the phrases of a word, each with a "*" if it is a prefix; skip those without a letter or digit."""
    phrases = (
        [(phrase or bare, star) for phrase, star, bare in PHRASE_PATTERN.findall(word)] if '"' in word else [(word, "")]
    )
    for text, star in phrases:
        if any(map(str.isalnum, text)):
            stripped = text.rstrip().removesuffix("*")
            yield stripped.replace("\0", " "), star or ("*" if stripped != text.rstrip() else "")
