"""JSON without Python's extensions NaN and Infinity, and without numbers that are too large."""

from __future__ import annotations

import json
import math
import sys


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise OverflowError(f"{text} is too large: the limit is {sys.float_info.max:.1e}")
    return number


def create_decoder(*, strict: bool = True) -> json.JSONDecoder:
    """Create a decoder without Python's extensions; if it is not strict, strings may contain control characters."""
    return json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float, strict=strict)


STRICT_DECODER = create_decoder()
"""Decodes JSON without Python's extensions NaN and Infinity."""
JSON_ERRORS = (ValueError, RecursionError, OverflowError)
"""What `STRICT_DECODER` raises; OverflowError for a number that is too large to be sent."""
