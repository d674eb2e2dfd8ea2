"""What `--schema` takes out of an answer: the JSON value in it. Models wrap it in Markdown and prose all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

from ask.render.code import code_blocks
from ask.render.command import THOUGHTS

TRIES = 100
"""Brackets in a text that are looked at, whether a value begins there."""
NO_JSON = "there is no JSON value in it"


def json_in(answer: str, problem: Callable[[Any], str]) -> tuple[Any, str]:
    """The first value in an answer that fits, and ""; else the first value, or None, and what is wrong.

    Args:
        answer: all of it.
        problem: what keeps a value from fitting; "" for nothing.
    """
    first: tuple[Any, str] | None = None
    for value in values_in(THOUGHTS.sub("", answer)):
        found = value, problem(value)
        if not found[1]:
            return found
        first = first or found
    return first or (None, NO_JSON)


def values_in(text: str) -> Iterator[Any]:
    """The values that a text may stand for: itself, the fenced blocks in it, and objects and arrays in its prose."""
    reader = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
    for whole in (text, *code_blocks(text)):
        with suppress(ValueError, RecursionError):
            yield reader.decode(whole.strip())
    place = 0
    for _ in range(TRIES):
        place = min((at for at in (text.find(bracket, place) for bracket in "{[") if at >= 0), default=-1)
        if place < 0:
            return
        try:
            value, place = reader.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
        else:
            yield value


def _refuse(constant: str) -> NoReturn:
    """NaN and Infinity, which Python reads, are no JSON."""
    raise ValueError(constant)


def _finite(number: str) -> float:
    """A number that can be written again."""
    value = float(number)
    return value if value - value == 0 else _refuse(number)
