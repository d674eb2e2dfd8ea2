"""Takes Markdown apart into blocks while it streams, so that each can be shown for good once it is whole.

Pure, and linear in the length of the text. It only has to find places where a text may be cut; what a block is made
of, `markdown_rows` reads with a real parser, so that a cut at an odd place costs looks, not words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 20_000
"""Characters of the longest block that is read as Markdown."""
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*(.*)")
HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
QUOTE = re.compile(r" {0,3}>")
ITEM = re.compile(r"( {0,3})([-+*]|\d{1,9}[.)])(?:([ \t]+)(?=\S)|[ \t]*$)")
HTML = re.compile(
    r" {0,3}<(?:(?:(?P<tag>pre|script|style|textarea)(?:[\s>]|$))|(?P<comment>!--)|(?P<question>\?)"
    r"|(?P<data>!\[CDATA\[)|(?P<declaration>![a-zA-Z]))",
    re.IGNORECASE,
)
"""The begin of HTML that goes on over empty lines, up to its own end."""
HTML_ENDS = {
    "tag": re.compile(r"</(?:pre|script|style|textarea)>", re.IGNORECASE),
    "comment": re.compile("-->"),
    "question": re.compile(r"\?>"),
    "data": re.compile(r"\]\]>"),
    "declaration": re.compile(">"),
}
INTERRUPTS = re.compile(r" {0,3}(?:[-+*]|1[.)])[ \t]+\S")
"""A list's item that needs no empty line above it."""
ONLY_MARKS = re.compile(r"[\s>#*+\-_=~`|:]*|\s*\d{1,9}[.)]?\s*")
"""The begin of a line that does not yet tell what it is."""
INDENTED = 4


class Whole(NamedTuple):
    """A block that is complete; `gap`: it stands apart from what is above it."""

    text: str
    gap: bool


class CodeBegun(NamedTuple):
    """A fenced block of code begins; its lines follow one by one."""

    language: str
    gap: bool


class CodeLine(NamedTuple):
    """A line of it, without its end."""

    text: str


class CodeEnded(NamedTuple):
    """It is over."""


class Unread(NamedTuple):
    """A piece of a block that is too long to be read: to be shown as it is. Such a block ends with a line end."""

    text: str
    gap: bool


Piece = Whole | CodeBegun | CodeLine | CodeEnded | Unread


class Fence(NamedTuple):
    """A fence that is open: its sign, repeated at least that often, so far in, and what its code is written in."""

    sign: str
    indent: int
    language: str

    def is_closed_by(self, line: str) -> bool:
        """Whether a line ends the code."""
        sign = line.strip()
        return len(sign) >= len(self.sign) and not sign.strip(self.sign[0]) and indent_of(line) < INDENTED


def fence_in(line: str) -> Fence | None:
    """The fence that a line opens."""
    found = FENCE.match(line)
    if not found or (found[1][0] == "`" and "`" in found[2]):
        return None
    language = re.match(r"[\w+#.-]+", found[2].lstrip("{. "))
    return Fence(found[1], indent_of(line), language[0] if language else "")


def indent_of(line: str) -> int:
    """The columns before a line's first character."""
    line = line.expandtabs(INDENTED)
    return len(line) - len(line.lstrip(" "))


def without_indent(line: str, columns: int) -> str:
    """The line without that many columns of what is before its first character."""
    begin = line[: len(line) - len(line.lstrip(" \t"))]
    if columns and "\t" in begin:
        return begin.expandtabs(INDENTED)[columns:] + line[len(begin) :]
    return line[min(columns, len(begin)) :]


