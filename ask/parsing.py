"""Reading JSON of unknown shape: each function gives a value of one type, or that type's nothing."""

from __future__ import annotations

import math
from typing import Any


def as_dict(value: Any) -> dict[str, Any]:
    """The object, or {}."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The array, or []."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The string; the text of a list of content parts, joined; or ""."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    texts = (as_dict(part).get("text") for part in value)
    return "".join(text for text in texts if isinstance(text, str))


def as_number(value: Any) -> float | None:
    """The number, also where it came as a string; or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_int(value: Any) -> int | None:
    """The number as a whole one, or None."""
    number = as_number(value)
    return None if number is None else int(number)
