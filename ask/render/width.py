"""How much room text takes on a terminal, where some characters are two columns wide and some none."""

from __future__ import annotations


def columns(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def cut(text: str, room: int) -> str:
    """The text, or as much of its beginning as fits with a mark behind it."""
    if columns(text) <= room:
        return text
    used = kept = 0
    for kept, character in enumerate(text):  # noqa: B007 - ends before the first that does not fit
        used += _width(character)
        if used >= room:
            break
    return f"{text[:kept]}…" if room > 0 else ""


def padded(text: str, room: int) -> str:
    """The text with spaces behind it up to that many columns."""
    return text + " " * (room - columns(text))


def _width(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
