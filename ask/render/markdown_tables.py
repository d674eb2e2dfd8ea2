"""Tables of Markdown with more cells in a row than their heading has, which a parser would drop."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token

CODE_SPAN_PATTERN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
PIPE_PATTERN = re.compile(r"(?<!\\)\|")
TRAILING_PIPE_PATTERN = re.compile(r"(?<!\\)\|\s*$")


def parse_with_all_cells(parser: MarkdownIt, text: str) -> list[Token]:
    """Parse Markdown so that no cell of a table is lost.

    A pipe in code belongs to the code where the row fits the heading then; else the table gets more columns.
    """
    tokens = parser.parse(text)
    lines = text.split("\n")
    changed = False
    for place, token in enumerate(tokens):
        if token.type == "table_open" and token.map:
            columns = _count_columns(tokens[place:])
            start, end = token.map
            changed = _keep_cells(lines, start, end, columns) or changed
    return parser.parse("\n".join(lines)) if changed else tokens


def _count_columns(tokens: list[Token]) -> int:
    end = next(place for place, token in enumerate(tokens) if token.type == "tr_close")
    return sum(token.type == "th_open" for token in tokens[:end])


def _keep_cells(lines: list[str], start: int, end: int, columns: int) -> bool:
    """Rewrite a table's lines where a row has more cells than columns; return whether anything changed."""
    most = columns
    changed = False
    for number in range(start + 2, end):
        if _count_cells(lines[number]) > columns:
            with_code = CODE_SPAN_PATTERN.sub(lambda span: PIPE_PATTERN.sub(r"\\|", span[0]), lines[number])
            if _count_cells(with_code) <= columns:
                lines[number], changed = with_code, True
            most = max(most, _count_cells(lines[number]))
    if most > columns:
        for number, cell in ((start, " |"), (start + 1, "---|")):
            line = lines[number].rstrip()
            lines[number] = line + ("" if TRAILING_PIPE_PATTERN.search(line) else "|") + cell * (most - columns)
    return changed or most > columns


def _count_cells(line: str) -> int:
    cells = escapedSplit(line.lstrip("> \t").rstrip())
    if cells and not cells[0]:
        cells = cells[1:]
    if cells and not cells[-1]:
        cells = cells[:-1]
    return len(cells)
