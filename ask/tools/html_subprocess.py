"""Convert HTML to readable text in a subprocess, because a malicious page can keep a parser busy for hours."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from html import unescape
from urllib.parse import urljoin

from ask.tools.base import ToolError
from ask.tools.isolated_process import limit_memory, run_in_subprocess

_BASE_PATTERN = re.compile(r"<base\s[^>]{0,200}?href\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_HEAD_LENGTH = 50_000
"""Characters at the start of a page that are searched for its base URL."""
_LINK_SCHEMES = ("http://", "https://", "mailto:")


def extract_page_text(html: str, url: str, timeout: float, environment: Mapping[str, str]) -> str:
    """Return the readable text of a page; relative links are resolved against `url`.

    Raises:
        ToolError: It takes too long, or too much memory.
    """
    from subprocess import CalledProcessError, TimeoutExpired

    try:
        return run_in_subprocess(__name__, html.encode(), timeout, environment, url).decode()
    except TimeoutExpired:
        raise ToolError(f"fetched {url}, but parsing its HTML took too long") from None
    except CalledProcessError:
        raise ToolError(f"fetched {url}, but its HTML could not be parsed") from None


def main() -> None:
    """Read HTML from stdin and write its text to stdout; the first argument is the page's URL."""
    limit_memory()
    sys.stdout.buffer.write(convert_html(sys.stdin.buffer.read().decode(), sys.argv[1]).encode())


def convert_html(html: str, url: str) -> str:
    """Convert a page to text in this process, without a time limit."""
    base = _BASE_PATTERN.search(html, 0, _HEAD_LENGTH)
    with suppress(ValueError):
        url = urljoin(url, unescape(base[1])) if base else url

    def resolve_link(href: str) -> str:
        """Return the absolute URL of a link; "" for fragments and schemes like javascript:."""
        if not href.strip() or href.startswith("#"):
            return ""
        with suppress(ValueError):
            absolute = urljoin(url, href.strip())
            return absolute if absolute.startswith(_LINK_SCHEMES) else ""
        return ""

    from ask.tools.html_to_markdown import to_markdown

    return to_markdown(html, resolve_link)
