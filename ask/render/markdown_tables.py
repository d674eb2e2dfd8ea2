"""Markdown tables with rows that have more cells than the heading, which a parser would drop."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token

CODE_SPAN_PATTERN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
PIPE_PATTERN = re.compile(r"(?<!\\)\|")
TRAILING_PIPE_PATTERN = re.compile(r"(?<!\\)\|\s*$")


def parse_with_all_cells(parser: MarkdownIt, text: str) -> list[Token]:
    """Parse Markdown so that no table cell is lost.

    If a row has too many cells, pipes in its code spans are escaped; if that is not enough, columns are added.
    """
    tokens = parser.parse(text)
    lines = text.split("\n")
    changed = False
    for position, token in enumerate(tokens):
        if token.type == "table_open" and token.map:
            columns = _count_columns(tokens[position:])
            start, end = token.map
            changed = _keep_cells(lines, start, end, columns) or changed
    return parser.parse("\n".join(lines)) if changed else tokens


def _count_columns(tokens: list[Token]) -> int:
    end = next(position for position, token in enumerate(tokens) if token.type == "tr_close")
    return sum(token.type == "th_open" for token in tokens[:end])


def _keep_cells(lines: list[str], start: int, end: int, columns: int) -> bool:
    """Rewrite the lines of a table with surplus cells; return whether any changed."""
    max_columns = columns
    changed = False
    for number in range(start + 2, end):
        if _count_cells(lines[number]) > columns:
            escaped = CODE_SPAN_PATTERN.sub(lambda span: PIPE_PATTERN.sub(r"\\|", span[0]), lines[number])
            if _count_cells(escaped) <= columns:
                lines[number], changed = escaped, True
            max_columns = max(max_columns, _count_cells(lines[number]))
    if max_columns > columns:
        for number, cell in ((start, " |"), (start + 1, "---|")):
            line = lines[number].rstrip()
            lines[number] = line + ("" if TRAILING_PIPE_PATTERN.search(line) else "|") + cell * (max_columns - columns)
    return changed or max_columns > columns


def _count_cells(line: str) -> int:
    cells = escapedSplit(line.lstrip("> \t").rstrip())
    if cells and not cells[0]:
        cells = cells[1:]
    if cells and not cells[-1]:
        cells = cells[:-1]
    return len(cells)
