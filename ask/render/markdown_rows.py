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
from ask.text import for_terminal

NARROWEST = 10
"""Columns that any text gets, however far in it stands."""
NARROWEST_CELL = 9
"""Columns of a table's column, below which its rows are shown one under the other."""
LONGEST_RULE = 40
NESTING = 20
MOST_BRACKETS = 1_000
"""Opening brackets in a block that is read: the time goes with their square."""
BULLETS = "•◦▪"
TYPES = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}
JUSTIFY: dict[str, Literal["right", "center"]] = {"text-align:right": "right", "text-align:center": "center"}
CODE = "cyan"
BESIDE = "dim"
UNSURE = "\ufe0f\u200d"
"""Join characters to one picture, or make one of a sign, in some terminals."""


def markdown_rows(text: str, width: int) -> list[Text]:
    """The rows of a text; as it is written, where it cannot be read in a reasonable time.

    Args:
        text: Markdown.
        width: columns; rows of code may be wider, and are the terminal's to fold.
    """
    try:
        rows = _read(text, max(width, NARROWEST))
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is to be seen
        rows = None
    return folded(Text(for_terminal(text)), width) if rows is None else rows


def _read(text: str, width: int) -> list[Text] | None:
    if text.count("[") > MOST_BRACKETS:
        return None
    tokens = parse_with_all_cells(reader(), text)
    if any(token.level >= NESTING - 1 for token in tokens):  # what is further in is left out
        return None
    return Page(text.split("\n")).rows(SyntaxTreeNode(tokens).children, width)


@cache
def reader() -> MarkdownIt:
    """Reads Markdown in which nothing is hidden."""
    return (
        MarkdownIt("commonmark", {"html": True, "maxNesting": NESTING})
        .enable(["table", "strikethrough"])
        .disable("reference")
    )


@cache
def console() -> Console:
    """What rich needs to lay anything out; nothing is written to it."""
    return Console(file=io.StringIO(), width=80, color_system="standard", force_terminal=True, legacy_windows=False)


