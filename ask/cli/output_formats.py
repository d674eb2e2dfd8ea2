"""`--code`, `--cmd` and `--schema`: what of the answer is shown, and whether a command is offered to be run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from ask.agent.request import RunRequest
from ask.answer_extraction import extract_code, extract_command
from ask.console import StderrConsole
from ask.render.json_output import JsonRenderer
from ask.render.partial_answer import PartRenderer
from ask.render.plain import PlainRenderer


def create_part_renderer(
    request: RunRequest, renderer: PlainRenderer | JsonRenderer, flags: Mapping[str, Any], console: StderrConsole
) -> PartRenderer:
    """What shows of the answer the part that the question's form calls for.

    A command that is cut off is none, while code is shown as far as it came.
    """
    if request.response_schema is not None:
        indent = 2 if sys.stdout is not None and sys.stdout.isatty() and not is_json_output(flags) else None
        left_out = console.print_dim if flags["verbose"] else None
        shape, redact_json = request.response_schema, request.secrets.redactor.redact_json
        return PartRenderer(renderer, lambda text: redact_json(shape.extract_json(text, indent)), on_missing=left_out)
    if request.output_format == "code":
        return PartRenderer(renderer, extract_code, accept_incomplete=True)
    return PartRenderer(renderer, extract_command, is_shown=not can_offer_command(flags))


def is_json_output(flags: Mapping[str, Any]) -> bool:
    """Whether it is shown as JSON what happens."""
    return bool(flags["as_json"] or flags["as_events"])


def can_offer_command(flags: Mapping[str, Any]) -> bool:
    """Whether a command is seen by somebody who can say what to do with it: on a terminal, in the foreground."""
    if is_json_output(flags) or sys.stdout is None or not sys.stdout.isatty():
        return False
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:
        return False  # somebody else's terminal
