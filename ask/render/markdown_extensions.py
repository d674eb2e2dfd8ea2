"""Where answers of models need other rules than CommonMark: formulas, JSON, operators, names, CJK, indentation.

Formulas are kept as written: much in them, such as `^*`, `\\,` and `- x`, is markup to a Markdown parser.
"""

from __future__ import annotations

import re
from unicodedata import category, east_asian_width

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline, emphasis, newline, strikethrough

CLOSING_DELIMITERS = {"$$": "$$", r"\[": r"\]", r"\(": r"\)"}
OPENING_DELIMITER = re.compile(r"\$\$|\\\[|(?<![A-Za-z_])\\\(")
r"""In a paragraph. After a letter, a bracket is escaped, as in https://en.wikipedia.org/wiki/V8_\(JavaScript_engine\)."""
DOLLAR_FORMULA = re.compile(r"\$(?=[^\s$])(?:[^$`\\\n*\]]|\\.|\*(?!\*)|\](?!\())+(?<!\s)\$(?![A-Za-z0-9])")
"""A formula between single dollars: "$5 and $10", "**$HOME** and **$PATH**" and "$5 **or** US$" have none."""
FORMULA_CHARACTERS = re.compile(r"[\\^_=]")
"""What tells a formula in escaped brackets, or of several lines, from a citation, a checkbox or a sentence."""
WORD = re.compile(r"[^\W\d_A-Z]{3}")
"""What tells prose in escaped brackets from a formula without those, such as `n + 1` or the triangle `ABC`."""
LINE_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
OPERATOR = re.compile(
    r"(?<!\*)/\*(?!\*)|/\*\*/|[^\s*]\*\.[A-Za-z]|[A-Za-z0-9]\*[A-Za-z0-9]|[0-9]\*\*[A-Za-z0-9]|[A-Za-z]\*\*[0-9]"
)
"""Asterisks of a path, a product or a power, as in `src/*.c`, `2*x` and `2**8`, which open no emphasis.

Those in "**Yes**/**No**" do.
"""
RESERVED_NAME = re.compile(r"__(?:[a-z]{2}[a-z0-9_]{0,60}|[A-Z]{2}[A-Z0-9_]{0,60})__(?![A-Za-z0-9_])")
"""A name such as `__init__` or `__FILE__`, also in a path. Models write bold words with asterisks.

The length is limited because the search would take quadratic time otherwise.
"""
JSON_STRING = r'"(?:[^"\\\n]|\\.)*"'
JSON_START = re.compile(rf"\s*(?:\[*\s*\{{\s*{JSON_STRING}\s*:|\[{JSON_STRING}(?:,|\]$)|\[\n)")
"""The beginning of JSON in a paragraph, in which backslashes and asterisks belong to the values."""
INDENTED_KEY = re.compile(rf"[ \t]+{JSON_STRING}\s*:")
"""The beginning of a paragraph with more of a JSON object, after a blank line in it."""
MAX_FORMULA_CHARACTERS = 2_000
"""Maximum length of a formula, which limits the search for its end."""


def add_extensions(parser: MarkdownIt) -> MarkdownIt:
    """Have a parser keep formulas, JSON, operators and names, and find emphasis in Chinese, Japanese and Korean."""
    parser.block.ruler.before("blockquote", "formula", _parse_formula_block, {"alt": ["paragraph", "blockquote"]})
    parser.inline.ruler.before("escape", "json", _parse_json)
    parser.inline.ruler.before("escape", "formula", _parse_formula)
    parser.inline.ruler.before("escape", "command_line_end", _parse_command_line_end)
    parser.inline.ruler.before("html_inline", "line_break", _parse_line_break)
    parser.inline.ruler.at("newline", _parse_newline)
    parser.inline.ruler.at("emphasis", _parse_emphasis)
    parser.inline.ruler.at("strikethrough", _parse_strikethrough)
    return parser


