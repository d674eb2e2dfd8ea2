"""Markdown as rows for a terminal. Streaming is handled in `markdown_answer`.

No text is lost: HTML, footnotes and definitions are shown unchanged, and a link is followed by its target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from ask.console import BOLD, CYAN, DIM, ITALIC, STRIKETHROUGH, UNDERLINE
from ask.records import NamedTuple
from ask.render.code_rows import highlight_code
from ask.render.markdown_extensions import INDENTED_KEY, JSON_START, add_extensions
from ask.render.markdown_tables import MAX_RULE_WIDTH, parse_with_all_cells, render_table
from ask.render.text_layout import Row, get_plain_text, split_lines, wrap_row
from ask.text import escape_control_characters

MIN_WIDTH = 10
"""Minimum number of columns for a text, however deep it is nested."""
MAX_NESTING = 20
MAX_BRACKETS = 1_000
"""Maximum number of opening brackets in a paragraph that is parsed: the parser's time is quadratic in them."""
BULLETS = "•◦▪"
LIST_TYPES = ("bullet_list_open", "bullet_list_close", "ordered_list_open", "ordered_list_close")
LINKABLE_TARGET = re.compile(r"(?:https?://|mailto:)[!-~]{1,2000}", re.IGNORECASE)
"""A URL that becomes a hyperlink. Terminals limit its length to about 2,000 characters."""
PLAIN_TEXT = re.compile(r"[^\n\\`*_~\[\]!<>&]+")
"""A text in which nothing needs the parser, which takes ten times as long."""
LONE_SPACE = re.compile(r"\A (?! )")
"""Some models begin an answer with a space. More of them are the indentation of YAML after a blank line."""
INLINE_STYLES = {"strong_open": BOLD, "em_open": ITALIC, "s_open": STRIKETHROUGH, "link_open": UNDERLINE}


class Block(NamedTuple):
    """A block that can be rendered on its own: one at the top level, or an item of a list there."""

    tokens: list[Token]
    lines: list[str]
    """The source lines from its first one to the next block."""
    has_gap: bool
    """Whether a blank line precedes it."""
    has_gap_below: bool

    @property
    def is_closed(self) -> bool:
        """Whether no further line can belong to the block."""
        token = self.tokens[0]
        if token.type == "fence" and token.map:
            line_count = token.content.count("\n") + (token.content[-1:] not in ("", "\n"))
            return line_count < token.map[1] - token.map[0] - 1
        ends_at_gap = token.type in ("paragraph_open", "table_open", "blockquote_open")
        return token.type in ("heading_open", "hr") or (ends_at_gap and self.has_gap_below)


@cache
def get_parser() -> MarkdownIt:
    """Return a parser that keeps HTML and treats link definitions as text."""
    parser = add_extensions(MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_NESTING}))
    parser.core.ruler.at("inline", _parse_inline)
    return parser.enable(["table", "strikethrough"]).disable("reference")


def _parse_inline(state: StateCore) -> None:
    lines = state.src.split("\n")
    for opening, token in pairwise(state.tokens):
        is_text = opening.type == "paragraph_open" and opening.level == 0
        if is_text and token.map:
            token.content = LONE_SPACE.sub("", "\n".join(lines[slice(*token.map)]).rstrip())
        if token.type != "inline" or token.content.count("[") > MAX_BRACKETS:
            continue  # it is shown as it is
        token.children = []
        state.env["keeps_indentation"] = is_text
        if PLAIN_TEXT.fullmatch(token.content) or INDENTED_KEY.match(token.content):
            token.children.append(Token("text", "", 0, content=token.content))
        else:
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def parse_blocks(text: str) -> list[Block]:
    """Parse Markdown into its blocks."""
    lines = text.split("\n")
    tokens = [token for token in parse_with_all_cells(get_parser(), text) if token.type not in LIST_TYPES]
    starts = [
        (position, *token.map)
        for position, token in enumerate(tokens)
        if token.map and (token.level == 0 or (token.level == 1 and token.type == "list_item_open"))
    ]
    return [
        Block(
            tokens[first:last],
            lines[start:next_start],
            has_gap=start > 0 and _is_blank(lines[start - 1]),
            has_gap_below=next_start - end > (next_start == len(lines)),
        )
        for (first, start, end), (last, next_start, _) in pairwise([*starts, (len(tokens), len(lines), 0)])
    ]


def _is_blank(line: str) -> bool:
    """Check whether a line, which may be in a quote, has no text."""
    return not line.strip("> \t")


def render_markdown(text: str, width: int) -> list[Row]:
    """Render Markdown as rows.

    Rows of code and JSON may be wider than `width`: the terminal wraps them, so that they can be copied.
    """
    rows: list[Row] = []
    for block in parse_blocks(text):
        rows += [*([[]] if rows and block.has_gap else []), *render_block(block, width)]
    return rows


def render_block(block: Block, width: int) -> list[Row]:
    """Render a block; one that is nested so deeply that the parser would drop text is shown unchanged."""
    if any(token.level >= MAX_NESTING - 1 for token in block.tokens):
        return wrap_row([("\n".join(block.lines).rstrip("\n"), "")], max(width, MIN_WIDTH))
    return BlockRenderer(block, max(width, MIN_WIDTH)).render()


