"""A saved conversation as text, in much the same form as during the run; and its parts that all exports share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from ask.console import BOLD, DIM, STDOUT, StandardOutput
from ask.history.conversations import ToolCallStep, extract_summary, pair_calls_with_results
from ask.history.entries import REFUSED, Conversation, HistoryEntry, Run
from ask.messages import Message, ToolCall, Usage
from ask.parsing import parse_json, read_dict
from ask.records import NamedTuple
from ask.render.amounts import format_local_time
from ask.render.live_region import get_terminal_size
from ask.render.plain import MAX_ARGUMENTS_LENGTH, format_call
from ask.render.text_layout import wrap_text
from ask.text import format_one_line, repair_surrogates

MAX_TEXT_LENGTH = 5_000
"""Maximum length of a prompt or a result on a terminal, in characters; it may have come from a pipe."""

FENCE_PATTERN = re.compile(r" *(```|~~~)")
PREFORMATTED_LINE = re.compile(r"    |\t|\|")
"""The beginning of a line of code or of a table."""
MAX_SUMMARY_LENGTH = 120
MIN_SHOWN_DURATION = 0.1
"""Minimum duration of a tool call that is shown, in seconds."""


class TranscriptWriter:
    """Writes saved runs as text.

    With `show_tool_details`, tool calls are shown with all arguments and results instead of on one line.
    """

    def __init__(self, output: StandardOutput, *, show_tool_details: bool) -> None:
        self._output = output
        self._show_tool_details = show_tool_details

    def write_runs(self, runs: Sequence[Run]) -> None:
        """Write runs, separated by blank lines."""
        system = ""
        for position, run in enumerate(runs):
            if position:
                self._output.write("\n")
            self._write_dim_line(
                f"{format_local_time(run.started)}, {format_one_line(run.provider)}:{format_one_line(run.model)}"
            )
            if run.system != system and run.compacts is None:
                system = run.system
                self._write_indented(system or "none", "· system: ", DIM)
            if run.compacts is None:
                for step in pair_calls_with_results(run.entries):
                    self._write_step(step)
            else:
                self._write_dim_line("a summary that replaces the messages before it:")
                self._write_text(extract_summary(run))
            for line in describe_ending(run):
                self._write_dim_line(line)

    def _write_step(self, step: HistoryEntry | ToolCallStep) -> None:
        if isinstance(step, ToolCallStep):
            self._write_call(step)
        elif step.message.role == "assistant":
            if self._output.is_terminal:
                self._write_text(step.reasoning, DIM)
            self._write_text(step.message.content)
            if not step.complete:
                self._write_dim_line("the answer was cut off here")
        else:
            self._write_indented(step.message.content, "> ", BOLD)
            self._write_attachments(step.message)

    def _write_attachments(self, message: Message) -> None:
        for attachment in message.attachments:
            self._write_dim_line(f"with {format_one_line(attachment.name)} ({len(attachment.data)} bytes)")

    def _write_call(self, step: ToolCallStep) -> None:
        record = step.record
        if self._show_tool_details:
            seconds = "" if record.seconds is None else f", {record.seconds:.1f} s"
            self._write_dim_line(f"{format_one_line(record.call.name)}{seconds}{', failed' if record.failed else ''}")
            for line in _format_arguments(record.call):
                self._write_indented(line, "    ", DIM)
            self._write_indented(step.result, "  | ", DIM)
        else:
            self._write_dim_line(format_call(record.call))
            if record.failed or not step.has_result:
                self._write_dim_line(format_one_line(step.result, MAX_ARGUMENTS_LENGTH))
        self._write_attachments(step.message)

    def _write_dim_line(self, text: str) -> None:
        self._write_text(f"· {text}\n", DIM)

    def _write_text(self, text: str, style: str = "") -> None:
        if self._output.is_terminal:
            text = _wrap_markdown(text, get_terminal_size(STDOUT).columns)
        self._output.write(text, style)
        self._output.end_line()

    def _write_indented(self, text: str, prefix: str, style: str) -> None:
        omitted = len(text) - MAX_TEXT_LENGTH if self._output.is_terminal else 0
        if omitted > 0:
            text = text[:MAX_TEXT_LENGTH]
        lines = text.removesuffix("\n").split("\n")
        self._write_text("".join(f"{prefix}{line}".rstrip(" ") + "\n" for line in lines), style)
        if omitted > 0:
            self._write_dim_line(f"{omitted} more characters (shown in a pipe or file)")


def _wrap_markdown(text: str, width: int) -> str:
    """Wrap Markdown source between words, except for code and tables."""
    rows: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_fence = FENCE_PATTERN.match(line) is not None
        is_code = is_code != is_fence
        is_preformatted = is_code or is_fence or PREFORMATTED_LINE.match(line)
        rows += [line] if is_preformatted else wrap_text(line, width, divide_words=False)
    return "\n".join(rows)


def _format_arguments(call: ToolCall) -> Iterator[str]:
    """Yield the arguments of a call by name, or its text if it is no JSON object."""
    arguments = read_dict(parse_json(call.arguments))
    if not arguments:
        yield call.arguments
    for name, value in arguments.items():
        yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def describe_ending(run: Run) -> Iterator[str]:
    """Describe which fallbacks answered, how a run failed and whether it was replaced; yield nothing otherwise."""
    for model in _list_fallbacks(run):
        yield f"answered by {format_one_line(model)}"
    if run.exit_code is None:
        yield "unfinished: still running, or killed"
    elif run.exit_code:
        yield f"exit code {run.exit_code}" + (f": {format_one_line(run.error)}" if run.error else "")
    if run.status == REFUSED:
        yield "refused by the provider: not sent again"
    if run.replaced_by is not None:
        yield "replaced: the message was edited or asked again"


def _list_fallbacks(run: Run) -> list[str]:
    """List the models that answered in place of the run's own, as provider:model."""
    return list(dict.fromkeys(f"{entry.provider}:{entry.model}" for entry in run.entries if entry.model))


