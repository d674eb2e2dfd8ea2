"""Parts of saved conversations that the HTML and Markdown exports share: prompt parts, short forms of tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ask.history.conversations import ToolCallStep
from ask.history.entries import Conversation, Run, ToolCallRecord
from ask.messages import ToolCall, Usage
from ask.parsing import as_dict
from ask.render.times import format_local_time
from ask.render.transcript import format_arguments
from ask.text import format_one_line, repair_surrogates

MAX_SUMMARY_LENGTH = 120
MIN_SHOWN_DURATION = 0.1
"""Minimum duration of a tool call that is shown, in seconds."""


def summarize_call(call: ToolCall) -> str:
    """Summarize a call on one line by its first string argument."""
    texts = [value for value in _parse_arguments(call).values() if isinstance(value, str)]
    return format_one_line(repair_surrogates(texts[0]) if texts else call.arguments, MAX_SUMMARY_LENGTH)


def format_call_arguments(call: ToolCall) -> str:
    """Format the arguments of a call with strings unquoted.

    The name is left out if there is only one argument and it is a string.
    """
    values = list(_parse_arguments(call).values())
    if len(values) == 1 and isinstance(values[0], str):
        return repair_surrogates(values[0])
    return repair_surrogates("\n".join(format_arguments(call)))


def format_call_outcome(step: ToolCallStep) -> str:
    """Describe the outcome of a call in a few words; return "" if it succeeded."""
    record = step.record
    if not step.has_result:
        return "not run" if record.started is None else "interrupted"
    if record.decision == "deny":
        return "denied"
    if record.exit_status:
        return f"exit code {record.exit_status}"
    return "failed" if record.failed else ""


def format_call_duration(record: ToolCallRecord) -> str:
    """Format how long a call ran; return "" if that is unknown or negligible."""
    return f"{record.seconds:.1f} s" if record.seconds is not None and record.seconds >= MIN_SHOWN_DURATION else ""


def describe_conversation(conversation: Conversation, runs: Sequence[Run]) -> list[str]:
    """Return the time, models, directories, tokens and cost of a conversation."""
    models = dict.fromkeys(f"{run.provider}:{run.model}" for run in runs)
    directories = dict.fromkeys(run.directory for run in runs if run.directory)
    usage = sum((run.usage for run in runs), start=Usage())
    tokens = [f"{usage.input_tokens or 0:,} tokens in, {usage.output_tokens or 0:,} out"]
    cost = [] if usage.cost is None else [f"${usage.cost:.4f}"]
    usage_facts = [*tokens, *cost] if usage.input_tokens is not None or usage.output_tokens is not None else cost
    return [
        format_one_line(fact)
        for fact in (format_local_time(conversation.created), *models, *directories, *usage_facts)
        if fact
    ]


def _parse_arguments(call: ToolCall) -> dict[str, Any]:
    try:
        return as_dict(json.loads(call.arguments))
    except (ValueError, RecursionError):
        return {}
