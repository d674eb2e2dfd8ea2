"""Markdown tables with rows that have more cells than the heading, which a parser would drop."""

from __future__ import annotations

import re
from itertools import takewhile

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
