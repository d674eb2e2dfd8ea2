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
from ask.tools.isolated_process import limit_memory, run_apart

LARGE = 2_000_000
"""Characters of HTML above which only `plain_html` is quick enough."""
_BASE = re.compile(r"<base\s[^>]{0,200}?href\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_HEAD = 50_000
"""Characters in which a page says where its links start."""
_LINKS = ("http://", "https://", "mailto:")


def page_text(html: str, url: str, seconds: float, environment: Mapping[str, str]) -> str:
    """The readable text of a page.

    Args:
        html: the page.
        url: where it came from; relative links start there.
        seconds: how long it may take.
        environment: the environment of the process that reads it.

    Raises:
        ToolError: it takes too long, or too much memory.
    """
    from subprocess import CalledProcessError, TimeoutExpired

    try:
        return run_apart(__name__, html.encode(), seconds, environment, url).decode()
    except TimeoutExpired:
        raise ToolError(f"{url} came, but its HTML could not be read in time") from None
    except CalledProcessError:
        raise ToolError(f"{url} came, but its HTML could not be read") from None


def main() -> None:
    """Reads HTML from standard input and writes its text; the first argument is where it came from."""
    limit_memory()
    sys.stdout.buffer.write(read_html(sys.stdin.buffer.read().decode(), sys.argv[1]).encode())


def read_html(html: str, url: str) -> str:
    """The text of a page, here and now, however long it takes."""
    base = _BASE.search(html, 0, _HEAD)
    with suppress(ValueError):
        url = urljoin(url, unescape(base[1])) if base else url

    def link(href: str) -> str:
        """A link as the model can follow it; "" where it stays on the page, or runs something."""
        if not href.strip() or href.startswith("#"):
            return ""
        with suppress(ValueError):
            whole = urljoin(url, href.strip())
            return whole if whole.startswith(_LINKS) else ""
        return ""

    from ask.tools.plain_html import to_text

    if len(html) > LARGE:
        return to_text(html, link)
    try:
        from ask.tools.markdown_html import to_markdown
    except ImportError:
        return to_text(html, link)
    try:
        return to_markdown(html, link)
    except RecursionError:
        return to_text(html, link)
