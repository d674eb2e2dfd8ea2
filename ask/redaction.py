"""Takes keys out of texts, and out of one that comes in pieces. Which values are keys is left to `keys`."""

from __future__ import annotations

import re
from functools import cache

REDACTED = "[key removed]"


def redact(text: str, keys: tuple[str, ...]) -> str:
    """The text with `REDACTED` in the place of each key. None of `keys` is empty, and the longest stand first."""
    return _any_of(keys).sub(REDACTED, text) if any(key in text for key in keys) else text


class KeyFilter:
    """Takes keys out of a text that comes in pieces: what may be the beginning of one is held back.

    Args:
        keys: as for `redact`.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._longest = len(keys[0]) if keys else 0
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be told after this piece."""
        text = self._held + text
        sure = len(text) - self._begun(text)
        told, place = [], 0
        if any(key in text for key in self._keys):
            for match in _any_of(self._keys).finditer(text):
                if match.start() >= sure:
                    break
                told += [text[place : match.start()], REDACTED]
                place = match.end()
        end = max(place, sure)
        self._held = text[end:]
        return "".join([*told, text[place:end]])

    def finish(self) -> str:
        """What was held back to the end."""
        text, self._held = self._held, ""
        return redact(text, self._keys)

    def _begun(self, text: str) -> int:
        """How many characters at the end may be a key that goes on in the next piece."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-size:]
            if any(len(key) > size and key.startswith(end) for key in self._keys):
                return size
        return 0


@cache
def _any_of(keys: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, keys)))
