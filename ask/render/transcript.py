"""Shows a saved conversation, much as the terminal showed it while it took place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ask.console import BOLD, DIM, Output
from ask.history.conversations import Called, steps, summary_of
from ask.history.entries import Entry, Run
from ask.messages import ToolCall
from ask.parsing import as_dict
from ask.render.plain import ARGUMENTS_SHOWN, summary
from ask.render.times import local_time
from ask.text import one_line

LONGEST = 5_000
"""Characters of a question or a result that a terminal is shown; it may have come from a pipe."""


class Transcript:
    """Writes runs.

    Args:
        output: where they go.
        tools: show calls with all arguments and their results, not each on a line.
    """

    def __init__(self, output: Output, *, tools: bool) -> None:
        self._output = output
        self._tools = tools

    def write(self, runs: Sequence[Run]) -> None:
        """Write runs, an empty line between them."""
        for place, run in enumerate(runs):
            if place:
                self._output.write("\n")
            self._aside(f"{local_time(run.started)}, {one_line(run.provider)}:{one_line(run.model)}")
            if run.compacts is None:
                for step in steps(run.entries):
                    self._step(step)
            else:
                self._aside("a summary, which from here on stands for what was said before:")
                self._text(summary_of(run))
            for line in ending(run):
                self._aside(line)

    def _step(self, step: Entry | Called) -> None:
        if isinstance(step, Called):
            self._called(step)
        elif step.message.role == "assistant":
            if self._output.terminal:
                self._text(step.reasoning, DIM)
            self._text(step.message.content)
            if not step.whole:
                self._aside("the answer was cut off here")
        else:
            self._indented(step.message.content, "> ", BOLD)
            for attachment in step.message.attachments:
                self._aside(f"with {one_line(attachment.name)} ({len(attachment.data)} bytes)")

    def _called(self, called: Called) -> None:
        record = called.record
        if self._tools:
            seconds = "" if record.seconds is None else f", {record.seconds:.1f} s"
            self._aside(f"{one_line(record.call.name)}{seconds}{', failed' if record.failed else ''}")
            for line in arguments_of(record.call):
                self._indented(line, "    ", DIM)
            self._indented(called.result, "  | ", DIM)
        else:
            self._aside(summary(record.call))
            if record.failed or not called.seen:
                self._aside(one_line(called.result, ARGUMENTS_SHOWN))

    def _aside(self, text: str) -> None:
        self._output.write(f"· {text}\n", DIM)

    def _text(self, text: str, style: str = "") -> None:
        self._output.write(text, style)
        self._output.end_line()

    def _indented(self, text: str, margin: str, style: str) -> None:
        left_out = len(text) - LONGEST if self._output.terminal else 0
        if left_out > 0:
            text = text[:LONGEST]
        lines = text.removesuffix("\n").split("\n")
        self._text("".join(f"{margin}{line}".rstrip(" ") + "\n" for line in lines), style)
        if left_out > 0:
            self._aside(f"{left_out} characters more, which a pipe or a file would get")


def arguments_of(call: ToolCall) -> Iterator[str]:
    """The arguments of a call by name, or the text of those that are no JSON object."""
    try:
        arguments = as_dict(json.loads(call.arguments))
    except (ValueError, RecursionError):
        arguments = {}
    if not arguments:
        yield call.arguments
    for name, value in arguments.items():
        yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def ending(run: Run) -> Iterator[str]:
    """How a run ended, where that was not well."""
    if run.exit_code is None:
        yield "not ended: it is under way, or was killed"
    elif run.exit_code:
        yield f"exit code {run.exit_code}" + (f": {one_line(run.error)}" if run.error else "")
