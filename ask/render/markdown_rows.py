"""Markdown as rows for a terminal of some width. `markdown-it` reads it, `rich` folds lines and lays out tables.

No word of the text is lost: HTML, footnotes and definitions stand as they were written, the target of a link behind it.
What has to do with streaming is in `markdown_answer`.
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
"""Columns that any text gets, however far in it stands."""
MIN_CELL_WIDTH = 9
"""Columns of a table's column, below which its rows are shown one under the other."""
MAX_RULE_WIDTH = 40
MAX_NESTING = 20
MAX_BRACKETS = 1_000
"""Opening brackets in a block that is read: the time goes with their square."""
BULLETS = "•◦▪"
INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}
CELL_ALIGNMENTS: dict[str, Literal["right", "center"]] = {"text-align:right": "right", "text-align:center": "center"}
CODE_STYLE = "cyan"
DIM_STYLE = "dim"
AMBIGUOUS_WIDTH_CHARACTERS = "\ufe0f\u200d"
"""Join characters to one picture, or make one of a sign, in some terminals."""


def render_markdown(text: str, width: int) -> list[Text]:
    """The rows of a text; as it is written, where it cannot be read in a reasonable time.

    Args:
        text: Markdown.
        width: columns; rows of code may be wider, and are the terminal's to fold.
    """
    try:
        rows = _parse_and_render(text, max(width, MIN_WIDTH))
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is to be seen
        rows = None
    return fold_text(Text(escape_control_characters(text)), width) if rows is None else rows


def _parse_and_render(text: str, width: int) -> list[Text] | None:
    if text.count("[") > MAX_BRACKETS:
        return None
    tokens = parse_with_all_cells(get_parser(), text)
    if any(token.level >= MAX_NESTING - 1 for token in tokens):  # what is further in is left out
        return None
    return MarkdownLayout(text.split("\n")).render_blocks(SyntaxTreeNode(tokens).children, width)


@cache
def get_parser() -> MarkdownIt:
    """Reads Markdown in which nothing is hidden."""
    return (
        MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_NESTING})
        .enable(["table", "strikethrough"])
        .disable("reference")
    )


@cache
def get_console() -> Console:
    """What rich needs to lay anything out; nothing is written to it."""
    return Console(file=io.StringIO(), width=80, color_system="standard", force_terminal=True, legacy_windows=False)


class MarkdownLayout:
    """Lays out a text.

    Args:
        lines: of the text, to see where there is room between its parts.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._source_lines = lines
        self._list_depth = 0

    def render_blocks(self, nodes: Sequence[SyntaxTreeNode], width: int) -> list[Text]:
        """The rows of some blocks, as far apart as they are written."""
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
            mark = f"{item.info}{item.markup} " if node.type == "ordered_list" else f"{bullet} "
            inside = self.render_blocks(item.children, width - len(mark)) or [Text()]
            rows.append(Text.assemble((mark, DIM_STYLE), inside[0]))
            rows += [Text.assemble(" " * len(mark), row) if row else row for row in inside[1:]]
        self._list_depth -= 1
        return rows


def render_inline(nodes: Sequence[SyntaxTreeNode], style: str = "") -> Text:
    """Running text with its styles."""
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
    """The text of a link with where it leads: what is said may be anything."""
    target = escape_control_characters(target)
    if text.plain in (target, target.removeprefix("mailto:")):
        return text
    return Text.assemble(text, (f" ({target})", DIM_STYLE))


def render_code(code: str, info: str) -> list[Text]:
    """The rows of a block of code."""
    from ask.render.code_rows import highlight_code
    from ask.render.markdown_blocks import parse_fence

    fence = parse_fence(f"~~~{info}")
    return highlight_code(escape_control_characters(code), fence.language if fence else "")


def render_table(table: SyntaxTreeNode, width: int) -> list[Text]:
    """A table in columns; where there is no room for these, its rows one under the other."""
    heading, *rows = [
        [render_inline(cell.children) for cell in row.children] for part in table.children for row in part.children
    ]
    columns = [max(cell_len(row[place].plain) for row in (heading, *rows)) for place in range(len(heading))]
    room = width - 3 * (len(columns) - 1)
    if sum(columns) > room and sum(min(column, MIN_CELL_WIDTH) for column in columns) > room:
        return _render_table_records(heading, rows, width)
    styles = [str(cell.attrs.get("style", "")) for cell in table.children[0].children[0].children]
    return _render_table_columns(heading, rows, styles, width, show_lines=sum(columns) > room)


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
    shown = get_console().render_lines(table, get_console().options.update(width=width), pad=False)
    return [Text.assemble(*((part.text, part.style or "") for part in line)) for line in shown]


def _render_table_records(heading: Sequence[Text], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    shown: list[Text] = []
    for row in rows:
        if shown:
            shown.append(Text("─" * min(width, MAX_RULE_WIDTH), DIM_STYLE))
        for name, cell in zip(heading, row, strict=True):
            shown += fold_text(Text.assemble((f"{name.plain}: ", "bold"), cell), width)
    return shown or fold_text(Text(" · ").join(heading), width)


def fold_text(text: Text, width: int) -> list[Text]:
    """The rows of a text, folded between words."""
    return list(text.wrap(get_console(), width, overflow="fold"))


def split_at_width(rows: Sequence[Text], width: int) -> Iterator[Text]:
    """The rows as a terminal folds them that folds anywhere, none wider than that for any terminal."""
    for row in rows:
        rest = row.copy()
        rest.expand_tabs(8)
        places: list[int] = []
        used = 0
        for place, character in enumerate(rest.plain):
            used += measure_max_width(character)
            if used > width:
                places.append(place)
                used = measure_max_width(character)
        yield from rest.divide(places)


def measure_max_width(text: str) -> int:
    """The most columns that a text takes in any terminal."""
    return len(text) if text.isascii() else sum(max(cell_len(c), c in AMBIGUOUS_WIDTH_CHARACTERS) for c in text)


def to_ansi(row: Text) -> str:
    """A row as it is written to a terminal, without the spaces at its end."""
    row = row.copy()
    row.rstrip()
    shown: list[str] = []
    for part in row.render(get_console()):
        style = part.style
        shown.append(style.render(part.text, color_system=ColorSystem.STANDARD) if style else part.text)
    return "".join(shown)
