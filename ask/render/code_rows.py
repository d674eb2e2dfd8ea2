"""Syntax-highlighted code, row by row while it streams: a finished row never changes its color.

Only the terminal's own sixteen colors are used, so that they suit its background.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, count
from typing import Any, NamedTuple

from pygments.lexer import ExtendedRegexLexer, Lexer, LexerContext, RegexLexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String, Token
from pygments.util import ClassNotFound
from rich.text import Text

MAX_LINE_LENGTH = 2_000
"""Maximum length of a line that is highlighted, in characters."""
MAX_OPEN_LINES = 40
"""Maximum number of lines whose colors may still change as more lines arrive."""
MIN_OPEN_LINES = 10
"""Number of lines that stay open when the others are finished: their tokens may depend on what follows."""
TOKEN_STYLES: dict[Any, str] = {
    Token: "",
    Comment: "dim",
    Keyword: "magenta",
    Keyword.Constant: "cyan",
    Operator.Word: "magenta",
    Name.Builtin: "cyan",
    Name.Function: "blue",
    Name.Class: "blue",
    Name.Tag: "blue",
    Name.Attribute: "cyan",
    Name.Decorator: "yellow",
    Name.Exception: "cyan",
    Name.Variable: "cyan",
    Number: "cyan",
    String: "green",
    String.Doc: "dim",
    String.Escape: "yellow",
    Generic.Deleted: "red",
    Generic.Inserted: "green",
    Generic.Heading: "bold",
    Generic.Subheading: "blue",
    Generic.Prompt: "dim",
    Generic.Output: "dim",
}


class LexedToken(NamedTuple):
    """A token: its offset, type and text, and the lexer's state before it."""

    start: int
    token_type: Any
    text: str
    lexer_state: tuple[str, ...]


class CodeHighlighter:
    """Highlights a code block line by line.

    `language` is the language that the block's fence names; it may be unknown.
    """

    def __init__(self, language: str) -> None:
        self._lexer = find_lexer(language)
        self._lexer_state: tuple[str, ...] = ("root",)
        self._pending_lines: list[str] = []

    def add_line(self, line: str) -> list[Text]:
        """Add a line; return the rows that are finished by it."""
        self._pending_lines.append(line)
        return self._take_finished_rows() if len(self._pending_lines) > MAX_OPEN_LINES else []

    def finish(self) -> list[Text]:
        """Return the remaining rows."""
        rows = self.render_pending("") if self._pending_lines else []
        self._pending_lines = []
        return rows

    def render_pending(self, partial_line: str) -> list[Text]:
        """Return the unfinished rows, including the row of a partial line."""
        lines = [*self._pending_lines, partial_line] if partial_line else self._pending_lines
        return split_into_rows(self._lex_lines(lines), len(lines)) if lines else []

    def _take_finished_rows(self) -> list[Text]:
        tokens = self._lex_lines(self._pending_lines)
        line_numbers = dict(zip(accumulate(len(line) + 1 for line in self._pending_lines), count(1)))
        # If no token starts at a line start, as in a long comment, the lines after the cut may be colored differently.
        finished_count = MAX_OPEN_LINES // 2
        for token in tokens:
            if line_numbers.get(token.start, MAX_OPEN_LINES) <= MAX_OPEN_LINES - MIN_OPEN_LINES:
                finished_count, self._lexer_state = line_numbers[token.start], token.lexer_state
        rows = split_into_rows(tokens, len(self._pending_lines))[:finished_count]
        del self._pending_lines[:finished_count]
        return rows

    def _lex_lines(self, lines: list[str]) -> list[LexedToken]:
        text = "".join(f"{line}\n" for line in lines)
        if self._lexer is None or any(len(line) > MAX_LINE_LENGTH for line in lines):
            return [LexedToken(0, Token, text, self._lexer_state)]
        try:
            return list(iter_tokens(text, self._lexer, self._lexer_state))
        except Exception:  # noqa: BLE001 - a bug in a lexer must not lose the text
            return [LexedToken(0, Token, text, ("root",))]


def iter_tokens(text: str, lexer: Lexer, lexer_state: tuple[str, ...]) -> Iterator[LexedToken]:
    """Yield the tokens of a text, starting in the given lexer state.

    The text may start anywhere, such as inside a string. Only regex lexers support that; others start afresh.
    """
    if type(lexer).get_tokens_unprocessed is not RegexLexer.get_tokens_unprocessed:
        yield from (
            LexedToken(start, token_type, value, ("root",))
            for start, token_type, value in lexer.get_tokens_unprocessed(text)
        )
        return
    context = LexerContext(text, 0, list(lexer_state))
    for start, token_type, value in ExtendedRegexLexer.get_tokens_unprocessed(lexer, None, context):  # type: ignore[arg-type]
        yield LexedToken(start, token_type, value, tuple(context.stack))


def find_lexer(language: str) -> Lexer | None:
    """Return the lexer for a language, or None if there is none."""
    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None


def highlight_code(code: str, language: str) -> list[Text]:
    """Highlight a complete code block; return its rows."""
    highlighter = CodeHighlighter(language)
    rows = [row for line in code.removesuffix("\n").split("\n") for row in highlighter.add_line(line)]
    return [*rows, *highlighter.finish()]


def split_into_rows(tokens: list[LexedToken], row_count: int) -> list[Text]:
    """Convert tokens to `row_count` rows."""
    rows = [Text(end="")]
    for token in tokens:
        style = get_token_style(token.token_type)
        first, *more = token.text.split("\n")
        rows[-1].append(first, style)
        for line in more:
            rows.append(Text(end=""))
            rows[-1].append(line, style)
    return rows[:row_count]


def get_token_style(token_type: Any) -> str:
    """Return the style of a token type or of its nearest styled parent type."""
    while token_type not in TOKEN_STYLES:
        token_type = token_type.parent
    return TOKEN_STYLES[token_type]
