"""LaTeX formulas, kept as written: much in them, such as `^*`, `\\,` and `- x`, is markup to a Markdown parser."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

CLOSING_DELIMITERS = {"$$": "$$", r"\[": r"\]", r"\(": r"\)"}
DOLLAR_FORMULA = re.compile(r"\$(?=[^\s$])(?:[^$`\\\n]|\\.)+(?<!\s)\$(?!\d)")
"""A formula between single dollars, by the rules of Pandoc: "$5 and $10" has none."""
FORMULA_CHARACTERS = re.compile(r"[\\^_=]")
"""What tells a formula in escaped brackets from a citation or a checkbox."""
MAX_FORMULA_CHARACTERS = 2_000
"""Maximum length of a formula, which limits the search for its end."""


def add_formulas(parser: MarkdownIt) -> MarkdownIt:
    """Have a parser keep formulas as they are."""
    parser.block.ruler.before("blockquote", "formula", _parse_formula_block, {"alt": ["paragraph", "blockquote"]})
    parser.inline.ruler.before("escape", "formula", _parse_formula)
    return parser


def _parse_formula_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Parse a formula of several lines as a paragraph, of which no line begins another block."""
    start = state.bMarks[start_line] + state.tShift[start_line]
    closing = CLOSING_DELIMITERS.get(state.src[start : start + 2], ")")
    if closing.endswith(")") or state.is_code_block(start_line):
        return False
    if closing in state.src[start + 2 : state.eMarks[start_line]]:
        return False
    if silent:
        return True
    line = start_line + 1
    while line < end_line and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent:
        line += 1
        if closing in state.src[state.bMarks[line - 1] : state.eMarks[line - 1]]:
            break
    state.line = line
    state.push("paragraph_open", "p", 1).map = [start_line, line]
    token = state.push("inline", "", 0)
    token.content = state.getLines(start_line, line, state.blkIndent, False).strip()
    token.map = [start_line, line]
    token.children = []
    state.push("paragraph_close", "p", -1)
    return True


def _parse_formula(state: StateInline, silent: bool) -> bool:
    """Parse a formula in a paragraph as text."""
    start = state.pos
    opening = state.src[start : start + 2]
    if closing := CLOSING_DELIMITERS.get(opening):
        end = state.src.find(closing, start + 2, min(state.posMax, start + MAX_FORMULA_CHARACTERS)) + 2
        if end < 2 or (opening == r"\[" and not FORMULA_CHARACTERS.search(state.src, start + 2, end - 2)):
            return False
    elif formula := DOLLAR_FORMULA.match(state.src, start, state.posMax):
        end = formula.end()
    else:
        return False
    if not silent:
        state.pending += state.src[start:end]
    state.pos = end
    return True
