"""A run on an interactive terminal: Markdown is laid out, and a spinner is shown while nothing else happens."""

from __future__ import annotations

import re
import signal
import threading
import time
from typing import TYPE_CHECKING

from ask.agent.tool_loop import RunResult
from ask.console import STDOUT, StandardOutput, StderrConsole, can_redraw_now, is_in_foreground, unlock_terminal
from ask.events import (
    Event,
    MessageAdded,
    Notice,
    RequestStarted,
    ToolCallFinished,
    ToolCallOutput,
    ToolCallRequested,
    ToolCallStarted,
)
from ask.messages import ReasoningDelta, ServerToolDelta, TextDelta, ToolCallDelta
from ask.render.live_region import LiveRegion, TerminalRow
from ask.render.plain_renderer import PlainRenderer
from ask.render.reasoning_rows import ReasoningRegion
from ask.render.spinner import SPINNER_DELAY_SECONDS, WAITING_ACTION, Ticker, format_call_action, format_spinner

if TYPE_CHECKING:
    from ask.render.markdown_answer import MarkdownStreamRenderer

EARLY_TEXT_PATTERN = re.compile(r"[A-Za-z0-9 ,.;:!?'\"()]*")
"""Text that looks the same with and without Markdown."""


class TerminalRenderer(PlainRenderer):
    """Writes the answer to a terminal, redrawing its last rows.

    Everything else goes to the console. With `raw`, the answer is not Markdown and is written unchanged. The other
    arguments are those of `PlainRenderer`.
    """

    def __init__(self, output: StandardOutput, console: StderrConsole, *, raw: bool, **shown: bool) -> None:
        super().__init__(output, console, raw=raw, **shown)
        self._delays_calls = console.is_terminal
        self._raw = raw
        self._prints_notes = not raw and not console.is_quiet  # also for a pager
        self._live_region = LiveRegion(output.write_raw, STDOUT, console.environment)
        self._markdown: MarkdownStreamRenderer | None = None
        self._reasoning: ReasoningRegion | None = None
        self._lock = threading.RLock()
        self._early_text = ""
        """The beginning of the answer, shown as it is until the modules for Markdown are loaded."""
        self._ticker = Ticker(self._tick)
        self._pending_action = ""
        self._wait_start = 0.0
        can_redraw_now()  # from now on, other runs know of this one
        # While the program was stopped, the shell has written to the terminal.
        signal.signal(signal.SIGCONT, lambda *_: self._live_region.mark_cursor_lost())

    def show(self, event: Event) -> None:
        with self._lock:
            match event:
                case RequestStarted():
                    self._start_waiting(WAITING_ACTION)
                case TextDelta(text) if text:
                    self._show_text(event)
                case ReasoningDelta(text) if text:
                    self._show_reasoning(event)
                case ToolCallDelta() | ServerToolDelta():
                    self._show_call_delta(event)
                case Notice():
                    self._console.show_status("")
                    if self._reasoning:
                        self._reasoning.hide()
                    if self._has_answer_text:
                        self._get_markdown().hide()
                    super().show(event)
                case ToolCallStarted() | ToolCallOutput() | ToolCallFinished() if self._console.is_terminal:
                    self._show_call(event)
                case MessageAdded() | ToolCallRequested() | ToolCallStarted() | ToolCallOutput() | ToolCallFinished():
                    self._end_text()
                    super().show(event)

    def finish(self, run_result: RunResult, conversation_id: str) -> None:
        """Show the rest of the answer, the usage and the conversation id.

        `conversation_id` is "" if the run is not saved.
        """
        with self._lock:
            self._end_text()
            super().finish(run_result, conversation_id)
        self.stop()

    def stop(self) -> None:
        """Stop the spinner."""
        with self._lock:
            self._stop_waiting()
            self._fold_reasoning()
            self._ticker.stop()
            unlock_terminal()

    def _show_call_delta(self, delta: ToolCallDelta | ServerToolDelta) -> None:
        """Announce a call that the model is writing, or show one that the service has run."""
        self._end_text()
        if isinstance(delta, ToolCallDelta):
            self._start_waiting(format_call_action(delta.name))
        else:
            super().show(delta)
            self._start_waiting(WAITING_ACTION)

    def _show_reasoning(self, delta: ReasoningDelta) -> None:
        if self._verbose or self._console.is_quiet or not self._console.is_terminal:
            self._end_text()
            super().show(delta)
            return
        if self._reasoning is None:
            self._end_text()
            self._reasoning = ReasoningRegion(self._live_region, self._console)
        self._reasoning.feed(delta.text)

    def _fold_reasoning(self) -> None:
        if self._reasoning:
            self._reasoning.fold()
            self._reasoning = None

    def _show_text(self, delta: TextDelta) -> None:
        self._stop_waiting()
        self._fold_reasoning()
        self._end_dim_line()
        if self._raw:
            super().show(delta)
        elif not self._show_early_text(delta.text):
            self._get_markdown().feed(delta.text)

    def _show_early_text(self, text: str) -> bool:
        """Show text as it is while the modules for Markdown are being loaded; return whether it was shown.

        Only words that fit into one row are, so that no width has to be measured and nothing looks different later.
        """
        text = self._early_text + text
        is_simple = EARLY_TEXT_PATTERN.fullmatch(text) is not None and len(text) < self._live_region.size.columns
        if self._markdown or not (is_simple and can_redraw_now()):
            return False
        self._early_text = text
        self._live_region.update((), [TerminalRow(text, len(text))])
        return True

    def _end_text(self) -> None:
        self._stop_waiting()
        self._fold_reasoning()
        if self._has_answer_text:
            self._get_markdown().finish()

    def _show_call(self, event: ToolCallStarted | ToolCallOutput | ToolCallFinished) -> None:
        match event:
            case ToolCallStarted(call):
                from ask.render.tool_lines import format_call

                super().show(event)
                self._start_waiting(format_call(call, 0))
            case ToolCallOutput(text):
                if self._call_printer.add_output(text):
                    self._wait_start = time.monotonic()
            case ToolCallFinished():
                self._stop_waiting()
                super().show(event)

    def _start_waiting(self, action: str) -> None:
        """Show a spinner with the action if it takes longer than the delay."""
        self._fold_reasoning()
        self._pending_action, self._wait_start = action, time.monotonic()
        self._ticker.start()

    def _stop_waiting(self) -> None:
        self._pending_action = ""
        self._console.show_status("")

    @property
    def _has_answer_text(self) -> bool:
        return bool(self._early_text) or self._markdown is not None

    def _get_markdown(self) -> MarkdownStreamRenderer:
        """Return the renderer of the answer, which takes over the early text when it is created."""
        if self._markdown is None:
            from ask.render.markdown_answer import MarkdownStreamRenderer

            self._markdown = MarkdownStreamRenderer(self._live_region, can_redraw_now)
            early_text, self._early_text = self._early_text, ""
            if early_text:
                self._markdown.feed(early_text)
        return self._markdown

    def _tick(self) -> None:
        with self._lock:
            if self._has_answer_text:
                self._get_markdown().refresh()
            if self._reasoning:
                self._reasoning.refresh()
            seconds = time.monotonic() - self._wait_start
            is_slow = bool(self._pending_action) and seconds >= SPINNER_DELAY_SECONDS
            if is_slow and is_in_foreground():
                self._console.show_status(format_spinner(self._pending_action, seconds, self._live_region.size.columns))
        if is_slow:  # load the modules that the answer will need; the request was sent long ago
            import ask.render.markdown_answer  # noqa: F401
