"""Full-text search in the messages and tool calls of all conversations."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ask.history.entries import Conversation
from ask.history.search_index import TRIGRAM_CHARACTERS, UNSPACED, has_unspaced
from ask.history.store import Store
from ask.records import NamedTuple

if TYPE_CHECKING:
    import sqlite3

MATCH_START, MATCH_END = "\x01", "\x02"
"""Mark the beginning and the end of each match in an excerpt."""
EXCERPT_WORDS = 24
EXCERPT_MARGINS = (40, 100)
"""Characters before the first match and from there on in an excerpt that is not made of words."""

PHRASE_PATTERN = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
SEPARATOR_CATEGORIES = "PZC"
"""Unicode's categories of punctuation, spaces and control characters."""
LANGUAGE_NAME = re.compile(r"\w[+#]+(?!\w)")
"""A name such as F#, which would be one letter in the index of words."""
LIKE_WILDCARDS, ESCAPED = re.compile(r"[%_\\]"), r"\\\g<0>"
IDEOGRAPHIC_SPACE = "\u3000"
"""The space of Japanese and Chinese keyboards, at which no shell separates words."""
VARIATION_SELECTOR = "\ufe0f"
"""Follows an emoji on some keyboards only."""
MAX_CONTAINED_CHARACTERS = 10_000
"""Characters of a text to find anywhere that are compared: SQLite's LIKE accepts at most 50,000 bytes."""
MAX_TRIGRAMS = 30
"""Trigrams to look up for a word; more of them exclude hardly any text."""

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

UNSPACED_QUERY = """
WITH newest AS (
    SELECT max(messages.number) AS number
    FROM messages CROSS JOIN searchable ON searchable.number = messages.number CROSS JOIN runs ON runs.number = run
    WHERE {} GROUP BY conversation ORDER BY number DESC LIMIT ?
)
SELECT conversations.*, role, time, searchable.content, searchable.calls FROM newest
JOIN messages USING (number) JOIN searchable USING (number)
JOIN runs ON runs.number = run JOIN conversations ON conversations.number = conversation
"""
"""Like `QUERY`, for any conditions."""
IN_WORDS = "messages.number IN (SELECT rowid FROM texts WHERE texts MATCH ?)"
IS_MATCH = "is_match(?, searchable.content, searchable.calls)"
IN_TRIGRAMS = "messages.number IN (SELECT rowid FROM trigrams WHERE trigrams MATCH ?)"
CONTAINS = """
(messages.content LIKE ? ESCAPE '\\' OR messages.number IN (
    SELECT message FROM calls WHERE name || ' ' || arguments LIKE ? ESCAPE '\\'
))
"""


class SearchHit(NamedTuple):
    """A matching conversation, with its last matching message."""

    conversation: Conversation
    role: str
    time: float
    """The time of the message, in seconds since 1970."""
    excerpt: str
    """Part of the message, with each match between `MATCH_START` and `MATCH_END`."""


class SearchQuery(NamedTuple):
    """What a message must contain to match: all of these."""

    phrases: Sequence[tuple[str, str]]
    """Words and phrases, each with "*" if it is a prefix, else with ""."""
    fragments: Sequence[str]
    """Texts to find anywhere, also inside of words."""


def search_conversations(store: Store, words: Sequence[str], limit: int = -1) -> list[SearchHit]:
    """Find the conversations with a message that contains all these words.

    Sorted by the last matching message, newest first. `words` are words, phrases, or prefixes followed by `*`; case and
    accents are ignored. `*` before a word finds it inside of words, too, as does writing that does not separate words.
    A negative `limit` finds all.
    """
    query = parse_query(words)
    if not query.phrases and not query.fragments:
        return []
    try:
        hits = _search_unspaced(store, query, limit)
        if not query.fragments:
            hits = [*_search_words(store, query, limit), *hits]
        newest: dict[int, SearchHit] = {}
        for hit in sorted(hits, key=lambda hit: -hit.time):  # imported messages are older than their row ids suggest
            newest.setdefault(hit.conversation.number, hit)
    except (IndexError, TypeError) as error:  # a damaged file with other columns, or a time that is no number
        raise store.make_damaged_error() from error
    return list(itertools.islice(newest.values(), None if limit < 0 else limit))


