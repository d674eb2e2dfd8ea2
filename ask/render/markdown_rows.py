"""Markdown rendered as rows for a terminal: parsed by `markdown-it`, wrapped and laid out by `rich`.

No text is lost: HTML, footnotes and definitions are shown unchanged, and a link is followed by its target. Streaming is
handled in `markdown_answer`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text

from ask.render.markdown_tables import parse_with_all_cells
from ask.text import escape_control_characters

MIN_WIDTH = 10
"""Minimum number of columns for a text, however deep it is nested."""
MIN_CELL_WIDTH = 9
"""Minimum width of a table column; in a narrower table, the cells of a row are shown below each other."""
MAX_RULE_WIDTH = 40
MAX_NESTING = 20
MAX_BRACKETS = 1_000
"""Maximum number of opening brackets in a block that is parsed: the parser's time is quadratic in them."""
BULLETS = "•◦▪"
INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}
CELL_ALIGNMENTS: dict[str, Literal["right", "center"]] = {"text-align:right": "right", "text-align:center": "center"}
CODE_STYLE = "cyan"
DIM_STYLE = "dim"
AMBIGUOUS_WIDTH_CHARACTERS = "\ufe0f\u200d"
"""Characters that some terminals combine with their neighbors into one wider symbol."""


def render_markdown(text: str, width: int) -> list[Text]:
    """Render Markdown as rows.

    A text that would take too long to parse is shown unchanged. Rows of code may be wider than `width`: the terminal
    wraps them, so that they can be copied.
    """
    try:
        rows = _parse_and_render(text, max(width, MIN_WIDTH))
    except Exception:  # noqa: BLE001 - a bug in a parser must not hide the text
        rows = None
    return fold_text(Text(escape_control_characters(text)), width) if rows is None else rows


def _parse_and_render(text: str, width: int) -> list[Text] | None:
    if text.count("[") > MAX_BRACKETS:
        return None
    tokens = parse_with_all_cells(get_parser(), text)
    if any(token.level >= MAX_NESTING - 1 for token in tokens):  # the parser drops what is nested deeper
        return None
    return MarkdownLayout(text.split("\n")).render_blocks(SyntaxTreeNode(tokens).children, width)


@cache
def get_parser() -> MarkdownIt:
    """Return a parser that keeps HTML and treats link definitions as text."""
    return (
        MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_NESTING})
        .enable(["table", "strikethrough"])
        .disable("reference")
    )


@cache
def get_console() -> Console:
    """Return the console that rich needs for layout; nothing is written to it."""
    return Console(file=io.StringIO(), width=80, color_system="standard", force_terminal=True, legacy_windows=False)


