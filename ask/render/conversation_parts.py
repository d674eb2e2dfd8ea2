"""What the pages and files made of saved conversations have in common: the parts of a prompt, a call in few words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ask.history.conversations import Called
from ask.history.entries import CallRecord, Conversation, Run
from ask.messages import ToolCall, Usage
from ask.parsing import as_dict
from ask.render.times import local_time
from ask.render.transcript import arguments_of
from ask.text import mend, one_line

SUMMARY_LENGTH = 120
SHORTEST = 0.1
"""Seconds that are worth telling."""
OPENING = re.compile(r'(?:\A|\n\n)<(?P<mark>(?:file|stdin)(?:-\d+)?)(?: name=(?P<name>"[^\n]*"))?>\n')
"""The begin of a block that a prompt was given beside its words, as the command line puts it there."""


class Part(NamedTuple):
    """A part of a prompt: the user's words, where `title` is "", or a file or what was piped in."""

    title: str
    text: str


def prompt_parts(prompt: str) -> list[Part]:
    """What a prompt consists of, in order."""
    parts, place = [], 0
    while opening := OPENING.search(prompt, place):
        closing = f"\n</{opening['mark']}>"
        # A block may be empty, and then one line end serves both marks.
        end = prompt.find(closing, opening.end() - 1)
        after = end + len(closing)
        if end < 0 or prompt[after : after + 2] not in ("", "\n\n"):
            break
        parts.append(Part("", prompt[place : opening.start()]))
        parts.append(Part(_title(opening["name"]), prompt[opening.end() : end]))
        place = after
    parts.append(Part("", prompt[place:]))
    return [part for part in parts if part.title or part.text.strip("\n")]


def _title(name: str | None) -> str:
    if name is None:
        return "standard input"
    try:
        return one_line(mend(json.loads(name))) or "file"
    except ValueError:
        return one_line(name)


def call_line(call: ToolCall) -> str:
    """What a call is about, on one line: its first argument that is a text."""
    texts = [value for value in _arguments(call).values() if isinstance(value, str)]
    return one_line(mend(texts[0]) if texts else call.arguments, SUMMARY_LENGTH)


def call_text(call: ToolCall) -> str:
    """The arguments of a call, texts in them as they are; the only one without its name."""
    values = list(_arguments(call).values())
    if len(values) == 1 and isinstance(values[0], str):
        return mend(values[0])
    return mend("\n".join(arguments_of(call)))


def outcome(called: Called) -> str:
    """How a call went, in a few words; "" for one that went well."""
    record = called.record
    if not called.seen:
        return "not run" if record.started is None else "interrupted"
    if record.decision == "deny":
        return "denied"
    if record.exit_status:
        return f"exit code {record.exit_status}"
    return "failed" if record.failed else ""


def duration(record: CallRecord) -> str:
    """How long a call ran; "" where that is not known, or nothing to speak of."""
    return f"{record.seconds:.1f} s" if record.seconds is not None and record.seconds >= SHORTEST else ""


def facts(conversation: Conversation, runs: Sequence[Run]) -> list[str]:
    """What is worth knowing of a conversation, each in a few words: when, with whom, where, its id."""
    models = dict.fromkeys(f"{run.provider}:{run.model}" for run in runs)
    places = dict.fromkeys(run.directory for run in runs if run.directory)
    usage = sum((run.usage for run in runs), start=Usage())
    tokens = [f"{usage.input_tokens or 0:,} tokens in, {usage.output_tokens or 0:,} out"]
    cost = [] if usage.cost is None else [f"${usage.cost:.4f}"]
    told = [*tokens, *cost] if usage.input_tokens is not None or usage.output_tokens is not None else cost
    return [one_line(fact) for fact in (local_time(conversation.created), *models, *places, *told) if fact]


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        return as_dict(json.loads(call.arguments))
    except (ValueError, RecursionError):
        return {}
