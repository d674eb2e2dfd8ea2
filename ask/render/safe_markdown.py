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
from ask.text import for_terminal

LONGEST = 200_000
"""Characters of a text that is read as Markdown; that takes a second or two at most."""
MOST_BRACKETS = 5_000
"""Opening brackets in it: the time goes with their square."""
NESTING = 50
WEB = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)
SCHEME = re.compile(r"[\x00- ]*[a-z][a-z0-9+.-]*:", re.IGNORECASE)
BACKTICKS = re.compile("`+")
LIVE = re.compile(r"(?<!`)(`+)(?!`)[^\n]{0,2000}?[^`\n]\1(?!`)|\\.|<(?=[a-zA-Z/!?])(?!https?://|mailto:)|!(?=\[)")
"""A code span or an escape, which stay; the begin of HTML or of an image."""
MARK = "end-of-this-text"
"""A paragraph put behind a text, to see whether the text leaves it one."""


def as_html(text: str) -> str:
    """The HTML of a text in Markdown; preformatted where reading it would take too long."""
    text = for_terminal(text)
    if not readable(text):
        return f"<pre>{escape(text)}</pre>\n"
    reader = _web_reader()
    tokens = parse_with_all_cells(reader, text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + 2)}"  # below those of the page
    return str(reader.renderer.render(tokens, reader.options, {}))


def as_markdown(text: str) -> str:
    """The text as Markdown that holds no HTML, image or dangerous link, and leaves what follows alone.

    What cannot be made so is put in a fence.
    """
    text = for_terminal(text).strip("\n")
    if readable(text):
        for candidate in _candidates(text):
            if _harmless(candidate) and _ends(candidate):
                return candidate
    return fenced(text)


def fenced(text: str, info: str = "") -> str:
    """The text as a block of code, in a fence longer than any in it."""
    text = for_terminal(text).removesuffix("\n")
    fence = "`" * max([3, *(len(run) + 1 for run in BACKTICKS.findall(text))])
    return f"{fence}{info}\n{text}\n{fence}"


def readable(text: str) -> bool:
    """Whether reading the text as Markdown takes a reasonable time."""
    return len(text) <= LONGEST and text.count("[") <= MOST_BRACKETS


def _candidates(text: str) -> Iterator[str]:
    """The text, then what it is without HTML and images, then that with its last fence closed."""
    yield text
    text = _defused(text)
    yield text
    for last in _strict_reader().parse(text)[-1:]:
        yield f"{text}\n{last.markup}"


def _harmless(text: str) -> bool:
    for token in _flat(_strict_reader().parse(text)):
        if token.type in ("html_block", "html_inline", "image"):
            return False
        target = str(token.attrGet("href") or "")
        if SCHEME.match(target) and not WEB.match(target):
            return False
    return True


def _ends(text: str) -> bool:
    """Whether what follows the text is not taken as a part of it."""
    last = _strict_reader().parse(f"{text}\n\n{MARK}")[-2:]
    return bool(last) and last[0].content == MARK and last[-1].type == "paragraph_close" and last[-1].level == 0


def _defused(text: str) -> str:
    """The text with the begin of HTML and of images escaped, code left alone."""
    lines = text.split("\n")
    code: set[int] = set()
    for token in _strict_reader().parse(text):
        if token.type in ("fence", "code_block") and token.map:
            code.update(range(*token.map))
    return "\n".join(line if number in code else LIVE.sub(_inert, line) for number, line in enumerate(lines))


def _inert(match: re.Match[str]) -> str:
    return {"<": "&lt;", "!": r"\!"}.get(match[0], match[0])


def _flat(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


@cache
def _strict_reader() -> MarkdownIt:
    """Reads a text as the most trusting program would."""
    reader = MarkdownIt("commonmark", {"html": True, "maxNesting": NESTING}).enable(["table", "strikethrough"])
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    return reader


@cache
def _web_reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING}).enable(["table", "strikethrough"])
    reader.validateLink = lambda url: bool(WEB.match(url))  # type: ignore[method-assign]
    for name, rule in (("image", _image), ("link_open", _link), ("th_open", _cell), ("td_open", _cell)):
        reader.add_render_rule(name, rule)
    return reader


def _image(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """An image's description: a page that is opened loads nothing."""
    token = tokens[place]
    text = renderer.renderInlineAsText(token.children or [], options, env)
    return f'<span class="image" title="{escape(str(token.attrGet("src")))}">{escape(text)}</span>'


def _link(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    tokens[place].attrSet("rel", "noopener noreferrer nofollow")
    return renderer.renderToken(tokens, place, options, env)


def _cell(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """A table's cell, aligned by a class: the page's policy takes no styles from its text."""
    token = tokens[place]
    style = str(token.attrs.pop("style", ""))
    if style:
        token.attrSet("class", style.removeprefix("text-align:"))
    return renderer.renderToken(tokens, place, options, env)
