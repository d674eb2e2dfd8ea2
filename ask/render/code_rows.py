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

LONGEST_LINE = 2_000
"""Characters of a line that is still coloured."""
OPEN = 40
"""Lines that may still change their colour while more come."""
KEPT = 10
"""Of these, how many stay open at least when the rest is settled: what they are may depend on what follows."""
STYLES: dict[Any, str] = {
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


class Found(NamedTuple):
    """A token: where it begins, what it is, its text, and the reader's state before it."""

    start: int
    kind: Any
    text: str
    state: tuple[str, ...]


class CodeReader:
    """Colours a block of code as its lines come.

    Args:
        language: what the block says that it is in; anything.
    """

    def __init__(self, language: str) -> None:
        self._lexer = lexer_for(language)
        self._state: tuple[str, ...] = ("root",)
        self._lines: list[str] = []

    def add(self, line: str) -> list[Text]:
        """Take a line; return the rows that are settled by it."""
        self._lines.append(line)
        return self._settle() if len(self._lines) > OPEN else []

    def end(self) -> list[Text]:
        """The rows that are left."""
        rows = self.rows("") if self._lines else []
        self._lines = []
        return rows

    def rows(self, begun: str) -> list[Text]:
        """The rows that are not settled, with that of a line that has only begun."""
        lines = [*self._lines, begun] if begun else self._lines
        return in_rows(self._read(lines), len(lines)) if lines else []

    def _settle(self) -> list[Text]:
        found = self._read(self._lines)
        begins = dict(zip(accumulate(len(line) + 1 for line in self._lines), count(1)))
        settled = OPEN // 2  # where no token begins a line, as in a long comment, what goes on may get other colours
        for token in found:
            if begins.get(token.start, OPEN) <= OPEN - KEPT:
                settled, self._state = begins[token.start], token.state
        rows = in_rows(found, len(self._lines))[:settled]
        del self._lines[:settled]
        return rows

    def _read(self, lines: list[str]) -> list[Found]:
        text = "".join(f"{line}\n" for line in lines)
        if self._lexer is None or any(len(line) > LONGEST_LINE for line in lines):
            return [Found(0, Token, text, self._state)]
        try:
            return list(found_in(text, self._lexer, self._state))
        except Exception:  # noqa: BLE001 - a reader's fault must not cost the text
            return [Found(0, Token, text, ("root",))]


def found_in(text: str, lexer: Lexer, state: tuple[str, ...]) -> Iterator[Found]:
    """The tokens of a text that begins in a state of the reader, in which it may be anything's middle."""
    if type(lexer).get_tokens_unprocessed is not RegexLexer.get_tokens_unprocessed:
        yield from (Found(start, kind, value, ("root",)) for start, kind, value in lexer.get_tokens_unprocessed(text))
        return
    context = LexerContext(text, 0, list(state))
    for start, kind, value in ExtendedRegexLexer.get_tokens_unprocessed(lexer, None, context):  # type: ignore[arg-type]
        yield Found(start, kind, value, tuple(context.stack))


def lexer_for(language: str) -> Lexer | None:
    """What reads a language; None where nothing does."""
    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None


def coloured(code: str, language: str) -> list[Text]:
    """The rows of a whole block of code."""
    reader = CodeReader(language)
    rows = [row for line in code.removesuffix("\n").split("\n") for row in reader.add(line)]
    return [*rows, *reader.end()]


def in_rows(found: list[Found], number: int) -> list[Text]:
    """Tokens as that many rows."""
    rows = [Text(end="")]
    for token in found:
        style = style_of(token.kind)
        first, *more = token.text.split("\n")
        rows[-1].append(first, style)
        for line in more:
            rows.append(Text(end=""))
            rows[-1].append(line, style)
    return rows[:number]


def style_of(kind: Any) -> str:
    """The style of a kind of token, or of what it is a kind of."""
    while kind not in STYLES:
        kind = kind.parent
    return STYLES[kind]
