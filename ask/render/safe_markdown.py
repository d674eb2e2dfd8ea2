"""Markdown that a model wrote, made fit to stand among other text: as HTML, or as Markdown that keeps to its place.

Nothing in it can run, load anything, or swallow what comes after it. `markdown-it` does the reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from ask.render.markdown_tables import parse_with_all_cells
from ask.text import escape_control_characters

MAX_TEXT_LENGTH = 200_000
"""Characters of a text that is read as Markdown; that takes a second or two at most."""
MAX_BRACKETS = 5_000
"""Opening brackets in it: the time goes with their square."""
MAX_NESTING = 50
WEB_LINK_PATTERN = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)
SCHEME_PATTERN = re.compile(r"[\x00- ]*[a-z][a-z0-9+.-]*:", re.IGNORECASE)
BACKTICKS_PATTERN = re.compile("`+")
ACTIVE_MARKUP_PATTERN = re.compile(
    r"(?<!`)(`+)(?!`)[^\n]{0,2000}?[^`\n]\1(?!`)|\\.|<(?=[a-zA-Z/!?])(?!https?://|mailto:)|!(?=\[)"
)
"""A code span or an escape, which stay; the begin of HTML or of an image."""
END_MARKER = "end-of-this-text"
"""A paragraph put behind a text, to see whether the text leaves it one."""


def to_html(text: str) -> str:
    """The HTML of a text in Markdown; preformatted where reading it would take too long."""
    text = escape_control_characters(text)
    if not is_parseable(text):
        return f"<pre>{escape(text)}</pre>\n"
    reader = _get_web_parser()
    tokens = parse_with_all_cells(reader, text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + 2)}"  # below those of the page
    return str(reader.renderer.render(tokens, reader.options, {}))


def to_safe_markdown(text: str) -> str:
    """The text as Markdown that holds no HTML, image or dangerous link, and leaves what follows alone.

    What cannot be made so is put in a fence.
    """
    text = escape_control_characters(text).strip("\n")
    if is_parseable(text):
        for candidate in _iter_candidates(text):
            if _is_harmless(candidate) and _is_self_contained(candidate):
                return candidate
    return format_code_block(text)


def format_code_block(text: str, info: str = "") -> str:
    """The text as a block of code, in a fence longer than any in it."""
    text = escape_control_characters(text).removesuffix("\n")
    fence = "`" * max([3, *(len(run) + 1 for run in BACKTICKS_PATTERN.findall(text))])
    return f"{fence}{info}\n{text}\n{fence}"


def is_parseable(text: str) -> bool:
    """Whether reading the text as Markdown takes a reasonable time."""
    return len(text) <= MAX_TEXT_LENGTH and text.count("[") <= MAX_BRACKETS


def _iter_candidates(text: str) -> Iterator[str]:
    """The text, then what it is without HTML and images, then that with its last fence closed."""
    yield text
    text = _escape_active_markup(text)
    yield text
    for last in _get_strict_parser().parse(text)[-1:]:
        yield f"{text}\n{last.markup}"


def _is_harmless(text: str) -> bool:
    for token in _flatten_tokens(_get_strict_parser().parse(text)):
        if token.type in ("html_block", "html_inline", "image"):
            return False
        target = str(token.attrGet("href") or "")
        if SCHEME_PATTERN.match(target) and not WEB_LINK_PATTERN.match(target):
            return False
    return True


def _is_self_contained(text: str) -> bool:
    """Whether what follows the text is not taken as a part of it."""
    last = _get_strict_parser().parse(f"{text}\n\n{END_MARKER}")[-2:]
    return bool(last) and last[0].content == END_MARKER and last[-1].type == "paragraph_close" and last[-1].level == 0


def _escape_active_markup(text: str) -> str:
    """The text with the begin of HTML and of images escaped, code left alone."""
    lines = text.split("\n")
    code: set[int] = set()
    for token in _get_strict_parser().parse(text):
        if token.type in ("fence", "code_block") and token.map:
            code.update(range(*token.map))
    return "\n".join(
        line if number in code else ACTIVE_MARKUP_PATTERN.sub(_escape_match, line) for number, line in enumerate(lines)
    )


def _escape_match(match: re.Match[str]) -> str:
    return {"<": "&lt;", "!": r"\!"}.get(match[0], match[0])


def _flatten_tokens(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


@cache
def _get_strict_parser() -> MarkdownIt:
    """Reads a text as the most trusting program would."""
    reader = MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    return reader


@cache
def _get_web_parser() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    reader.validateLink = lambda url: bool(WEB_LINK_PATTERN.match(url))  # type: ignore[method-assign]
    for name, rule in (
        ("image", _render_image),
        ("link_open", _render_link),
        ("th_open", _render_cell),
        ("td_open", _render_cell),
    ):
        reader.add_render_rule(name, rule)
    return reader


def _render_image(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """An image's description: a page that is opened loads nothing."""
    token = tokens[index]
    text = renderer.renderInlineAsText(token.children or [], options, env)
    return f'<span class="image" title="{escape(str(token.attrGet("src")))}">{escape(text)}</span>'


def _render_link(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return renderer.renderToken(tokens, index, options, env)


def _render_cell(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A table's cell, aligned by a class: the page's policy takes no styles from its text."""
    token = tokens[index]
    style = str(token.attrs.pop("style", ""))
    if style:
        token.attrSet("class", style.removeprefix("text-align:"))
    return renderer.renderToken(tokens, index, options, env)
