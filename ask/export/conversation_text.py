"""A saved conversation as text, in much the same form as during the run; and its parts that all exports share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from ask.client.citations import format_notes, mark_sources
from ask.console import BOLD, DIM, StandardOutput
from ask.history.entries import REFUSED, Conversation, HistoryEntry, Run
from ask.history.saved_messages import ToolCallStep, extract_summary, list_shown_steps
from ask.messages import Message, ToolCall, Usage
from ask.parsing import parse_json, read_dict
from ask.records import NamedTuple
from ask.render.amounts import format_cache_use, format_count, format_local_time
from ask.render.text_layout import to_ansi
from ask.render.tool_lines import MAX_CALL_CHARACTERS, find_failure_reason, format_call
from ask.text import (
    escape_control_characters,
    format_one_line,
    format_size,
    repair_surrogates,
    split_prompt,
    wrap_text,
)

MAX_SHOWN_LINES = 12
"""Maximum lines of a file, piped text or a result on a terminal."""
MAX_SHOWN_CHARACTERS = 5_000
"""Maximum length of the same and of the user's words, in characters."""

FENCE_PATTERN = re.compile(r" *(```|~~~)")
PREFORMATTED_LINE = re.compile(r"    |\t|\|")
"""The beginning of a line of code or of a table."""
MAX_SUMMARY_CHARACTERS = 120
MIN_SHOWN_SECONDS = 0.1
"""Minimum duration of a tool call that is shown."""


class TranscriptWriter:
    """Writes saved runs as text.

    With `show_tool_details`, tool calls are shown with all arguments and results instead of on one line.
    """

    def __init__(self, output: StandardOutput, width: int, *, show_tool_details: bool) -> None:
        self._output = output
        self._show_tool_details = show_tool_details
        self._width = width

    def write_runs(self, runs: Sequence[Run]) -> None:
        """Write runs, separated by blank lines."""
        system = ""
        for position, run in enumerate(runs):
            if position:
                self._output.write("\n")
            self._write_dim_line(f"{format_local_time(run.started)}, {format_one_line(run.full_model)}")
            if run.system != system and run.first_kept_run is None:
                system = run.system
                self._write_indented(system or "none", "· system: ", DIM, MAX_SHOWN_LINES)
            if run.first_kept_run is None:
                for step in list_shown_steps(run.entries):
                    self._write_step(step)
            else:
                self._write_dim_line("a summary that replaces the messages before it:")
                self._write_markdown(extract_summary(run))
            for line in describe_ending(run):
                self._write_dim_line(line)

    def _write_step(self, step: HistoryEntry | ToolCallStep) -> None:
        if isinstance(step, ToolCallStep):
            self._write_call(step)
        elif step.message.role == "assistant":
            text = step.message.content
            if self._output.is_terminal:
                self._write_text(step.reasoning, DIM)
                text = mark_sources(text, step.citations, lambda source: f" [{source.number}]")
            self._write_markdown(text)
            self._write_text(format_notes(step.citations), DIM)
            self._write_attachments(step.message)
            if not step.complete:
                self._write_dim_line("the answer was cut off here")
        else:
            self._write_question(step.message.content)
            self._write_attachments(step.message)

    def _write_question(self, text: str) -> None:
        """Write the user's words and, on a terminal, the beginnings of the texts of files and pipes."""
        if not self._output.is_terminal:
            self._write_indented(text, "> ", BOLD)
            return
        for part in split_prompt(text):
            if part.title:
                self._write_dim_line(f"{part.title}:")
                self._write_indented(part.text, "  | ", DIM, MAX_SHOWN_LINES)
            else:
                self._write_indented(part.text.strip("\n"), "> ", BOLD)

    def _write_attachments(self, message: Message) -> None:
        for attachment in message.attachments:
            self._write_dim_line(f"with {format_one_line(attachment.name)} ({format_size(len(attachment.data))})")

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
                self._write_dim_line(format_one_line(find_failure_reason(step.result), MAX_CALL_CHARACTERS))
        self._write_attachments(step.message)

    def _write_dim_line(self, text: str) -> None:
        self._write_text(f"· {text}\n", DIM)

    def _write_text(self, text: str, style: str = "") -> None:
        if self._output.is_terminal:
            text = _wrap_markdown(text, self._width)
        self._output.write(text, style)
        self._output.end_line()

    def _write_markdown(self, text: str) -> None:
        """Write an answer: rendered on a terminal that can show styles, otherwise its source."""
        if not (self._output.is_terminal and self._output.has_styles):
            self._write_text(text)
            return
        from ask.render.markdown_rows import render_markdown  # slow to load, and only needed for a terminal

        for row in render_markdown(escape_control_characters(text), self._width):
            self._output.write_raw(f"{to_ansi(row)}\n")

    def _write_indented(self, text: str, prefix: str, style: str, max_lines: int | None = None) -> None:
        lines = text.removesuffix("\n").split("\n")
        omitted = ""
        if self._output.is_terminal:
            if max_lines is not None and len(lines) > max_lines:
                omitted = format_count(len(lines) - max_lines, "more line")
                lines = lines[:max_lines]
            shown = "\n".join(lines)
            if len(shown) > MAX_SHOWN_CHARACTERS:
                omitted = format_count(len(text) - MAX_SHOWN_CHARACTERS, "more character")
                lines = shown[:MAX_SHOWN_CHARACTERS].split("\n")
        self._write_text("".join(f"{prefix}{line}".rstrip(" ") + "\n" for line in lines), style)
        if omitted:
            self._write_dim_line(f"… {omitted} (shown in a pipe or file)")


def _wrap_markdown(text: str, width: int) -> str:
    """Wrap Markdown source between words, except for code and tables."""
    rows: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_fence = FENCE_PATTERN.match(line) is not None
        is_code = is_code != is_fence  # a fence begins code or ends it
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
        summary=format_one_line(texts[0] if texts else call.arguments, MAX_SUMMARY_CHARACTERS),
        arguments=texts[0] if is_single_text else repair_surrogates("\n".join(_format_arguments(call))),
        duration=f"{record.seconds:.1f} s" if (record.seconds or 0) >= MIN_SHOWN_SECONDS else "",
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
    facts += [model for run in runs for model in (run.full_model, *_list_fallbacks(run))]
    facts += [run.directory for run in runs]
    usage = sum((run.usage for run in runs), start=Usage())
    if usage.input_tokens is not None or usage.output_tokens is not None:
        cached = format_cache_use(usage)
        facts.append(f"{usage.input_tokens or 0:,} tokens in{cached}, {usage.output_tokens or 0:,} out")
    if usage.cost is not None:
        facts.append(f"${usage.cost:.4f}")
    return [format_one_line(fact) for fact in dict.fromkeys(facts) if fact]
