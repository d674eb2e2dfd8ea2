"""A run as plain text: the answer as it streams, and one line for each tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ask.agent.tool_loop import RunResult
from ask.console import STDERR, StandardOutput, StderrConsole, wrap_for_terminal
from ask.events import Event, MessageAdded, Notice, ToolCallFinished, ToolCallOutput, ToolCallRequested, ToolCallStarted
from ask.messages import ToolCall
from ask.plugin_api.types import ReasoningDelta, TextDelta
from ask.text import format_one_line

if TYPE_CHECKING:
    from ask.render.text_layout import StreamWrapper

MAX_ARGUMENTS_LENGTH = 100


class PlainRenderer:
    """Writes the answer to standard output and everything else to the console.

    With `verbose`, tool results, usage and (also off a terminal) reasoning are shown.
    """

    def __init__(self, output: StandardOutput, console: StderrConsole, *, verbose: bool) -> None:
        self._output = output
        self._console = console
        self._verbose = verbose
        self._is_mid_dim_line = False
        self._reasoning_wrapper: StreamWrapper | None = None
        self._has_live_output = False
        self._is_call_printed = False

    def show(self, event: Event) -> None:
        """Show an event."""
        match event:
            case TextDelta(text):
                self._end_dim_line()
                self._output.write(text)
            case ReasoningDelta(text) if self._console.is_terminal or self._verbose:
                self._print_reasoning(text)
            case ToolCallOutput(text) if self._console.is_terminal:
                self._has_live_output = True
                self._print_dim_text(text)
            case ToolCallRequested():
                self._end_dim_line()
                self._is_call_printed = False
            case ToolCallStarted(call):
                self._print_call(call)
            case ToolCallFinished(call):
                self._end_dim_line()
                if not self._is_call_printed:  # the call was denied
                    self._print_call(call)
                self._print_result(event)
            case MessageAdded(message) if message.role == "assistant":
                self._end_dim_line()
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
        if self._verbose:
            self._console.print_dim(wrap_for_terminal(f"· {format_usage(run_result)}", STDERR) + "\n")
        if conversation_id and run_result.has_answer:
            self._console.print_dim(f"· conversation {conversation_id}\n")

    def _print_result(self, event: ToolCallFinished) -> None:
        if self._verbose:
            result = "" if self._has_live_output else event.result.removesuffix("\n") + "\n"
            self._console.print_dim(f"{result}· {len(event.result)} characters in {event.seconds:.1f} s\n")
            self._has_live_output = False
        elif event.failed:
            self._console.print_dim(f"· {format_one_line(event.result, MAX_ARGUMENTS_LENGTH)}\n")

    def _print_call(self, call: ToolCall) -> None:
        """Print a call.

        This is done when it starts, not when it is requested, because the user may edit it in between.
        """
        self._is_call_printed = True
        self._console.print_dim(f"· {format_call(call)}\n")

    def _print_notice(self, text: str) -> None:
        self._end_dim_line()
        if self._output.is_terminal:  # in a pipe, the answer is the model's text, byte for byte
            self._output.end_line()
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


def format_call(call: ToolCall) -> str:
    """Format a tool call on one line."""
    return f"{format_one_line(call.name)} {format_one_line(call.arguments, MAX_ARGUMENTS_LENGTH)}"


def format_usage(run_result: RunResult) -> str:
    """Format the usage of a run on one line."""
    usage = run_result.usage
    rounds = "1 round" if run_result.rounds == 1 else f"{run_result.rounds} rounds"
    parts = [f"{rounds} of tool calls" if run_result.rounds else "no tool calls"]
    if usage.input_tokens is not None:
        cached = f" ({usage.cached_tokens} from the cache)" if usage.cached_tokens else ""
        reasoning = f" ({usage.reasoning_tokens} for reasoning)" if usage.reasoning_tokens else ""
        parts.append(f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens or 0} out{reasoning}")
    if (cost := run_result.cost).dollars is None:
        return ", ".join(parts if cost.is_complete else [*parts, "cost unknown"])
    dollars = f"${cost.dollars:.6f}".rstrip("0").rstrip(".")
    parts.append(f"{'' if cost.is_complete else 'at least '}{'~' if cost.is_estimated else ''}{dollars}")
    return ", ".join(parts)
