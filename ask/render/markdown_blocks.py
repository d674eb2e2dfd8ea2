"""Split streaming Markdown into blocks, so that each can be shown as final once it is complete.

Pure, and linear in the length of the text. It only has to find where the text may be split: `markdown_rows` parses each
block with a real parser, so that a split at the wrong place affects the layout but loses no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_BLOCK_LENGTH = 20_000
"""Maximum length of a block that is parsed as Markdown, in characters."""
FENCE_PATTERN = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*(.*)")
HEADING_PATTERN = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
RULE_PATTERN = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
UNDERLINE_PATTERN = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
QUOTE_PATTERN = re.compile(r" {0,3}>")
LIST_ITEM_PATTERN = re.compile(r"( {0,3})([-+*]|\d{1,9}[.)])(?:([ \t]+)(?=\S)|[ \t]*$)")
HTML_START_PATTERN = re.compile(
    r" {0,3}<(?:(?:(?P<tag>pre|script|style|textarea)(?:[\s>]|$))|(?P<comment>!--)|(?P<question>\?)"
    r"|(?P<data>!\[CDATA\[)|(?P<declaration>![a-zA-Z]))",
    re.IGNORECASE,
)
"""Start of an HTML block that may contain blank lines and ends at its own end tag."""
HTML_END_PATTERNS = {
    "tag": re.compile(r"</(?:pre|script|style|textarea)>", re.IGNORECASE),
    "comment": re.compile("-->"),
    "question": re.compile(r"\?>"),
    "data": re.compile(r"\]\]>"),
    "declaration": re.compile(">"),
}
INTERRUPTING_ITEM_PATTERN = re.compile(r" {0,3}(?:[-+*]|1[.)])[ \t]+\S")
"""A list item that needs no blank line above it."""
MARKERS_ONLY_PATTERN = re.compile(r"[\s>#*+\-_=~`|:]*|\s*\d{1,9}[.)]?\s*")
"""Start of a line whose kind is not known yet."""
CODE_INDENT = 4


class MarkdownBlock(NamedTuple):
    """A complete block; `has_gap` means that a blank line precedes it."""

    text: str
    has_gap: bool


class CodeStart(NamedTuple):
    """The start of a fenced code block, whose lines follow one by one."""

    language: str
    has_gap: bool


class CodeLine(NamedTuple):
    """A line of a fenced code block, without its newline."""

    text: str


class CodeEnd(NamedTuple):
    """The end of a fenced code block."""


class RawText(NamedTuple):
    """A piece of a block that is too long to be parsed, to be shown unchanged.

    The last piece of a block ends with a newline.
    """

    text: str
    has_gap: bool


BlockEvent = MarkdownBlock | CodeStart | CodeLine | CodeEnd | RawText


class CodeFence(NamedTuple):
    """An open code fence.

    It is closed by a line of at least as many marker characters.
    """

    marker: str
    indent: int
    language: str

    def is_closed_by(self, line: str) -> bool:
        """Check whether a line closes the fence."""
        marker = line.strip()
        return len(marker) >= len(self.marker) and not marker.strip(self.marker[0]) and count_indent(line) < CODE_INDENT


def parse_fence(line: str) -> CodeFence | None:
    """Parse the fence that a line opens; return None if it opens none."""
    match = FENCE_PATTERN.match(line)
    if not match or (match[1][0] == "`" and "`" in match[2]):
        return None
    language = re.match(r"[\w+#.-]+", match[2].lstrip("{. "))
    return CodeFence(match[1], count_indent(line), language[0] if language else "")


def count_indent(line: str) -> int:
    """Count the columns before the first character of a line."""
    line = line.expandtabs(CODE_INDENT)
    return len(line) - len(line.lstrip(" "))


def remove_indent(line: str, columns: int) -> str:
    """Remove up to `columns` columns of indentation from a line."""
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    if columns and "\t" in indent:
        return indent.expandtabs(CODE_INDENT)[columns:] + line[len(indent) :]
    return line[min(columns, len(indent)) :]


class BlockReader:
    """Splits a stream of Markdown into block events.

    `open_fence` is the fence of the current code block, None outside code.
    """

    def __init__(self) -> None:
        self.open_fence: CodeFence | None = None
        self._inner_fence: CodeFence | None = None  # of code in a list item
        self._lines: list[str] = []
        self._line_parts: list[str] = []
        self._size = 0
        self._line_size = 0
        # Lines indented at least this far belong to the current list item or to indented code.
        self._content_indent: int | None = None
        self._after_blank_line = False
        self._has_gap = False
        self._html_end: re.Pattern[str] | None = None
        self._is_raw = False
        self._is_mid_line = False
        self._has_output = False

    def feed(self, text: str) -> Iterator[BlockEvent]:
        """Add a piece of the text; yield the events that it completes."""
        *parts, rest = text.split("\n")
        for part in parts:
            self._line_parts.append(part)
            line = "".join(self._line_parts)
            self._line_parts.clear()
            yield from self._read_line(line)
            self._line_size = 0
        if rest:
            self._line_parts.append(rest)
            self._line_size += len(rest)
        if self._is_raw or (self._size + self._line_size > MAX_BLOCK_LENGTH and not self.open_fence):
            yield from self._switch_to_raw()

    def finish(self) -> Iterator[BlockEvent]:
        """End the text; yield the remaining events."""
        if self._line_parts or self._is_mid_line:
            yield from self.feed("\n")
        yield from self._end_code() if self.open_fence else self._close_block()

    @property
    def pending(self) -> str:
        """The incomplete block, or the last line of an incomplete code block.

        A line whose kind is not known yet is left out.
        """
        line = "".join(self._line_parts)
        if self.open_fence:
            return "" if line.strip() and not line.strip().strip(self.open_fence.marker[0]) else line
        if MARKERS_ONLY_PATTERN.fullmatch(line) or (self._inner_fence is None and parse_fence(line)):
            line = ""
        lines = [*self._lines, line] if line else self._lines
        # Only the second line shows whether this is a table.
        if lines and lines[0].lstrip().startswith("|") and len(self._lines) < 2:
            return ""
        return "\n".join(lines)

    @property
    def has_gap(self) -> bool:
        """Whether a blank line precedes the incomplete block."""
        return self._has_gap if self._lines else self._after_blank_line and self._has_output

    def _read_line(self, line: str) -> Iterator[BlockEvent]:
        if self.open_fence:
            yield from self._read_code_line(line, self.open_fence)
        elif self._is_raw:
            yield from self._read_raw_line(line)
        elif self._html_end:
            yield from self._add_html_line(line, self._html_end)
        elif not line.strip():
            self._after_blank_line = True
            if self._content_indent is not None and self._lines:
                self._lines.append("")
            else:
                yield from self._close_block()
        else:
            if self._lines and self._is_ended_by(line):
                yield from self._close_block()
            yield from self._add_line(line) if self._lines else self._start_block(line)

    def _read_code_line(self, line: str, fence: CodeFence) -> Iterator[BlockEvent]:
        if fence.is_closed_by(line):
            yield from self._end_code()
        else:
            yield CodeLine(remove_indent(line, fence.indent))

    def _end_code(self) -> Iterator[BlockEvent]:
        self.open_fence, self._has_output = None, True
        yield CodeEnd()

    def _start_block(self, line: str) -> Iterator[BlockEvent]:
        self._has_gap, self._after_blank_line = self._after_blank_line and self._has_output, False
        self.open_fence = parse_fence(line)
        if self.open_fence:
            yield CodeStart(self.open_fence.language, self._has_gap)
            return
        html = HTML_START_PATTERN.match(line)
        if html:
            self._html_end = HTML_END_PATTERNS[str(html.lastgroup)]
            yield from self._add_html_line(line, self._html_end)
            return
        item = LIST_ITEM_PATTERN.match(line) if not RULE_PATTERN.match(line) else None
        if item:
            space = len((item[3] or " ").expandtabs(CODE_INDENT))
            self._content_indent = len(item[1]) + len(item[2]) + (space if space <= CODE_INDENT else 1)
            self._inner_fence = parse_fence(line[item.end() :])
        elif count_indent(line) >= CODE_INDENT:
            self._content_indent = CODE_INDENT
        yield from self._add_line(line)

    def _add_line(self, line: str) -> Iterator[BlockEvent]:
        is_underline = (
            bool(self._lines)
            and self._content_indent is None
            and UNDERLINE_PATTERN.match(line)
            and "|" not in self._lines[-1]
        )
        if self._content_indent is not None and self._lines:
            content = remove_indent(line, self._content_indent)
            if self._inner_fence is None:
                self._inner_fence = parse_fence(content)
            elif self._inner_fence.is_closed_by(content):
                self._inner_fence = None
        self._lines.append(line)
        self._size += len(line) + 1
        self._after_blank_line = False
        if self._content_indent is None and (HEADING_PATTERN.match(line) or RULE_PATTERN.match(line) or is_underline):
            yield from self._close_block()
        elif self._size > MAX_BLOCK_LENGTH:
            yield from self._switch_to_raw()

    def _add_html_line(self, line: str, end_pattern: re.Pattern[str]) -> Iterator[BlockEvent]:
        self._lines.append(line)
        self._size += len(line) + 1
        if end_pattern.search(line):
            self._html_end = None
            yield from self._close_block()
        elif self._size > MAX_BLOCK_LENGTH:
            yield from self._switch_to_raw()

    def _is_ended_by(self, line: str) -> bool:
        """Check whether a line that is not blank starts a new block."""
        if self._content_indent is not None:
            if count_indent(line) >= self._content_indent:
                return False
            return (
                self._after_blank_line
                or self._content_indent == CODE_INDENT
                or self._inner_fence is not None
                or can_begin_block(line)
            )
        if QUOTE_PATTERN.match(self._lines[0]):
            return not QUOTE_PATTERN.match(line) and can_begin_block(line)
        if UNDERLINE_PATTERN.match(line):
            return False
        return can_begin_block(line) and (
            not LIST_ITEM_PATTERN.match(line) or INTERRUPTING_ITEM_PATTERN.match(line) is not None
        )

    def _close_block(self) -> Iterator[BlockEvent]:
        lines, self._lines = self._lines, []
        self._content_indent = self._inner_fence = None
        self._size = 0
        if lines:
            self._has_output = True
            yield MarkdownBlock("\n".join(lines).rstrip("\n"), self._has_gap)

    def _switch_to_raw(self) -> Iterator[BlockEvent]:
        """Stop parsing the current block and emit its text.

        From now on, each piece is emitted as it arrives.
        """
        if not self._is_raw and not self._lines:
            self._has_gap, self._after_blank_line = self._after_blank_line and self._has_output, False
        text = "\n".join([*self._lines, "".join(self._line_parts)])
        self._lines, self._size = [], 0
        self._line_parts.clear()
        self._content_indent = self._inner_fence = None
        is_first_piece, self._is_raw, self._has_output = not self._is_raw, True, True
        if text:
            self._is_mid_line = not text.endswith("\n")
            yield RawText(text, is_first_piece and self._has_gap)

    def _read_raw_line(self, line: str) -> Iterator[BlockEvent]:
        if self._is_mid_line or line.strip() or self._html_end:
            self._is_mid_line = False
            yield RawText(f"{line}\n", has_gap=False)
            if self._html_end and self._html_end.search(line):
                self._html_end, self._is_raw = None, False
        else:
            self._is_raw, self._after_blank_line = False, True


def can_begin_block(line: str) -> bool:
    """Check whether a line can start a block without a blank line above it."""
    return (
        any(
            pattern.match(line)
            for pattern in (HEADING_PATTERN, RULE_PATTERN, QUOTE_PATTERN, LIST_ITEM_PATTERN, HTML_START_PATTERN)
        )
        or parse_fence(line) is not None
    )
