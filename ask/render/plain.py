"""Shows a run as plain text: the answer as it comes, and beside it one line for each tool call."""

from __future__ import annotations

from ask.agent.tool_loop import RunResult
from ask.console import StandardOutput, StderrConsole
from ask.events import Event, MessageAdded, Notice, ToolCallFinished, ToolCallOutput, ToolCallRequested, ToolCallStarted
from ask.messages import ToolCall
from ask.plugin_api.provider import ReasoningDelta, TextDelta
from ask.text import format_one_line

MAX_ARGUMENTS_LENGTH = 100


class PlainRenderer:
    """Writes the answer's text to standard output, the rest to the console.

    Args:
        output: where the answer goes.
        console: where everything else goes.
        verbose: also show results, reasoning off a terminal, and what the run used.
    """

    def __init__(self, output: StandardOutput, console: StderrConsole, *, verbose: bool) -> None:
        self._output = output
        self._console = console
        self._verbose = verbose
        self._is_mid_line = False
        self._has_live_output = False
        self._is_call_printed = False

    def show(self, event: Event) -> None:
        """Take an event."""
        match event:
            case TextDelta(text):
                self._end_aside()
                self._output.write(text)
            case ReasoningDelta(text) if self._console.is_terminal or self._verbose:
                self._print_aside(text)
            case ToolCallOutput(text) if self._console.is_terminal:
                self._has_live_output = True
                self._print_aside(text)
            case ToolCallRequested():
                self._end_aside()
                self._is_call_printed = False
            case ToolCallStarted(call):
                self._print_call(call)
            case ToolCallFinished(call):
                self._end_aside()
                if not self._is_call_printed:  # it was not allowed to run
                    self._print_call(call)
                self._print_result(event)
            case MessageAdded(message) if message.role == "assistant":
                self._end_aside()
                self._output.end_line()
            case Notice(text):
                self._end_aside()
                self._console.print_line(f"ask: {text}")

    def stop(self) -> None:
        """Show all that was said so far."""
        self._output.flush()

    def finish(self, run_result: RunResult, conversation_id: str) -> None:
        """The run is over. `conversation_id` is the id of the conversation, "" where it is not saved."""
        self._end_aside()
        self._output.end_line()
        if self._verbose:
            self._console.print_dim(f"· {format_usage(run_result)}\n")
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
        """Print which call runs: only now, since the user may have edited it."""
        self._is_call_printed = True
        self._console.print_dim(f"· {format_call(call)}\n")

    def _print_aside(self, text: str) -> None:
        self._console.print_dim(text)
        self._is_mid_line = not text.endswith("\n")

    def _end_aside(self) -> None:
        if self._is_mid_line:
            self._console.print_dim("\n")
            self._is_mid_line = False


def format_call(call: ToolCall) -> str:
    """A call on one line."""
    return f"{format_one_line(call.name)} {format_one_line(call.arguments, MAX_ARGUMENTS_LENGTH)}"


def format_usage(run_result: RunResult) -> str:
    """What a run used, on one line."""
    usage = run_result.usage
    rounds = "1 round" if run_result.rounds == 1 else f"{run_result.rounds} rounds"
    parts = [f"{rounds} of tool calls" if run_result.rounds else "no tool calls"]
    if usage.input_tokens is not None:
        cached = f" ({usage.cached_tokens} from the cache)" if usage.cached_tokens else ""
        parts.append(f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens or 0} out")
    if usage.cost is not None:
        parts.append(f"${usage.cost:.6f}".rstrip("0").rstrip("."))
    return ", ".join(parts)
