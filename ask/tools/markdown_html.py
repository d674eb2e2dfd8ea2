"""HTML to Markdown with the packages of the extra `web`: tables and nested lists too, and the main part alone.

Importing it without them raises ImportError.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bs4 import BeautifulSoup, Tag
from bs4.builder import builder_registry
from markdownify import MarkdownConverter

from ask.tools.plain_html import LEFT_OUT

if builder_registry.lookup("lxml") is None:
    raise ImportError("lxml is not installed", name="lxml")

_MAIN_SHARE = 0.3
"""The share of a page's text that what it calls its main part must have, to stand for the whole."""
_ANCHORS = ("", "#", "§", "¶", "\N{LINK SYMBOL}")
"""What links to the very heading in which they stand show."""
_GAPS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")


def to_markdown(html: str, link: Callable[[str], str]) -> str:
    """The text of a page.

    Args:
        html: the page.
        link: gives a link's whole URL, "" where it leads nowhere.

    Raises:
        RecursionError: its elements are nested more deeply than calls may be.
    """
    soup = BeautifulSoup(html, "lxml")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for unwanted in soup([*LEFT_OUT, "title"]):
        unwanted.decompose()
    for anchor in soup("a"):
        href = str(anchor.get("href") or "")
        if href.startswith("#") and anchor.get_text(strip=True) in _ANCHORS:
            anchor.decompose()
        elif whole := link(href):
            anchor.attrs = {"href": whole}
        else:
            anchor.unwrap()
    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        strip=["img"],
        escape_asterisks=False,
        escape_underscores=False,
    )
    text = _GAPS.sub("\n\n", converter.convert_soup(_main_part(soup))).strip()
    return text if not title or title in text[: len(title) + 200] else f"{title}\n\n{text}"


def _main_part(soup: BeautifulSoup) -> Tag:
    """What the page itself calls its main part, if most of the page is there; else all of it."""
    found = soup.find_all("main") or soup.find_all(None, {"role": "main"}) or soup.find_all("article")
    if len(found) == 1 and isinstance(found[0], Tag):
        main = found[0]
        if len(main.get_text()) >= _MAIN_SHARE * len(soup.get_text()):
            return main
    return soup
