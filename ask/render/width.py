"""Measure, truncate and pad text by terminal columns: characters may be zero, one or two columns wide."""

from __future__ import annotations


def measure_width(text: str) -> int:
    """Return the number of columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def truncate_text(text: str, max_width: int) -> str:
    """Return the text, or as much of its beginning as fits before an ellipsis."""
    if measure_width(text) <= max_width:
        return text
    used_width = kept_count = 0
    for kept_count, character in enumerate(text):  # noqa: B007 - used after the loop
        used_width += _measure_character(character)
        if used_width >= max_width:
            break
    return f"{text[:kept_count]}…" if max_width > 0 else ""


def pad_text(text: str, target_width: int) -> str:
    """Pad a text with spaces on the right."""
    return text + " " * (target_width - measure_width(text))


def _measure_character(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
