"""Which part of the answer --code, --cmd and --schema print, and whether a command can be offered."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ask.agent.request import RunRequest
from ask.answer_extraction import extract_code, extract_command
from ask.console import StderrConsole, is_in_foreground
from ask.render.json_events import JsonRenderer
from ask.render.partial_answer import PartRenderer
from ask.render.plain import PlainRenderer


def create_part_renderer(
    request: RunRequest, renderer: PlainRenderer | JsonRenderer, flags: Mapping[str, Any], console: StderrConsole
) -> PartRenderer:
    """Create the renderer for the part of the answer that the output format requires.

    Truncated code is shown; a truncated command is not.
    """
    if request.response_schema is not None:
        indent = 2 if sys.stdout is not None and sys.stdout.isatty() and not is_json_output(flags) else None
        on_missing = console.print_dim if flags["verbose"] else None
        schema, redact_json = request.response_schema, request.secrets.redactor.redact_json
        return PartRenderer(
            renderer, lambda text: redact_json(schema.extract_json(text, indent)), on_missing=on_missing
        )
    if request.output_format == "code":
        return PartRenderer(renderer, extract_code, accept_incomplete=True)
    return PartRenderer(renderer, extract_command, is_shown=not can_offer_command(flags))


def is_json_output(flags: Mapping[str, Any]) -> bool:
    """Check whether the run is printed as JSON."""
    return bool(flags["as_json"] or flags["as_events"])


def can_offer_command(flags: Mapping[str, Any]) -> bool:
    """Check whether the user can be asked what to do with a command.

    This needs a terminal, with ask in the foreground.
    """
    if is_json_output(flags) or sys.stdout is None or not sys.stdout.isatty():
        return False
    return is_in_foreground()
