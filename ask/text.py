"""Text that came from outside, made fit to keep, to print and to show."""

from __future__ import annotations

import os
import re

CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What can move, hide or turn round what a terminal shows."""
LONG_GAP = re.compile(r" {20,}")
EMPTY_LINES = re.compile(r"\n(?: *\n){4,}")
INVISIBLE_CHARACTERS = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def repair_surrogates(text: str) -> str:
    """The text with surrogate pairs joined, which a stream may have torn apart; a lone half becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class SurrogateJoiner:
    """Joins the halves of a character that came in two pieces of a stream."""

    def __init__(self) -> None:
        self._high_surrogate = ""

    def feed(self, text: str) -> str:
        """The piece as far as it is whole; a first half at its end waits for the next piece."""
        text, self._high_surrogate = self._high_surrogate + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._high_surrogate = text[:-1], text[-1:]
        return repair_surrogates(text)


def escape_control_characters(text: str) -> str:
    """The text with control characters but newline and tab made visible; carriage returns are dropped."""
    return CONTROL_CHARACTERS.sub(lambda match: _escape_character(match[0]), text.replace("\r", ""))


def format_one_line(text: str, limit: int = 0) -> str:
    """The text on one line for a terminal, nothing invisible in it, cut to `limit` characters where that is not 0."""
    line = INVISIBLE_CHARACTERS.sub(
        lambda match: _escape_character(match[0]), escape_control_characters(" ".join(text.split()))
    )
    return line[: limit - 1] + "…" if 0 < limit < len(line) else line


def escape_non_ascii(text: str) -> str:
    """The text in printable ASCII and newlines alone: nothing in it can hide, move or pass for another character.

    Look-alikes, invisible and control characters are shown as escapes, wide and tall gaps as their size.
    """
    escaped = "".join(c if " " <= c <= "~" or c == "\n" else _escape_character(c) for c in text)
    escaped = EMPTY_LINES.sub(lambda match: f"\n[{match[0].count(chr(10)) - 1} empty lines]\n", escaped)
    return LONG_GAP.sub(lambda match: f"[{len(match[0])} spaces]", escaped)


def _escape_character(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def decode_argument(argument: str) -> str:
    """An argument of the command line as UTF-8, whatever the locale. Stray bytes are shown as escapes."""
    return os.fsencode(argument).decode("utf-8", "backslashreplace")
