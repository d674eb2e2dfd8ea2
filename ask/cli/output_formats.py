"""`--code`, `--cmd` and `--schema`: what of the answer is shown, and whether a command is offered to be run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from ask.agent.request import Question
from ask.answer_extraction import code_in, command_in
from ask.console import Console
from ask.render.json_output import JsonRenderer
from ask.render.partial_answer import PartRenderer
from ask.render.plain import PlainRenderer


def in_form(
    question: Question, renderer: PlainRenderer | JsonRenderer, flags: Mapping[str, Any], console: Console
) -> PartRenderer:
    """What shows of the answer the part that the question's form calls for.

    A command that is cut off is none, while code is shown as far as it came.
    """
    if question.shape is not None:
        indent = 2 if sys.stdout is not None and sys.stdout.isatty() and not in_json(flags) else None
        left_out = console.dim if flags["verbose"] else None
        shape, redact_json = question.shape, question.secrets.redactor.redact_json
        return PartRenderer(renderer, lambda text: redact_json(shape.value_in(text, indent)), left_out=left_out)
    if question.form == "code":
        return PartRenderer(renderer, code_in, of_cut=True)
    return PartRenderer(renderer, command_in, shown=not can_offer(flags))


def in_json(flags: Mapping[str, Any]) -> bool:
    """Whether it is shown as JSON what happens."""
    return bool(flags["as_json"] or flags["as_events"])


def can_offer(flags: Mapping[str, Any]) -> bool:
    """Whether a command is seen by somebody who can say what to do with it: on a terminal, in the foreground."""
    if in_json(flags) or sys.stdout is None or not sys.stdout.isatty():
        return False
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:
        return False  # somebody else's terminal
