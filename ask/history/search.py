"""Finds words in all that was said: full-text search, the newest conversation first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ask.history.entries import Conversation
from ask.history.store import Store

MATCH_START, MATCH_END = "\x01", "\x02"
"""Stand around what was found in an excerpt."""
EXCERPT_WORDS = 24
FIRST_BATCH_SIZE = 500
"""Messages in the first query: the newest conversations are found without looking at all that hold a word."""
BATCH_GROWTH = 8
"""How many times more there are in each further one, since each may have to gather all words with a beginning."""

PHRASE_PATTERN = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')

CANDIDATES_QUERY = """
SELECT texts.rowid, conversation FROM texts
JOIN messages ON messages.number = texts.rowid JOIN runs ON runs.number = run
WHERE texts MATCH ? AND texts.rowid < ? ORDER BY texts.rowid DESC LIMIT ?
"""
EXCERPTS_QUERY = f"""
SELECT conversations.*, role, time, snippet(texts, -1, '{MATCH_START}', '{MATCH_END}', '…', {EXCERPT_WORDS}) AS excerpt FROM texts
JOIN messages ON messages.number = texts.rowid JOIN runs ON runs.number = run
JOIN conversations ON conversations.number = conversation
WHERE texts MATCH ? AND texts.rowid >= ? AND +texts.rowid IN (SELECT value FROM json_each(?))
ORDER BY texts.rowid DESC
"""
"""The plus keeps SQLite from starting the search afresh for each."""


class SearchHit(NamedTuple):
    """A conversation that holds the words, and the last message in it that does.

    Attributes:
        conversation: the conversation.
        role: of the message.
        time: of the message, in seconds since 1970.
        excerpt: of the message, what was found between `MATCH_START` and `MATCH_END`.
    """

    conversation: Conversation
    role: str
    time: float
    excerpt: str


def search_conversations(store: Store, words: Sequence[str], limit: int = -1) -> list[SearchHit]:
    """The conversations with a message that holds all these words, by their last such message, the newest first.

    Args:
        store: the history.
        words: what to look for: words, phrases, and beginnings of words with a `*` behind them. No case, no accents.
        limit: how many to find at most; below 0 for all.

    Raises:
        FileError: the history cannot be read.
    """
    query = build_match_expression(words)
    if not query:
        return []
    messages = _find_newest_messages(store, query, limit)
    rows = store.fetch_rows(EXCERPTS_QUERY, (query, min(messages, default=0), json.dumps(messages)))
    try:
        hits = [
            SearchHit(
                Conversation(*(row[name] for name in Conversation._fields)), row["role"], row["time"], row["excerpt"]
            )
            for row in rows
        ]
        hits.sort(key=lambda hit: -hit.time)  # what was imported is older than its number says
    except (IndexError, TypeError) as fault:  # other columns, or no number
        raise store.make_damaged_error() from fault
    return hits


def _find_newest_messages(store: Store, query: str, limit: int) -> list[int]:
    """The newest message that the query finds in each conversation, the newest first."""
    newest: dict[int, int] = {}
    before, at_once = 2**63 - 1, FIRST_BATCH_SIZE
    while rows := store.fetch_rows(CANDIDATES_QUERY, (query, before, at_once)):
        for message, conversation in rows:
            if len(newest) == limit:
                return list(newest.values())
            newest.setdefault(conversation, message)
        before, at_once = rows[-1][0], at_once * BATCH_GROWTH
    return list(newest.values())


def build_match_expression(words: Sequence[str]) -> str:
    """The words in the language of FTS5, in which nothing of them can then mean anything else; "" for none.

    A word with a space in it is a phrase, and so is what stands in quotes within a word.
    """
    phrases = (piece for word in words for piece in _split_phrases(word))
    return " ".join(f'"{text}"{star}' for text, star in phrases)


def _split_phrases(word: str) -> Iterator[tuple[str, str]]:
    """The phrases of a word, each with a star where it is only a beginning; none without a letter or digit."""
    found = (
        [(phrase or bare, star) for phrase, star, bare in PHRASE_PATTERN.findall(word)] if '"' in word else [(word, "")]
    )
    for text, star in found:
        if any(map(str.isalnum, text)):
            whole = text.rstrip().removesuffix("*")
            yield whole.replace("\0", " "), star or ("*" if whole != text.rstrip() else "")
