"""Truncate, pad and wrap styled text by terminal columns.

A row of styled text is a list of spans, each with the parameters of an SGR escape sequence, such as "1;34". The target
of a hyperlink follows after a space: "4 https://example.org".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ask.console import apply_style, format_hyperlink
from ask.text import find_breaks, find_forced_breaks, measure_character, measure_width

Row = list[tuple[str, str]]
"""The spans of a row: a piece of text and its style, "" for none."""
UNSPACED_CHARACTERS = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff"
"""Chinese and Japanese, which are written without spaces."""
STREAM_PART_PATTERN = rf"\n|[^\S\n]+|[{UNSPACED_CHARACTERS}]|[^\s{UNSPACED_CHARACTERS}]+"
"""A newline, spaces, a word, or one character of a script without spaces."""


def truncate_text(text: str, max_width: int) -> str:
    """Return the text, or as much of its beginning as fits before an ellipsis."""
    if measure_width(text) <= max_width:
        return text
    used_width = kept_count = 0
    for kept_count, character in enumerate(text):  # noqa: B007 - used after the loop
        used_width += measure_character(character)
        if used_width >= max_width:
            break
    return f"{text[:kept_count]}…" if max_width > 0 else ""


def pad_text(text: str, target_width: int) -> str:
    """Pad a text with spaces on the right."""
    return text + " " * (target_width - measure_width(text))


def get_plain_text(row: Row) -> str:
    return "".join(text for text, _ in row)


def wrap_row(row: Row, width: int) -> list[Row]:
    """Wrap styled text at newlines and between words, as `wrap_text` does."""
    text = get_plain_text(row)
    if text.isprintable() and measure_width(text) <= width:  # without newlines and tabs
        return [_strip_end([*row])]
    rows: list[Row] = []
    for line in split_lines((text.expandtabs(), style) for text, style in row):
        plain_text = get_plain_text(line)
        offsets = [] if measure_width(plain_text) <= width else list(find_breaks(plain_text, width))
        rows += map(_strip_end, _divide_row(line, offsets))
    return rows


class StreamWrapper:
    """Wraps text that arrives in pieces between words; words that are wider than a row are left to the terminal."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._spaces = ""
        """The spaces before the next word, which are dropped if a new row begins there."""
        self._word = ""
        """The last word, to which the next piece may add."""
        self._is_in_wide_word = False

    def feed(self, text: str) -> str:
        """Add a piece of text; return what can be printed."""
        parts = re.findall(STREAM_PART_PATTERN, self._word + text)
        has_word = bool(parts) and not parts[-1].isspace()
        is_wide = has_word and measure_width(parts[-1]) >= self._width
        self._word = parts.pop() if has_word and not is_wide else ""
        printed_text = "".join(map(self._place, parts))
        self._is_in_wide_word = self._is_in_wide_word or is_wide
        return printed_text

    def finish(self) -> str:
        """Return the rest of the text."""
        word, self._word = self._word, ""
        return self._place(word)

    def _place(self, part: str) -> str:
        """Return a part with what comes before it: spaces, or a newline."""
        if part.isspace():
            self._is_in_wide_word = False
            self._spaces = "" if part == "\n" else part.expandtabs()
            self._column = 0 if part == "\n" else self._column
            return "\n" * (part == "\n")
        spaces, self._spaces = self._spaces, ""
        width = measure_width(part)
        if self._column and not self._is_in_wide_word and self._column + len(spaces) + width > self._width:
            self._column = width
            return f"\n{part}"
        self._column += len(spaces) + width
        return spaces + part


def split_at_width(row: Row, width: int) -> list[Row]:
    """Split a row as a terminal wraps it: at any character."""
    expanded = [(text.expandtabs(), style) for text, style in row]
    return _divide_row(expanded, list(find_forced_breaks(get_plain_text(expanded), width)))


def _divide_row(row: Row, offsets: Sequence[int]) -> list[Row]:
    """Divide a row at these offsets in its text."""
    rows: list[Row] = [[]]
    remaining, start = list(offsets), 0
    for text, style in row:
        begin = 0
        while remaining and remaining[0] < start + len(text):
            end = remaining.pop(0) - start
            rows[-1].append((text[begin:end], style))
            rows.append([])
            begin = end
        rows[-1].append((text[begin:], style))
        start += len(text)
    return rows


def split_lines(row: Iterable[tuple[str, str]]) -> list[Row]:
    """Split styled text at its newlines."""
    rows: list[Row] = [[]]
    for text, style in row:
        first, *more = text.split("\n")
        rows[-1].append((first, style))
        rows += [[(line, style)] for line in more]
    return rows


def _strip_end(row: Row) -> Row:
    """Remove the spaces at the end of a row."""
    while row:
        text, style = row.pop()
        if text := text.rstrip():
            row.append((text, style))
            break
    return row


def to_ansi(row: Row) -> str:
    """Convert a row to text with escape sequences, without spaces at its end."""
    return "".join(_format_span(text, style) if style and text else text for text, style in _strip_end(row))


def _format_span(text: str, style: str) -> str:
    parameters, _, target = style.partition(" ")
    styled = apply_style(text, parameters)
    return format_hyperlink(styled, target) if target else styled
