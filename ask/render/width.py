"""How much room text takes on a terminal, where some characters are two columns wide and some none."""

from __future__ import annotations


def measure_width(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def truncate_text(text: str, max_width: int) -> str:
    """The text, or as much of its beginning as fits with a mark behind it."""
    if measure_width(text) <= max_width:
        return text
    used = kept = 0
    for kept, character in enumerate(text):  # noqa: B007 - ends before the first that does not fit
        used += _measure_character(character)
        if used >= max_width:
            break
    return f"{text[:kept]}…" if max_width > 0 else ""


def pad_text(text: str, target_width: int) -> str:
    """The text with spaces behind it up to that many columns."""
    return text + " " * (target_width - measure_width(text))


def _measure_character(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
