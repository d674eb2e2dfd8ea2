"""Files of conversations in the form of `transfer`: one conversation a line, read and written one at a time.

What is read may also be an array of them, or JSON of any layout, such as jq's; that is held in memory as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from ask.errors import FileError
from ask.history.transfer import Saved, as_value, from_value

LONGEST = 1 << 29
"""Bytes of the longest line, and of the longest file that is no JSON lines."""
HALF = re.compile("[\ud800-\udfff]")
SPACE = re.compile(r"\s*")


def as_line(saved: Saved) -> str:
    """The conversation as one line of JSON, its end included; the same text for the same content."""
    text = json.dumps(as_value(saved), ensure_ascii=False, separators=(",", ":"))
    # Half a character, which what a provider wants back verbatim may hold, is no UTF-8.
    return HALF.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def read_saved(file: BinaryIO, name: str) -> Iterator[Saved]:
    """The conversations in a file, in order. `name` is what errors call it.

    Raises:
        FileError: it cannot be read, or holds something else.
    """
    for place, value in _values(file, name):
        try:
            yield from_value(value)
        except FileError as fault:
            raise FileError(f"{name}, {place}: {fault.message}", fault.advice) from None


def _values(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Each JSON value of a file, or of an array in it, with its place in words."""
    number, seen = 0, False
    while line := _read(file, name):
        number += 1
        text = _text(line, f"{name}, line {number}")
        if not text or text.isspace():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as fault:
            if seen or not isinstance(fault, ValueError):
                raise FileError(f"{name}, line {number}: {_why(fault)}") from None
            yield from _laid_out(text + _text(_read(file, name, whole=True), name), name)
            return
        seen = True
        yield from _each(value, f"line {number}")


def _laid_out(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Each JSON value of a text in which they may take several lines."""
    decoder, place, number = json.JSONDecoder(), SPACE.match(text).end(), 0  # type: ignore[union-attr]
    while place < len(text):
        number += 1
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as fault:
            raise FileError(f"{name}: {_why(fault)}") from None
        yield from _each(value, f"conversation {number}")
        place = SPACE.match(text, end).end()  # type: ignore[union-attr]


def _each(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"conversation {number}", item) for number, item in enumerate(value, 1))
    else:
        yield place, value


def _read(file: BinaryIO, name: str, *, whole: bool = False) -> bytes:
    try:
        data = file.read(LONGEST + 1) if whole else file.readline(LONGEST + 1)
    except OSError as fault:
        raise FileError(f"cannot read {name} ({fault.strerror})") from fault
    if len(data) > LONGEST:
        raise FileError(f"{name} is too large to be read at once", "export one conversation a line")
    return data


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{where} is not UTF-8 text") from None


def _why(fault: ValueError | RecursionError) -> str:
    if isinstance(fault, json.JSONDecodeError):
        where = f" in its line {fault.lineno}, column {fault.colno}" if fault.lineno > 1 else ""
        return f"this is not JSON ({fault.msg}{where})"
    return f"this JSON {'is nested too deeply' if isinstance(fault, RecursionError) else 'holds too long a number'}"
