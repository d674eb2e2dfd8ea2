"""The lines about a tool call on standard error: the call, what it prints, the change to a file, and its outcome."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from pathlib import Path

from ask.console import DIM, STDERR, StderrConsole
from ask.events import INTERRUPTED_RULE, ToolCallFinished, ToolCallStarted
from ask.messages import DECLINED_REASON, ToolCall
from ask.parsing import parse_json, read_dict
from ask.render.amounts import format_count
from ask.render.live_region import get_terminal_size
from ask.render.text_layout import truncate_text
from ask.safety.tool_policy import COMMAND_TOOL, Verdict
from ask.text import escape_control_characters, format_duration, format_one_line, format_size, measure_width, wrap_text
from ask.text_diff import TextDiff, draw_diff
from ask.tools.terminal_output import TerminalOutputFilter

MAX_CALL_CHARACTERS = 100
"""Maximum length of a call's line where there is no terminal, in characters."""
MAX_REASON_CHARACTERS, MAX_REASON_ROWS = 500, 3
MAX_LINE_CHARACTERS = 2_000
"""Maximum length of a line of output or of a diff where there is no terminal, in characters."""
MAX_DIFF_LINES = 12
FIRST_LINES, LAST_LINES = 5, 5
"""How many lines of a command's output are shown from its beginning and its end."""
MIN_SHOWN_SECONDS = 1.0
"""From how long on the duration of a call is shown that is no command."""
INDENT, MINUS_SIGN = "  ", "\u2212"
LINE_END, LINE_END_SIGN = r"\s*\n\s*", " \u21b5 "
FILE_WRITERS = {"write_file": "write", "edit_file": "edit"}
_VERBS = {
    **{name: (verb, "filepath") for name, verb in FILE_WRITERS.items()},
    "read_file": ("read", "filepath"),
    "list_dir": ("list", "dirpath"),
    "fetch_url": ("fetch", "url"),
    "search_web": ("search", "query"),
    "web_search": ("search", "query"),
    "web_fetch": ("fetch", "url"),
    "code_execution": ("run", "code"),
    "tool_search": ("search tools for", "query"),
    "read_skill": ("read skill", "name"),
}
"""What a tool that is built in, or that services have, does, and the argument that says with what."""


def format_call(call: ToolCall, limit: int = MAX_CALL_CHARACTERS) -> str:
    """Format a tool call on one line, in plain words for the built-in tools."""
    arguments = read_dict(parse_json(call.arguments))
    command = arguments.get("command")
    if call.name == COMMAND_TOOL and isinstance(command, str):
        # A comment must not seem to include the lines below it.
        return format_one_line(f"{COMMAND_TOOL}: {re.sub(LINE_END, LINE_END_SIGN, command.strip())}", limit)
    verb, name = _VERBS.get(call.name, ("", ""))
    target = arguments.get(name)
    if isinstance(target, str):
        target = _shorten_path(target) if name in ("filepath", "dirpath") else target
        return format_one_line(f"{verb} {target}{_format_lines(arguments)}", limit)
    parts = (f"{key}: {value if isinstance(value, str) else _format_json(value)}" for key, value in arguments.items())
    text = ", ".join(parts) if arguments else "" if call.arguments.strip() == "{}" else call.arguments
    return format_one_line(f"{call.name} {text}", limit)


def _shorten_path(path: str) -> str:
    """Return a path relative to the working directory if it is in it."""
    try:
        directory = os.getcwd()
    except OSError:
        return path
    return path.removeprefix(f"{directory}/") or path


def _format_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format_lines(arguments: dict[str, object]) -> str:
    """Format the range of lines that a call reads; "" for the complete file."""
    first, count = arguments.get("offset"), arguments.get("limit")
    if not isinstance(first, int):
        first = 1
    if isinstance(count, int):
        return f", lines {first:,} to {first + count - 1:,}"
    return f", from line {first:,}" if first > 1 else ""


def find_failure_reason(result: str) -> str:
    """Return the reason why a call has failed, from its result for the model."""
    return result.removeprefix("Error: ").removesuffix("\n")


