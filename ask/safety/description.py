"""The description of a tool call in an approval prompt.

It is complete, in printable ASCII, and no text from the model can be mistaken for text from ask.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ask.safety.policy import PendingToolCall
from ask.safety.preview import NO_PREVIEW, Preview
from ask.text import escape_non_ascii

CONTINUATION_PREFIX, WRAP_PREFIX = "  | ", "  > "
"""Prefixes of a line that continues a value, and of one that continues a line too long for the terminal."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


def describe_call(pending_call: PendingToolCall, preview: Preview = NO_PREVIEW) -> str:
    """Describe the call, its changes, its working directory and its timeout."""
    return "\n".join(line.replace("\n", f"\n{CONTINUATION_PREFIX}") for line in _format_lines(pending_call, preview))


def _format_lines(pending_call: PendingToolCall, preview: Preview) -> Iterator[str]:
    timeout = pending_call.context.command_timeout
    requested_timeout = pending_call.arguments.get("timeout")
    if isinstance(requested_timeout, int | float) and 0 < requested_timeout < timeout:
        timeout = requested_timeout
    redactor = pending_call.context.redactor
    yield f"The model wants to call {escape_non_ascii(redactor.redact(pending_call.tool_name))}:"
    for name, value in pending_call.arguments.items():
        if name not in preview.shown_arguments:
            label, content = redactor.redact(name), redactor.redact_value(value)
            label = label if _PLAIN_NAME.fullmatch(label) else json.dumps(label)
            yield f"  {label}: {escape_non_ascii(content if isinstance(content, str) else json.dumps(content))}"
    if preview.heading:
        yield "  " + escape_non_ascii(redactor.redact("\n".join((preview.heading, *preview.diff_lines))))
    if pending_call.host:
        yield f"  at the host {escape_non_ascii(pending_call.host)}"
    yield f"  in {escape_non_ascii(str(pending_call.context.directory))}, for {timeout:g} s at most"


def wrap_lines(text: str, columns: int) -> list[str]:
    """Split ASCII text into lines that fit the terminal.

    If the terminal wrapped a long line itself, the model could make the rest look like a line from ask.
    """
    rows = []
    for line in text.split("\n"):
        rows.append(line[:columns])
        width = max(1, columns - len(WRAP_PREFIX))
        rows += [WRAP_PREFIX + line[start : start + width] for start in range(columns, len(line), width)]
    return rows
