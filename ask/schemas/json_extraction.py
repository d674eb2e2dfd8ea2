"""Extract the JSON value that was asked for from a model's answer, which may wrap it in Markdown and prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ask.config.strict_json import JSON_ERRORS, create_decoder
from ask.schemas.code_blocks import iter_code_blocks

MAX_ATTEMPTS = 100
"""Maximum number of opening brackets at which decoding a JSON value is tried."""
_DECODER = create_decoder(strict=False)
"""Small models write line breaks in strings without escaping them."""
BRACKET_PATTERN = re.compile(r"[{\[]")
_JSON_START = re.compile(r"""\{\s*(?:["'}/]|\w+\s*:|$)|\[[\s\[]*(?:["'{/\]]|(?:-?[\d.]+|true|false|null)\s*[,\]]|$)""")
"""The start of JSON with or without an error, but not of `[a link](...)`, `[[ -f x ]]` or `{{ name }}`."""
NO_JSON_MESSAGE = "the answer contains no JSON value"


def extract_json(response_text: str, find_problem: Callable[[Any], str]) -> tuple[Any, str]:
    """Return the first JSON value without a problem, and "".

    If there is none, return None and the syntax error of the answer or of one of its blocks, or the first value and
    its problem, or None and `NO_JSON_MESSAGE`. `find_problem` describes why a value is not accepted, or returns "".
    """
    first_result: tuple[Any, str] | None = None
    for value in _iter_json_values(response_text):
        result = value, find_problem(value)
        if not result[1]:
            return result
        first_result = first_result or result
    if error := _find_syntax_error(response_text):
        return None, f"its JSON is invalid: {error}"
    return first_result or (None, NO_JSON_MESSAGE)


def _find_syntax_error(text: str) -> str:
    """Return the error of a text, or of a fenced block in it, that begins like JSON but is none.

    Return "" if there is none, or if another block is JSON: then its problem is to be corrected.
    """
    found = ""
    for candidate in map(str.strip, (text, *iter_code_blocks(text))):
        try:
            _, end = _DECODER.raw_decode(candidate)
        except JSON_ERRORS as error:
            if not found and _JSON_START.match(candidate):
                found = str(error)
        else:
            if end == len(candidate):
                return ""
    return found


def _iter_json_values(text: str) -> Iterator[Any]:
    """Yield the JSON values in a text: all of it, its fenced blocks, values in prose."""
    for candidate in (text, *iter_code_blocks(text)):
        with suppress(*JSON_ERRORS):
            yield _DECODER.decode(candidate.strip())
    position = 0
    for _ in range(MAX_ATTEMPTS):
        bracket = BRACKET_PATTERN.search(text, position)
        if not bracket:
            return
        try:
            value, position = _DECODER.raw_decode(text, bracket.start())
        except JSON_ERRORS:
            position = bracket.end()
        else:
            yield value