class ToolCallPrinter:
    """Prints the lines about the calls of a run.

    On a terminal, or with `verbose`, the output of commands is printed as it arrives; elsewhere, only that of a command
    that fails. Without `verbose`, long output and long diffs are shortened. With `delays_calls`, a call is printed with
    its output or its outcome, because a spinner shows it until then.
    """

    def __init__(self, console: StderrConsole, *, verbose: bool, delays_calls: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._delays_calls = delays_calls
        self._is_live = console.is_terminal or verbose
        self._reset()

    def _reset(self, call: ToolCall | None = None, *, was_shown: bool = False) -> None:
        self._call = call
        self._was_asked = was_shown and self._console.is_terminal
        self._is_call_printed = self._was_asked
        self._filter = TerminalOutputFilter()
        self._line_count = 0
        self._held_lines: list[str] = []
        """The first lines of output, until the command fails."""
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    def start(self, event: ToolCallStarted) -> None:
        """Begin a call. On a terminal, one that was shown in a question is not printed again."""
        self._reset(event.call, was_shown=event.was_shown)
        if not (self._delays_calls or self._is_call_printed or event.call.name in FILE_WRITERS):
            self._print_call(event.call)

    def add_output(self, text: str) -> bool:
        """Add output of the call; return whether anything was printed."""
        printed_count = 0
        for line in self._filter.feed(text).splitlines():
            self._line_count += 1
            if not self._verbose and self._line_count > FIRST_LINES:
                self._last_lines.append(line)
            elif self._is_live:
                self._print_output_line(line)
                printed_count += 1
            else:
                self._held_lines.append(line)
        return printed_count > 0

    def finish(self, event: ToolCallFinished) -> None:
        """Print what is left to say about a call that has ended."""
        if self._call is None:  # it was rejected before it started
            self._reset(event.call, was_shown=event.was_shown)
            if self._was_asked and find_failure_reason(event.result).startswith(DECLINED_REASON):
                self._reset()  # the user has just said so
                return
        if last := self._filter.finish():
            self.add_output(f"{last}\n")
        if self._is_live or event.failed:
            self._print_rest()
        if event.call.name in FILE_WRITERS and not event.failed:
            self._print_change(event)
        else:
            self._print_outcome(event)
        if self._console.is_quiet:
            self._report_failure(event)
        self._reset()

    def _report_failure(self, event: ToolCallFinished) -> None:
        """With --quiet, print only that a command or a change failed or was refused."""
        if event.failed and event.has_side_effects and event.rule != INTERRUPTED_RULE:
            outcome = "refused" if event.verdict == Verdict.DENY else "failed"
            reason = format_one_line(find_failure_reason(event.result).removeprefix("denied: "), MAX_CALL_CHARACTERS)
            self._console.print_warning(f"{format_call(event.call)} {outcome}: {reason}")

    def _print_rest(self) -> None:
        """Print the lines of output that are not printed yet, and how many are left out."""
        for line in self._held_lines:
            self._print_output_line(line)
        omitted = self._line_count - FIRST_LINES - len(self._last_lines)
        if self._last_lines and omitted > 0:
            self._print_row(f"… {omitted:,} more line{'' if omitted == 1 else 's'}")
        for line in self._last_lines:
            self._print_output_line(line)

    def _print_outcome(self, event: ToolCallFinished) -> None:
        outcome, reason = _describe_outcome(event, self._line_count)
        if self._verbose and not self._line_count and event.exit_status is None:
            reason = find_failure_reason(event.result)
        else:
            reason = format_one_line(reason, MAX_REASON_CHARACTERS)
        if not self._is_call_printed:
            self._print_call(event.call, outcome)
        elif reason and not self._line_count:  # the call's own line is the last one
            reason = f"{outcome}: {reason}" if event.failed else "\n".join(filter(None, (outcome, reason)))
        elif outcome and (self._is_live or event.failed):
            self._print_dim_row("", outcome)
        rows = reason.splitlines() if self._verbose else wrap_text(reason, self._width)[:MAX_REASON_ROWS]
        for row in rows if reason else ():
            self._print_row(row)

    def _print_change(self, event: ToolCallFinished) -> None:
        """Print a call that has written a file, with the diff unless the user has just seen it."""
        diff = event.diff or TextDiff()
        signed_counts = (("+", diff.added), (MINUS_SIGN, diff.removed))
        counts = " ".join(f"{sign}{count:,}" for sign, count in signed_counts if count)
        self._print_call(event.call, counts, " ")
        if self._was_asked or not self._is_live:
            return
        if diff.note:
            self._print_row(f"no diff: {diff.note}")
        limit, width = (0, 0) if self._verbose else (MAX_DIFF_LINES, self._width)
        for text, style in draw_diff(diff.lines, limit=limit, omitted=diff.omitted, width=width):
            self._print_row(text, style)

    def _print_call(self, call: ToolCall, outcome: str = "", separator: str = " · ") -> None:
        self._is_call_printed = True
        text = format_call(call, 0 if self._console.is_terminal or self._verbose else MAX_CALL_CHARACTERS)
        self._print_dim_row(text, outcome, separator, _find_written_file(call))

    def _print_dim_row(
        self, text: str, outcome: str, separator: str = " · ", files: dict[str, Path] | None = None
    ) -> None:
        """Print a row with an outcome, or two; without `verbose`, the text is cut at the edge of the terminal."""
        separator = separator if text and outcome else ""
        if self._console.is_terminal and not self._verbose:
            width = self._width - measure_width(separator + outcome)
            if separator.strip() and measure_width(text) > width:  # the outcome gets a row of its own
                separator, width = "\n· ", self._width
            text = truncate_text(text, max(width, 1))
        self._console.print_dim(f"· {text}{separator}{outcome}\n", files)

    def _print_output_line(self, line: str) -> None:
        if not self._is_call_printed and self._call:
            self._print_call(self._call)
        self._print_row(line.expandtabs())

    @property
    def _width(self) -> int:
        """The width of an indented row."""
        return get_terminal_size(STDERR).columns - len(INDENT) - 1 if self._console.is_terminal else MAX_LINE_CHARACTERS

    def _print_row(self, text: str, style: str = DIM) -> None:
        text = escape_control_characters(text)
        if not self._verbose:
            text = truncate_text(text, self._width)
        self._console.print_styled(INDENT + text, style)


def _describe_outcome(event: ToolCallFinished, line_count: int) -> tuple[str, str]:
    """Return the outcome of a call in a few words, "" for nothing to mention, and the reason for a failure."""
    if event.exit_status is not None:
        lines = f"{format_count(line_count, 'line')}, " if line_count else ""
        return f"exit {event.exit_status}, {lines}{format_duration(event.seconds)}", ""
    if not event.failed:
        duration = format_duration(event.seconds) if event.seconds >= MIN_SHOWN_SECONDS else ""
        return ", ".join(filter(None, (_describe_files(event), duration))), ""
    reason = find_failure_reason(event.result)
    if event.verdict == Verdict.DENY and reason.startswith(DECLINED_REASON):
        return "declined", reason.removeprefix(DECLINED_REASON).removeprefix(": ")
    if line_count:  # the output is a part of the result
        reason = reason.partition("\n")[0]
    outcome = "failed" if event.verdict == Verdict.ALLOW else "not run"
    return outcome, reason.removeprefix("not run: ").removeprefix("denied: ")


def _describe_files(event: ToolCallFinished) -> str:
    """Describe the files in a result: the size, the name of one that the call does not name, or their number."""
    files = event.attachments
    if not files:
        return ""
    size = format_size(sum(len(file.data) for file in files))
    if len(files) > 1:
        return f"{len(files)} files, {size}"
    name = format_one_line(files[0].name)
    return size if name in event.call.arguments else f"{name}, {size}"


def _find_written_file(call: ToolCall) -> dict[str, Path]:
    """Return the name and path of the file that a call writes, if any."""
    if call.name not in FILE_WRITERS:
        return {}
    name = str(read_dict(parse_json(call.arguments)).get("filepath", ""))
    return {_shorten_path(name): Path(os.path.expanduser(name))} if name else {}
