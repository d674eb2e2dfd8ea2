"""Shows an answer in Markdown on a terminal while it streams: whole blocks for good, the one under way below them.

The time that is spent on the block under way is a fraction of all, so that the cost stays linear.
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
"""Seconds that a picture of the block under way counts as taking, at least."""
DRAW_REST_FACTOR = 8
"""How many times as long it is until the next."""
MAX_LINE_LENGTH = 2_000
"""Characters of a line of code under way that are shown: its end."""


class MarkdownStreamRenderer:
    """An answer as it comes.

    Args:
        bottom: the rows at the end of the terminal.
        watched: whether there is somebody to whom the block under way can be shown.
        rest: how many times as long as a picture of that took it is until the next.
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
        """Take a piece of the answer."""
        for piece in self._block_reader.feed(escape_control_characters(text)):
            self._handle_event(piece)
        self._needs_redraw = True
        self.refresh()

    def refresh(self) -> None:
        """Show what has come, unless a picture was made only just now."""
        now = time.monotonic()
        if self._needs_redraw and now >= self._next_draw:
            self._redraw()
            took = time.monotonic() - now
            self._next_draw = now + self._rest_factor * max(MIN_DRAW_TIME, took)

    def hide(self) -> None:
        """Make room for somebody else's lines; the next picture shows the block under way again."""
        self._live_region.update(self._take_finished_lines(), ())
        self._needs_redraw, self._next_draw = True, 0.0

    def finish(self) -> None:
        """The answer is over: show all of it for good."""
        for piece in self._block_reader.finish():
            self._handle_event(piece)
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
        done, self._finished_lines = self._finished_lines, []
        return done

    def _redraw(self) -> None:
        self._needs_redraw = False
        self._live_region.update(self._take_finished_lines(), self._render_pending() if self._is_watched() else ())

    def _render_pending(self) -> list[TerminalRow]:
        """The block under way, or its last rows."""
        width, height = self._live_region.size
        begun = self._block_reader.pending
        rows: list[Text] = []
        if self._code_highlighter:
            rows = self._code_highlighter.render_pending(begun[-MAX_LINE_LENGTH:])
        elif begun:
            rows = [*([Text()] if self._block_reader.has_gap else []), *self._render_block(close_open_markup(begun))]
        most = max(1, height * 3 // 4)
        return [
            TerminalRow(to_ansi(row), measure_max_width(row.plain.rstrip()))
            for row in list(split_at_width(rows[-most:], width))[-most:]
        ]


def close_open_markup(text: str) -> str:
    """The text with what its last line opens closed again, so that it looks now as it will then."""
    last = text.rpartition("\n")[2]
    if last.count("`") % 2:
        return text + "`"
    return text + "**" if last.count("**") % 2 and not last.endswith("*") else text
