"""Convert HTML to Markdown with the packages of the extra `web`.

Unlike `plain_html`, it converts tables and nested lists, and keeps only the main content. Importing this module without
those packages raises ImportError.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bs4 import BeautifulSoup, Tag
from bs4.builder import builder_registry
from markdownify import MarkdownConverter

from ask.tools.plain_html import SKIPPED_ELEMENTS, collapse_blank_lines, format_refresh_link

if builder_registry.lookup("lxml") is None:
    raise ImportError("lxml is not installed", name="lxml")

_MIN_MAIN_SHARE = 0.3
"""Share of a page's text that its main element must contain to be used instead of the full page."""
_HEADING_ANCHOR_TEXTS = ("", "#", "§", "¶", "\N{LINK SYMBOL}")
"""Texts of the permalinks inside headings."""
_LANGUAGE_CLASS_PATTERN = re.compile(r"(?:language|lang|highlight-source)-([\w+#.-]{1,30})")


def to_markdown(html: str, resolve_link: Callable[[str], str]) -> str:
    """Convert a page to Markdown.

    `resolve_link` returns the absolute URL of a link, "" to drop it.

    Raises:
        RecursionError: The elements are nested too deeply.
    """
    soup = BeautifulSoup(html, "lxml")
    title = " ".join(soup.title.get_text(" ").split()) if soup.title else ""
    refresh_links = "\n\n".join(
        filter(
            None,
            (
                format_refresh_link({name: str(value) for name, value in meta.attrs.items()}, resolve_link)
                for meta in soup("meta")
            ),
        )
    )
    for element in (*soup([*SKIPPED_ELEMENTS, "title"]), *soup(_is_hidden)):
        element.decompose()
    _replace_media_elements(soup, resolve_link)
    for anchor in soup("a"):
        href = str(anchor.get("href") or "")
        if href.startswith("#") and anchor.get_text(strip=True) in _HEADING_ANCHOR_TEXTS:
            anchor.decompose()
        elif url := resolve_link(href):
            anchor.attrs = {"href": url}
        else:
            anchor.unwrap()
    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        code_language_callback=_find_language,
        escape_asterisks=False,
        escape_underscores=False,
    )
    text = collapse_blank_lines(converter.convert_soup(_find_main_content(soup)))
    heading = "" if title in text[: len(title) + 200] else title
    return "\n\n".join(filter(None, (heading, refresh_links, text)))


def _is_hidden(tag: Tag) -> bool:
    """Check whether an element is hidden: text that nobody sees may be meant only for the model."""
    if tag.name in ("html", "body"):  # often hidden until a script has run
        return False
    style = "".join(str(tag.get("style") or "").lower().split())
    return tag.has_attr("hidden") or "display:none" in style or "visibility:hidden" in style


def _replace_media_elements(soup: BeautifulSoup, resolve_link: Callable[[str], str]) -> None:
    """Replace images by their alternative text, and frames by links."""
    for image in soup("img"):
        image.replace_with(" ".join(str(image.get("alt") or "").split()))
    for frame in soup("frame"):
        url = resolve_link(str(frame.get("src") or ""))
        paragraph, anchor = soup.new_tag("p"), soup.new_tag("a", href=url)
        anchor.string = "frame"
        paragraph.append(anchor)
        frame.replace_with(paragraph if url else "")
    for summary in soup("summary"):
        summary.name = "p"


def _find_language(element: Tag) -> str:
    """Return the language of a code block from the CSS classes that highlighters use."""
    for candidate in (element, *element("code")):
        for name in candidate.get_attribute_list("class"):
            if name and (match := _LANGUAGE_CLASS_PATTERN.fullmatch(name)):
                return match[1]
    return ""


def _find_main_content(soup: BeautifulSoup) -> Tag:
    """Return the main element if it contains enough of the text, otherwise the full page."""
    candidates = soup.find_all("main") or soup.find_all(None, {"role": "main"}) or soup.find_all("article")
    if len(candidates) == 1 and isinstance(candidates[0], Tag):
        main = candidates[0]
        if len(main.get_text()) >= _MIN_MAIN_SHARE * len(soup.get_text()):
            return main
    return soup