class BlockReader:
    """Reads a stream of Markdown.

    Attributes:
        fence: the fence of the code under way, None outside of code.
    """

    def __init__(self) -> None:
        self.fence: Fence | None = None
        self._inner: Fence | None = None  # of code in a list's item
        self._lines: list[str] = []
        self._line: list[str] = []
        self._size = 0
        self._line_size = 0
        self._indent: int | None = None  # from which on a line belongs to the item under way, or to indented code
        self._blank = False
        self._gap = False
        self._html_end: re.Pattern[str] | None = None
        self._unread = False
        self._in_line = False  # of such a block
        self._any = False

    def feed(self, text: str) -> Iterator[Piece]:
        """What a further piece of the text completes."""
        *ends, rest = text.split("\n")
        for end in ends:
            self._line.append(end)
            line = "".join(self._line)
            self._line.clear()
            yield from self._take(line)
            self._line_size = 0
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
        if self._unread or (self._size + self._line_size > LONGEST and not self.fence):
            yield from self._let_through()

    def end(self) -> Iterator[Piece]:
        """What is left at the end of the text."""
        if self._line or self._in_line:
            yield from self.feed("\n")
        yield from self._end_code() if self.fence else self._close()

    @property
    def under_way(self) -> str:
        """The block that is not complete yet; of code, its last line. What may become anything is left out."""
        line = "".join(self._line)
        if self.fence:
            return "" if line.strip() and not line.strip().strip(self.fence.sign[0]) else line
        if ONLY_MARKS.fullmatch(line) or (self._inner is None and fence_in(line)):
            line = ""
        lines = [*self._lines, line] if line else self._lines
        if lines and lines[0].lstrip().startswith("|") and len(self._lines) < 2:  # no table before its second line
            return ""
        return "\n".join(lines)

    @property
    def gap(self) -> bool:
        """Whether the block under way stands apart from what is above it."""
        return self._gap if self._lines else self._blank and self._any

    def _take(self, line: str) -> Iterator[Piece]:
        if self.fence:
            yield from self._take_code(line, self.fence)
        elif self._unread:
            yield from self._take_unread(line)
        elif self._html_end:
            yield from self._add_html(line, self._html_end)
        elif not line.strip():
            self._blank = True
            if self._indent is not None and self._lines:
                self._lines.append("")
            else:
                yield from self._close()
        else:
            if self._lines and self._is_ended_by(line):
                yield from self._close()
            yield from self._add(line) if self._lines else self._open(line)

    def _take_code(self, line: str, fence: Fence) -> Iterator[Piece]:
        if fence.is_closed_by(line):
            yield from self._end_code()
        else:
            yield CodeLine(without_indent(line, fence.indent))

    def _end_code(self) -> Iterator[Piece]:
        self.fence, self._any = None, True
        yield CodeEnded()

    def _open(self, line: str) -> Iterator[Piece]:
        self._gap, self._blank = self._blank and self._any, False
        self.fence = fence_in(line)
        if self.fence:
            yield CodeBegun(self.fence.language, self._gap)
            return
        html = HTML.match(line)
        if html:
            self._html_end = HTML_ENDS[str(html.lastgroup)]
            yield from self._add_html(line, self._html_end)
            return
        item = ITEM.match(line) if not RULE.match(line) else None
        if item:
            space = len((item[3] or " ").expandtabs(INDENTED))
            self._indent = len(item[1]) + len(item[2]) + (space if space <= INDENTED else 1)
            self._inner = fence_in(line[item.end() :])
        elif indent_of(line) >= INDENTED:
            self._indent = INDENTED
        yield from self._add(line)

    def _add(self, line: str) -> Iterator[Piece]:
        underlined = bool(self._lines) and self._indent is None and UNDERLINE.match(line) and "|" not in self._lines[-1]
        if self._indent is not None and self._lines:
            inside = without_indent(line, self._indent)
            if self._inner is None:
                self._inner = fence_in(inside)
            elif self._inner.is_closed_by(inside):
                self._inner = None
        self._lines.append(line)
        self._size += len(line) + 1
        self._blank = False
        if self._indent is None and (HEADING.match(line) or RULE.match(line) or underlined):
            yield from self._close()
        elif self._size > LONGEST:
            yield from self._let_through()

    def _add_html(self, line: str, end: re.Pattern[str]) -> Iterator[Piece]:
        self._lines.append(line)
        self._size += len(line) + 1
        if end.search(line):
            self._html_end = None
            yield from self._close()
        elif self._size > LONGEST:
            yield from self._let_through()

    def _is_ended_by(self, line: str) -> bool:
        """Whether a line that is not empty begins another block than the one under way."""
        if self._indent is not None:
            if indent_of(line) >= self._indent:
                return False
            return self._blank or self._indent == INDENTED or self._inner is not None or begins_block(line)
        if QUOTE.match(self._lines[0]):
            return not QUOTE.match(line) and begins_block(line)
        if UNDERLINE.match(line):
            return False
        return begins_block(line) and (not ITEM.match(line) or INTERRUPTS.match(line) is not None)

    def _close(self) -> Iterator[Piece]:
        lines, self._lines = self._lines, []
        self._indent = self._inner = None
        self._size = 0
        if lines:
            self._any = True
            yield Whole("\n".join(lines).rstrip("\n"), self._gap)

    def _let_through(self) -> Iterator[Piece]:
        """Give up reading the block under way: what is there of it, and from now on each piece as it comes."""
        if not self._unread and not self._lines:
            self._gap, self._blank = self._blank and self._any, False
        text = "\n".join([*self._lines, "".join(self._line)])
        self._lines, self._size = [], 0
        self._line.clear()
        self._indent = self._inner = None
        first, self._unread, self._any = not self._unread, True, True
        if text:
            self._in_line = not text.endswith("\n")
            yield Unread(text, first and self._gap)

    def _take_unread(self, line: str) -> Iterator[Piece]:
        if self._in_line or line.strip() or self._html_end:
            self._in_line = False
            yield Unread(f"{line}\n", gap=False)
            if self._html_end and self._html_end.search(line):
                self._html_end, self._unread = None, False
        else:
            self._unread, self._blank = False, True


def begins_block(line: str) -> bool:
    """Whether a line can begin a block without an empty line above it."""
    return any(sign.match(line) for sign in (HEADING, RULE, QUOTE, ITEM, HTML)) or fence_in(line) is not None
