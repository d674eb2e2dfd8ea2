"""When a label and an answer are the same value for `--score`: equal values have the same key."""

from __future__ import annotations

import math
import re
import unicodedata
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from ask.map.distributions import BOOLEANS, MAX_KEY_CHARACTERS, MAX_NUMBER
from ask.map.json_values import decode_json, encode_json

TRUE_WORDS, FALSE_WORDS = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
BOOLEAN_WORDS = dict.fromkeys(TRUE_WORDS, "true") | dict.fromkeys(FALSE_WORDS, "false")
NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number as JSON has it, so that codes with leading zeros stay text."""


def make_key(value: Any) -> str:
    """Return a text that equal values share; "" for no value.

    Numbers are equal by value, and text without regard to outer and repeated space, letter case and Unicode form. A
    text that is a number, an array or an object in JSON equals this value, because cells of CSV are text.
    """
    if isinstance(value, str):
        return _make_text_key(value.strip())
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return BOOLEANS[value]
    if isinstance(value, int | float):
        return _make_number_key(encode_json(value))
    try:
        return _make_json_key(value)
    except RecursionError:  # nested so deeply that it is compared as nothing
        return ""


def _make_text_key(text: str) -> str:
    if NUMBER_PATTERN.fullmatch(text):
        return _make_number_key(text)
    if text.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return _make_json_key(decode_json(text))
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _shorten(" ".join(folded.split()))


def _make_json_key(value: Any) -> str:
    """Return the key of an array or object.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return _shorten(encode_json(_normalize(value)))


def _make_number_key(text: str) -> str:
    """Return the same text for all ways to write a number."""
    if text.removeprefix("-").isdigit():
        return "0" if text == "-0" else _shorten(text)
    number = float(text)
    return str(int(number)) if number.is_integer() else repr(number)


def _normalize(value: Any) -> Any:
    """Sort the keys of objects, and write whole numbers without a fraction."""
    if isinstance(value, dict):
        return {name: _normalize(value[name]) for name in sorted(value)}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_normalize(item) for item in value] if isinstance(value, list) else value


def _shorten(text: str) -> str:
    """Return a text, or a digest in place of a long one."""
    if len(text) <= MAX_KEY_CHARACTERS:
        return text
    return f"blake2b:{blake2b(text.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"


def parse_number(key: str) -> float | None:
    """Return the number that a key represents; None if it is another value, or too large to calculate with."""
    number = float(key) if NUMBER_PATTERN.fullmatch(key) else math.inf
    return number if abs(number) <= MAX_NUMBER else None
