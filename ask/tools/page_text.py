"""HTML to readable text, in a process of its own: what a page holds may keep a parser busy for hours.

It is `markdown_html` that reads it, with the packages of the extra `web`; without them, `plain_html`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urljoin

from ask.tools import ToolError

MEMORY_LIMIT = 2 << 30
"""Bytes that the reading process may take."""
LARGE = 2_000_000
"""Characters of HTML above which only `plain_html` is quick enough."""
_LINKS = ("http://", "https://", "mailto:")
_START = "import sys; sys.path.append(sys.argv[2]); from ask.tools.page_text import main; main()"


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
    from subprocess import TimeoutExpired, run

    # -P: no file in the working directory is taken for a module.
    command = [sys.executable, "-P", "-c", _START, url, str(Path(__file__).parents[2])]
    try:
        done = run(
            command,
            input=html.encode(),
            capture_output=True,
            timeout=max(seconds, 0.1),
            env=environment,
            start_new_session=True,
            check=False,
        )
    except TimeoutExpired:
        raise ToolError(f"{url} came, but its HTML could not be read in time") from None
    if done.returncode:
        raise ToolError(f"{url} came, but its HTML could not be read")
    return done.stdout.decode()


def main() -> None:
    """Reads HTML from standard input and writes its text; the first argument is where it came from."""
    import resource

    with suppress(ValueError, OSError):  # not every system limits it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    sys.stdout.buffer.write(read_html(sys.stdin.buffer.read().decode(), sys.argv[1]).encode())


def read_html(html: str, url: str) -> str:
    """The text of a page, here and now, however long it takes."""

    def link(href: str) -> str:
        """A link as the model can follow it; "" where it stays on the page, or runs something."""
        if href.startswith("#"):
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
