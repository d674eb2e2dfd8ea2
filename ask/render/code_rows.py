"""Syntax-highlighted code, row by row while it streams: a finished row never changes its color.

Only the terminal's own sixteen colors are used, so that they suit its background.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Any

from pygments.lexer import ExtendedRegexLexer, Lexer, LexerContext, RegexLexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String, Token
from pygments.util import ClassNotFound

from ask.console import BLUE, BOLD, CYAN, DIM, GREEN, MAGENTA, RED, YELLOW
from ask.process.time_limit import limit_time
from ask.render.text_layout import Row, split_lines

MAX_LINE_CHARACTERS = 2_000
"""Maximum length of a line that is highlighted."""
MAX_OPEN_LINES = 40
"""Maximum number of lines whose colors may still change as more lines arrive."""
MIN_OPEN_LINES = 10
"""Number of lines that stay open when the others are finished: their tokens may depend on what follows."""
MAX_SECONDS = 0.2
"""Seconds that the highlighting of the open lines may take, before the language is no longer highlighted."""
MIN_SECONDS = 0.01
"""Seconds below which it is not worth trying."""
MAX_TOTAL_SECONDS = 2.0
"""The same for all blocks together: an answer can contain any number of blocks that each take a little less."""
REFILL_RATE = 0.25
"""How much of the time that passes is added to what is left of `MAX_TOTAL_SECONDS`, for long sessions."""
TOKEN_STYLES: dict[Any, str] = {
    Token: "",
    **dict.fromkeys((Comment, String.Doc, Generic.Prompt, Generic.Output), DIM),
    **dict.fromkeys((Keyword, Operator.Word), MAGENTA),
    **dict.fromkeys((Keyword.Constant, Name.Builtin, Name.Attribute, Name.Exception, Name.Variable, Number), CYAN),
    **dict.fromkeys((Name.Function, Name.Class, Name.Tag, Generic.Subheading), BLUE),
    **dict.fromkeys((Name.Decorator, String.Escape), YELLOW),
    **dict.fromkeys((String, Generic.Inserted), GREEN),
    Generic.Deleted: RED,
    Generic.Heading: BOLD,
}
PLAIN_CODE = Token.PlainCode
"""The type of all code in a block without a known language. As in text, it is set off by its color."""
TOKEN_STYLES[PLAIN_CODE] = CYAN
PLAIN_LANGUAGES = ("text", "output")
"""The first aliases of lexers that highlight nothing."""
SLOW_LEXERS: set[type[Lexer]] = set()
"""The lexers that took too long in this process. Several take cubic or exponential time for some lines."""
LexedToken = tuple[int, Any, str, tuple[str, ...]]
"""The offset, type and text of a token, and the lexer's state before it."""


class LexingTime:
    """The time that highlighting may still take in this process."""

    def __init__(self) -> None:
        self._left, self._last_update = MAX_TOTAL_SECONDS, time.monotonic()

    def get_left(self) -> float:
        """Return the seconds that are left."""
        now = time.monotonic()
        self._left = min(MAX_TOTAL_SECONDS, self._left + REFILL_RATE * (now - self._last_update))
        self._last_update = now
        return self._left

    def subtract(self, seconds: float) -> None:
        """Record that highlighting has taken this long."""
        self._left -= seconds


LEXING_TIME = LexingTime()


