"""Readers for untrusted JSON, and for the errors in it.

Each `as_` function returns a value of one type, or an empty value (or None) of that type.
"""

from __future__ import annotations

import json
import math
import re
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


def arguments_object(text: str) -> dict[str, Any] | None:
    """Parse a call's arguments; None unless they are an object that can be sent.

    Objects with NaN, infinity or a lone surrogate cannot be sent. Services reject requests that contain a call with
    any such arguments.
    """
    value = parse_json(text)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_json(text: str) -> Any:
    """Parse JSON; return None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def error_text(error: Any) -> str:
    """Return an error's message as one line.

    An error passed on by a gateway yields the upstream provider's message, prefixed with that provider's name.
    """
    if isinstance(error, str):
        return " ".join(unwrap_nested_error(error).split())
    fields = as_dict(error)
    metadata = as_dict(fields.get("metadata"))
    raw = metadata.get("raw")
    inner = find_error(parse_json(raw) if isinstance(raw, str) else raw)
    upstream = error_text(raw if inner is None else inner) if raw else ""
    if not upstream:
        return error_text(as_text(fields.get("message")) or format_error_detail(fields.get("detail")))
    name = " ".join(as_text(metadata.get("provider_name")).split())
    return f"{name}: {upstream}" if name else upstream


def format_error_detail(detail: Any) -> str:
    """Format the `detail` of an error: a string, or FastAPI's validation errors."""
    messages = []
    for entry in map(as_dict, as_list(detail)):
        location = ".".join(str(part) for part in as_list(entry.get("loc")) if part != "body")
        messages.append(": ".join(filter(None, (location, as_text(entry.get("msg"))))))
    return "; ".join(filter(None, messages)) or as_text(detail)


def unwrap_nested_error(text: str) -> str:
    """Replace a nested JSON error at the end of a message with its text."""
    start = text.find("{")
    inner = find_error(parse_json(text[start:])) if start >= 0 else None
    return text if inner is None else text[:start] + error_text(inner)


def page_text(body: str) -> str:
    """Return the message of a body that is not JSON.

    This is the title of an HTML page, or the start of the text.
    """
    title = re.search(r"<title[^>]*>(.*?)</title>", body, re.IGNORECASE | re.DOTALL)
    text = title.group(1) if title else re.sub(r"<[^>]*>", " ", body)
    return " ".join(text.split())[:300]


def find_error(body: Any) -> Any:
    """Return the error in a response body or stream chunk, or None.

    It may be a string or an object, at the top level, inside the first choice or in a list, or the body itself.
    """
    if isinstance(body, list):
        errors = (find_error(entry) for entry in body if isinstance(entry, dict))
        return next((error for error in errors if error is not None), None)
    fields = as_dict(body)
    choices = as_list(fields.get("choices"))
    error = fields.get("error") or fields.get("errors") or (as_dict(choices[0]).get("error") if choices else None)
    if error:
        return error[0] if isinstance(error, list) else error
    is_error = "choices" not in fields and any(fields.get(name) for name in ("message", "detail"))
    return fields if is_error or fields.get("object") == "error" else None
