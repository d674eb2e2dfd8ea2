"""Puts a call into words for the human: all of it, in printable ASCII, and nothing in it can pass for our words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ask.safety.policy import PendingToolCall
from ask.safety.preview import NO_PREVIEW, Preview
from ask.text import escape_non_ascii

CONTINUATION_PREFIX, WRAP_PREFIX = "  | ", "  > "
"""What a line begins with that goes on with a value, or with a line too long for the terminal."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


def describe_call(pending_call: PendingToolCall, preview: Preview = NO_PREVIEW) -> str:
    """The call, what it would change, where it runs and for how long at most."""
    return "\n".join(line.replace("\n", f"\n{CONTINUATION_PREFIX}") for line in _format_lines(pending_call, preview))


def _format_lines(pending_call: PendingToolCall, preview: Preview) -> Iterator[str]:
    seconds = pending_call.context.command_timeout
    limit = pending_call.arguments.get("timeout")
    if isinstance(limit, int | float) and 0 < limit < seconds:
        seconds = limit
    redactor = pending_call.context.redactor
    yield f"The model wants to call {escape_non_ascii(redactor.redact(pending_call.tool_name))}:"
    for name, value in pending_call.arguments.items():
        if name not in preview.shown_arguments:
            shown, content = redactor.redact(name), redactor.redact_value(value)
            label = shown if _PLAIN_NAME.fullmatch(shown) else json.dumps(shown)
            yield f"  {label}: {escape_non_ascii(content if isinstance(content, str) else json.dumps(content))}"
    if preview.heading:
        yield "  " + escape_non_ascii(redactor.redact("\n".join((preview.heading, *preview.diff_lines))))
    if pending_call.host:
        yield f"  at the host {escape_non_ascii(pending_call.host)}"
    yield f"  in {escape_non_ascii(str(pending_call.context.directory))}, for {seconds:g} s at most"


def wrap_lines(text: str, columns: int) -> list[str]:
    """The lines of a text in ASCII, cut to fit a terminal: where it breaks a line itself, any could be forged."""
    rows = []
    for line in text.split("\n"):
        rows.append(line[:columns])
        width = max(1, columns - len(WRAP_PREFIX))
        rows += [WRAP_PREFIX + line[place : place + width] for place in range(columns, len(line), width)]
    return rows