class CodeHighlighter:
    """Highlights a code block line by line.

    `info` is the info string of the block's fence; its first word names the language, which may be unknown.
    """

    def __init__(self, info: str) -> None:
        language = re.match(r"[\w+#.-]+", info.lstrip("{. "))
        self._lexer = _find_lexer(language[0]) if language else None
        self._plain_type = Token if self._lexer else PLAIN_CODE
        self._lexer_state: tuple[str, ...] = ("root",)
        self._open_lines: list[str] = []
        self._last_rows: list[tuple[str, Row]] = []
        """The lines that were rendered last, with their rows."""

    def add_lines(self, code: str) -> Iterator[Row]:
        """Add the lines of some code; yield the rows that are finished by them."""
        for line in code.removesuffix("\n").split("\n") if code else ():
            self._open_lines.append(line)
            while len(self._open_lines) > MAX_OPEN_LINES:
                yield from self._take_finished_rows()

    def render_open_lines(self, partial_line: str = "") -> list[Row]:
        """Return the unfinished rows, including the rows of a text that is not added yet.

        Only the main thread highlights: a signal can interrupt it. In another one, the rows keep their last colors.
        """
        lines = [*self._open_lines, *partial_line.split("\n")] if partial_line else self._open_lines
        if threading.current_thread() is threading.main_thread():
            rows = _to_rows(self._lex_lines(lines, with_states=False), len(lines))
            self._last_rows = [*zip(lines, rows, strict=False)]
            return rows
        known, style = dict(enumerate(self._last_rows)), _get_token_style(self._plain_type)
        return [known[n][1] if n in known and known[n][0] == line else [(line, style)] for n, line in enumerate(lines)]

    def _take_finished_rows(self) -> list[Row]:
        tokens = self._lex_lines(self._open_lines)
        line_numbers = {end: n for n, end in enumerate(accumulate(len(line) + 1 for line in self._open_lines), 1)}
        # If no token starts at a line start, as in a long comment, the lines after the cut may be colored differently.
        finished_count = MAX_OPEN_LINES // 2
        for start, _, _, lexer_state in tokens:
            if line_numbers.get(start, MAX_OPEN_LINES) <= MAX_OPEN_LINES - MIN_OPEN_LINES:
                finished_count, self._lexer_state = line_numbers[start], lexer_state
        del self._open_lines[:finished_count]
        return _to_rows(tokens, finished_count)

    def _lex_lines(self, lines: list[str], *, with_states: bool = True) -> list[LexedToken]:
        text = "".join(f"{line}\n" for line in lines)
        if self._lexer is None or any(len(line) > MAX_LINE_CHARACTERS for line in lines):
            return [(0, self._plain_type, text, self._lexer_state)]
        start, limit = time.process_time(), min(MAX_SECONDS, LEXING_TIME.get_left())
        if limit < MIN_SECONDS:
            self._lexer = None
            return [(0, Token, text, ("root",))]
        try:
            with limit_time(limit, TimeLimitError, counts_processor_time=True):
                return list(_iter_tokens(text, self._lexer, self._lexer_state, with_states=with_states))
        except TimeLimitError:
            if limit == MAX_SECONDS:
                SLOW_LEXERS.add(type(self._lexer))
            self._lexer = None
        except Exception:  # noqa: BLE001, S110 - a bug in a lexer must not lose the text
            pass
        finally:
            LEXING_TIME.subtract(time.process_time() - start)
        return [(0, Token, text, ("root",))]


class TimeLimitError(BaseException):
    """A lexer took too long. Not an `Exception`, which it might catch."""


def _iter_tokens(text: str, lexer: Lexer, lexer_state: tuple[str, ...], *, with_states: bool) -> Iterator[LexedToken]:
    """Yield the tokens of a text, starting in the given lexer state.

    The text may start anywhere, such as inside a string. Only regex lexers support that; others start afresh.
    Without the states before the tokens, which are then ("root",), this takes a fifth less time.
    """
    is_regex_lexer = type(lexer).get_tokens_unprocessed is RegexLexer.get_tokens_unprocessed
    if not (is_regex_lexer and with_states):
        tokens = lexer.get_tokens_unprocessed(text, *([lexer_state] if is_regex_lexer else []))
        yield from ((*token, ("root",)) for token in tokens)
        return
    context = LexerContext(text, 0, list(lexer_state))
    for token in ExtendedRegexLexer.get_tokens_unprocessed(lexer, None, context):  # type: ignore[arg-type]
        yield *token, tuple(context.stack)


def _find_lexer(language: str) -> Lexer | None:
    """Return the lexer for a language, or None if there is none, or if it took too long."""
    lexer = _load_lexer(language)
    return None if type(lexer) in SLOW_LEXERS else lexer


@cache
def _load_lexer(language: str) -> Lexer | None:
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return None
    return None if lexer.aliases[0] in PLAIN_LANGUAGES else lexer


def highlight_code(code: str, info: str) -> list[Row]:
    """Highlight a complete code block."""
    highlighter = CodeHighlighter(info)
    return [*highlighter.add_lines(code), *highlighter.render_open_lines()]


def _to_rows(tokens: list[LexedToken], row_count: int) -> list[Row]:
    """Convert tokens to `row_count` rows."""
    return split_lines((text, _get_token_style(token_type)) for _, token_type, text, _ in tokens)[:row_count]


@cache
def _get_token_style(token_type: Any) -> str:
    """Return the style of a token type or of its nearest styled parent type."""
    return TOKEN_STYLES[token_type] if token_type in TOKEN_STYLES else _get_token_style(token_type.parent)
