"""A model's Markdown made safe for export, as HTML or as Markdown.

It cannot run scripts, load resources, or change how the text after it is parsed.
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

from ask.render.markdown_extensions import add_extensions
from ask.render.markdown_tables import parse_with_all_cells
from ask.text import escape_control_characters, fence_code

MAX_TEXT_CHARACTERS = 200_000
"""Maximum length of a text that is parsed as Markdown; parsing it takes up to two seconds."""
MAX_BRACKETS = 5_000
"""Maximum number of opening brackets in it: the parser's time is quadratic in them."""
MAX_NESTING = 50
WEB_LINK_PATTERN = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)
SCHEME_PATTERN = re.compile(r"[\x00- ]*[a-z][a-z0-9+.-]*:", re.IGNORECASE)
ACTIVE_MARKUP_PATTERN = re.compile(
    r"(?<!`)(`+)(?!`)[^\n]{0,2000}?[^`\n]\1(?!`)|\\.|<(?=[a-zA-Z/!?])(?!https?://|mailto:)|!(?=\[)"
)
"""A code span or an escape, which are kept, or the start of HTML or of an image.

The length of a span is limited so that the search for its end is, too.
"""
END_MARKER = "end-of-this-text"
"""A paragraph appended to a text, to check that the text does not absorb it."""


def to_html(text: str) -> str:
    """Convert Markdown to HTML.

    Text that would take too long to parse is preformatted.
    """
    text = escape_control_characters(text)
    if not _is_parseable(text):
        return f"<pre>{escape(text)}</pre>\n"
    parser = _get_web_parser()
    tokens = parse_with_all_cells(parser, text)
    for token in _flatten_tokens(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + 2)}"  # below the page's own headings
        elif token.type == "link_open":
            token.attrSet("rel", "noopener noreferrer nofollow")
        elif "style" in token.attrs:  # a table cell: the page's Content-Security-Policy forbids inline styles
            token.attrSet("class", str(token.attrs.pop("style")).removeprefix("text-align:"))
    return str(parser.renderer.render(tokens, parser.options, {}))


def to_safe_markdown(text: str) -> str:
    """Return Markdown without HTML, images, dangerous links or open blocks.

    A text that cannot be made safe is put in a fence.
    """
    text = escape_control_characters(text).strip("\n")
    if _is_parseable(text):
        for candidate in _iter_candidates(text):
            if _is_safe(candidate):
                return candidate
    return format_code_block(text)


def format_code_block(text: str) -> str:
    """Format a text as a code block without control characters."""
    return fence_code(escape_control_characters(text).removesuffix("\n"))


def _is_parseable(text: str) -> bool:
    """Check whether a text can be parsed as Markdown in a reasonable time."""
    return len(text) <= MAX_TEXT_CHARACTERS and text.count("[") <= MAX_BRACKETS


def _iter_candidates(text: str) -> Iterator[str]:
    """Yield the text, then without HTML and images, then with its last fence closed."""
    yield text
    text = _escape_active_markup(text)
    yield text
    for last_token in _get_permissive_parser().parse(text)[-1:]:
        yield f"{text}\n{last_token.markup}"


def _is_safe(text: str) -> bool:
    """Check that a text is harmless, and that text appended later is not parsed as a part of it."""
    tokens = _get_permissive_parser().parse(f"{text}\n\n{END_MARKER}")
    is_self_contained = tokens[-1].type == "paragraph_close" and tokens[-1].level == 0
    if not is_self_contained or tokens[-2].content != END_MARKER:
        return False
    for token in _flatten_tokens(tokens):
        if token.type in ("html_block", "html_inline", "image"):
            return False
        target = str(token.attrGet("href") or "")
        if SCHEME_PATTERN.match(target) and not WEB_LINK_PATTERN.match(target):
            return False
    return True


def _escape_active_markup(text: str) -> str:
    """Escape the start of HTML and images outside code."""
    lines = text.split("\n")
    code_lines: set[int] = set()
    for token in _get_permissive_parser().parse(text):
        if token.type in ("fence", "code_block") and token.map:
            code_lines.update(range(*token.map))
    return "\n".join(
        line if number in code_lines else ACTIVE_MARKUP_PATTERN.sub(_escape_match, line)
        for number, line in enumerate(lines)
    )


def _escape_match(match: re.Match[str]) -> str:
    return {"<": "&lt;", "!": r"\!"}.get(match[0], match[0])


def _flatten_tokens(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


@cache
def _get_permissive_parser() -> MarkdownIt:
    """Return the most permissive parser: HTML and any link, as another program might."""
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


@cache
def _get_web_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: bool(WEB_LINK_PATTERN.match(url))  # type: ignore[method-assign]
    parser.add_render_rule("image", _render_image)
    return add_extensions(parser)


def _render_image(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render the description of an image, so that opening the page loads nothing."""
    token = tokens[index]
    text = renderer.renderInlineAsText(token.children or [], options, env)
    return f'<span class="image" title="{escape(str(token.attrGet("src")))}">{escape(text)}</span>'
