"""Markdown tables: parsed with all cells, also those beyond the heading, and rendered as columns or as records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile, zip_longest

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token

from ask.console import BOLD, DIM
from ask.render.text_layout import Row, get_plain_text, split_lines, wrap_row
from ask.text import measure_width

MIN_CELL_WIDTH = 9
"""Minimum width of a table column; in a narrower table, the cells of a row are shown below each other."""
MAX_RULE_WIDTH = 40
CODE_SPAN_PATTERN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
PIPE_PATTERN = re.compile(r"(?<!\\)\|")
TRAILING_PIPE_PATTERN = re.compile(r"(?<!\\)\|\s*$")


def parse_with_all_cells(parser: MarkdownIt, text: str) -> list[Token]:
    """Parse Markdown so that no table cell is lost.

    If a row has too many cells, pipes in its code spans are escaped; if that is not enough, columns are added.
    """
    tokens = parser.parse(text)
    lines = text.split("\n")
    for position, token in enumerate(tokens):
        if token.type == "table_open" and token.map:
            heading = takewhile(lambda token: token.type != "tr_close", tokens[position:])
            _keep_cells(lines, range(*token.map), sum(token.type == "th_open" for token in heading))
    complete_text = "\n".join(lines)
    return tokens if complete_text == text else parser.parse(complete_text)


def _keep_cells(lines: list[str], table: range, columns: int) -> None:
    """Rewrite the lines of a table with surplus cells."""
    heading, rule, *rows = table
    for number in rows:
        if _count_cells(lines[number]) > columns:
            escaped = CODE_SPAN_PATTERN.sub(lambda span: PIPE_PATTERN.sub(r"\\|", span[0]), lines[number])
            if _count_cells(escaped) <= columns:
                lines[number] = escaped
    surplus = max((_count_cells(lines[number]) for number in rows), default=0) - columns
    if surplus > 0:
        for number, cell in ((heading, " |"), (rule, "---|")):
            line = lines[number].rstrip()
            lines[number] = line + ("" if TRAILING_PIPE_PATTERN.search(line) else "|") + cell * surplus


def _count_cells(line: str) -> int:
    cells = escapedSplit(line.lstrip("> \t").rstrip())
    if cells and not cells[0]:
        cells = cells[1:]
    if cells and not cells[-1]:
        cells = cells[:-1]
    return len(cells)


def render_table(rows: Sequence[Sequence[Row]], alignments: Sequence[str], width: int) -> list[Row]:
    """Render a table in columns.

    If there is not enough width for columns, the cells of each row are shown below each other.
    """
    widths = [
        max(measure_width(get_plain_text(line)) for cell in column for line in split_lines(cell))
        for column in zip(*rows, strict=True)
    ]
    excess = sum(widths) + 3 * (len(widths) - 1) - width  # with " │ " between two columns
    if excess > sum(max(0, column_width - MIN_CELL_WIDTH) for column_width in widths):
        return _render_table_records(rows, width)
    is_ruled = excess > 0 or any("\n" in get_plain_text(cell) for row in rows for cell in row)
    for _ in range(excess):  # the widest columns lose most
        widths[widths.index(max(widths))] -= 1
    rule: Row = [("─┼─".join("─" * column_width for column_width in widths), DIM)]
    lines: list[Row] = []
    for row in rows:
        cells = [wrap_row(cell, column_width) for cell, column_width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=[]):
            line: Row = []
            for part, column_width, alignment in zip(parts, widths, alignments, strict=True):
                space = column_width - measure_width(get_plain_text(part))
                left = {"right": space, "center": space // 2}.get(alignment, 0)
                line += [(" │ ", DIM)] if line else []
                line += [(" " * left, ""), *part, (" " * (space - left), "")]
            lines.append(line)
        if row is rows[0] or (is_ruled and row is not rows[-1]):
            lines.append([*rule])
    return lines


def _render_table_records(rows: Sequence[Sequence[Row]], width: int) -> list[Row]:
    heading, *body = rows
    lines: list[Row] = []
    for row in body:
        if lines:
            lines.append([("─" * min(width, MAX_RULE_WIDTH), DIM)])
        for name, cell in zip(heading, row, strict=True):
            lines += wrap_row([*name, (": ", BOLD), *cell], width)
    return lines or wrap_row([span for cell in heading for span in (*cell, (" · ", ""))][:-1], width)
