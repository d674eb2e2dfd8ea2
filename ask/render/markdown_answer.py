"""A Markdown answer on a terminal while it streams: finished blocks are final, the pending one is redrawn below them.

The time spent on redrawing is limited to a fraction of the total, so that the cost stays linear.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text

from ask.render.live_region import LiveRegion, TerminalRow
from ask.render.markdown_blocks import (
    MAX_BLOCK_LENGTH,
    BlockEvent,
    BlockReader,
    CodeEnd,
    CodeLine,
    CodeStart,
    MarkdownBlock,
    RawText,
)
from ask.render.markdown_rows import measure_max_width, render_markdown, split_at_width, to_ansi
from ask.text import escape_control_characters

if TYPE_CHECKING:
    from ask.render.code_rows import CodeHighlighter

MIN_DRAW_TIME = 0.004
"""Minimum time that a redraw is counted as taking, in seconds."""
DRAW_REST_FACTOR = 8
"""Pause between two redraws, as a multiple of the time that the last one took."""
MAX_LINE_LENGTH = 2_000
"""Maximum number of characters shown of a partial line of code: its end."""


class MarkdownStreamRenderer:
    """Renders a streaming answer.

    The pending block is only drawn while `is_watched()` is true. `rest_factor` is the pause between two redraws, as a
    multiple of the time that the last one took.
    """

    def __init__(
        self, live_region: LiveRegion, is_watched: Callable[[], bool], *, rest_factor: float = DRAW_REST_FACTOR
    ) -> None:
        self._live_region = live_region
        self._is_watched = is_watched
        self._rest_factor = rest_factor
        self._block_reader = BlockReader()
        self._code_highlighter: CodeHighlighter | None = None
        self._finished_lines: list[str] = []
        self._needs_redraw = False
        self._next_draw = 0.0

    def feed(self, text: str) -> None:
        """Add a piece of the answer."""
        for event in self._block_reader.feed(escape_control_characters(text)):
            self._handle_event(event)
        self._needs_redraw = True
        self.refresh()

    def refresh(self) -> None:
        """Redraw what has arrived, unless the last redraw was too recent."""
        now = time.monotonic()
        if self._needs_redraw and now >= self._next_draw:
            self._redraw()
            duration = time.monotonic() - now
            self._next_draw = now + self._rest_factor * max(MIN_DRAW_TIME, duration)

    def hide(self) -> None:
        """Clear the pending block, so that other lines can be printed.

        The next redraw shows it again.
        """
        self._live_region.update(self._take_finished_lines(), ())
        self._needs_redraw, self._next_draw = True, 0.0

    def finish(self) -> None:
        """End the answer: write all of it as final."""
        for event in self._block_reader.finish():
            self._handle_event(event)
        self._block_reader = BlockReader()
        self._live_region.update(self._take_finished_lines(), ())
        self._needs_redraw, self._next_draw = False, 0.0

    def _handle_event(self, event: BlockEvent) -> None:
        match event:
            case MarkdownBlock(text, gap):
                self._start_block(gap)
                self._finished_lines += map(to_ansi, self._render_block(text))
            case CodeStart(language, gap):
                self._start_block(gap)
                from ask.render.code_rows import CodeHighlighter

                self._code_highlighter = CodeHighlighter(language)
            case CodeLine(text) if self._code_highlighter:
                self._finished_lines += map(to_ansi, self._code_highlighter.add_line(text))
            case CodeEnd() if self._code_highlighter:
                self._finished_lines += map(to_ansi, self._code_highlighter.finish())
                self._code_highlighter = None
            case RawText(text, gap):
                self._start_block(gap)
                if self._finished_lines:
                    self._live_region.update(self._take_finished_lines(), ())
                self._live_region.write_text(text)

    def _start_block(self, has_gap: bool) -> None:
        if has_gap:
            self._finished_lines.append("")

    def _render_block(self, text: str) -> list[Text]:
        if len(text) > MAX_BLOCK_LENGTH:
            return [Text(line) for line in text.split("\n")]
        return render_markdown(text, self._live_region.size.columns)

    def _take_finished_lines(self) -> list[str]:
        lines, self._finished_lines = self._finished_lines, []
        return lines

    def _redraw(self) -> None:
        self._needs_redraw = False
        self._live_region.update(self._take_finished_lines(), self._render_pending() if self._is_watched() else ())

    def _render_pending(self) -> list[TerminalRow]:
        """Render the last rows of the pending block."""
        width, height = self._live_region.size
        pending = self._block_reader.pending
        rows: list[Text] = []
        if self._code_highlighter:
            rows = self._code_highlighter.render_pending(pending[-MAX_LINE_LENGTH:])
        elif pending:
            rows = [*([Text()] if self._block_reader.has_gap else []), *self._render_block(close_open_markup(pending))]
        max_rows = max(1, height * 3 // 4)
        return [
            TerminalRow(to_ansi(row), measure_max_width(row.plain.rstrip()))
            for row in list(split_at_width(rows[-max_rows:], width))[-max_rows:]
        ]


def close_open_markup(text: str) -> str:
    """Close the code span or bold text that the last line leaves open.

    Its style then shows before the closing marker arrives.
    """
    last_line = text.rpartition("\n")[2]
    if last_line.count("`") % 2:
        return text + "`"
    return text + "**" if last_line.count("**") % 2 and not last_line.endswith("*") else text
