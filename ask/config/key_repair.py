"""What people copy with an API key, such as quotes and NAME=, and what is wrong with a key as it is set."""

from __future__ import annotations

import re

from ask.text import INVISIBLE_CHARACTERS

KEY_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u201e"
KEY_ADDITIONS = {
    "invisible characters": INVISIBLE_CHARACTERS,
    "quotes": rf"\A[{KEY_QUOTES}]+|[{KEY_QUOTES}]+\Z",
    "punctuation": r"[,;]+\Z",
    "NAME=": r"\A(?:(?:export|set)\s+|\$env:)?(?:[A-Z][A-Z0-9_]*|\w*(?i:key|token|secret))[\"']?\s*"
    r"(?:=\s*(?=[^=\s].{7})|:\s+)",
    "Bearer": r"\A(?i:(?:authorization\s*:\s*)?bearer\s+|(?:authorization|(?:x-)?api-key)\s*:\s*)",
    "a comment": r"[ \t]#.*",
    "spaces": r"[ \u00a0](?!#)",
}
"""Patterns of what is copied with a key: from a shell script, an env file, JSON, a header. The key may end with "="."""
_ADDED_CHARACTERS = frozenset(" =:\"'`,;")
"""An ASCII key without these characters has nothing that a pattern matches."""


def repair_key(text: str) -> tuple[str, list[str]]:
    """Remove from a key, or from several separated by "|", what is not part of it; return also what was removed.

    `docker run --env-file` passes quotes on, and web pages add spaces and invisible characters.
    """
    keys = []
    removed: dict[str, None] = {}
    for key in map(str.strip, text.split("|")):
        is_plain = key.isascii() and _ADDED_CHARACTERS.isdisjoint(key)  # almost always
        repaired, previous = key, key if is_plain else None
        while repaired != previous:
            previous = repaired
            for name, pattern in KEY_ADDITIONS.items():
                rest = re.sub(pattern, "", repaired).strip()
                if rest != repaired:
                    removed[name], repaired = None, rest
        keys.append(repaired)
    return "|".join(keys), list(removed)


def is_valid_key(key: str) -> bool:
    """Check that a key can be sent in an HTTP header."""
    return key.isascii() and key.isprintable()


def find_key_problem(key: str) -> str:
    """Return what is wrong with a key that would be sent as it is; "" if it looks like one."""
    repaired, removed = repair_key(key)
    if not is_valid_key(repaired):
        return "contains a character that cannot be sent"
    return f"contains {' and '.join(removed)}" if removed else ""
