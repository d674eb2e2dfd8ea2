"""Model parameters given as KEY=VALUE: parsing, and the ranges that all services share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ask.config.settings import OPTION_RANGES, UNSET_OPTION
from ask.config.strict_json import STRICT_DECODER
from ask.errors import ParameterError, UsageError

DEDICATED_OPTIONS = {
    "model": "-m",
    "messages": "the prompt and -s",
    "tools": "--disable-tool",
    "stream": "--no-stream",
    "max_cost": "--max-cost",
    "max_rounds": "--max-rounds",
}
"""What is not a model parameter but has a command line option of its own. A service would ignore a limit."""


def parse_model_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse model options given as KEY=VALUE. A value that is not JSON is a string; an empty one unsets the option.

    Raises:
        UsageError: it is not KEY=VALUE, or the key has a command line option of its own.
        ParameterError: the value is out of range.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"-o must be KEY=VALUE, not {pair!r}", "for example -o temperature=0.2")
        try:
            options[key] = STRICT_DECODER.decode(text)
        except (ValueError, RecursionError):
            options[key] = text
        except OverflowError as error:
            raise ParameterError(f"{key} is {text}", str(error)) from None
        if text != UNSET_OPTION:
            check_model_option(key, options[key])
    return options


def check_model_option(key: str, value: Any) -> None:
    """Check a model option against `DEDICATED_OPTIONS` and `OPTION_RANGES`.

    Raises:
        UsageError: the key has a command line option of its own.
        ParameterError: the value is out of range or not a number.
    """
    if key in DEDICATED_OPTIONS:
        raise UsageError(f"-o cannot set {key}", f"use {DEDICATED_OPTIONS[key]}")
    if key not in OPTION_RANGES:
        return
    low, high = OPTION_RANGES[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        expected = f"of at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
        raise ParameterError(f"{key} is {value!r}", f"it must be a number {expected}")