class BlockRenderer:
    """Renders the tokens of a block one by one; each method is named after the type of the tokens it renders."""

    def __init__(self, block: Block, width: int) -> None:
        self._block = block
        self._width = width
        self._rows: list[Row] = []
        self._prefix: Row = []
        """What the quotes and list items that are open put before a row."""
        self._next_prefix: Row = []
        """The same for the next row, which may be the first of an item, with its marker."""
        self._item_count = 0
        self._style = ""
        self._cells: list[list[Row]] = []
        self._alignments: list[str] = []

    def render(self) -> list[Row]:
        start = last_start = (self._block.tokens[0].map or [0])[0]
        for token in self._block.tokens:
            if token.map and token.map[0] > last_start:
                last_start = token.map[0]
                if _is_blank(self._block.lines[last_start - start - 1]):
                    self._rows.append([*self._prefix])
            if render_token := getattr(self, token.type, None):
                render_token(token)
        return self._rows

    def blockquote_open(self, _: Token) -> None:
        self._open_container(("│ ", DIM), ("│ ", DIM))

    def list_item_open(self, token: Token) -> None:
        marker = token.info + token.markup if token.info else BULLETS[min(self._item_count, len(BULLETS) - 1)]
        self._item_count += 1
        self._open_container((f"{marker} ", DIM), (" " * (len(marker) + 1), ""))

    def blockquote_close(self, _: Token) -> None:
        self._close_container()

    def list_item_close(self, _: Token) -> None:
        self._item_count -= 1
        self._close_container()

    def heading_open(self, token: Token) -> None:
        self._style = f"{BOLD};{UNDERLINE}" if token.tag == "h1" else BOLD

    def heading_close(self, _: Token) -> None:
        self._style = ""

    def inline(self, token: Token) -> None:
        row = _render_inline(token.children or [Token("text", "", 0, content=token.content)], self._style)
        if self._alignments:
            self._cells[-1].append(row)
        elif JSON_START.match(token.content) or INDENTED_KEY.match(token.content):
            self._add_rows(split_lines(row))
        else:
            self._add_rows(wrap_row(row, self._inner_width))

    def fence(self, token: Token) -> None:
        self._add_rows(highlight_code(escape_control_characters(token.content), token.info))

    def code_block(self, token: Token) -> None:
        """Render indented code; at the top level as it is written, because it may continue code without a fence."""
        start, end = token.map or (0, 0)
        content = token.content if self._prefix else "\n".join(self._block.lines[: end - start])
        self._add_rows(highlight_code(escape_control_characters(content), ""))

    def hr(self, _: Token) -> None:
        self._add_rows([[("─" * min(self._inner_width, MAX_RULE_WIDTH), DIM)]])

    def html_block(self, token: Token) -> None:
        self._add_rows(wrap_row([(escape_control_characters(token.content.rstrip("\n")), "")], self._inner_width))

    def tr_open(self, _: Token) -> None:
        self._cells.append([])

    def th_open(self, token: Token) -> None:
        self._alignments.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
        self._style = BOLD

    def thead_close(self, _: Token) -> None:
        self._style = ""

    def table_close(self, _: Token) -> None:
        self._add_rows(render_table(self._cells, self._alignments, self._inner_width))
        self._cells, self._alignments = [], []

    @property
    def _inner_width(self) -> int:
        return max(MIN_WIDTH, self._width - sum(len(text) for text, _ in self._prefix))

    def _add_rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._rows.append([*self._next_prefix, *row])
            self._next_prefix = [*self._prefix]

    def _open_container(self, first_prefix: tuple[str, str], prefix: tuple[str, str]) -> None:
        self._next_prefix.append(first_prefix)
        self._prefix.append(prefix)

    def _close_container(self) -> None:
        if self._next_prefix != self._prefix:  # an empty list item
            self._add_rows([[]])
        self._prefix.pop()
        self._next_prefix.pop()


def _render_inline(tokens: Sequence[Token], style: str) -> Row:
    """Render inline tokens with their styles."""
    row: Row = []
    styles, target, link_start = [style], "", 0
    for token in tokens:
        if token.nesting == 1:
            styles.append(";".join(filter(None, (styles[-1], INLINE_STYLES[token.type]))))
        elif token.nesting == -1:
            styles.pop()
        if token.type == "link_open":
            target, link_start = str(token.attrs["href"]), len(row)
        elif token.type == "link_close":
            row += _format_link_target(get_plain_text(row[link_start:]), target)
            target = ""
        elif token.type == "image":
            text, source = escape_control_characters(token.content), str(token.attrs["src"])
            row += [(text, _add_hyperlink(styles[-1], target or source)), *_format_link_target(text, source)]
        elif token.type in ("softbreak", "hardbreak"):
            row.append(("\n", ""))
        elif token.content:
            code_style = (CYAN,) if token.type == "code_inline" else ()
            text_style = ";".join(filter(None, (styles[-1], *code_style)))
            row.append((escape_control_characters(token.content), _add_hyperlink(text_style, target)))
    return row


def _add_hyperlink(style: str, target: str) -> str:
    """Add a hyperlink to a style if its target is a web or email address."""
    return f"{style} {target}" if LINKABLE_TARGET.fullmatch(target) else style


def _format_link_target(text: str, target: str) -> Row:
    """Format the target of a link, unless it is its text: the text may be misleading."""
    target = escape_control_characters(target)
    if text in (target, target.removeprefix("mailto:")):
        return []
    return [(" (", DIM), (target, _add_hyperlink(DIM, target)), (")", DIM)]