class MarkdownLayout:
    """Lays out parsed blocks.

    `lines` are the source lines, which show where blank lines separate the blocks.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._source_lines = lines
        self._list_depth = 0

    def render_blocks(self, nodes: Sequence[SyntaxTreeNode], width: int) -> list[Text]:
        """Render blocks, separated by a blank row where the source has a blank line."""
        rows: list[Text] = []
        for node in nodes:
            if rows and node.map and not self._source_lines[node.map[0] - 1].strip("> \t"):
                rows.append(Text())
            rows += self._render_block(node, max(width, MIN_WIDTH))
        return rows

    def _render_block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        match node.type:
            case "heading":
                rows = fold_text(render_inline(node.children, "bold underline" if node.tag == "h1" else "bold"), width)
            case "bullet_list" | "ordered_list":
                rows = self._render_list(node, width)
            case "blockquote":
                rows = [Text.assemble(("│ ", DIM_STYLE), row) for row in self.render_blocks(node.children, width - 2)]
            case "fence" | "code_block":
                rows = render_code(node.content, node.info)
            case "hr":
                rows = [Text("─" * min(width, MAX_RULE_WIDTH), DIM_STYLE)]
            case "table":
                rows = render_table(node, width)
            case "html_block":
                rows = fold_text(Text(escape_control_characters(node.content.rstrip("\n"))), width)
            case _:
                rows = fold_text(render_inline(node.children), width)
        return rows

    def _render_list(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
        self._list_depth += 1
        for item in node.children:
            if rows and item.map and not self._source_lines[item.map[0] - 1].strip("> \t"):
                rows.append(Text())
            bullet = BULLETS[min(self._list_depth, len(BULLETS)) - 1]
            marker = f"{item.info}{item.markup} " if node.type == "ordered_list" else f"{bullet} "
            item_rows = self.render_blocks(item.children, width - len(marker)) or [Text()]
            rows.append(Text.assemble((marker, DIM_STYLE), item_rows[0]))
            rows += [Text.assemble(" " * len(marker), row) if row else row for row in item_rows[1:]]
        self._list_depth -= 1
        return rows


def render_inline(nodes: Sequence[SyntaxTreeNode], style: str = "") -> Text:
    """Render inline nodes with their styles."""
    text = Text()
    for node in nodes:
        text.append_text(_render_inline_node(node))
    text.stylize(style)
    return text


def _render_inline_node(node: SyntaxTreeNode) -> Text:
    match node.type:
        case "softbreak" | "hardbreak":
            return Text("\n")
        case "code_inline":
            return Text(escape_control_characters(node.content), CODE_STYLE)
        case "image":
            return _append_link_target(Text(escape_control_characters(node.content)), str(node.attrs.get("src", "")))
    if not node.children:
        return Text(escape_control_characters(node.content))
    text = render_inline(node.children, INLINE_STYLES.get(node.type, ""))
    return _append_link_target(text, str(node.attrs.get("href", ""))) if node.type == "link" else text


def _append_link_target(text: Text, target: str) -> Text:
    """Append the target of a link, unless it is the text: the text may be misleading."""
    target = escape_control_characters(target)
    if text.plain in (target, target.removeprefix("mailto:")):
        return text
    return Text.assemble(text, (f" ({target})", DIM_STYLE))


def render_code(code: str, info: str) -> list[Text]:
    """Render a code block, highlighted in the language of its info string."""
    from ask.render.code_rows import highlight_code
    from ask.render.markdown_blocks import parse_fence

    fence = parse_fence(f"~~~{info}")
    return highlight_code(escape_control_characters(code), fence.language if fence else "")


def render_table(table: SyntaxTreeNode, width: int) -> list[Text]:
    """Render a table in columns.

    If there is not enough width for columns, the cells of each row are shown below each other.
    """
    heading, *rows = [
        [render_inline(cell.children) for cell in row.children] for part in table.children for row in part.children
    ]
    column_widths = [max(cell_len(row[position].plain) for row in (heading, *rows)) for position in range(len(heading))]
    available_width = width - 3 * (len(column_widths) - 1)
    if (
        sum(column_widths) > available_width
        and sum(min(column_width, MIN_CELL_WIDTH) for column_width in column_widths) > available_width
    ):
        return _render_table_records(heading, rows, width)
    styles = [str(cell.attrs.get("style", "")) for cell in table.children[0].children[0].children]
    return _render_table_columns(heading, rows, styles, width, show_lines=sum(column_widths) > available_width)


def _render_table_columns(
    heading: Sequence[Text], rows: Sequence[Sequence[Text]], styles: Sequence[str], width: int, *, show_lines: bool
) -> list[Text]:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SQUARE, show_edge=False, pad_edge=False, border_style=DIM_STYLE, header_style="bold")
    table.show_lines = show_lines
    for cell, style in zip(heading, styles, strict=True):
        table.add_column(cell, justify=CELL_ALIGNMENTS.get(style, "left"), overflow="fold")
    for row in rows:
        table.add_row(*row)
    lines = get_console().render_lines(table, get_console().options.update(width=width), pad=False)
    return [Text.assemble(*((segment.text, segment.style or "") for segment in line)) for line in lines]


def _render_table_records(heading: Sequence[Text], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    lines: list[Text] = []
    for row in rows:
        if lines:
            lines.append(Text("─" * min(width, MAX_RULE_WIDTH), DIM_STYLE))
        for name, cell in zip(heading, row, strict=True):
            lines += fold_text(Text.assemble((f"{name.plain}: ", "bold"), cell), width)
    return lines or fold_text(Text(" · ").join(heading), width)


def fold_text(text: Text, width: int) -> list[Text]:
    """Wrap a text at word boundaries."""
    return list(text.wrap(get_console(), width, overflow="fold"))


def split_at_width(rows: Sequence[Text], width: int) -> Iterator[Text]:
    """Split rows as a terminal wraps them: at any character.

    Each character counts with its maximum width, so that no row is too wide for any terminal.
    """
    for row in rows:
        rest = row.copy()
        rest.expand_tabs(8)
        offsets: list[int] = []
        used_width = 0
        for offset, character in enumerate(rest.plain):
            used_width += measure_max_width(character)
            if used_width > width:
                offsets.append(offset)
                used_width = measure_max_width(character)
        yield from rest.divide(offsets)


def measure_max_width(text: str) -> int:
    """Return the maximum number of columns that a text takes in any terminal."""
    return len(text) if text.isascii() else sum(max(cell_len(c), c in AMBIGUOUS_WIDTH_CHARACTERS) for c in text)


def to_ansi(row: Text) -> str:
    """Convert a row to text with escape sequences, without trailing spaces."""
    row = row.copy()
    row.rstrip()
    parts: list[str] = []
    for segment in row.render(get_console()):
        style = segment.style
        parts.append(style.render(segment.text, color_system=ColorSystem.STANDARD) if style else segment.text)
    return "".join(parts)