class Page:
    """Lays out a text.

    Args:
        lines: of the text, to see where there is room between its parts.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._depth = 0

    def rows(self, nodes: Sequence[SyntaxTreeNode], width: int) -> list[Text]:
        """The rows of some blocks, as far apart as they are written."""
        rows: list[Text] = []
        for node in nodes:
            if rows and node.map and not self._lines[node.map[0] - 1].strip("> \t"):
                rows.append(Text())
            rows += self._block(node, max(width, NARROWEST))
        return rows

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        match node.type:
            case "heading":
                rows = folded(inline(node.children, "bold underline" if node.tag == "h1" else "bold"), width)
            case "bullet_list" | "ordered_list":
                rows = self._list(node, width)
            case "blockquote":
                rows = [Text.assemble(("│ ", BESIDE), row) for row in self.rows(node.children, width - 2)]
            case "fence" | "code_block":
                rows = code_rows(node.content, node.info)
            case "hr":
                rows = [Text("─" * min(width, LONGEST_RULE), BESIDE)]
            case "table":
                rows = table_rows(node, width)
            case "html_block":
                rows = folded(Text(for_terminal(node.content.rstrip("\n"))), width)
            case _:
                rows = folded(inline(node.children), width)
        return rows

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
        self._depth += 1
        for item in node.children:
            if rows and item.map and not self._lines[item.map[0] - 1].strip("> \t"):
                rows.append(Text())
            bullet = BULLETS[min(self._depth, len(BULLETS)) - 1]
            mark = f"{item.info}{item.markup} " if node.type == "ordered_list" else f"{bullet} "
            inside = self.rows(item.children, width - len(mark)) or [Text()]
            rows.append(Text.assemble((mark, BESIDE), inside[0]))
            rows += [Text.assemble(" " * len(mark), row) if row else row for row in inside[1:]]
        self._depth -= 1
        return rows


def inline(nodes: Sequence[SyntaxTreeNode], style: str = "") -> Text:
    """Running text with its styles."""
    text = Text()
    for node in nodes:
        text.append_text(_inline(node))
    text.stylize(style)
    return text


def _inline(node: SyntaxTreeNode) -> Text:
    match node.type:
        case "softbreak" | "hardbreak":
            return Text("\n")
        case "code_inline":
            return Text(for_terminal(node.content), CODE)
        case "image":
            return _with_target(Text(for_terminal(node.content)), str(node.attrs.get("src", "")))
    if not node.children:
        return Text(for_terminal(node.content))
    text = inline(node.children, TYPES.get(node.type, ""))
    return _with_target(text, str(node.attrs.get("href", ""))) if node.type == "link" else text


def _with_target(text: Text, target: str) -> Text:
    """The text of a link with where it leads: what is said may be anything."""
    target = for_terminal(target)
    if text.plain in (target, target.removeprefix("mailto:")):
        return text
    return Text.assemble(text, (f" ({target})", BESIDE))


def code_rows(code: str, info: str) -> list[Text]:
    """The rows of a block of code."""
    from ask.render.code_rows import coloured
    from ask.render.markdown_blocks import fence_in

    fence = fence_in(f"~~~{info}")
    return coloured(for_terminal(code), fence.language if fence else "")


def table_rows(table: SyntaxTreeNode, width: int) -> list[Text]:
    """A table in columns; where there is no room for these, its rows one under the other."""
    heading, *rows = [
        [inline(cell.children) for cell in row.children] for part in table.children for row in part.children
    ]
    columns = [max(cell_len(row[place].plain) for row in (heading, *rows)) for place in range(len(heading))]
    room = width - 3 * (len(columns) - 1)
    if sum(columns) > room and sum(min(column, NARROWEST_CELL) for column in columns) > room:
        return _one_under_the_other(heading, rows, width)
    styles = [str(cell.attrs.get("style", "")) for cell in table.children[0].children[0].children]
    return _in_columns(heading, rows, styles, width, lines=sum(columns) > room)


def _in_columns(
    heading: Sequence[Text], rows: Sequence[Sequence[Text]], styles: Sequence[str], width: int, *, lines: bool
) -> list[Text]:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SQUARE, show_edge=False, pad_edge=False, border_style=BESIDE, header_style="bold")
    table.show_lines = lines
    for cell, style in zip(heading, styles, strict=True):
        table.add_column(cell, justify=JUSTIFY.get(style, "left"), overflow="fold")
    for row in rows:
        table.add_row(*row)
    shown = console().render_lines(table, console().options.update(width=width), pad=False)
    return [Text.assemble(*((part.text, part.style or "") for part in line)) for line in shown]


def _one_under_the_other(heading: Sequence[Text], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    shown: list[Text] = []
    for row in rows:
        if shown:
            shown.append(Text("─" * min(width, LONGEST_RULE), BESIDE))
        for name, cell in zip(heading, row, strict=True):
            shown += folded(Text.assemble((f"{name.plain}: ", "bold"), cell), width)
    return shown or folded(Text(" · ").join(heading), width)


def folded(text: Text, width: int) -> list[Text]:
    """The rows of a text, folded between words."""
    return list(text.wrap(console(), width, overflow="fold"))


def cut_at(rows: Sequence[Text], width: int) -> Iterator[Text]:
    """The rows as a terminal folds them that folds anywhere, none wider than that for any terminal."""
    for row in rows:
        rest = row.copy()
        rest.expand_tabs(8)
        places: list[int] = []
        used = 0
        for place, character in enumerate(rest.plain):
            used += widest(character)
            if used > width:
                places.append(place)
                used = widest(character)
        yield from rest.divide(places)


def widest(text: str) -> int:
    """The most columns that a text takes in any terminal."""
    return len(text) if text.isascii() else sum(max(cell_len(c), c in UNSURE) for c in text)


def ansi(row: Text) -> str:
    """A row as it is written to a terminal, without the spaces at its end."""
    row = row.copy()
    row.rstrip()
    shown: list[str] = []
    for part in row.render(console()):
        style = part.style
        shown.append(style.render(part.text, color_system=ColorSystem.STANDARD) if style else part.text)
    return "".join(shown)
