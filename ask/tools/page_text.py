"""HTML to readable text, in a process of its own: what a page holds may keep a parser busy for hours.

It is `markdown_html` that reads it, with the packages of the extra `web`; without them, `plain_html`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from html import unescape
from urllib.parse import urljoin

from ask.tools.base import ToolError
from ask.tools.isolated_process import limit_memory, run_in_subprocess

MAX_MARKDOWN_HTML_LENGTH = 2_000_000
"""Characters of HTML above which only `plain_html` is quick enough."""
_BASE_PATTERN = re.compile(r"<base\s[^>]{0,200}?href\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_HEAD_LENGTH = 50_000
"""Characters in which a page says where its links start."""
_LINK_SCHEMES = ("http://", "https://", "mailto:")


def extract_page_text(html: str, url: str, timeout: float, environment: Mapping[str, str]) -> str:
    """The readable text of a page.

    Args:
        html: the page.
        url: where it came from; relative links start there.
        timeout: how long it may take.
        environment: the environment of the process that reads it.

    Raises:
        ToolError: it takes too long, or too much memory.
    """
    from subprocess import CalledProcessError, TimeoutExpired

    try:
        return run_in_subprocess(__name__, html.encode(), timeout, environment, url).decode()
    except TimeoutExpired:
        raise ToolError(f"{url} came, but its HTML could not be read in time") from None
    except CalledProcessError:
        raise ToolError(f"{url} came, but its HTML could not be read") from None


def main() -> None:
    """Reads HTML from standard input and writes its text; the first argument is where it came from."""
    limit_memory()
    sys.stdout.buffer.write(convert_html(sys.stdin.buffer.read().decode(), sys.argv[1]).encode())


def convert_html(html: str, url: str) -> str:
    """The text of a page, here and now, however long it takes."""
    base = _BASE_PATTERN.search(html, 0, _HEAD_LENGTH)
    with suppress(ValueError):
        url = urljoin(url, unescape(base[1])) if base else url

    def resolve_link(href: str) -> str:
        """A link as the model can follow it; "" where it stays on the page, or runs something."""
        if not href.strip() or href.startswith("#"):
            return ""
        with suppress(ValueError):
            whole = urljoin(url, href.strip())
            return whole if whole.startswith(_LINK_SCHEMES) else ""
        return ""

    from ask.tools.plain_html import to_plain_text

    if len(html) > MAX_MARKDOWN_HTML_LENGTH:
        return to_plain_text(html, resolve_link)
    try:
        from ask.tools.markdown_html import to_markdown
    except ImportError:
        return to_plain_text(html, resolve_link)
    try:
        return to_markdown(html, resolve_link)
    except RecursionError:
        return to_plain_text(html, resolve_link)
