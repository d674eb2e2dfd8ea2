"""A Markdown answer on a terminal while it streams: finished blocks are final, the pending one is redrawn below them.

The time spent on redrawing is limited to a fraction of the total, so that the cost stays linear.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

from markdown_it.token import Token

from ask.render.code_rows import CodeHighlighter
from ask.render.live_region import LiveRegion, TerminalRow
from ask.render.markdown_extensions import OPERATOR
from ask.render.markdown_rows import parse_blocks, render_block, render_markdown
from ask.render.text_layout import get_plain_text, split_at_width, to_ansi
from ask.text import escape_control_characters, measure_width

MIN_DRAW_SECONDS = 0.004
"""Minimum time that a redraw is counted as taking."""
DRAW_REST_FACTOR = 8
"""Pause between two redraws, as a multiple of the time that drawing the pending block took."""
MAX_BLOCK_CHARACTERS = 20_000
"""Length at which a block is ended; what follows is parsed on its own."""
MAX_LINE_CHARACTERS = 2_000
"""Maximum number of characters shown of a partial line of code: its end."""
MAX_FENCE_CHARACTERS = 100
"""Maximum length of the first line of a code block."""
UNKNOWN_LINE_PATTERN = re.compile(r"[\s>#*+\-_=~`|:]*|\s*\d{1,9}[.)]?\s*")
"""A partial line whose kind is not known yet."""


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
        self._new_parts: list[str] = []
        self._text = ""
        """What follows the finished blocks; in a code block, its first line and what follows the highlighted lines."""
        self._code: CodeHighlighter | None = None
        self._finished_lines: list[str] = []
        self._has_output = False
        self._next_draw = 0.0

    def feed(self, text: str) -> None:
        """Add a piece of the answer."""
        self._new_parts.append(text)
        self.refresh()

    def refresh(self) -> None:
        """Redraw what has arrived, unless the last redraw was too recent.

        In another thread than the main one, no block is finished: code could not be highlighted.
        """
        if self._new_parts and time.monotonic() >= self._next_draw:
            if threading.current_thread() is threading.main_thread():
                self._finish_blocks()
            else:
                self._take_new_text()
            start = time.monotonic()
            self._draw(self._render_pending() if self._is_watched() else [])
            now = time.monotonic()
            self._next_draw = now + self._rest_factor * max(MIN_DRAW_SECONDS, now - start)

    def hide(self) -> None:
        """Clear the pending block, so that other lines can be printed.

        The next redraw shows it again.
        """
        self._draw([])
        self._new_parts.append("")
        self._next_draw = 0.0

    def finish(self) -> None:
        """End the answer: write all of it as final."""
        self._finish_blocks(is_complete=True)
        self._draw([])
        self._text, self._has_output, self._next_draw = "", False, 0.0

    def _draw(self, rows: list[TerminalRow]) -> None:
        lines, self._finished_lines = self._finished_lines, []
        self._live_region.update(lines, rows)

    def _finish_blocks(self, *, is_complete: bool = False) -> None:
        new_text = self._take_new_text()
        if "\n" in new_text or is_complete or len(self._text) > MAX_BLOCK_CHARACTERS:
            while self._finish_first_blocks(is_complete=is_complete):
                pass

    def _take_new_text(self) -> str:
        new_text = escape_control_characters("".join(self._new_parts))
        self._new_parts.clear()
        self._text += new_text
        return new_text

    def _finish_first_blocks(self, *, is_complete: bool) -> bool:
        """Render the blocks at the beginning of the text that nothing can change: all but the last.

        Return true if the text was too long to look at all of it.
        """
        is_cut = len(self._text) > MAX_BLOCK_CHARACTERS
        if is_cut:
            end = self._text.rfind("\n", MAX_BLOCK_CHARACTERS // 2, MAX_BLOCK_CHARACTERS) + 1 or MAX_BLOCK_CHARACTERS
        else:
            end = len(self._text) if is_complete else self._text.rfind("\n") + 1
        blocks, rest = parse_blocks(self._text[:end]), self._text[end:]
        if not blocks and end:
            rest = f"\n{rest}"
        for block in blocks:
            is_last = block is blocks[-1]
            is_open = is_last and (is_cut or not is_complete) and not block.is_closed
            is_code = block.tokens[0].type == "fence"
            if is_open and not is_code and (len(blocks) > 1 or not is_cut):
                rest = "\n" * block.has_gap + "\n".join(block.lines) + rest
                break
            if block.has_gap and self._has_output:
                self._finished_lines.append("")
            self._has_output = True
            if is_code:
                self._finish_code(block.tokens[0], is_open=is_open)
            else:
                self._finished_lines += map(to_ansi, render_block(block, self._live_region.size.columns))
            if is_code and is_open:
                rest = f"{block.lines[0][:MAX_FENCE_CHARACTERS]}\n{rest}"
            elif is_last and block.has_gap_below:
                rest = f"\n{rest}"
        self._text = rest
        return is_cut

    def _finish_code(self, token: Token, *, is_open: bool) -> None:
        self._code = self._code or CodeHighlighter(token.info)
        self._finished_lines += map(to_ansi, self._code.add_lines(token.content))
        if not is_open:
            self._finished_lines += map(to_ansi, self._code.render_open_lines())
            self._code = None

    def _render_pending(self) -> list[TerminalRow]:
        """Render the last rows of the pending block."""
        width, height = self._live_region.size
        if self._code:
            fence = parse_blocks(self._text)[0].tokens[0]
            is_end = not fence.content.strip().strip(fence.markup[0])
            rows = self._code.render_open_lines("" if is_end else fence.content[-MAX_LINE_CHARACTERS:])
        else:
            rows = render_markdown(_close_open_markup(_hide_unknown_line(self._text)), width)
            rows = [[], *rows] if rows and self._has_output and self._text.startswith("\n") else rows
        max_rows = max(1, height * 3 // 4)
        screen_rows = [screen_row for row in rows[-max_rows:] for screen_row in split_at_width(row, width)]
        return [TerminalRow(to_ansi(row), measure_width(get_plain_text(row))) for row in screen_rows[-max_rows:]]


def _hide_unknown_line(text: str) -> str:
    """Remove what may still turn out to be another kind of block: an incomplete marker, the first row of a table."""
    start = text.rfind("\n") + 1
    if UNKNOWN_LINE_PATTERN.fullmatch(text, start):
        text = text[:start]
    return "" if text.lstrip().startswith("|") and text.lstrip("\n").count("\n") < 2 else text


def _close_open_markup(text: str) -> str:
    """Close the code span or bold text that the last line leaves open.

    Its style then shows before the closing marker arrives.
    """
    last_line = text.rpartition("\n")[2]
    if last_line.count("`") % 2:
        return text + "`"
    is_bold = OPERATOR.sub("", last_line).count("**") % 2
    return text + "**" if is_bold and not last_line.endswith("*") else text
