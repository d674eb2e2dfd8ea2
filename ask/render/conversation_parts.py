"""What the pages and files made of saved conversations have in common: the parts of a prompt, a call in few words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ask.history.conversations import ToolCallStep
from ask.history.entries import Conversation, Run, ToolCallRecord
from ask.messages import ToolCall, Usage
from ask.parsing import as_dict
from ask.render.times import format_local_time
from ask.render.transcript import format_arguments
from ask.text import format_one_line, repair_surrogates

MAX_SUMMARY_LENGTH = 120
MIN_SHOWN_DURATION = 0.1
"""Seconds that are worth telling."""
OPENING_TAG_PATTERN = re.compile(r'(?:\A|\n\n)<(?P<mark>(?:file|stdin)(?:-\d+)?)(?: name=(?P<name>"[^\n]*"))?>\n')
"""The begin of a block that a prompt was given beside its words, as the command line puts it there."""


class PromptPart(NamedTuple):
    """A part of a prompt: the user's words, where `title` is "", or a file or what was piped in."""

    title: str
    text: str


def split_prompt(prompt: str) -> list[PromptPart]:
    """What a prompt consists of, in order."""
    parts, place = [], 0
    while opening := OPENING_TAG_PATTERN.search(prompt, place):
        closing = f"\n</{opening['mark']}>"
        # A block may be empty, and then one line end serves both marks.
        end = prompt.find(closing, opening.end() - 1)
        after = end + len(closing)
        if end < 0 or prompt[after : after + 2] not in ("", "\n\n"):
            break
        parts.append(PromptPart("", prompt[place : opening.start()]))
        parts.append(PromptPart(_format_title(opening["name"]), prompt[opening.end() : end]))
        place = after
    parts.append(PromptPart("", prompt[place:]))
    return [part for part in parts if part.title or part.text.strip("\n")]


def _format_title(name: str | None) -> str:
    if name is None:
        return "standard input"
    try:
        return format_one_line(repair_surrogates(json.loads(name))) or "file"
    except ValueError:
        return format_one_line(name)


def summarize_call(call: ToolCall) -> str:
    """What a call is about, on one line: its first argument that is a text."""
    texts = [value for value in _parse_arguments(call).values() if isinstance(value, str)]
    return format_one_line(repair_surrogates(texts[0]) if texts else call.arguments, MAX_SUMMARY_LENGTH)


def format_call_arguments(call: ToolCall) -> str:
    """The arguments of a call, texts in them as they are; the only one without its name."""
    values = list(_parse_arguments(call).values())
    if len(values) == 1 and isinstance(values[0], str):
        return repair_surrogates(values[0])
    return repair_surrogates("\n".join(format_arguments(call)))


def format_call_outcome(step: ToolCallStep) -> str:
    """How a call went, in a few words; "" for one that went well."""
    record = step.record
    if not step.has_result:
        return "not run" if record.started is None else "interrupted"
    if record.decision == "deny":
        return "denied"
    if record.exit_status:
        return f"exit code {record.exit_status}"
    return "failed" if record.failed else ""


def format_call_duration(record: ToolCallRecord) -> str:
    """How long a call ran; "" where that is not known, or nothing to speak of."""
    return f"{record.seconds:.1f} s" if record.seconds is not None and record.seconds >= MIN_SHOWN_DURATION else ""


def describe_conversation(conversation: Conversation, runs: Sequence[Run]) -> list[str]:
    """What is worth knowing of a conversation, each in a few words: when, with whom, where, its id."""
    models = dict.fromkeys(f"{run.provider}:{run.model}" for run in runs)
    places = dict.fromkeys(run.directory for run in runs if run.directory)
    usage = sum((run.usage for run in runs), start=Usage())
    tokens = [f"{usage.input_tokens or 0:,} tokens in, {usage.output_tokens or 0:,} out"]
    cost = [] if usage.cost is None else [f"${usage.cost:.4f}"]
    told = [*tokens, *cost] if usage.input_tokens is not None or usage.output_tokens is not None else cost
    return [
        format_one_line(fact) for fact in (format_local_time(conversation.created), *models, *places, *told) if fact
    ]


def _parse_arguments(call: ToolCall) -> dict[str, Any]:
    try:
        return as_dict(json.loads(call.arguments))
    except (ValueError, RecursionError):
        return {}