class CallDescription(NamedTuple):
    """A tool call as the exports show it."""

    name: str
    summary: str
    """The first string among the arguments, on one line."""
    arguments: str
    """All arguments with strings unquoted; without its name if there is only one and it is a string."""
    duration: str
    """How long the call ran; "" if that is unknown or negligible."""
    outcome: str
    """The outcome in a few words; "" if the call succeeded."""


def describe_call(step: ToolCallStep) -> CallDescription:
    """Describe a call and its outcome."""
    record, call = step.record, step.record.call
    values = list(read_dict(parse_json(call.arguments)).values())
    texts = [repair_surrogates(value) for value in values if isinstance(value, str)]
    is_single_text = len(values) == len(texts) == 1
    return CallDescription(
        name=format_one_line(call.name),
        summary=format_one_line(texts[0] if texts else call.arguments, MAX_SUMMARY_LENGTH),
        arguments=texts[0] if is_single_text else repair_surrogates("\n".join(_format_arguments(call))),
        duration=f"{record.seconds:.1f} s" if (record.seconds or 0) >= MIN_SHOWN_DURATION else "",
        outcome=_describe_outcome(step),
    )


def _describe_outcome(step: ToolCallStep) -> str:
    """Describe the outcome of a call in a few words; return "" if it succeeded."""
    record = step.record
    if not step.has_result:
        return "not run" if record.started is None else "interrupted"
    if record.decision == "deny":
        return "denied"
    if record.exit_status:
        return f"exit code {record.exit_status}"
    return "failed" if record.failed else ""


def describe_conversation(conversation: Conversation, runs: Sequence[Run]) -> list[str]:
    """Return the time, models, directories, tokens and cost of a conversation."""
    facts = [format_local_time(conversation.created)]
    facts += [model for run in runs for model in (f"{run.provider}:{run.model}", *_list_fallbacks(run))]
    facts += [run.directory for run in runs]
    usage = sum((run.usage for run in runs), start=Usage())
    if usage.input_tokens is not None or usage.output_tokens is not None:
        facts.append(f"{usage.input_tokens or 0:,} tokens in, {usage.output_tokens or 0:,} out")
    if usage.cost is not None:
        facts.append(f"${usage.cost:.4f}")
    return [format_one_line(fact) for fact in dict.fromkeys(facts) if fact]
