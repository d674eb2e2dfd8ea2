"""Code in colour, a row for each line, also while it streams: a row that was handed out is never coloured anew.

The colours are the terminal's own sixteen, so that they suit its background. `pygments` does the reading.
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
"""Characters of a line that is still coloured."""
MAX_OPEN_LINES = 40
"""Lines that may still change their colour while more come."""
MIN_OPEN_LINES = 10
"""Of these, how many stay open at least when the rest is settled: what they are may depend on what follows."""
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
    """A token: where it begins, what it is, its text, and the reader's state before it."""

    start: int
    token_type: Any
    text: str
    lexer_state: tuple[str, ...]


class CodeHighlighter:
    """Colours a block of code as its lines come.

    Args:
        language: what the block says that it is in; anything.
    """

    def __init__(self, language: str) -> None:
        self._lexer = find_lexer(language)
        self._lexer_state: tuple[str, ...] = ("root",)
        self._pending_lines: list[str] = []

    def add_line(self, line: str) -> list[Text]:
        """Take a line; return the rows that are settled by it."""
        self._pending_lines.append(line)
        return self._take_settled_rows() if len(self._pending_lines) > MAX_OPEN_LINES else []

    def finish(self) -> list[Text]:
        """The rows that are left."""
        rows = self.render_pending("") if self._pending_lines else []
        self._pending_lines = []
        return rows

    def render_pending(self, partial_line: str) -> list[Text]:
        """The rows that are not settled, with that of a line that has only begun."""
        lines = [*self._pending_lines, partial_line] if partial_line else self._pending_lines
        return split_into_rows(self._lex_lines(lines), len(lines)) if lines else []

    def _take_settled_rows(self) -> list[Text]:
        found = self._lex_lines(self._pending_lines)
        begins = dict(zip(accumulate(len(line) + 1 for line in self._pending_lines), count(1)))
        settled = (
            MAX_OPEN_LINES // 2
        )  # where no token begins a line, as in a long comment, what goes on may get other colours
        for token in found:
            if begins.get(token.start, MAX_OPEN_LINES) <= MAX_OPEN_LINES - MIN_OPEN_LINES:
                settled, self._lexer_state = begins[token.start], token.lexer_state
        rows = split_into_rows(found, len(self._pending_lines))[:settled]
        del self._pending_lines[:settled]
        return rows

    def _lex_lines(self, lines: list[str]) -> list[LexedToken]:
        text = "".join(f"{line}\n" for line in lines)
        if self._lexer is None or any(len(line) > MAX_LINE_LENGTH for line in lines):
            return [LexedToken(0, Token, text, self._lexer_state)]
        try:
            return list(iter_tokens(text, self._lexer, self._lexer_state))
        except Exception:  # noqa: BLE001 - a reader's fault must not cost the text
            return [LexedToken(0, Token, text, ("root",))]


def iter_tokens(text: str, lexer: Lexer, lexer_state: tuple[str, ...]) -> Iterator[LexedToken]:
    """The tokens of a text that begins in a state of the reader, in which it may be anything's middle."""
    if type(lexer).get_tokens_unprocessed is not RegexLexer.get_tokens_unprocessed:
        yield from (
            LexedToken(start, kind, value, ("root",)) for start, kind, value in lexer.get_tokens_unprocessed(text)
        )
        return
    context = LexerContext(text, 0, list(lexer_state))
    for start, kind, value in ExtendedRegexLexer.get_tokens_unprocessed(lexer, None, context):  # type: ignore[arg-type]
        yield LexedToken(start, kind, value, tuple(context.stack))


def find_lexer(language: str) -> Lexer | None:
    """What reads a language; None where nothing does."""
    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None


def highlight_code(code: str, language: str) -> list[Text]:
    """The rows of a whole block of code."""
    reader = CodeHighlighter(language)
    rows = [row for line in code.removesuffix("\n").split("\n") for row in reader.add_line(line)]
    return [*rows, *reader.finish()]


def split_into_rows(tokens: list[LexedToken], row_count: int) -> list[Text]:
    """Tokens as that many rows."""
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
    """The style of a kind of token, or of what it is a kind of."""
    while token_type not in TOKEN_STYLES:
        token_type = token_type.parent
    return TOKEN_STYLES[token_type]