def _parse_formula_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Parse a formula of several lines as a paragraph, of which no line begins another block."""
    start = state.bMarks[start_line] + state.tShift[start_line]
    closing = CLOSING_DELIMITERS.get(state.src[start : start + 2], ")")
    if closing.endswith(")") or state.is_code_block(start_line):
        return False
    rest = state.src[start + 2 : state.eMarks[start_line]]
    if closing in rest or (rest.strip() and not FORMULA_CHARACTERS.search(rest)):
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
    if opening := OPENING_DELIMITER.match(state.src, start, state.posMax):
        closing = CLOSING_DELIMITERS[opening[0]]
        end = state.src.find(closing, start + 2, min(state.posMax, start + MAX_FORMULA_CHARACTERS)) + 2
        if end < 2 or (opening[0] != "$$" and not _is_formula(state.src[start + 2 : end - 2], opening[0])):
            return False
    elif formula := DOLLAR_FORMULA.match(state.src, start, state.posMax):
        end = formula.end()
    else:
        return False
    if not silent:
        state.pending += state.src[start:end]
    state.pos = end
    return True


def _is_formula(text: str, opening: str) -> bool:
    """Check whether text in escaped brackets is a formula; a single number in square ones is a citation."""
    return bool(FORMULA_CHARACTERS.search(text)) or (opening == r"\(" and not WORD.search(text))


def _parse_json(state: StateInline, silent: bool) -> bool:
    """Parse JSON that begins a line, and the rest of its paragraph, as text."""
    start = state.pos
    if not JSON_START.match(state.src, start) or state.src[:start].rstrip(" ")[-1:].strip():
        return False
    if not silent:
        state.pending += state.src[start : state.posMax]
    state.pos = state.posMax
    return True


def _parse_newline(state: StateInline, silent: bool) -> bool:
    """Parse a newline; keep the indentation after it if it may be that of YAML or code without a fence."""
    start = state.pos
    is_newline = newline(state, silent)
    if is_newline and state.env.get("keeps_indentation"):
        state.pos = start + 1
    return is_newline


def _parse_command_line_end(state: StateInline, silent: bool) -> bool:
    """Parse a backslash before an indented line as text: in a command without a fence, it is no line break."""
    if not state.env.get("keeps_indentation") or not state.src.startswith(("\\\n ", "\\\n\t"), state.pos):
        return False
    if not silent:
        state.pending += "\\"
    state.pos += 1
    return True


def _parse_line_break(state: StateInline, silent: bool) -> bool:
    """Parse `<br>`, the only way to begin a new line in a table cell."""
    line_break = LINE_BREAK.match(state.src, state.pos, state.posMax)
    if line_break and not silent:
        state.push("hardbreak", "br", 0)
    state.pos = line_break.end() if line_break else state.pos
    return bool(line_break)


def _parse_emphasis(state: StateInline, silent: bool) -> bool:
    is_underscore = state.src[state.pos] == "_"
    delimiter_count, start = len(state.delimiters), state.pos
    if is_underscore and (name := RESERVED_NAME.match(state.src, start, state.posMax)):
        if not silent:
            state.pending += name[0]
        state.pos = name.end()
        return True
    if not emphasis.tokenize(state, silent):
        return False
    if OPERATOR.match(state.src, max(0, start - 1), state.posMax):
        # It may end emphasis, as in "*S*caling", but not that of another length, as in "**5*3**".
        last = state.delimiters[delimiter_count - 1] if delimiter_count else None
        for delimiter in state.delimiters[delimiter_count:]:
            delimiter.close = delimiter.close and last is not None and last.open and last.length == delimiter.length
            delimiter.open = False
    elif not is_underscore:
        _open_and_close_at_cjk(state, delimiter_count, start)
    return True


def _parse_strikethrough(state: StateInline, silent: bool) -> bool:
    delimiter_count, start = len(state.delimiters), state.pos
    if not strikethrough.tokenize(state, silent):
        return False
    _open_and_close_at_cjk(state, delimiter_count, start)
    return True


def _open_and_close_at_cjk(state: StateInline, first_delimiter: int, start: int) -> None:
    """Let the delimiters that were found beside a Chinese, Japanese or Korean character open and close emphasis.

    In CommonMark, punctuation within the delimiters requires a space outside of them, which these languages do not
    have: https://github.com/commonmark/commonmark-spec/issues/650. Nothing opens before a comma or a closing bracket,
    as in a list of masked names, nor closes after an opening one. A single asterisk is rather that of a footnote.
    """
    before, after = state.src[max(0, start - 1) : start], state.src[state.pos : state.pos + 1]
    if _is_cjk(before) or _is_cjk(after):
        is_single = state.pos - start == 1
        can_open = after.strip() and not (is_single or _is_closing_punctuation(after))
        can_close = before.strip() and category(before) not in (("Ps", "Pi", "Po") if is_single else ("Ps", "Pi"))
        for delimiter in state.delimiters[first_delimiter:]:
            delimiter.open = delimiter.open or bool(can_open)
            delimiter.close = delimiter.close or bool(can_close)


def _is_closing_punctuation(character: str) -> bool:
    kind = category(character)
    return kind in ("Pe", "Pf") or character in ",;:!?" or (kind == "Po" and _is_cjk(character))


def _is_cjk(character: str) -> bool:
    return bool(character) and east_asian_width(character) in "WFH" and category(character) != "So"  # not emoji