def parse_query(words: Sequence[str]) -> SearchQuery:
    """Parse the words of a query. One that contains a space is a phrase, and so is a quoted part of a word.

    Words without a letter, a digit or a symbol outside of ASCII, such as an emoji, are ignored.
    """
    phrases, fragments = [], []
    for word in words:
        for text, star in itertools.chain.from_iterable(map(_split_phrases, word.split(IDEOGRAPHIC_SPACE))):
            if text.startswith("*") and (stripped := text.lstrip("*")):
                fragments.append(stripped)
            elif fragment := _find_fragment(text):
                fragments.append(fragment)
            elif any(map(str.isalnum, text)):
                phrases.append((text, star))
    return SearchQuery(phrases, fragments)


def build_match_expression(phrases: Sequence[tuple[str, str]]) -> str:
    """Build an FTS5 expression that matches all phrases. They are quoted, so that no word is parsed as an operator."""
    return " ".join(f'"{text}"{star}' for text, star in phrases)


def _split_phrases(word: str) -> Iterator[tuple[str, str]]:
    """Yield the phrases of a word, each with a "*" if it is a prefix; skip those of ASCII punctuation."""
    phrases = (
        [(phrase or bare, star) for phrase, star, bare in PHRASE_PATTERN.findall(word)] if '"' in word else [(word, "")]
    )
    for text, star in phrases:
        if any(character.isalnum() or not character.isascii() for character in text):
            stripped = text.rstrip().removesuffix("*")
            yield stripped.replace("\0", " "), star or ("*" if stripped != text.rstrip() else "")


def _find_fragment(text: str) -> str:
    """Return the part of a phrase to find anywhere, because the index of words has no words like it; "" for others."""

    def is_separator(character: str) -> bool:
        return unicodedata.category(character)[0] in SEPARATOR_CATEGORIES

    if LANGUAGE_NAME.search(text):
        return text
    if text.isascii():
        return ""
    start = next((place for place, character in enumerate(text) if not is_separator(character)), len(text))
    end = len(text) - next((place for place, one in enumerate(reversed(text)) if not is_separator(one)), 0)
    fragment = text[start:end]
    has_words = any(map(str.isalnum, text))
    if any(not is_separator(match[0]) for match in re.finditer(UNSPACED, fragment)) or not has_words:
        return fragment.replace(VARIATION_SELECTOR, "")
    return ""


def _search_words(store: Store, query: SearchQuery, limit: int) -> list[SearchHit]:
    """Search the index of words."""
    rows = store.fetch_rows(QUERY, {"expression": build_match_expression(query.phrases), "limit": limit})
    return [SearchHit(_parse_conversation(row), row["role"], row["time"], row["excerpt"]) for row in rows]


def _search_unspaced(store: Store, query: SearchQuery, limit: int) -> list[SearchHit]:
    """Search for fragments and words, including words next to unspaced writing, which the index of words lacks."""
    conditions: list[str] = []
    parameters: list[Any] = []

    def add(condition: str, *values: object) -> None:
        conditions.append(condition)
        parameters.extend(values)

    if not query.fragments:
        if not store.has_trigrams:
            return []
        add(f"NOT {IN_WORDS}", build_match_expression(query.phrases))
        texts = [text for text, _ in query.phrases]
        trigrams = " AND ".join(_build_trigram_expression(text) for text in texts if len(text) >= TRIGRAM_CHARACTERS)
        if trigrams:
            add(IN_TRIGRAMS, trigrams)
        else:
            # No word is long enough for a trigram. This table of FTS5 has a row for each text in the index.
            add("messages.number IN (SELECT id FROM trigrams_docsize)")
            add(*_build_containment(texts[:1]))
    for fragment in query.fragments:
        spellings = _list_spellings(fragment)
        if store.has_trigrams and all(map(_is_in_trigram_index, spellings)):
            add(IN_TRIGRAMS, " OR ".join(map(_build_trigram_expression, spellings)))
        add(*_build_containment(spellings))
    for phrase in query.phrases:
        pattern = _build_phrase_pattern(*phrase)
        if query.fragments:
            add(f"({IN_WORDS} OR {IS_MATCH})", build_match_expression([phrase]), pattern)
        else:
            add(IS_MATCH, pattern)
    store.create_function("is_match", _is_match_in)
    rows = store.fetch_rows(UNSPACED_QUERY.format(" AND ".join(conditions)), [*parameters, limit])
    if not rows:
        return []
    highlight = _build_highlight_pattern(query)
    return [
        SearchHit(
            _parse_conversation(row), row["role"], row["time"], _make_excerpt(row["content"], row["calls"], highlight)
        )
        for row in rows
    ]


