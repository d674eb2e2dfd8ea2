"""Shows a run to somebody who sits in front of it: Markdown laid out, a clock while there is nothing to see."""

from __future__ import annotations

import signal
import sys
import time
from threading import RLock
from typing import TYPE_CHECKING

from ask.agent.tool_loop import Outcome
from ask.console import Console, Output, in_foreground
from ask.events import Asking, CallFinished, CallOutput, CallRunning, CallStarted, Event, MessageAdded, Notice
from ask.plugin_api.provider import CallDelta, ReasoningDelta, TextDelta
from ask.render.amounts import counted
from ask.render.live_region import Bottom
from ask.render.plain import PlainRenderer, summary
from ask.render.spinner import Ticker
from ask.render.width import columns, cut
from ask.text import one_line

if TYPE_CHECKING:
    from ask.render.markdown_answer import MarkdownAnswer

PATIENCE = 0.5
"""Seconds for which nobody wonders what happens."""
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MINUTE = 60


class TerminalRenderer(PlainRenderer):
    """Writes the answer to a terminal in which it may redraw the last rows, the rest to the console.

    Args:
        output: the terminal.
        console: where everything else goes.
        verbose: also show results, and what the run used.
        as_written: the answer is no Markdown.
    """

    def __init__(self, output: Output, console: Console, *, verbose: bool, as_written: bool) -> None:
        super().__init__(output, console, verbose=verbose)
        self._as_written = as_written
        self._bottom = Bottom(output.draw, sys.stdout.fileno(), console.environment)
        self._answer: MarkdownAnswer | None = None
        self._lock = RLock()
        self._ticker = Ticker(self._load, self._tick)
        self._waits_for = ""
        self._since = 0.0
        signal.signal(signal.SIGCONT, lambda *_: self._bottom.lose())  # the shell has written to the terminal

    def show(self, event: Event) -> None:
        """Take an event."""
        with self._lock:
            match event:
                case Asking():
                    self._wait("waiting for the model")
                case TextDelta(text) if text:
                    self._show_text(event)
                case ReasoningDelta(text) if text:
                    self._end_text()
                    super().show(event)
                case CallDelta(_, name):
                    self._end_text()
                    self._wait(f"writing a call of {one_line(name)}")
                case Notice():
                    self._console.status("")
                    if self._answer:
                        self._answer.hide()
                    super().show(event)
                case MessageAdded():
                    self._end_text()
                    super().show(event)
                case CallStarted() | CallRunning() | CallOutput() | CallFinished() if self._console.terminal:
                    self._show_call(event)
                case CallStarted() | CallRunning() | CallFinished():
                    self._end_text()
                    super().show(event)

    def finish(self, outcome: Outcome, saved_as: str) -> None:
        """The run is over. `saved_as` is the id of the conversation, "" where it is not saved."""
        with self._lock:
            self._end_text()
            super().finish(outcome, saved_as)
        self.still()

    def still(self) -> None:
        """Let nothing move any more."""
        with self._lock:
            self._rest()
            self._ticker.stop()

    def _show_text(self, delta: TextDelta) -> None:
        self._rest()
        self._end_aside()
        if self._as_written:
            super().show(delta)
        else:
            self._answer = self._answer or self._load()
            self._answer.feed(delta.text)

    def _end_text(self) -> None:
        self._rest()
        if self._answer:
            self._answer.end()

    def _show_call(self, event: CallStarted | CallRunning | CallOutput | CallFinished) -> None:
        match event:
            case CallStarted():
                self._end_text()
                self._end_aside()
                self._named = False
            case CallRunning(call):
                self._wait(summary(call))
                self._call = call
            case CallOutput(text) if text:
                self._rest()
                if not self._named:
                    self._named = True
                    self._console.dim(self._fitting(summary(self._call)) + "\n")
                super().show(event)
            case CallFinished():
                self._rest()
                self._end_aside()
                self._tell_of(event)

    def _tell_of(self, event: CallFinished) -> None:
        told = "failed" if event.failed else counted(len(event.result), "character")
        told = f"{told} in {event.seconds:.1f} s"
        self._console.dim(self._fitting("" if self._named else summary(event.call), told) + "\n")
        if self._verbose and not self._named:
            self._console.dim(event.result.removesuffix("\n") + "\n")
        elif event.failed and not self._verbose:
            self._console.dim(f"  {cut(one_line(event.result, 500), self._bottom.size.columns - 3)}\n")

    def _fitting(self, what: str, told: str = "") -> str:
        """An entry of one row: what is done, and what came of it."""
        room = self._bottom.size.columns - 3 - (columns(told) + 3 if told else 0)
        return "· " + " · ".join(filter(None, (cut(what, max(room, 1)), told)))

    def _wait(self, what: str) -> None:
        """Show how long it takes, if it takes long."""
        self._waits_for, self._since = what, time.monotonic()
        self._ticker.start()

    def _rest(self) -> None:
        self._waits_for = ""
        self._console.status("")

    def _load(self) -> MarkdownAnswer:
        """What lays out the answer, which takes a while to load: while the model is waited for, it costs nothing."""
        from ask.render.markdown_answer import MarkdownAnswer

        return MarkdownAnswer(self._bottom, in_foreground)

    def _tick(self) -> None:
        with self._lock:
            if self._answer:
                self._answer.refresh()
            seconds = time.monotonic() - self._since
            if self._waits_for and seconds >= PATIENCE and in_foreground():
                frame = FRAMES[int(seconds * 10) % len(FRAMES)]
                told = f", {clock(seconds)}"
                room = self._bottom.size.columns - 4 - len(told)
                self._console.status(f"{frame} {cut(self._waits_for, max(room, 1))}{told}")


def clock(seconds: float) -> str:
    """A time that goes on."""
    minutes, rest = divmod(int(seconds), MINUTE)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
