"""A run as plain text: the answer as it streams, and the lines about each tool call."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ask.agent.tool_loop import RunResult
from ask.console import DIM, STDERR, StandardOutput, StderrConsole, wrap_for_terminal
from ask.events import (
    Event,
    MessageAdded,
    Notice,
    ToolCallFinished,
    ToolCallOutput,
    ToolCallRequested,
    ToolCallStarted,
    describe_server_call,
)
from ask.messages import Citation, FinishReason, ReasoningDelta, ServerToolDelta, TextDelta

if TYPE_CHECKING:
    from ask.render.text_layout import StreamWrapper
    from ask.render.tool_lines import ToolCallPrinter


class PlainRenderer:
    """Writes the answer to standard output and everything else to the console.

    With `verbose`, complete tool results, usage and reasoning are shown, with `shows_usage` only usage; with
    `shows_footer`, the conversation id. The sources of the answer are notes after it on a terminal, unless it is `raw`;
    elsewhere, `verbose` prints them to the console.
    """

    def __init__(
        self,
        output: StandardOutput,
        console: StderrConsole,
        *,
        verbose: bool,
        shows_usage: bool,
        shows_footer: bool,
        raw: bool,
    ) -> None:
        self._output = output
        self._console = console
        self._verbose = verbose
        self._shows_usage = verbose or shows_usage
        self._shows_footer = shows_footer
        self._prints_notes = output.is_terminal and not raw and not console.is_quiet
        self._citations: list[Citation] = []
        self._is_mid_dim_line = False
        self._reasoning_wrapper: StreamWrapper | None = None
        self._delays_calls = False

    def show(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._end_dim_line()
                self._output.write(text)
            case ReasoningDelta(text) if self._verbose:
                self._print_reasoning(text)
            case ToolCallRequested():
                self._end_dim_line()
            case ToolCallStarted():
                self._call_printer.start(event)
            case ToolCallOutput(text):
                self._call_printer.add_output(text)
            case ToolCallFinished() | ServerToolDelta():
                self._finish_call(event)
            case MessageAdded(message, _, answer) if message.role == "assistant":
                self._citations += answer.citations if answer else ()
                self._end_dim_line()
                if not (answer and answer.finish_reason is FinishReason.CONTINUE):  # the next message continues it
                    self._output.end_line()
            case Notice(text):
                self._print_notice(text)

    def stop(self) -> None:
        """Flush the output."""
        self._output.flush()

    def finish(self, run_result: RunResult, conversation_id: str) -> None:
        """Show the usage and the conversation id.

        `conversation_id` is "" if the run is not saved.
        """
        self._end_dim_line()
        self._output.end_line()
        if self._citations:
            self._print_notes()
        if self._shows_usage:
            from ask.render.amounts import format_usage

            self._console.print_dim(wrap_for_terminal(f"· {format_usage(run_result)}", STDERR) + "\n")
        if conversation_id and run_result.has_answer and self._shows_footer:
            self._console.print_dim(f"· conversation {conversation_id}\n")

    def _print_notes(self) -> None:
        """Print the sources: below the answer on a terminal, where they are no part of data."""
        from ask.client.citations import format_notes

        notes = format_notes(self._citations)
        self._citations = []
        if self._prints_notes:
            self._output.write(f"\n{notes}" if notes else "", DIM)
        elif self._verbose:
            self._console.print_dim(notes)

    @cached_property
    def _call_printer(self) -> ToolCallPrinter:
        from ask.render.tool_lines import ToolCallPrinter

        return ToolCallPrinter(self._console, verbose=self._verbose, delays_calls=self._delays_calls)

    def _finish_call(self, event: ToolCallFinished | ServerToolDelta) -> None:
        if isinstance(event, ServerToolDelta):
            self._end_dim_line()
            self._end_terminal_line()
            event = describe_server_call(event.call)
        self._call_printer.finish(event)

    def _end_terminal_line(self) -> None:
        if self._output.is_terminal:  # in a pipe, the answer is the model's text, byte for byte
            self._output.end_line()

    def _print_notice(self, text: str) -> None:
        self._end_dim_line()
        self._end_terminal_line()
        self._console.print_notice(text)

    def _print_reasoning(self, text: str) -> None:
        if self._console.is_terminal:
            if self._reasoning_wrapper is None:
                from ask.render.live_region import get_terminal_size
                from ask.render.text_layout import StreamWrapper

                self._reasoning_wrapper = StreamWrapper(get_terminal_size(STDERR).columns)
            text = self._reasoning_wrapper.feed(text)
        self._print_dim_text(text)

    def _print_dim_text(self, text: str) -> None:
        if text:
            self._console.print_dim(text)
            self._is_mid_dim_line = not text.endswith("\n")

    def _end_dim_line(self) -> None:
        if self._reasoning_wrapper:
            self._print_dim_text(self._reasoning_wrapper.finish())
            self._reasoning_wrapper = None
        if self._is_mid_dim_line:
            self._console.print_dim("\n")
            self._is_mid_dim_line = False