def _build_containment(spellings: Sequence[str]) -> tuple[str, ...]:
    """Build a condition for messages that contain one of the spellings, and return it with its parameters."""
    patterns = [f"%{LIKE_WILDCARDS.sub(ESCAPED, spelling[:MAX_CONTAINED_CHARACTERS])}%" for spelling in spellings]
    # `CONTAINS` has two placeholders.
    return f"({' OR '.join([CONTAINS] * len(patterns))})", *(pattern for pattern in patterns for _ in range(2))


def _is_match_in(pattern: str, *texts: str | None) -> bool:
    """Check whether a regular expression matches anywhere in one of the texts, ignoring case."""
    search = re.compile(pattern, re.IGNORECASE).search
    return any(search(text) for text in texts if text)


def _list_spellings(fragment: str) -> list[str]:
    """Return the ways to write a fragment that look the same or nearly so.

    SQLite ignores the case only of ASCII letters. File names of macOS have decomposed characters, and Japanese and
    Chinese keyboards write full-width and half-width forms.
    """
    forms = [fragment, *(unicodedata.normalize(form, fragment) for form in ("NFC", "NFD", "NFKC"))]
    cased = (
        forms if fragment.isascii() else [spelling for form in forms for spelling in (form, form.lower(), form.upper())]
    )
    return list(dict.fromkeys(cased))


def _is_in_trigram_index(spelling: str) -> bool:
    """Check that the trigram index includes all texts that contain this spelling."""
    return len(spelling) >= TRIGRAM_CHARACTERS and has_unspaced(spelling)


def _build_trigram_expression(spelling: str) -> str:
    """Build an FTS5 expression for texts that have all trigrams of a spelling."""
    trigrams = dict.fromkeys(
        spelling[place : place + TRIGRAM_CHARACTERS] for place in range(len(spelling) - TRIGRAM_CHARACTERS + 1)
    )
    return "(" + " AND ".join(f'"{trigram}"' for trigram in list(trigrams)[:MAX_TRIGRAMS]) + ")"


def _build_phrase_pattern(text: str, star: str) -> str:
    """Build a regular expression for a phrase. Its words end where others begin, or unspaced writing."""
    words = r"\W+".join(re.findall(r"\w+", text))
    return rf"(?:(?<!\w)|(?<={UNSPACED})){words}" + (r"\w*" if star else rf"(?:(?!\w)|(?={UNSPACED}))")


def _build_highlight_pattern(query: SearchQuery) -> re.Pattern[str]:
    """Build a regular expression for the parts of a message that a query matches."""
    fragments = (re.escape(spelling) for fragment in query.fragments for spelling in _list_spellings(fragment))
    return re.compile(
        "|".join([*fragments, *(_build_phrase_pattern(*phrase) for phrase in query.phrases)]), re.IGNORECASE
    )


def _make_excerpt(content: str, calls: str | None, pattern: re.Pattern[str]) -> str:
    """Cut out the part of a message around its first match, with each match between `MATCH_START` and `MATCH_END`."""
    for text in (content, calls or ""):
        if match := pattern.search(text):
            before, after = EXCERPT_MARGINS
            start, end = max(0, match.start() - before), match.end() + after
            marked = pattern.sub(rf"{MATCH_START}\g<0>{MATCH_END}", text[start:end])
            return ("…" if start else "") + marked + ("…" if end < len(text) else "")
    return ""


def _parse_conversation(row: sqlite3.Row) -> Conversation:
    return Conversation(*(row[name] for name in Conversation._fields))
