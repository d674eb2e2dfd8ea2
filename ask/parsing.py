"""Readers for untrusted JSON: each returns a value of one type, or an empty value (or None) of that type."""

from __future__ import annotations

import math
from typing import Any


def as_dict(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is an array, else []."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return the value if it is a string, else "".

    The texts of a list of content parts are joined.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    texts = (as_dict(part).get("text") for part in value)
    return "".join(text for text in texts if isinstance(text, str))


def as_number(value: Any) -> float | None:
    """Return a finite number, parsed if it is a string; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_int(value: Any) -> int | None:
    """Return a number, parsed if it is a string, as a truncated integer, or None."""
    number = as_number(value)
    return None if number is None else int(number)
