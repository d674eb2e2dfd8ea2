"""Malformed data that no provider may crash on: bodies that are not JSON, and values of the wrong type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ask import AskError

WRONG_VALUES: tuple[Any, ...] = (None, 7, float("inf"), "x", [{}], {"x": []})
GARBAGE_BODIES = (
    "",
    "no JSON",
    "{",
    "null",
    "true",
    "-1",
    "1e999",
    '"x"',
    "[]",
    "[null]",
    "{}",
    '{"error": null}',
    "[" * 600 + "]" * 600,
    "[" * 10_000,
)
ERROR_BODY = {
    "error": {"message": "No.\nReally.", "code": 400, "metadata": {"raw": '{"error": ["x\\ny"]}'}},
    "detail": "x",
}
HTML_ERROR_PAGE = "<!doctype html>\n<html><head><title>502\nBad Gateway</title></head><body>nginx</body></html>"
MODELS_BODY = {"data": [{"id": "m", "name": "M", "context_length": 8}], "models": [{"name": "m", "details": {}}]}


def generate_corruptions(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value, each with one part of a wrong type."""
    yield from WRONG_VALUES
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for corrupt_part in generate_corruptions(value[key]):
            copy = value.copy()
            copy[key] = corrupt_part
            yield copy


@contextmanager
def allow_only_ask_errors(source: object) -> Iterator[None]:
    """Ignore an `AskError`; fail on any other exception, with a note that shows `source`."""
    try:
        yield
    except AskError:
        pass
    except Exception as error:
        error.add_note(f"This came from reading {str(source)[:500]!r}; only an ask.AskError may come of any input.")
        raise
