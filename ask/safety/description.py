"""Puts a call into words for the human: all of it, in printable ASCII, and nothing in it can pass for our words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ask.safety.policy import Proposal
from ask.safety.preview import NO_PREVIEW, Preview
from ask.text import spelled_out

MORE, FOLDED = "  | ", "  > "
"""What a line begins with that goes on with a value, or with a line too long for the terminal."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


def describe(proposal: Proposal, preview: Preview = NO_PREVIEW) -> str:
    """The call, what it would change, where it runs and for how long at most."""
    return "\n".join(line.replace("\n", f"\n{MORE}") for line in _lines(proposal, preview))


def _lines(proposal: Proposal, preview: Preview) -> Iterator[str]:
    seconds = proposal.context.command_timeout
    limit = proposal.arguments.get("timeout")
    if isinstance(limit, int | float) and 0 < limit < seconds:
        seconds = limit
    redactor = proposal.context.redactor
    yield f"The model wants to call {spelled_out(redactor.redact(proposal.tool))}:"
    for name, value in proposal.arguments.items():
        if name not in preview.instead_of:
            shown, content = redactor.redact(name), redactor.redact_value(value)
            label = shown if _PLAIN_NAME.fullmatch(shown) else json.dumps(shown)
            yield f"  {label}: {spelled_out(content if isinstance(content, str) else json.dumps(content))}"
    if preview.heading:
        yield "  " + spelled_out(redactor.redact("\n".join((preview.heading, *preview.lines))))
    if proposal.host:
        yield f"  at the host {spelled_out(proposal.host)}"
    yield f"  in {spelled_out(str(proposal.context.directory))}, for {seconds:g} s at most"


def fold(text: str, columns: int) -> list[str]:
    """The lines of a text in ASCII, cut to fit a terminal: where it breaks a line itself, any could be forged."""
    rows = []
    for line in text.split("\n"):
        rows.append(line[:columns])
        width = max(1, columns - len(FOLDED))
        rows += [FOLDED + line[place : place + width] for place in range(columns, len(line), width)]
    return rows
