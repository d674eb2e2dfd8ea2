"""Shows a run as plain text: the answer as it comes, and beside it one line for each tool call."""

from __future__ import annotations

from ask.agent.tool_loop import Outcome
from ask.console import Console, Output
from ask.events import CallFinished, CallOutput, CallRunning, CallStarted, Event, MessageAdded, Notice
from ask.messages import ToolCall
from ask.plugin_api.provider import ReasoningDelta, TextDelta
from ask.text import one_line

ARGUMENTS_SHOWN = 100


class PlainRenderer:
    """Writes the answer's text to standard output, the rest to the console.

    Args:
        output: where the answer goes.
        console: where everything else goes.
        verbose: also show results, reasoning off a terminal, and what the run used.
    """

    def __init__(self, output: Output, console: Console, *, verbose: bool) -> None:
        self._output = output
        self._console = console
        self._verbose = verbose
        self._in_line = False
        self._shown_live = False
        self._named = False

    def show(self, event: Event) -> None:
        """Take an event."""
        match event:
            case TextDelta(text):
                self._end_aside()
                self._output.write(text)
            case ReasoningDelta(text) if self._console.terminal or self._verbose:
                self._aside(text)
            case CallOutput(text) if self._console.terminal:
                self._shown_live = True
                self._aside(text)
            case CallStarted():
                self._end_aside()
                self._named = False
            case CallRunning(call):
                self._name(call)
            case CallFinished(call):
                self._end_aside()
                if not self._named:  # it was not allowed to run
                    self._name(call)
                self._finished(event)
            case MessageAdded(message) if message.role == "assistant":
                self._end_aside()
                self._output.end_line()
            case Notice(text):
                self._end_aside()
                self._console.line(f"ask: {text}")

    def still(self) -> None:
        """Show all that was said so far."""
        self._output.flush()

    def finish(self, outcome: Outcome, saved_as: str) -> None:
        """The run is over. `saved_as` is the id of the conversation, "" where it is not saved."""
        self._end_aside()
        self._output.end_line()
        if self._verbose:
            self._console.dim(f"· {used(outcome)}\n")
        if saved_as and outcome.answered:
            self._console.dim(f"· conversation {saved_as}\n")

    def _finished(self, event: CallFinished) -> None:
        if self._verbose:
            result = "" if self._shown_live else event.result.removesuffix("\n") + "\n"
            self._console.dim(f"{result}· {len(event.result)} characters in {event.seconds:.1f} s\n")
            self._shown_live = False
        elif event.failed:
            self._console.dim(f"· {one_line(event.result, ARGUMENTS_SHOWN)}\n")

    def _name(self, call: ToolCall) -> None:
        """Print which call runs: only now, since the user may have edited it."""
        self._named = True
        self._console.dim(f"· {summary(call)}\n")

    def _aside(self, text: str) -> None:
        self._console.dim(text)
        self._in_line = not text.endswith("\n")

    def _end_aside(self) -> None:
        if self._in_line:
            self._console.dim("\n")
            self._in_line = False


def summary(call: ToolCall) -> str:
    """A call on one line."""
    return f"{one_line(call.name)} {one_line(call.arguments, ARGUMENTS_SHOWN)}"


def used(outcome: Outcome) -> str:
    """What a run used, on one line."""
    usage = outcome.usage
    rounds = "1 round" if outcome.rounds == 1 else f"{outcome.rounds} rounds"
    parts = [f"{rounds} of tool calls" if outcome.rounds else "no tool calls"]
    if usage.input_tokens is not None:
        cached = f" ({usage.cached_tokens} from the cache)" if usage.cached_tokens else ""
        parts.append(f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens or 0} out")
    if usage.cost is not None:
        parts.append(f"${usage.cost:.6f}".rstrip("0").rstrip("."))
    return ", ".join(parts)
